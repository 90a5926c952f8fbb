"""What the page on asyncio shows, runs; and so does the example that it names."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.running import Running, running

ARMS = ["Blue skies ahead", "Rain at last"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with the experiment that both speak of."""
    with running(tmp_path_factory.mktemp("server")) as server:
        headline = {"name": "headline", "arms": ARMS, "curator": {"mechanism": "bernoulli", "epsilon": 2}, "sticky": 0}
        assert server.ask("POST", "/v1/experiments", headline).status == 201
        yield server


def run(server: Running, folder: Path, *program: str) -> list[str]:
    """Run a program of a device whose data is in this folder; return what it prints."""
    here = {"LDPBANDITS_URL": server.url, "LDPBANDITS_CLIENT_KEY": server.keys["client"], "XDG_DATA_HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, *program],
        env={**os.environ, **here},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def pulls(server: Running) -> int:
    """How many responses the server has counted."""
    return sum(arm["pulls"] for arm in server.ask("GET", "/v1/experiments/headline").json["arms"])


def test_the_program_of_the_page_prints_what_the_page_says(server: Running, root: Path, tmp_path: Path) -> None:
    """The headline and True; what was spent, and what is left; and the response has arrived."""
    (program,) = re.findall(r"```python\n(.*?)```", (root / "docs/asyncio.md").read_text(encoding="utf-8"), re.DOTALL)
    before = pulls(server)
    first, second = run(server, tmp_path, "-c", program)
    assert first.removesuffix(" True") in ARMS
    assert second == "2.0 8.0"
    assert pulls(server) == before + 1


def test_the_example_spends_its_budget_and_no_more(server: Running, root: Path, tmp_path: Path) -> None:
    """Ten arms of epsilon 2 fit into the budget of 20, on three screens; all responses arrive."""
    lines = run(server, tmp_path, str(root / "examples/asyncio_device.py"))
    shown = [line for line in lines if line.partition(": ")[2] in ARMS]
    assert len(shown) == 10
    assert sorted(line for line in lines[:-2] if line not in shown) == [
        f"screen {number}: the budget is spent" for number in (1, 2, 3)
    ]
    assert lines[-2:] == ["spent 20, left 0", "10 responses have arrived"]


def test_the_example_ends_when_the_experiment_is_shipped(server: Running, root: Path, tmp_path: Path) -> None:
    """Then nothing is spent, so the budget alone would never end it."""
    assert server.ask("POST", "/v1/experiments/headline/ship", {"arm": 1}).status == 200
    try:
        lines = run(server, tmp_path, str(root / "examples/asyncio_device.py"))
    finally:
        assert server.ask("POST", "/v1/experiments/headline/resume").status == 200
    assert sorted(lines[:3]) == [f"screen {number}: Rain at last" for number in (1, 2, 3)]
    assert lines[3:] == ["spent 0, left 20", "0 responses have arrived"]
