"""Standard error beside each response, how a program ends, and the time it takes. Seeded; levels are 1e-6."""

import itertools
import math
import random
import shlex
import sys
from collections.abc import Callable, Sequence

import pytest

from ldpbandits.audit.blackbox.runs import short_runs
from ldpbandits.audit.blackbox.side_channels import HELD_BACK, one_at_a_time, response_time
from ldpbandits.audit.evidence import Claim, Evidence
from ldpbandits.audit.program import program
from ldpbandits.audit.target import RunOutput, Target, Turn, ask_function

RNG = random.Random(12)
ALPHA = 1e-6


def bit(reward: float) -> int:
    """Randomised response at epsilon = 1."""
    return int(reward) ^ (RNG.random() > 1 / (1 + math.exp(-1)))


def noted(words: Callable[[float, int], str], *, late: bool = False) -> Evidence:
    """Evidence of a program that says words beside a bit; late, it says them when it has responded."""

    def turns(rewards: Sequence[float], _seconds: float) -> list[Turn]:
        said, waiting = list[Turn](), b""
        for reward in rewards:
            own = bit(reward)
            told = words(reward, own).encode()
            said.append(Turn(f"{own}".encode(), waiting if late else told, 1e-5))
            waiting = told
        return said

    target = Target("noted", ask_function(bit), lambda _rewards, _seconds: RunOutput([]), turns=turns)
    return Evidence(target, Claim.of(1.0, (0, 1), 6_000, 0.999, 1))


def rarely(part: float) -> bool:
    """Tell once in a while that it is time."""
    return RNG.random() < part


COUNT = itertools.count()
TELLING: dict[str, tuple[Callable[[float, int], str], bool]] = {
    "a warning for one reward, at times": (lambda reward, _: "high\n" if reward and rarely(0.03) else "", False),
    "a warning that comes late": (lambda reward, _: "low\n" if not reward and rarely(0.03) else "", True),
    "a level of logging": (lambda reward, _: f"{'WARN' if rarely(0.1 + 0.6 * reward) else 'INFO'} done\n", False),
    "whether the response is true": (lambda reward, own: "flip\n" if own != reward and rarely(0.2) else "", False),
    "a line the less": (lambda reward, _: "" if reward and rarely(0.1) else f"call {next(COUNT)}\n", False),
}
CHATTY: dict[str, tuple[Callable[[float, int], str], bool]] = {
    "nothing": (lambda _reward, _own: "", False),
    "a warning at times": (lambda _reward, _own: "slow\n" if rarely(0.02) else "", True),
    "a counter": (lambda _reward, _own: f"call {next(COUNT)}\n", False),
    "the response": (lambda _reward, own: f"sent {own}\n", False),
    "a random name": (lambda _reward, _own: f"worker {RNG.getrandbits(40):x}\n" if rarely(0.5) else "", True),
}


@pytest.mark.parametrize("name", TELLING)
def test_what_is_said_beside_a_response_counts(name: str) -> None:
    """Rarely, late, in another level, only with the response, or by its absence."""
    words, late = TELLING[name]
    assert one_at_a_time(noted(words, late=late), ALPHA).verdict == "violated"


@pytest.mark.parametrize("name", CHATTY)
def test_a_program_may_be_chatty(name: str) -> None:
    """As long as nothing depends on the reward beyond the response. False alarm: 1e-6 each."""
    words, late = CHATTY[name]
    assert one_at_a_time(noted(words, late=late), ALPHA).verdict == "consistent"


def ended(status: Callable[[Sequence[float]], int]) -> Evidence:
    """Evidence of a program that ends with a status."""

    def run_once(rewards: Sequence[float], _seconds: float) -> RunOutput:
        code = status(rewards)
        return RunOutput([f"{bit(reward)}".encode() for reward in rewards], b"", code == 0, code=code)

    target = Target("ended", ask_function(bit), run_once, another_user=lambda: run_once)
    return Evidence(target, Claim.of(1.0, (0, 1), 1_000, 0.999, 2))


ENDS_BY_REWARD: dict[str, Callable[[Sequence[float]], int]] = {
    "more high than low": lambda rewards: 3 * (2 * sum(rewards) > len(rewards)),
    "the last one": lambda rewards: 1 if rewards[-1] and rarely(0.6) else 0,
    "any high one": lambda rewards: -11 if any(rewards) else 0,
    "how many, modulo 2": lambda rewards: int(sum(rewards)) % 2,
}
ENDS_ANYHOW: dict[str, Callable[[Sequence[float]], int]] = {
    "always with 1": lambda _rewards: 1,
    "at random": lambda _rewards: RNG.randrange(4),
    "by the number of calls": lambda rewards: len(rewards) % 3,
}


@pytest.mark.parametrize("name", ENDS_BY_REWARD)
def test_how_a_run_ends_counts(name: str) -> None:
    """By a majority, by one reward, by any, by a parity."""
    assert short_runs(ended(ENDS_BY_REWARD[name]), ALPHA).verdict == "violated"


@pytest.mark.parametrize("name", ENDS_ANYHOW)
def test_a_run_may_end_as_it_likes(name: str) -> None:
    """As long as that does not depend on rewards. False alarm: 1e-6 each."""
    assert short_runs(ended(ENDS_ANYHOW[name]), ALPHA).verdict == "consistent"


PROGRAM = """
import random, sys, time
for line in sys.stdin:
    reward = float(line)
    if reward and random.random() < 0.4:
        print("high", file=sys.stderr)
        time.sleep(0.001)
    print(int(reward) ^ (random.random() > 0.731))
sys.exit(7)
"""
HOLDS_BACK = "import sys; print('1\\n' * len(sys.stdin.readlines()))"


def heard_of(text: str) -> Evidence:
    """Evidence of a program in Python."""
    return Evidence(program(shlex.join([sys.executable, "-c", text])), Claim.of(1.0, (0, 1), 2_000, 0.999, 3))


def test_a_program_is_asked_one_reward_at_a_time() -> None:
    """Its standard error is heard call by call, and its time is measured; that it ends with 7 is no trouble."""
    evidence = heard_of(PROGRAM)
    assert one_at_a_time(evidence, ALPHA).verdict == "violated"
    timed = response_time(evidence, 0.0)
    assert timed.verdict == "reported"
    assert "time reveals the reward" in timed.detail
    assert len(evidence.target.ask([0.0, 1.0] * 50, 60.0)) == 100


def test_a_program_that_holds_its_responses_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not asked so, and the check says why."""
    monkeypatch.setattr("ldpbandits.audit.program.FIRST_RESPONSE_TIMEOUT_S", 0.5)
    evidence = heard_of(HOLDS_BACK)
    assert one_at_a_time(evidence, ALPHA).detail == HELD_BACK
    assert response_time(evidence, 0.0).verdict == "not applicable"
