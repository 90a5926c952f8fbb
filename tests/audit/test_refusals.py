"""What is said of a reward that is refused, or printed of one that is answered, must not depend on it."""

import itertools
import random
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from typing import NoReturn

import pytest

from ldpbandits import BernoulliCurator, LaplaceCurator, Range, RealLine
from ldpbandits.audit import audit
from ldpbandits.audit.blackbox.side_channels import bad_rewards
from ldpbandits.audit.evidence import Claim, Evidence
from ldpbandits.audit.result import Finding
from ldpbandits.audit.target import Respond, RunOutput, Target, Unanswered, ask_function, target_of
from ldpbandits.spec import mechanisms
from ldpbandits.spec.curator import CuratorSpec

CLAIM = Claim.of(1.0, (0, 1), 1_000, 0.999)
SPEC = CuratorSpec(mechanisms.Bernoulli(1.0))
CTB = BernoulliCurator(1.0)
Say = Callable[[float], BaseException]


def judged(respond: Respond, spec: CuratorSpec | None = None) -> Finding:
    """Judge a function by its refusals alone."""
    return bad_rewards(Evidence(target_of(respond, spec), CLAIM), 1e-6)


def refusing(say: Say) -> Respond:
    """CTB, with an error of another's making."""

    def respond(reward: float) -> float:
        if not 0 <= reward <= 1:
            error = say(reward)
            del reward
            raise error
        return CTB.respond(reward)

    return respond


def with_attribute(reward: float) -> BaseException:
    """An error that carries the reward, coded."""
    error = ValueError("out of range")
    error.reward = hex(int(abs(reward))) if abs(reward) < 1e300 else ""  # type: ignore[attr-defined]
    return error


def scaled(reward: float) -> BaseException:
    """An error with the reward in other units."""
    return ValueError(f"out of range: {reward / 7:.6g}")


def in_hex(reward: float) -> BaseException:
    """An error with the reward as its bits."""
    return ValueError(f"out of range: {reward.hex()}")


def by_type(reward: float) -> BaseException:
    """An error whose type tells the reward."""
    error: BaseException = type(f"Bad{str(reward)[1:3]}", (ValueError,), {})()
    return error


def by_context(reward: float) -> BaseException:
    """An error that came out of another, unasked."""
    error = ValueError("out of range")
    error.__context__ = KeyError(f"{reward / 7:.6g}")
    return error


def by_group(reward: float) -> BaseException:
    """An error among others."""
    return ExceptionGroup("refused", [ValueError(f"{reward / 7:.6g}")])


@pytest.mark.parametrize("say", [with_attribute, scaled, in_hex, by_type, by_context, by_group])
def test_refusals_that_depend_on_the_reward_are_a_violation(say: Say) -> None:
    """However the reward is written: an attribute, hexadecimal, another unit, a type, a context, one of a group."""
    layer = judged(refusing(say))
    assert layer.verdict == "violated"
    assert "the text of a refusal" in layer.detail


def test_where_an_object_lies_in_memory_is_no_reward() -> None:
    """An error that holds some object is told apart from one that holds the reward."""
    alive: list[object] = []

    def holding(_reward: float) -> BaseException:
        alive.append(object())  # all at different addresses, since none is ever freed
        return ValueError(alive[-1])

    assert judged(refusing(holding)).verdict == "consistent"


def test_the_side_of_the_range_is_reported() -> None:
    """'Too large' and 'too small' tell whoever reads errors on which side the reward lay; no response does."""
    layer = judged(refusing(lambda reward: ValueError("too large" if reward > 1 else "too small")))
    assert layer.verdict == "reported"
    assert "on which side" in layer.detail


def test_words_that_vary_by_themselves_are_no_violation() -> None:
    """A counter, the time, or a worker named at random differ from call to call, whatever the reward.

    False alarm: 1e-6 each.
    """
    numbers, workers = itertools.count(), [17, 23, 4711]
    for say in (
        lambda _reward: ValueError(f"refusal {next(numbers)}"),
        lambda _reward: ValueError(f"refused at {time.time_ns()}"),
        lambda _reward: ValueError(f"worker {random.choice(workers)} refused"),
    ):
        assert judged(refusing(say)).verdict == "consistent"


def test_words_that_vary_do_not_hide_the_reward() -> None:
    """Beside a counter, the time or a worker, the reward is found all the same: as it is, as a hash, as a parity."""
    for say in (
        lambda reward: ValueError(f"refusal at {time.time_ns()}: {reward:.4g}"),
        lambda reward: ValueError(f"worker {random.randrange(9)}: {zlib.crc32(str(reward).encode())}"),
        lambda reward: ValueError(f"{random.randrange(10**6)} {'odd' if int(reward) % 2 else 'even'}"),
    ):
        verdicts = {judged(refusing(say)).verdict for _ in range(6)}  # parities of two rewards may be the same
        assert "violated" in verdicts


def test_a_bad_reward_that_comes_back_is_a_violation() -> None:
    """Out of range it is answered with itself; of a function that answers with noise it is only reported."""
    assert "answered with itself" in judged(lambda reward: reward if reward > 1 else CTB.respond(0.5)).detail
    assert judged(lambda _reward: CTB.respond(0.5)).verdict == "reported"
    assert judged(lambda _reward: CTB.respond(0.5), SPEC).verdict == "violated"


