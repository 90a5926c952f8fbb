"""What pages say: numbers as people write them, epsilon as odds, one sentence for how it stands."""

from math import exp, tanh
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from ldpbandits.server.api.messages import Rejected
from ldpbandits.server.console import words
from ldpbandits.server.experiments.settings import Ramp, Settings
from ldpbandits.spec.mechanisms import Bernoulli, Laplace
from ldpbandits.spec.menu import Menu


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (words.count(16_000), "16,000"),
        (words.percent(None), "–"),  # noqa: RUF001 - as it is shown
        (words.percent(0), "0 %"),
        (words.percent(0.004), "0.4 %"),
        (words.percent(0.1), "10 %"),
        (words.percent(0.972), "97 %"),
        (words.span(300), "5 minutes"),
        (words.span(3600), "1 hour"),
        (words.span(90), "90 seconds"),
        (words.span(86400 * 3), "3 days"),
        (words.span(0.5), "0.5 seconds"),
        (words.times(exp(1)), "2.7"),
        (words.times(exp(0.01)), "1"),
        (words.times(148.4), "148"),
        (words.times(exp(10)), "22,026"),
        (words.times(exp(50)), "5.2e+21"),
        (words.day(1_800_000_000), "15 January 2027"),
        (words.moment(1_800_000_000), "15 January 2027, 08:00 UTC"),
        (words.sure(0.7311), "73 %"),
        (words.sure(0.9933), "99.3 %"),
        (words.sure(1.0), "more than 99.9 %"),
        (words.plural(1, "arm"), "1 arm"),
        (words.plural(1200, "arm"), "1,200 arms"),
    ],
)
def test_numbers_are_written_for_people(written: str, expected: str) -> None:
    """Counts, shares, spans of time, multiples, days and chances."""
    assert written == expected


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 3.0, 50.0])
def test_epsilon_in_odds(epsilon: float) -> None:
    """E^epsilon times surer at most; a bit is flipped with chance 1 / (1 + e^epsilon); variance grows by 1 / tanh^2."""
    said = words.odds_of(Bernoulli(epsilon))
    assert said.odds == pytest.approx(exp(epsilon))
    assert said.surer == pytest.approx(exp(epsilon) / (1 + exp(epsilon)))
    assert said.flipped == pytest.approx(1 / (1 + exp(epsilon)))
    assert said.cost == pytest.approx(1 / tanh(epsilon / 2) ** 2)
    numbers = words.odds_of(Laplace(epsilon))
    assert (numbers.odds, numbers.flipped, numbers.cost) == (said.odds, None, None)


def report(**changes: Any) -> Any:
    """Return as much of a report as a verdict needs."""
    arms = [SimpleNamespace(name=name, retired=False) for name in ("blue", "green")]
    best = SimpleNamespace(arm=1, name="green", separated=False)
    forecast = SimpleNamespace(sentence="not separated yet: about 90 more responses at the present traffic")
    return SimpleNamespace(**{"arms": arms, "best": best, "shipped": None, "forecast": forecast, **changes})


def test_a_verdict_is_one_sentence() -> None:
    """Nothing yet, ahead, best, shipped; an arm alone is not called the best."""
    separated = SimpleNamespace(arm=1, name="green", separated=True)
    retired = [SimpleNamespace(name="blue", retired=True), SimpleNamespace(name="green", retired=False)]
    said = {
        "nothing": words.verdict(report(best=None)),
        "open": words.verdict(report()),
        "separated": words.verdict(report(best=separated)),
        "shipped": words.verdict(report(best=separated, shipped=0)),
    }
    assert {kind: verdict.kind for kind, verdict in said.items()} == {kind: kind for kind in said}
    assert said["open"].sentence == "green is ahead, but not known to be the best arm yet."
    assert said["open"].reason == "Not separated yet: about 90 more responses at the present traffic."
    assert said["separated"].sentence == "green is the best arm."
    assert said["shipped"].sentence == "Everybody gets blue."
    sure = report(best=separated, forecast=SimpleNamespace(sentence="green is better than every other arm in use"))
    assert words.verdict(sure).reason == "green is better than every other arm in use.", "a name is not changed"
    alone = words.verdict(report(best=separated, arms=retired))
    assert (alone.kind, alone.sentence.split(":")[0]) == ("nothing", "There is nothing to compare green with")


def test_guardrails_in_words() -> None:
    """Each that is set has a sentence, and none that is not."""
    assert words.guardrails(Settings(report_after=300)) == []
    ramp = Ramp(share=0.1, responses=100)
    full = Settings(300, minimum_share=0.05, warm_up=50, ramp=ramp, stop_when_separated="ship")
    assert dict(words.guardrails(full)) == {
        "Warm-up": "equal traffic until each arm has 50 responses",
        "Minimum share": "each arm gets at least 5.0 % of the traffic",
        "Ramp": "an arm that is added gets at most 10 % until it has 100 responses",
        "Stop when separated": "the best arm is shipped automatically once the best arm is known",
    }


def test_what_is_asked_of_devices() -> None:
    """One epsilon is a number; of several the owner picks."""
    assert words.asked(Menu.from_json({"mechanism": "bernoulli", "epsilon": 1})) == "1"
    several = Menu.from_json({"mechanism": "bernoulli", "epsilon": [0.2, 1]})
    assert words.asked(several) == "0.2 or 1"


def test_every_rejection_has_a_reason() -> None:
    """The reasons that the report counts are those that the page explains."""
    assert {field.name for field in msgspec.structs.fields(Rejected)} == set(words.REJECTIONS)
