"""Only what a process decided it sends early: what it finds in a ledger waits for its moment, reward or not.

An agent sees only in which life of a device each response comes, and guesses the rewards, which fair coins chose. It
learns from half of the pulls what goes with which reward, and guesses those of the other half. If no time depends on
the reward, each guess is right with probability 1/2. The JavaScript device has the same test:
sdk/js/test/nothing-but-the-response.test.js.
"""

import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.device.conftest import client_in

from ldpbandits import Client, Limits, Range

if TYPE_CHECKING:
    from tests.device.conftest import Device, FakeAgent

PULLS = 48
ALARM = 23
"""At least so many right guesses of 24 are an alarm: by chance, with probability 25 / 2^24 = 1.5e-6."""
LIMITS = Limits(Range(0, 1), 1, 1000)

LIFE = """
import json, os, signal, sys, time
from ldpbandits import Client, Limits, Range

url, ledger, rewards, is_sticky, *steps = sys.argv[1:]
rewards, limits = json.loads(rewards), Limits(Range(0, 1), 1, 1000)
names = [f"e{i}" for i in range(len(rewards))] if is_sticky == "True" else ["e"]

def start():
    return [Client(url, name, key="k", limits=limits, ledger=ledger, background=False) for name in names]

def play(clients):
    for i, reward in enumerate(rewards):
        pull = clients[i % len(clients)].decide()
        if reward is not None:
            pull.observe(reward)

def kill(_, how=signal.SIGKILL):
    os.kill(os.getpid(), how)
    time.sleep(60)

def fork(clients):
    child = os.fork()
    if child == 0:
        for client in clients:
            client.pulls()
            client.close()
        os._exit(0)
    os.waitpid(child, 0)

STEPS = {
    "play": play, "kill": kill, "terminate": lambda clients: kill(clients, signal.SIGTERM), "fork": fork,
    "exit": lambda _: os._exit(0), "end": lambda _: sys.exit(0),
    "pulls": lambda clients: [client.pulls() for client in clients],
    "decide": lambda clients: [client.decide() for client in clients],
    "leave": lambda clients: [client.leave() for client in clients],
    "close": lambda clients: [client.close() for client in clients],
    "keep": lambda clients: [client.close(keep=True) for client in clients],
}
clients = start()
for step in steps:
    if step == "another client":
        clients = start()
    else:
        STEPS[step](clients)
"""

FLOWS: dict[str, tuple[str, int, str, bool]] = {
    "close(keep=True), restart, pulls(), close()": ("play keep", 0, "pulls close", False),
    "kill -9, restart, pulls(), an end": ("play kill", -signal.SIGKILL, "pulls end", False),
    "SIGTERM, restart, a sticky decide(), an end": ("play terminate", -signal.SIGTERM, "decide end", True),
    "close(keep=True), restart, a sticky decide(), leave()": ("play keep", 0, "decide leave exit", True),
    "a fork that calls pulls() and close()": ("play fork exit", 0, "exit", False),
    "two ledgers on one file in one process": ("play,another client,pulls,close,exit", 0, "exit", False),
}
"""What a first process does, and how it ends; what a second one does; whether arms are sticky."""


def right_guesses(seen: list[int], rewards: list[int | None]) -> int:
    """Return how many rewards of the second half an agent guesses that has learned from the first."""
    half = PULLS // 2
    weights = dict.fromkeys(seen, 0)
    for life, reward in zip(seen[:half], rewards[:half], strict=True):
        weights[life] += -1 if reward is None else 1
    return sum(
        (weights[life] > 0) == (reward is not None) for life, reward in zip(seen[half:], rewards[half:], strict=True)
    )


@pytest.mark.parametrize("name", FLOWS)
def test_after_a_restart_no_time_tells_the_reward(agent: "FakeAgent", path: Path, name: str) -> None:
    """What a process did not decide it sends at its moment. False alarm: 1.5e-6 for each flow; seeds are fixed."""
    first, end, second, is_sticky = FLOWS[name]
    rng = random.Random(7)
    rewards = [1 if rng.random() < 0.5 else None for _ in range(PULLS)]
    agent.decision |= {"curator": {"mechanism": "bernoulli", "epsilon": 0.01}, "sticky": 1800 * is_sticky}
    lives: dict[str, int] = {}
    for life, (steps, code) in enumerate(((first, end), (second, 0))):
        listed = steps.split("," if "," in steps else None)
        command = [sys.executable, "-c", LIFE, agent.url, str(path), json.dumps(rewards), str(is_sticky), *listed]
        assert subprocess.run(command, check=False).returncode == code
        lives |= {ticket: life for ticket in agent.counted if ticket not in lives}
    names = [f"e{i}" for i in range(PULLS)] if is_sticky else ["e"]
    for experiment in names:
        with Client(agent.url, experiment, key="k", limits=LIMITS, ledger=path, background=False) as client:
            client.flush(now=1e12)
    seen = [lives.get(f"ticket-{i + 1}", 2) for i in range(PULLS)]
    assert right_guesses(seen, rewards) < ALARM
    assert set(seen) == {2}
    assert len(agent.counted) == PULLS


def test_to_observe_a_reward_or_to_look_for_its_pull_wakes_nobody(
    device: "Device", monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another process left behind and is due would leave when the reward comes, and tell of it."""
    client = device()
    pull = client.decide()
    woken: list[bool] = []
    monkeypatch.setattr(client_in(client), "_wake", lambda: woken.append(True))
    assert [each.observe(1) for each in client.pulls() if each.ticket == pull.ticket] == [True]
    assert woken == []


def test_an_agent_that_sees_what_has_no_reward_early_guesses_all() -> None:
    """The test above can fail: a device that leaks by its times is found."""
    rng = random.Random(7)
    rewards = [1 if rng.random() < 0.5 else None for _ in range(PULLS)]
    assert right_guesses([1 if reward is None else 2 for reward in rewards], rewards) == PULLS // 2
