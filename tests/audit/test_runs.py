"""Short runs: first calls that tell, seeds that come again, and what is said to standard error.

Level 1e-6; runs of functions, made from scratch. What is drawn at random is drawn from a seeded generator.
"""

import itertools
import math
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from ldpbandits import LaplaceCurator
from ldpbandits.audit.blackbox import runs
from ldpbandits.audit.blackbox.runs import Layout, draw_users, short_runs
from ldpbandits.audit.evidence import Claim, Evidence
from ldpbandits.audit.target import Respond, RunOutput, Target, ask_function, run_function, target_of

CHOICE = random.Random(11)
TRUTH = 1 / (1 + math.exp(-1))
Make = Callable[[], Respond]


def bits(rng: random.Random) -> Respond:
    """Randomised response, from this generator."""
    return lambda reward: int(reward) if rng.random() < TRUTH else 1 - int(reward)


def noise(rng: random.Random) -> Respond:
    """Laplace noise, from this generator."""
    return lambda reward: round(reward + rng.expovariate(1) - rng.expovariate(1), 6)


def behind(lag: int) -> Make:
    """Start each user's generator a little further on than the last one's."""
    users = itertools.count()

    def make() -> Respond:
        rng = random.Random(7)
        for _ in range(lag * next(users)):
            rng.random()
        return bits(rng)

    return make


def until(spent: Callable[[float], float], budget: float) -> Make:
    """Make users that answer until something is spent."""

    def make() -> Respond:
        left, respond = [budget], bits(random.Random(CHOICE.getrandbits(64)))

        def limited(reward: float) -> object:
            left[0] -= spent(reward)
            return respond(reward) if left[0] + spent(reward) > 0 else "no more"

        return limited

    return make


def silent_at_times() -> Respond:
    """Make a user that says nothing, once in a while."""
    return until(lambda _reward: 1, CHOICE.choice((0, 1_000)))()


SHARED: dict[str, Make] = {
    "a seed left in": lambda: bits(random.Random(42)),
    "a seed of 8 bits": lambda: bits(random.Random(CHOICE.getrandbits(8))),
    "a seed of 12 bits": lambda: bits(random.Random(CHOICE.getrandbits(12))),
    "a seed of 14 bits": lambda: noise(random.Random(CHOICE.getrandbits(14))),
    "a seed of 8 bits, and a counter": lambda: counted(bits(random.Random(CHOICE.getrandbits(8)))),
    "one response behind": behind(1),
    "three responses behind": behind(3),
}
FRESH: dict[str, Make] = {
    "bits": lambda: bits(random.Random(CHOICE.getrandbits(64))),
    "noise": lambda: noise(random.Random(CHOICE.getrandbits(64))),
    "ours": lambda: LaplaceCurator(1.0).respond,
    "a counter": lambda: counted(bits(random.Random(CHOICE.getrandbits(64)))),
    "the time": lambda: dated(bits(random.Random(CHOICE.getrandbits(64)))),
    "a budget of calls": until(lambda _reward: 1, 9),
    "a budget that ends at random": until(lambda _reward: CHOICE.random(), 9),
    "silence for some": silent_at_times,
    "always the same": lambda: lambda _reward: 1,
}


def counted(respond: Respond) -> Respond:
    """Number the responses of a user."""
    calls = itertools.count()
    return lambda reward: f"{next(calls)},{respond(reward)}"


def dated(respond: Respond) -> Respond:
    """Write the second beside each response."""
    return lambda reward: f"{int(time.time())},{respond(reward)}"


def after_the_first(reveal: Respond) -> Make:
    """Make users whose first response is another."""

    def make() -> Respond:
        calls, respond = itertools.count(), bits(random.Random(CHOICE.getrandbits(64)))
        return lambda reward: respond(reward) if next(calls) else reveal(reward)

    return make


def after_thirty() -> Respond:
    """Make a user whose response after thirty has no noise."""
    calls, respond = itertools.count(1), bits(random.Random(CHOICE.getrandbits(64)))
    return lambda reward: respond(reward) if next(calls) != 31 else int(reward)


def at_call(number: int, respond: Callable[[random.Random], Respond]) -> Make:
    """Make users whose response at one call has no noise."""

    def make() -> Respond:
        calls, noisy = itertools.count(1), respond(random.Random(CHOICE.getrandbits(64)))
        return lambda reward: noisy(reward) if next(calls) != number else int(reward)

    return make


