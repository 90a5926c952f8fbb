"""The trust boundary holds in types, in imports and in what the halves depend on, and each check can fail."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ldpbandits

PUBLIC = """
UCB Agent Arm ArmError BernoulliCurator Client Curator CuratorSpec DatabaseError Estimate Flushed Guarantee
LDPBanditsError LaplaceCurator Ledger LedgerError LimitError Limits Mechanism MissingExtra OutputError ParameterError
Pull Range RealLine Response ResponseError Reward RewardError Rule ServerError Sigmoid SnapshotError SpecError
TicketError Transform __version__ curator_from_json estimate ldp_ucb_b ldp_ucb_l paper_rule ucb1
"""

TYPED = """
from ldpbandits import Agent, BernoulliCurator, Response, Reward, ucb1

agent, curator = Agent(ucb1(), arms=2), BernoulliCurator(epsilon=1.0)
arm = agent.select()
reward = Reward(1.0)
agent.update(arm, {given})
"""


def mypy(root: Path, folder: Path, given: str) -> subprocess.CompletedProcess[str]:
    """Check a program that gives `given` to the agent."""
    program = folder / "program.py"
    program.write_text(TYPED.format(given=given), encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={folder}", str(program)]
    environment = {"MYPYPATH": str(root / "src"), "PATH": ""}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)


@pytest.mark.parametrize(
    ("given", "accepted"),
    [("curator.respond(reward)", True), ("Response(0.0)", True), ("reward", False), ("1.0", False)],
)
def test_mypy_keeps_rewards_from_the_agent(root: Path, tmp_path: Path, given: str, accepted: bool) -> None:  # noqa: FBT001
    """A response is accepted; a Reward, and a number that nobody privatised, are type errors."""
    done = mypy(root, tmp_path, given)
    if accepted:
        assert done.returncode == 0, done.stdout
    else:
        assert done.returncode == 1
        assert "incompatible type" in done.stdout
        assert '"update" of "Agent"' in done.stdout
        assert 'expected "Response"' in done.stdout


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the import contracts of the copy in a folder."""
    code = "import sys; sys.path.insert(0, 'src'); from importlinter.cli import lint_imports_command as run; run()"
    command = [sys.executable, "-c", code, "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("agent/agent.py", "from ldpbandits.device.curators import BernoulliCurator"),
        ("agent/rules.py", "import ldpbandits.lab.bounds"),
        ("device/curators.py", "from ldpbandits.agent.agent import Agent"),
        ("device/randomness.py", "import numpy"),
        ("wire.py", "import ldpbandits.device.transforms"),
        ("server/service.py", "from ldpbandits.device.curators import BernoulliCurator"),
        ("server/reports.py", "import ldpbandits.lab.bounds"),
        ("device/client.py", "from ldpbandits.server.messages import Decision"),
        ("agent/live.py", "import msgspec"),
        ("agent/estimates.py", "import ldpbandits.audit"),
        ("device/curators.py", "from ldpbandits.audit.subject import Subject"),
        ("mean_map.py", "import ldpbandits.audit.guess"),
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


def test_the_public_names_are_locked() -> None:
    """A name is added or removed on purpose."""
    assert ldpbandits.__all__ == PUBLIC.split()
    assert all(hasattr(ldpbandits, name) for name in ldpbandits.__all__)
