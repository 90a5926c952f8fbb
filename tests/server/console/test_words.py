"""What pages say: numbers as people write them, epsilon as odds, one sentence for how it stands."""

import dataclasses
from math import exp
from types import SimpleNamespace
from typing import Any

import pytest

from ldpbandits.lab import plan
from ldpbandits.lab.planning.case import Case
from ldpbandits.lab.planning.question import Question
from ldpbandits.server.console import words
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.spec.mechanisms import Bernoulli, Laplace
from ldpbandits.spec.menu import Menu
from ldpbandits.spec.messages import Ramp, Rejected, Settings


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (words.count(16_000), "16,000"),
        (words.times(exp(1)), "2.7"),
        (words.times(exp(0.01)), "1"),
        (words.times(148.4), "148"),
        (words.times(exp(10)), "22,026"),
        (words.times(exp(50)), "5.2e+21"),
        (words.day(1_800_000_000), "15 January 2027"),
        (words.moment(1_800_000_000), "15 January 2027, 08:00 UTC"),
    ],
)
def test_numbers_are_written_for_people(written: str, expected: str) -> None:
    """Counts, shares, spans of time, multiples, days and chances."""
    assert written == expected


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 3.0, 50.0])
def test_epsilon_in_odds(epsilon: float) -> None:
    """E^epsilon times surer at most; a bit is flipped with chance 1 / (1 + e^epsilon)."""
    said = words.odds_of(Bernoulli(epsilon))
    assert said.odds == pytest.approx(exp(epsilon))
    assert said.surer == pytest.approx(exp(epsilon) / (1 + exp(epsilon)))
    assert said.flipped == pytest.approx(1 / (1 + exp(epsilon)))
    numbers = words.odds_of(Laplace(epsilon))
    assert (numbers.odds, numbers.flipped) == (said.odds, None)


@pytest.mark.parametrize("arms", [2, 5])
@pytest.mark.parametrize("curator", ["ctb", "ctl"])
@pytest.mark.parametrize(("baseline", "lift"), [(0.04, 0.5), (0.3, 0.2)])
def test_the_form_says_what_plan_forecasts(curator: str, arms: int, baseline: float, lift: float) -> None:
    """The number of responses and the multiple of those without privacy, for bits and for Laplace responses."""
    asked = Question(baseline=baseline, lift=lift, epsilon=1, arms=arms, curator=curator, seed=0)
    with_privacy, without = (Case(asked, epsilon, lift).closed_form("duels") for epsilon in (1.0, None))
    mechanism = Bernoulli(1.0) if curator == "ctb" else Laplace(1.0)
    said = words.effort_of(CuratorSpec(mechanism), arms, (baseline, baseline * lift))
    assert said is not None
    assert with_privacy is not None
    assert without is not None
    assert said.responses == pytest.approx(with_privacy, rel=0.002)
    assert said.times == pytest.approx(with_privacy / without, rel=0.004)


def test_the_form_agrees_with_the_trials_of_plan() -> None:
    """4 % against 6 %, seeded: the number in the form is between plan's median and its 80 %; the multiple is plan's."""
    made = plan(baseline=0.04, lift=0.5, epsilon=1, rule="equal", trials=200, seed=1)
    row, without = made.row(1.0), made.row(None)
    said = words.effort_of(CuratorSpec(Bernoulli(1.0)), 2, (0.04, 0.02))
    assert said is not None
    assert (row.quantiles[1] or 0) < (said.responses or 0) < (row.needed or 0)
    assert said.times == pytest.approx((row.needed or 0) / (without.needed or 1), rel=0.15)


def report(**changes: Any) -> Any:
    """Return as much of a report as a verdict needs."""
    arms = [SimpleNamespace(name=name, retired=False) for name in ("blue", "green")]
    best = SimpleNamespace(arm=1, name="green", separated=False)
    forecast = SimpleNamespace(sentence="not decided yet: about 90 more responses at the present traffic")
    verdict = SimpleNamespace(kind="undecided", sentence="Not decided yet. green leads. Evidence 3, 40 needed.")
    told = {"arms": arms, "best": best, "shipped": None, "forecast": forecast, "verdict": verdict}
    told["settings"] = SimpleNamespace(one_look=None)
    return SimpleNamespace(**{**told, **changes})


def test_a_verdict_is_one_sentence() -> None:
    """Nothing yet, ahead, best, shipped; an arm alone is not called the best."""
    separated = SimpleNamespace(arm=1, name="green", separated=True)
    decided = SimpleNamespace(kind="better", sentence="green is better than blue by 2 points. Evidence 740, 40 needed.")
    retired = [SimpleNamespace(name="blue", retired=True), SimpleNamespace(name="green", retired=False)]
    said = {
        "nothing": words.verdict(report(best=None)),
        "open": words.verdict(report()),
        "separated": words.verdict(report(best=separated, verdict=decided)),
        "shipped": words.verdict(report(best=separated, shipped=0)),
    }
    assert {kind: verdict.kind for kind, verdict in said.items()} == {kind: kind for kind in said}
    assert said["open"].sentence == "Not decided yet. green leads."
    more = "Not decided yet: about 90 more responses at the present traffic."
    assert said["open"].reason == f"Evidence 3, 40 needed. {more}"
    assert said["separated"].sentence == "green is better than blue by 2 points."
    assert said["separated"].reason == "Evidence 740, 40 needed."
    assert said["shipped"].sentence == "Everybody gets blue."
    hidden = SimpleNamespace(kind="undecided", sentence="It is judged once: 5 of 60 responses are in.")
    once = words.verdict(report(best=None, verdict=hidden, settings=SimpleNamespace(one_look=60)))
    assert (once.kind, once.sentence) == ("nothing", hidden.sentence)
    stopped = SimpleNamespace(sentence="green is better; it was paused by stop_when_decided")
    sure = words.verdict(report(best=separated, verdict=decided, forecast=stopped))
    assert sure.reason == "Evidence 740, 40 needed. It was paused by stop_when_decided."
    alone = words.verdict(report(best=separated, arms=retired))
    assert (alone.kind, alone.sentence.split(":")[0]) == ("nothing", "There is nothing to compare green with")


def test_guardrails_in_words() -> None:
    """Each that is set has a sentence, and none that is not."""
    assert words.guardrails(Settings(report_after=300)) == []
    ramp = Ramp(share=0.1, responses=100)
    full = Settings(300, minimum_share=0.05, warm_up=50, ramp=ramp, stop_when_decided="ship")
    assert dict(words.guardrails(full)) == {
        "Warm-up": "equal traffic until each arm has 50 responses",
        "Minimum share": "each arm gets at least 5 % of the traffic",
        "Ramp": "an arm that is added gets at most 10 % until it has 100 responses",
        "Stop when decided": "the best arm is shipped automatically once there is a verdict",
    }


def test_what_is_asked_of_devices() -> None:
    """One epsilon is a number; of several the owner picks."""
    assert words.asked(Menu.from_json({"mechanism": "bernoulli", "epsilon": 1})) == "1"
    several = Menu.from_json({"mechanism": "bernoulli", "epsilon": [0.2, 1]})
    assert words.asked(several) == "0.2 or 1"


def test_every_rejection_has_a_reason() -> None:
    """The reasons that the report counts are those that the page explains."""
    assert {field.name for field in dataclasses.fields(Rejected)} == set(words.REJECTIONS)