def aloud(say: Callable[[float], str]) -> Make:
    """Make users that write to standard error at each response."""

    def make() -> Respond:
        respond = bits(random.Random(CHOICE.getrandbits(64)))

        def loud(reward: float) -> object:
            sys.stderr.write(f"{say(reward)}\n")
            return respond(reward)

        return loud

    return make


FIRST: dict[str, Make] = {
    "bare": after_the_first(int),
    "without noise, as a text": after_the_first(lambda reward: f"{reward:.2f}"),
    "another response without noise": after_thirty,
    "the second response without noise": at_call(2, bits),
    "the twelfth response without noise": at_call(12, noise),
    "the last that is compared, without noise": at_call(29, bits),
    "a budget that rewards use up": until(lambda reward: reward, 2),
    "a budget that some rewards spare": until(lambda reward: 1 - reward, 20),
    "silence after a reward": until(lambda reward: reward and CHOICE.random() < 0.2, 1),
    "standard error": aloud(lambda reward: "cache hit" if reward else "cache miss"),
    "a number on standard error": aloud(lambda reward: f"worker {CHOICE.randrange(99)} took {reward + 3}"),
}


def evidence(make: Make) -> Evidence:
    """What there is to see of users made in this way."""
    return Evidence(target_of(make(), None, make), Claim.of(1.0, (0, 1), 1_000, 0.999, 3))


@pytest.mark.parametrize("name", SHARED)
def test_users_that_share_their_noise(name: str) -> None:
    """By a seed that is left in or small, at a lag, and behind a counter."""
    assert short_runs(evidence(SHARED[name]), 1e-6).verdict == "violated"


@pytest.mark.parametrize("name", FRESH)
def test_users_with_noise_of_their_own(name: str) -> None:
    """With counters and dates, or with nothing that varies; nor do their first calls tell. False alarm: 2e-6."""
    seen = evidence(FRESH[name])
    assert short_runs(seen, 1e-6).verdict == "consistent"
    assert short_runs(seen, 1e-6).verdict == "consistent"


@pytest.mark.parametrize("name", FIRST)
def test_what_a_short_run_tells(name: str) -> None:
    """At its first call, at another one, and to standard error."""
    assert short_runs(evidence(FIRST[name]), 1e-6).verdict == "violated"


def test_standard_error_may_vary() -> None:
    """With a counter, a date or a random number on it, it tells nothing of the reward. False alarm: 1e-6 each."""
    lines = itertools.count()
    for say in (lambda _: f"call {next(lines)}", lambda _: f"{time.time()}", lambda _: f"worker {CHOICE.random()}"):
        assert short_runs(evidence(aloud(say)), 1e-6).verdict == "consistent"


PIDS = itertools.count(2000)
OF_PROCESS: dict[str, Callable[[int], Respond]] = {
    "a seed of the process": lambda pid: bits(random.Random(pid)),
    "a seed of process and hour": lambda pid: noise(random.Random(pid * 24 + 7)),
    "a seed of the process and of 4 bits": lambda pid: bits(random.Random(pid << 4 | CHOICE.getrandbits(4))),
}
OF_NOTHING: dict[str, Callable[[int], Respond]] = {
    "a fresh seed": lambda _pid: bits(random.Random(CHOICE.getrandbits(64))),
    "the process beside a fresh seed": lambda pid: named(pid, bits(random.Random(CHOICE.getrandbits(64)))),
    "a seed of the process and of 64 bits": lambda pid: noise(random.Random(pid << 64 | CHOICE.getrandbits(64))),
}


def named(pid: int, respond: Respond) -> Respond:
    """Write the number of the process beside each response."""
    return lambda reward: f"{pid} {respond(reward)}"


def numbered(of: Callable[[int], Respond], *, runs: bool = True) -> Evidence:
    """Evidence of programs whose processes have numbers of their own, and the number 1 in a container, if they run."""

    def run_once(rewards: Sequence[float], seconds: float) -> RunOutput:
        return run_function(of(next(PIDS)))(rewards, seconds)

    def contained(rewards: Sequence[float], seconds: float) -> RunOutput:
        return run_function(of(1))(rewards, seconds) if runs else RunOutput([], b"not permitted", is_whole=False)

    target = Target("numbered", ask_function(of(1)), run_once, another_user=lambda: run_once, contained=contained)
    return Evidence(target, Claim.of(1.0, (0, 1), 1_000, 0.999, 3))


