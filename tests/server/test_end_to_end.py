"""From end to end: devices in Python and in JavaScript, a real server, and what the experimenter sees."""

import json
import shutil
import subprocess
from pathlib import Path
from time import time

import pytest

from ldpbandits import Client, LimitError, Limits, Menu, ServerError, sign_allowance
from ldpbandits.cli import main
from ldpbandits.demo import running

BLUE_GREEN = {"name": "colour", "arms": ["blue", "green"], "sticky": 0}
CURATORS = [
    {"mechanism": "bernoulli", "epsilon": 1},
    {"mechanism": "laplace", "epsilon": 1, "transform": {"kind": "range", "low": 0, "high": 5}},
    {"mechanism": "laplace", "epsilon": 1, "transform": {"kind": "sigmoid"}},
    {"mechanism": "bernoulli", "epsilon": [0.25, 1, 2]},
    {"mechanism": "bernoulli", "epsilon": 1, "transform": {"kind": "threshold", "theta": 0.5}},
]
"""Of several epsilons, devices pick the largest that their owner allows, which is 1."""
PULLS = 40


@pytest.mark.parametrize("curator", CURATORS)
def test_the_javascript_sdk_takes_part(tmp_path: Path, curator: dict[str, object]) -> None:
    """Half of the replies are lost, and still each pull of a JavaScript device is counted, once."""
    node = shutil.which("node")
    assert node is not None, "node is needed for this test: install Node.js 20 or newer"
    script = Path(__file__).with_name("take_part.mjs")
    with running() as agent:
        agent.ask("/v1/experiments", {**BLUE_GREEN, "curator": curator})
        rewards = json.dumps(curator.get("transform", {"kind": "range", "low": 0, "high": 1}))
        ledger = str(tmp_path / "ledger.json")
        command = [node, str(script), agent.url, "colour", agent.client, ledger, str(PULLS), rewards]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        report = agent.ask("/v1/experiments/colour")
    assert sum(told["shown"].values()) == report["responses"] == PULLS
    assert {arm["name"]: arm["pulls"] for arm in report["arms"]} == told["shown"]
    assert told["waiting"] == 0
    assert told["refused"] is True
    assert report["rejected"]["duplicate"] >= PULLS / 2 - 1
    assert sum(arm["pending"] for arm in report["arms"]) == 0  # what the budget refuses takes no ticket
    refused = {reason: count for reason, count in report["rejected"].items() if reason != "duplicate"}
    assert set(refused.values()) == {0}


@pytest.mark.parametrize("curator", CURATORS)
def test_the_python_client_takes_part(tmp_path: Path, curator: dict[str, object]) -> None:
    """Each pull of a Python device is counted once, its owner's budget ends it, and the books of both sides agree."""
    with running() as agent:
        agent.ask("/v1/experiments", {**BLUE_GREEN, "curator": curator})
        limits = Limits(rewards=Menu.of(curator).transform, epsilon=1, budget=PULLS)
        with Client(
            agent.url, "colour", key=agent.client, limits=limits, ledger=tmp_path / "ledger.db", background=False
        ) as client:
            for _ in range(PULLS):
                pull = client.decide()
                assert pull.observe(1.0 if pull.name == "green" else 0.0)
                assert client.flush(now=time() + 300).acknowledged == 1  # as if the moment had come
            with pytest.raises(LimitError):
                client.decide()
            assert client.spent() == PULLS
        report = agent.ask("/v1/experiments/colour")
        tallies = agent.ask("/v1/experiments/colour/tallies")
    assert report["responses"] == PULLS
    assert sum(arm["pending"] + arm["unaccepted"] for arm in report["arms"]) == 0  # what is refused takes no ticket
    assert [arm["pulls"] for arm in report["arms"]] == [arm["pulls"] for arm in tallies["arms"]]
    by_epsilon = [row for arm in tallies["arms"] for row in arm["by_epsilon"]]
    assert sum(row["pulls"] for row in by_epsilon if row["epsilon"] == 1) == PULLS


def test_both_devices_take_part_with_allowances(tmp_path: Path) -> None:
    """Each decision carries an allowance of its own, of which a device that has none gets nothing."""
    script = Path(__file__).with_name("take_part.mjs")
    node = shutil.which("node")
    assert node is not None, "node is needed for this test: install Node.js 20 or newer"
    with running() as agent:
        key = agent.ask("/v1/keys/allowance/rotate", {})["key"]
        agent.ask("/v1/experiments", {**BLUE_GREEN, "curator": CURATORS[0], "allowance_required": True})
        limits = Limits(rewards=Menu.of(CURATORS[0]).transform, epsilon=1, budget=PULLS)

        def sign() -> str:
            return sign_allowance("colour", key, expires_at=int(time()) + 60)

        signed = json.dumps([sign() for _ in range(PULLS + 1)])
        rewards = json.dumps({"kind": "range", "low": 0, "high": 1})
        ledger = str(tmp_path / "ledger.json")
        command = [node, str(script), agent.url, "colour", agent.client, ledger, str(PULLS), rewards, signed]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        with Client(
            agent.url, "colour", key=agent.client, limits=limits, ledger=tmp_path / "ledger.db", allowance=sign
        ) as client:
            first, second = client.decide(), client.decide()
            assert first.ticket != second.ticket
        with (
            Client(agent.url, "colour", key=agent.client, limits=limits, ledger=tmp_path / "other.db") as client,
            pytest.raises(ServerError, match="allowance") as refused,
        ):
            client.decide()
        report = agent.ask("/v1/experiments/colour")
    assert refused.value.code == "not_allowed"
    assert report["responses"] == PULLS + 2


def test_the_agent_finds_the_best_arm_and_says_how_sure_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """The demo ends with the best arm, in words and as JSON; with 1,500 responses at epsilon 4 it is right."""
    assert main(["demo", "--devices", "150", "--pulls", "10", "--epsilon", "4", "--json"]) == 0
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    assert report["responses"] == 1_500
    assert (report["best"]["arm"], report["best"]["name"]) == (3, "Science")
    assert "The best arm is Science" in printed.err
    assert "http://127.0.0.1:" in printed.err
    assert report["arms"][3]["pulls"] > 700
