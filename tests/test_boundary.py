"""The trust boundary holds in types, in imports and in what the halves depend on, and each check can fail."""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ldpbandits
from ldpbandits.spec import protocol

PUBLIC = """
IMED KLUCB UCB Admin Agent Arm ArmError AsyncClient AsyncPull BernoulliCurator Client Curator CuratorSpec DatabaseError
Estimate Flushed Guarantee KLUCBPlus LDPBanditsError LaplaceCurator Ledger LedgerError LimitError Limits Mechanism Menu
MissingExtra OutputError ParameterError Pull Range RealLine Response ResponseError Reward RewardError Rule ServerError
Sigmoid SnapshotError SpecError Thompson Threshold TicketError Transform __version__ curator_from_json default_rule
estimate ldp_ucb_b ldp_ucb_l paper_rule sign_allowance ucb1
"""

PROGRAM = """
from ldpbandits import Agent, AsyncClient, AsyncPull, BernoulliCurator, Client, Ledger, Pull, Response, Reward, ucb1
from ldpbandits.device.outbox import Entry, Outbox
from ldpbandits.device.wire import AgentConnection
from ldpbandits.types import Arm

agent, arm, curator, reward = Agent(ucb1(), arms=2), Arm(0), BernoulliCurator(epsilon=1.0), Reward(1.0)

async def use(
    pull: Pull,
    client: Client,
    async_pull: AsyncPull,
    async_client: AsyncClient,
    outbox: Outbox,
    connection: AgentConnection,
) -> None:
    {call}
"""
"""What has both sides at hand, and makes one call across the boundary or on one side of it."""

ACCEPTED = [
    "curator.respond(reward)",
    "curator.respond(0.5)",
    "curator.respond_many([reward, 0.5])",
    "pull.observe(reward)",
    "pull.observe(0.5)",
    "client.observe('ticket', reward)",
    "await async_pull.observe(reward)",
    "await async_client.observe('ticket', reward)",
    "agent.update(arm, curator.respond(reward))",
    "agent.update(arm, Response(0.0))",
    "outbox.observe('ticket', curator.respond(reward), 0.0)",
    "connection.post('/', {'ticket': 'ticket', 'response': curator.respond(reward)})",
    "Entry(1, 'ticket', arm, 'green', curator, 0.0, 0.0, False, response=curator.respond(reward))",
]

REWARD_EXPECTED = 'has incompatible type "str"; expected "Reward | float"'
RESPONSE_EXPECTED = 'incompatible type "Reward"; expected "Response'
REFUSED = [
    ("curator.respond('0.5')", f'"respond" of "Curator" {REWARD_EXPECTED}'),
    ("pull.observe('0.5')", f'"observe" of "Pull" {REWARD_EXPECTED}'),
    ("client.observe('ticket', '0.5')", f'"observe" of "Client" {REWARD_EXPECTED}'),
    ("await async_pull.observe('0.5')", f'"observe" of "AsyncPull" {REWARD_EXPECTED}'),
    ("await async_client.observe('ticket', '0.5')", f'"observe" of "AsyncClient" {REWARD_EXPECTED}'),
    ("agent.update(arm, reward)", f'"update" of "Agent" has {RESPONSE_EXPECTED}'),
    ("agent.update(arm, 1.0)", '"update" of "Agent" has incompatible type "float"; expected "Response'),
    ("outbox.observe('ticket', reward, 0.0)", f'"observe" of "Outbox" has {RESPONSE_EXPECTED}'),
    ("outbox.observe('ticket', 1.0, 0.0)", '"observe" of "Outbox" has incompatible type "float"; expected "Response'),
    ("connection.post('/', {'response': reward})", '"str": "Reward"; expected "str": "str | Response | Epsilon"'),
    ("connection.post('/', {'response': 1.0})", '"str": "float"; expected "str": "str | Response | Epsilon"'),
    (
        "Entry(1, 'ticket', arm, 'green', curator, 0.0, 0.0, False, response=reward)",
        f'Argument "response" to "Entry" has {RESPONSE_EXPECTED}',
    ),
]


def type_errors(root: Path, folder: Path) -> dict[str, list[str]]:
    """Return what mypy says of each call, all in one run."""
    files = {call: folder / f"program_{i}.py" for i, call in enumerate([*ACCEPTED, *(call for call, _ in REFUSED)])}
    for call, file in files.items():
        file.write_text(PROGRAM.format(call=call), encoding="utf-8")
    options = ["--strict", "--config-file=", f"--cache-dir={folder}", "--no-error-summary", "--no-pretty"]
    command = [sys.executable, "-m", "mypy", *options, *(file.name for file in files.values())]
    environment = {"MYPYPATH": str(root / "src"), "PATH": ""}
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=300, env=environment
    )
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    return {call: [line for line in lines if line.startswith(f"{file.name}:")] for call, file in files.items()}