@pytest.mark.parametrize("name", OF_PROCESS)
def test_noise_made_of_the_number_of_a_process(name: str) -> None:
    """In containers it is one for all users; where programs do not run in one, it is not seen."""
    assert short_runs(numbered(OF_PROCESS[name]), 1e-6).verdict == "violated"
    assert short_runs(numbered(OF_PROCESS[name], runs=False), 1e-6).verdict == "consistent"


@pytest.mark.parametrize("name", OF_NOTHING)
def test_a_process_may_know_its_number(name: str) -> None:
    """As long as noise is fresh. False alarm: 2e-6 each."""
    seen = numbered(OF_NOTHING[name])
    assert short_runs(seen, 1e-6).verdict == "consistent"
    assert short_runs(seen, 1e-6).verdict == "consistent"


def summed(say: Callable[[float], str], truth: float) -> Evidence:
    """Evidence of programs that sum up their run on standard error when it ends."""

    def run_once(rewards: Sequence[float], _seconds: float) -> RunOutput:
        texts = [str(int(reward) ^ (CHOICE.random() > truth)).encode() for reward in rewards]
        return RunOutput(texts, say(sum(rewards)).encode(), code=0)

    target = Target("summed", ask_function(lambda reward: reward), run_once, another_user=lambda: run_once)
    return Evidence(target, Claim.of(1.0, (0, 1), 1_000, 0.999, 3))


def test_a_sum_at_the_end_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells the last reward to whoever knows the others: some hundred runs are enough. False alarm: 1e-6."""
    monkeypatch.setattr(runs, "USERS", 150)
    scale = 2.0
    half = 1 / (1 + math.exp(-1 / scale))
    assert short_runs(summed(lambda total: f"{total:g} clicks\n", half), 1e-6).verdict == "violated"

    def noisy(total: float) -> str:
        noise = CHOICE.expovariate(1 / scale) - CHOICE.expovariate(1 / scale)
        return f"{round(total + noise)} clicks\n"

    assert short_runs(summed(noisy, half), 1e-6).verdict == "consistent"


def test_runs_that_say_nothing_in_time_are_said_to_be_slow() -> None:
    """There are users, so that none is asked for; and they are not waited for when the time is up."""

    def run_once(_rewards: Sequence[float], seconds: float) -> RunOutput:
        time.sleep(min(seconds, 0.1))
        return RunOutput([], is_whole=False)

    target = Target("slow", ask_function(lambda reward: reward), run_once, another_user=lambda: run_once)
    begun = time.monotonic()
    found = short_runs(Evidence(target, Claim.of(1.0, (0, 1), 1_000, 0.999, 3), until=begun + 0.3), 1e-6)
    assert found.verdict == "not finished"
    assert "--time" in found.detail
    assert time.monotonic() - begun < 4


@pytest.mark.parametrize(("bare", "verdict"), [(0, "not finished"), (1, "violated")])
def test_too_few_runs_are_not_finished_unless_they_are_enough_for_a_verdict(
    bare: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the time was up after 40 of 1,200 runs, noise is not called consistent; bare responses are found."""
    noise = random.SystemRandom()

    def run_once(rewards: Sequence[float], _seconds: float) -> RunOutput:
        said = [reward if noise.random() < bare else noise.randrange(2) for reward in rewards]
        return RunOutput([str(int(each)).encode() for each in said])

    target = Target("slow", ask_function(lambda reward: reward), run_once, another_user=lambda: run_once)
    evidence = Evidence(target, Claim.of(0.1, (0, 1), 1_000, 0.999, 3))
    drawn = draw_users(evidence, 40)
    assert drawn is not None
    monkeypatch.setattr(runs, "draw_users", lambda *_: replace(drawn, wanted=1_200))
    found = short_runs(evidence, 1e-6)
    assert found.verdict == verdict
    assert verdict == "violated" or found.detail == "40 of 1,200 runs in the time given (--time allows more)"


def test_short_runs_fit_the_calls_of_a_run() -> None:
    """A budget of a few calls is kept: a run never has more, and one call is enough for the first."""
    for calls in (1, 2, 5, 30, 44, 1000):
        assert Layout.of(1.0, calls).calls <= calls
    assert Layout.of(1.0, None).same >= 24
