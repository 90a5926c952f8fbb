"""Run in an environment that holds nothing but the installed wheel: it imports, works, and brought nothing with it."""

from importlib.metadata import distributions, requires
from importlib.resources import files
from pathlib import Path

from ldpbandits import Agent, BernoulliCurator, ucb1

installed = {distribution.name for distribution in distributions()} - {"pip", "setuptools"}
if installed != {"ldpbandits"}:
    raise SystemExit(f"not alone: {sorted(installed)}")
if unconditional := [line for line in requires("ldpbandits") or [] if "extra ==" not in line]:
    raise SystemExit(f"brings other packages: {unconditional}")
if not (files("ldpbandits") / "py.typed").is_file():
    raise SystemExit("py.typed is not in the wheel: users would not get our types")
console = Path(__file__).parent.parent / "src" / "ldpbandits" / "server" / "console"
ours = [path.relative_to(console) for path in console.rglob("*.*") if path.suffix != ".pyc"]
if lost := [path for path in ours if not files("ldpbandits").joinpath("server", "console", *path.parts).is_file()]:
    raise SystemExit(f"not in the wheel, and so no pages: {lost}")
agent, curator = Agent(ucb1(), arms=2), BernoulliCurator(epsilon=1.0)
for _ in range(10):
    arm = agent.select()
    agent.update(arm, curator.respond(0.5))
if agent.t != 10:
    raise SystemExit("the agent did not count its responses")
print("the wheel alone: imports, works, brings nothing")  # noqa: T201 - a script
