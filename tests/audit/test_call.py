"""The call itself: any line is taken, time and memory are bounded, a finding is not lost, a seed repeats a verdict."""

import json
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import SystemRandom
from time import monotonic, sleep

import numpy as np
import pytest

from ldpbandits.audit import Audit, Layer, audit, checks, sample
from ldpbandits.audit.blackbox import runs, side_channels
from ldpbandits.audit.checks import CHECKS, Check, run_checks
from ldpbandits.audit.evidence import Claim, Evidence
from ldpbandits.audit.page import page
from ldpbandits.audit.program import program
from ldpbandits.audit.result import Finding
from ldpbandits.audit.sample import Sample, draw_sample
from ldpbandits.audit.target import WHOLE_BATCH, Late, RunOutput, Target, Unanswered, target_of
from ldpbandits.audit.texts import MOST_BYTES, Texts
from ldpbandits.cli import main

PLAIN = """
import random, sys, time
rng = random.SystemRandom()
def rr(reward):
    bit = rng.random() < reward
    return int(bit if rng.random() < 0.731 else not bit)
for call, line in enumerate(sys.stdin):
    reward = float(line)
    if not 0 <= reward <= 1:
        sys.exit("a reward must lie in [0, 1]")
"""
DIES = PLAIN + "    if call == 3000: sys.exit('out of luck')\n    print(reward)\n"
DIES_PRIVATE = PLAIN + "    if call == 3000: sys.exit('out of luck')\n    print(rr(reward))\n"
STOPS = PLAIN + "    if call == 3000: time.sleep(60)\n    print(reward, flush=True)\n"
BUDGET = PLAIN + "    if call == 50: sys.exit('the budget is spent')\n    print(rr(reward))\n"
ODD = PLAIN + r"    print(f'\x1b[2J\x00\u2028\x85nan,{rr(reward)}')" + "\n"
LONG = PLAIN + '    print(\'{"v": %d, "pad": "%s"}\' % (rr(reward), \'x\' * 6_000))\n'


@pytest.fixture(autouse=True)
def fewer_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start each program some thirty times, not a thousand times."""
    monkeypatch.setattr(runs, "USERS", 32)


def suspect(body: str, folder: Path) -> str:
    """Write a program, and return the command that runs it."""
    path = folder / "curator.py"
    path.write_text(body, encoding="utf-8")
    return shlex.join([sys.executable, str(path)])


def called(body: str, folder: Path, *options: str) -> int:
    """Audit a program that claims epsilon = 1; false alarm: 1e-6."""
    words = ["--epsilon", "1", "--samples", "4000", "--confidence", "0.999999", "--json", *options]
    return main(["audit", "--command", suspect(body, folder), *words])


@pytest.mark.parametrize("body", [DIES, STOPS])
def test_a_finding_survives_what_the_program_does_later(
    body: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It dies, or hangs, after 3,000 bare rewards: violated, and how the run ended is said too."""
    started = monotonic()
    assert called(body, tmp_path, "--rewards", "0,1", "--time", "8") == 1
    assert monotonic() - started < 120  # one run hangs until its time is over; a busy machine takes longer
    names = [layer["name"] for layer in json.loads(capsys.readouterr().out)["layers"] if layer["verdict"] == "violated"]
    assert "empirical: single responses" in names


def test_a_program_that_dies_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may die for reasons of its own, and the audit says how often; too often, and exit code 2 says what it said."""
    assert called(DIES_PRIVATE, tmp_path, "--rewards", "0,1") == 0
    told = [layer["detail"] for layer in json.loads(capsys.readouterr().out)["layers"]]
    assert "2 of 8,000 responses are missing" in told
    monkeypatch.setattr(sample, "MOST_DEATHS", 0)
    assert called(DIES_PRIVATE, tmp_path, "--rewards", "0,1") == 2
    assert "ended with code 1 after 3,000 responses (see --calls-per-run): out of luck" in capsys.readouterr().err


def test_a_curator_with_a_budget_is_started_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fifty calls a run: `--calls-per-run 50` audits it."""
    assert called(BUDGET, tmp_path, "--rewards", "0,1", "--samples", "1000", "--calls-per-run", "50") == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "consistent"