def test_mypy_keeps_rewards_on_the_device(root: Path, tmp_path: Path) -> None:
    """A Reward, or a number that nobody privatised, is a type error wherever it would be sent, kept or counted.

    It may be given to a curator or a pull, and a response to an agent or to whatever sends it.
    """
    found = type_errors(root, tmp_path)
    assert [error for call in ACCEPTED for error in found[call]] == []
    for call, sentence in REFUSED:
        (error,) = found[call]
        assert sentence in error, call


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the import contracts of the copy in a folder."""
    code = "import sys; sys.path.insert(0, 'src'); from importlinter.cli import lint_imports_command as run; run()"
    command = [sys.executable, "-c", code, "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("agent/agent.py", "from ldpbandits.device.curators import BernoulliCurator"),
        ("agent/rules.py", "import ldpbandits.lab.rewards"),
        ("device/curators.py", "from ldpbandits.agent.agent import Agent"),
        ("device/randomness.py", "import numpy"),
        ("spec/curator.py", "import ldpbandits.device.curators"),
        ("server/service.py", "from ldpbandits.device.curators import BernoulliCurator"),
        ("server/reports/report.py", "import ldpbandits.theory.bounds"),
        ("device/client.py", "from ldpbandits.server.api.messages import Decision"),
        ("agent/tally.py", "import msgspec"),
        ("agent/inference/estimates.py", "import ldpbandits.audit"),
        ("device/curators.py", "from ldpbandits.audit.target import Target"),
        ("spec/mechanisms.py", "import ldpbandits.audit.guess"),
        ("theory/table.py", "from ldpbandits.lab.play import play_all"),
        ("server/process/server.py", "import ldpbandits.cli.serve"),
        ("lab/results.py", "from ldpbandits.cli.common import say"),
        ("output/page.py", "from ldpbandits.lab.rewards import arm_text"),
        ("output/files.py", "import ldpbandits.device.ledger"),
        ("server/api/app.py", "from ldpbandits.output.style import STYLE"),
        ("server/service.py", "from ldpbandits.server.console.words import percent"),
        ("server/console/pages.py", "from ldpbandits.device.ledger import Limits"),
        ("spec/curator.py", "import jinja2"),
        ("device/ledger.py", "from ldpbandits.output.progress import bar"),
        ("admin/admin.py", "from ldpbandits.device.client import Client"),
        ("admin/messages.py", "from ldpbandits.server.api.messages import Report"),
        ("admin/text.py", "import numpy"),
        ("server/service.py", "from ldpbandits.admin.admin import Admin"),
        ("net.py", "from ldpbandits.device.wire import AgentConnection"),
    ],
)
def test_the_import_contract_catches_a_leak(root: Path, tmp_path: Path, module: str, line: str) -> None:
    """The contract is kept as it stands, and broken by a single import across the boundary."""
    shutil.copytree(root / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(root / "pyproject.toml", tmp_path)
    kept = lint_imports(tmp_path)
    assert kept.returncode == 0, kept.stdout
    leaky = tmp_path / "src" / "ldpbandits" / module
    leaky.write_text(f"{leaky.read_text(encoding='utf-8')}\n{line}\n", encoding="utf-8")
    broken = lint_imports(tmp_path)
    assert broken.returncode == 1
    assert "BROKEN" in broken.stdout


@pytest.mark.parametrize("half", ["device", "agent"])
def test_both_halves_import_only_the_standard_library(root: Path, half: str) -> None:
    """Whatever is installed, device and agent name nothing but Python's own modules and ours."""
    for path in (root / "src" / "ldpbandits" / half).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            else:
                continue
            for name in names:
                assert name.split(".")[0] in sys.stdlib_module_names | {"ldpbandits"}, f"{path.name} imports {name}"


def test_no_device_module_has_a_seed(root: Path) -> None:
    """A curator cannot be seeded: `random` is not imported, and no parameter is called seed."""
    for path in (root / "src" / "ldpbandits" / "device").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
        assert "random" not in imported
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.arg) and "seed" in node.arg]


def test_both_devices_speak_the_protocol(root: Path) -> None:
    """The JavaScript device asks on the same paths, and takes the same words for counted and for never."""
    wire = (root / "sdk" / "js" / "src" / "wire.js").read_text(encoding="utf-8")
    paths = set(re.findall(r"/v1/[^`\"]+", wire))
    experiment = protocol.EXPERIMENT.format(name="${encodeURIComponent(experiment)}")
    assert paths == {f"{experiment}/${{what}}", protocol.ACCEPTANCES, protocol.RESPONSES}
    acknowledged = set(re.findall(r'^ *checkAcknowledged\(.*, "(\w+)"\);$', wire, re.MULTILINE))
    assert acknowledged | {protocol.Acknowledged.DUPLICATE} == set(protocol.Acknowledged)
    (final,) = re.findall(r"const FINAL = \[(.*)\];", wire)
    assert set(re.findall(r"\w+", final)) == set(protocol.FINAL)


def test_the_public_names_are_locked() -> None:
    """A name is added or removed on purpose."""
    assert sorted(ldpbandits.__all__) == sorted(PUBLIC.split())
    assert all(hasattr(ldpbandits, name) for name in ldpbandits.__all__)