def test_a_frame_that_keeps_the_reward() -> None:
    """A violation in code of ours, a report for all else: the frame may be that of the caller. Ours keep nothing."""

    def respond(reward: float) -> float:
        if not 0 <= reward <= 1:
            raise ValueError("out of range")
        return CTB.respond(reward)

    assert judged(refusing(lambda _reward: ValueError("out of range")), SPEC).verdict == "consistent"
    assert judged(respond, SPEC).verdict == "reported"
    assert judged(lambda reward: CTB.respond(reward), SPEC).verdict == "reported"  # noqa: PLW0108 - a caller's own frame
    assert "a frame of the traceback keeps the reward" in judged(respond, SPEC).detail
    assert judged(respond).verdict == "reported"
    assert judged(CTB.respond, SPEC).verdict == "consistent"
    assert judged(
        LaplaceCurator(1.0, RealLine()).respond, CuratorSpec(mechanisms.Laplace(1.0), RealLine())
    ).verdict == ("consistent")


def test_rewards_that_are_answered_are_not_printed() -> None:
    """A line of a log that shows them is a violation; one that shows the bit of a response is not."""

    def shown(reward: float) -> float:
        response = CTB.respond(reward)
        sys.stderr.write(f"reward {reward:.4f}, response {response}\n")
        return response

    def unshown(reward: float) -> float:
        response = CTB.respond(reward)
        sys.stderr.write(f"response {response}\n")
        return response

    assert "rewards in range are shown" in judged(shown).detail
    assert judged(shown).verdict == "violated"
    assert judged(unshown).verdict != "violated"


def test_out_of_range_is_beyond_the_range_not_beyond_the_claim() -> None:
    """A curator of a wide range, audited on two rewards close together, answers what lies between, and rightly so."""
    curator = BernoulliCurator(1.0, Range(0, 1e6))
    finding = judged(curator.respond, curator.spec)
    assert finding.verdict == "consistent"
    assert finding.detail.startswith("infinity, NaN, out of range: refused")


def test_an_exit_in_a_refusal_ends_nothing() -> None:
    """A function that calls sys.exit on a bad reward has refused it."""

    def exits(reward: float) -> float:
        if not 0 <= reward <= 1:
            del reward
            sys.exit("a reward must lie in [0, 1]")
        return CTB.respond(reward)

    assert judged(exits, SPEC).verdict == "consistent"


def test_an_error_that_cannot_be_written_ends_nothing() -> None:
    """Nor does one whose text fails, or a response that is no float."""

    class Unspeakable(Exception):  # noqa: N818 - its name
        def __str__(self) -> NoReturn:
            raise RuntimeError

    assert judged(refusing(lambda _reward: Unspeakable())).verdict != "violated"
    assert judged(lambda reward: 10**400 if reward > 1 else CTB.respond(0.5)).verdict == "reported"


def slow(seconds: float) -> Evidence:
    """A program that takes a tenth of a second for each run, and an audit of so many seconds."""

    def run_once(rewards: Sequence[float], _seconds: float) -> RunOutput:
        time.sleep(0.1)
        return RunOutput([b"1"] * len(rewards)) if 0 <= rewards[0] <= 1 else RunOutput([], is_whole=False)

    target = Target("slow", ask_function(lambda _reward: 1), run_once)
    return Evidence(target, CLAIM, until=time.monotonic() + seconds)


def answering(beside: Callable[[float], str]) -> Evidence:
    """A program that answers whatever it gets, and writes something to standard error beside."""

    def run_once(rewards: Sequence[float], _seconds: float) -> RunOutput:
        texts = [str(int(CTB.respond(0.5))).encode() for _ in rewards]
        return RunOutput(texts, "\n".join(map(beside, rewards)).encode())

    return Evidence(Target("clips", ask_function(lambda _reward: 1), run_once), CLAIM)


def test_what_is_said_beside_an_answer_is_no_refusal() -> None:
    """A program that clips, and says by how much, has refused nothing: it is reported, since nothing is claimed there.

    One that refuses, and says by how much, is accused as before; so is one that answers with the reward itself.
    """
    for beside in (lambda reward: f"clipped {reward:.6g}", lambda reward: f"{random.random()} {reward > 5000}"):
        found = bad_rewards(answering(beside), 1e-6)
        assert found.verdict == "reported"
        assert found.detail.startswith("answered, not refused: infinity, NaN, out of range")
    assert judged(refusing(lambda reward: ValueError(f"clipped {reward:.6g}"))).verdict == "violated"


def test_a_side_that_is_answered_now_and_then_does_not_accuse() -> None:
    """One of two rewards is answered and the other refused, in words that are always the same. False alarm: 1e-6."""

    def respond(reward: float) -> float:
        if not 0 <= reward <= 1 and int(abs(reward)) % 2:
            del reward
            raise ValueError("out of range")
        return CTB.respond(0.5)

    assert {judged(respond).verdict for _ in range(8)} == {"reported"}


def test_a_frame_is_judged_in_our_own_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """A curator of ours whose method keeps the reward in its frame is violated; a wrapper of a caller is reported."""
    assert "known attacks: bad rewards" not in {layer.name for layer in audit(CTB, samples=1_000).violated}
    plain = BernoulliCurator.respond

    def kept(self: BernoulliCurator, reward: float) -> float:
        return float(plain(self, reward))

    told = audit(lambda reward: CTB.respond(reward), spec=SPEC, samples=1_000, confidence=0.999999)  # noqa: PLW0108
    layers = {layer.name: layer for layer in told.layers}
    assert layers["known attacks: bad rewards"].verdict == "reported"
    assert told.verdict == "consistent"
    monkeypatch.setattr(BernoulliCurator, "respond", kept)
    assert "known attacks: bad rewards" in {layer.name for layer in audit(CTB, samples=1_000).violated}


def test_a_program_that_starts_slowly_does_not_use_up_more_than_the_time() -> None:
    """What was cut short is not said to be refused."""
    begun = time.monotonic()
    with pytest.raises(Unanswered, match="the time was up"):
        bad_rewards(slow(0.5), 1e-6)
    assert time.monotonic() - begun < 4