@pytest.mark.parametrize("body", [ODD, LONG])
def test_any_line_is_a_response(body: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Control characters, `nan,1`, lines of 6,000 bytes: private ones pass, and nothing of them reaches a terminal."""
    assert called(body, tmp_path, "--rewards", "0,1", "--samples", "1000") == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "\x1b" not in printed.out


def test_a_seed_repeats_a_verdict() -> None:
    """The same coins and roles, and with a function that is seeded too, the same bound to the last digit."""

    def bound(seed: int | None) -> float:
        rng = np.random.default_rng(1)
        found = audit(
            lambda reward: float(rng.random() < 0.269 + 0.462 * reward), (0, 1), 1.0, samples=2_000, seed=seed
        )
        return found.epsilon_lower

    assert bound(5) == bound(5) != bound(None)


def test_later_responses_are_kept_outside_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond so many calls only numbers are kept, in a file: all of them are tested, and the bound grows with them."""
    monkeypatch.setattr(sample, "KEPT", 20_000)
    rng = SystemRandom()
    few, many = (
        audit(lambda reward: float(rng.random() < 0.269 + 0.462 * reward), (0, 1), 1.0, samples=count, seed=2)
        for count in (10_000, 100_000)
    )
    assert many.verdict == few.verdict == "consistent"
    assert few.epsilon_lower < 0.97 < many.epsilon_lower < 1.01
    guesses = {layer.name: layer.guesses for layer in many.layers}
    assert guesses["empirical: single responses"] > 180_000


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many calls there are: responses as they were said are at most so many, and so many bytes."""
    monkeypatch.setattr(sample, "KEPT_BYTES", 1 << 20)
    drawn = draw_sample(target_of(lambda _reward: "x" * 1000), (0.0, 1.0), 40_000, np.random.default_rng(1), 1e9)
    assert drawn.calls == 40_000
    assert len(drawn.chosen) < 20_000
    assert sum(len(chosen) for chosen, _ in drawn.everything()) == 40_000
    assert len(Texts.of([b"y" * 10**6]).data) == MOST_BYTES


def test_the_time_of_an_audit_is_the_time_of_all_its_runs(tmp_path: Path) -> None:
    """A program that is slow to start and to answer is judged by what it has answered by then."""
    slow = PLAIN.replace("for call", "time.sleep(0.2)\nfor call") + "    time.sleep(0.0001)\n    print(rr(reward))\n"
    started = monotonic()
    found = audit(program(suspect(slow, tmp_path)), (0, 1), 1.0, samples=2_000_000, time=8.0)
    assert monotonic() - started < 90  # a few runs are made whatever the time, and a busy machine is slow
    assert found.samples < 2_000_000
    assert found.verdict != "violated"


@pytest.mark.parametrize(("wait", "trouble"), [(1.0, None), (0.0, "no response")])
def test_a_run_that_began_too_late_is_not_to_blame(wait: float, trouble: str | None) -> None:
    """What the runs before it answered is judged; a run that fails while there is time is trouble."""
    runs: list[float] = []

    def ask_many(rewards: Iterable[Sequence[float]], seconds: float) -> Iterator[list[bytes]]:
        runs.append(seconds)
        if len(runs) == 3:
            sleep(wait * seconds)
            raise Unanswered("no response")
        for part in rewards:
            yield [b"1"] * len(part)

    target = Target("slow", ask_many, lambda _rewards, _seconds: RunOutput([]))
    drawn = draw_sample(target, (0.0, 1.0), 100, np.random.default_rng(1), 0.5, calls_per_run=10)
    assert (drawn.calls, drawn.trouble) == (20, trouble)


def test_when_the_time_is_up_nothing_more_is_asked_or_judged(tmp_path: Path) -> None:
    """Every check that applies is not finished; those that do not apply say why, as ever. The verdict is incomplete."""
    for target in (program(suspect(PLAIN, tmp_path)), target_of(lambda _reward: pytest.fail("it was asked"))):
        evidence = Evidence(target, Claim.of(1.0, (0, 1), 1_000, 0.999), until=monotonic() - 1, interior=True)
        layers = run_checks(evidence)
        told = {layer.name: layer.verdict for layer in layers}
        unlike = {"fork"} if target.respond is None else {"one at a time", "short runs"}
        assert {name.split(": ")[-1] for name in told if told[name] == "not applicable"} == {
            "exact",
            "mean and variance",
            *unlike,
        }
        assert {*told.values()} == {"not applicable", "not finished"}
        assert len(told) == 10


def unfinished() -> Audit:
    """An audit in which nothing was found, and one check did not run."""
    done, late = (
        Layer("empirical: neighbours", "consistent", "fine"),
        Layer("known attacks: fork", "not finished", "late"),
    )
    return Audit("it", 1.0, 0.999, 1_000, 2.0, (done, late), epsilon_could_be=1.1)


def test_an_audit_that_is_not_finished_is_incomplete() -> None:
    """In words, in JSON and on the page, which name what did not run; a violation that was found stands."""
    found = unfinished()
    assert found.verdict == "incomplete"
    assert found.sentence.startswith("incomplete: known attacks: fork did not finish; what did is consistent with")
    assert found.to_json()["verdict"] == "incomplete"
    assert found.to_json()["not_finished"] == ["known attacks: fork"]
    assert "known attacks: fork    NOT DONE   late" in str(found)
    assert "incomplete: known attacks: fork did not finish" in page(found)
    assert replace(found, layers=(*found.layers, Layer("x", "violated", "y"))).verdict == "violated"


def test_an_incomplete_audit_has_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is printed like any other."""
    monkeypatch.setattr("ldpbandits.audit.run.audit", lambda *_args, **_options: unfinished())
    assert main(["audit", "--command", "cat", "--epsilon", "1"]) == 2
    assert capsys.readouterr().out.startswith("it: incomplete: ")


def test_short_runs_of_a_program_come_before_the_main_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So they are made also where the main sample takes all the time that is left; layers keep their order."""
    names = [check.name for check in CHECKS]
    ran: list[str] = []
    run = checks._run

    def noting(check: Check, evidence: Evidence, alpha: float) -> Finding | None:
        ran.append("main sample" if evidence.shared.get("main sample") else check.name)
        return run(check, evidence, alpha)

    monkeypatch.setattr(checks, "_run", noting)
    monkeypatch.setattr(runs, "USERS", 16)
    monkeypatch.setattr(side_channels, "TIMES", 8)
    healthy = PLAIN + "    print(rr(reward), flush=True)\n"
    found = audit(program(suspect(healthy, tmp_path)), None, 1.0, samples=1_000, confidence=0.999999)
    first = ran.index("main sample")
    attacks = {name for name in names if name.startswith("known attacks")}
    assert attacks < {*ran[:first]}
    assert "empirical: rewards between" in ran[:first]
    assert [layer.name for layer in found.layers] == [name for name in names if name in {x.name for x in found.layers}]


def test_time_is_left_to_judge_what_was_drawn() -> None:
    """With a second for each response that is kept, fifty seconds end after the first batch, and nobody is to blame."""
    drawn = draw_sample(
        target_of(lambda _reward: 1), (0.0, 1.0), 100_000, np.random.default_rng(1), 50, leave=lambda kept: kept
    )
    assert (drawn.calls, drawn.trouble) == (WHOLE_BATCH, None)


def test_a_check_that_takes_long_ends_when_the_time_is_up() -> None:
    """Between two of its parts, and not only before it begins."""
    evidence = Evidence(target_of(lambda _reward: 1), Claim.of(1.0, (0, 1), 1_000, 0.999), until=monotonic() + 60)
    parts = evidence.in_time(iter("abc"))
    assert next(parts) == "a"
    late = replace(evidence, until=monotonic() - 1).in_time(iter("abc"))
    with pytest.raises(Late, match="the time was up"):
        next(late)


def test_a_slow_function_is_not_asked_beyond_its_time() -> None:
    """A batch is cut short when the time is up, and what came is kept: 64 calls at the most are made between."""
    made = []

    def respond(_reward: float) -> int:
        made.append(1)
        sleep(0.001)
        return 1

    with pytest.raises(Late, match=r"rewards, [0-9,]+ responses in 0\.05 s"):
        target_of(respond).ask([0.0] * 5_000, 0.05)
    assert len(made) < 5_000


def test_roles_do_not_depend_on_the_place() -> None:
    """Of calls at every place of any short period, two fifths are disclosed: within 6 standard errors. Seeded."""
    roles = Sample((0.0, 1.0), np.zeros(100_000, np.int64), np.zeros(100_000), rng=np.random.default_rng(3)).roles
    for period in (2, 3, 4, 7, 10):
        for place in range(period):
            part = roles[place::period] < sample.TEST
            assert abs(part.mean() - 2 * sample.DISCLOSED) < 6 * (0.24 / len(part)) ** 0.5


@pytest.mark.parametrize("count", [1, 10, 100, 300])
def test_a_subject_that_answers_too_little_is_incomplete(count: int) -> None:
    """Too few responses in the time given, or next to none: a layer says so, and no verdict is given."""
    runs: list[int] = []

    def ask_many(rewards: Iterable[Sequence[float]], _seconds: float) -> Iterator[list[bytes]]:
        part = next(iter(rewards))
        is_main = 100 < len(part) <= 2_000
        yield [b"%.3f" % SystemRandom().random()] * (count if is_main and not runs else 0 if is_main else len(part))
        runs.extend([1] * is_main)

    plain = target_of(lambda _reward: 1)
    found = audit(Target("slow", ask_many, plain.run_once), (0, 1), 1.0, samples=1_000)
    assert found.verdict == "incomplete"
    told = f"{count // 2} of 1,000 responses to each reward in the time given (--time allows more); 1,000 are needed"
    assert found.layers[-1] == Layer("the run", "not finished", told)
    assert found.samples == count // 2
    text = next(layer for layer in found.layers if layer.name == "empirical: single responses")
    assert (text.verdict == "not finished") == (count < 100)


@pytest.mark.parametrize("constant", [0.123, 1 / 3, "0.1,0.7"])
def test_a_constant_response_is_private(constant: object) -> None:
    """Whatever it is: a number that sums do not hold exactly ends no audit."""
    assert audit(lambda _reward: constant, epsilon=1.0, samples=1_000).verdict == "consistent"
