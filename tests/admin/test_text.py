"""What a terminal shows of an experiment, whatever its width and its letters."""

from dataclasses import replace
from typing import Any

import pytest
from tests.admin.reports import BLUE, GREEN, REPORT, report

from ldpbandits.admin import text
from ldpbandits.output.columns import ASCII, width_of
from ldpbandits.spec.messages import Best, Expectation, Forecast, Ramp, Rejected, Settings, Summary

SHOWN = """\
headline: running; 2,256 responses at epsilon = 1, by kl-ucb++

arm      share of traffic          responses  missing  mean      interval
0 blue   ████                24 %        301      2 %  0.31  0.22 to 0.40
1 green  ██████████████      76 %      1,955      2 %  0.58  0.53 to 0.63

         0.20                                                               0.65
0 blue   ┄┄┄├─────────────●─────────────┤┄┄┄
1 green                                                 ┄┄┄┄├───────●───────┤┄┄┄

The best arm is known: green is better than every other.
Estimates are of the mean reward; all intervals hold together, always, at 95 %
confidence.
Settings: devices report after 5 minutes."""


def test_a_report_is_a_table_with_bars_and_whiskers() -> None:
    """A bar for the share of traffic, a dot for the mean; dotted is what those who have not answered could change."""
    assert str(REPORT) == SHOWN


@pytest.mark.parametrize("width", [1, 60, 61, 77, 100, 150, 200])
def test_it_fits_into_any_terminal(width: int) -> None:
    """No line is longer than the terminal, from 60 columns on; names are cut off, also those of wide letters."""
    long = replace(GREEN, name="A headline that goes on and on, 中文中文中文中文中文中文, and on", pulls=123_456_789)
    shown = text.report(report(arms=(BLUE, long), warnings=("a word " * 40,)), width)
    assert max(map(width_of, shown.splitlines())) <= max(width, 60)
    assert "…" in shown


def test_a_narrow_terminal_shows_everything() -> None:
    """Bars get shorter, and what they stand for."""
    lines = text.report(report(name="x"), 60).splitlines()
    assert lines[2].split() == ["arm", "share", "responses", "missing", "mean", "interval"]
    assert lines[4].split() == ["1", "green", "████", "76", "%", "1,955", "2", "%", "0.58", "0.53", "to", "0.63"]


def test_columns_stand_below_each_other_with_wide_letters() -> None:
    """A letter may take two columns of a terminal."""
    lines = text.report(report(arms=(replace(BLUE, name="中文"), GREEN)), 80).splitlines()
    assert width_of(lines[3]) == width_of(lines[4]) != len(lines[3])
    assert width_of(lines[7].partition("┄")[0]) == width_of(lines[6].partition("0")[0])


def test_a_terminal_without_such_letters_gets_others() -> None:
    """Nothing but ASCII is left."""
    assert str(REPORT).translate(ASCII).isascii()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"status": "shipped", "shipped": 1}, "headline: shipped to green; "),
        ({"curator": {"epsilon": [0.5, 2.0]}}, "at epsilon = 0.5 or 2, by"),
        ({"estimates": "P(reward > 0.9)"}, "Estimates are of P(reward > 0.9); "),
        ({"estimates": "sigmoid(reward)"}, "Estimates are of the mean of sigmoid(reward); "),
        ({"arms": (replace(BLUE, retired=True), GREEN)}, "0 blue (retired)"),
        ({"arms": (replace(BLUE, share=0.001), GREEN)}, " 0.1 % "),
        ({"arms": (replace(BLUE, warm_pulls=200), GREEN)}, "\n200 of the responses came from another experiment"),
        ({"warnings": ("7 % are missing",)}, "\nWarning: 7 % are missing.\n"),
        ({"rejected": Rejected(0, 1_200, 3, 0, 0, 9)}, "not counted: 1,200 expired, 3 impossible.\n"),
        ({"rejected": Rejected(7, 0, 0, 0, 1, 0)}, "not counted: 1 closed, 7 forged (in all experiments).\n"),
        ({"best": None, "responses": 0}, "\nNo responses yet.\n"),
        (
            {
                "best": Best(1, "green", separated=False),
                "forecast": Forecast(separated=False, more_responses=9, sentence="not separated yet: about 9 more"),
            },
            "\nBest so far: green; not separated yet: about 9 more.\n",
        ),
        ({"settings": Settings(0)}, "Settings: devices report at once."),
        ({"settings": Settings(90, sticky=86_400 * 7)}, "report after 90 seconds; they keep an arm for 7 days."),
        ({"settings": Settings(7_200, minimum_share=0.1)}, "after 2 hours; each arm gets at least 10 %."),
        ({"settings": Settings(1, warm_up=50)}, "equal traffic up to 50 responses per arm."),
        ({"settings": Settings(1, ramp=Ramp(0.2, 500))}, "a new arm gets at most 20 % up to 500 responses."),
        ({"settings": Settings(1, stop_when_decided="ship")}, "once it is decided, it ships."),
        ({"settings": Settings(1, stop_when_decided="pause")}, "once it is decided, it pauses."),
        (
            {"settings": Settings(1, expect=Expectation(0.3, 0.1), forged=0.01)},
            "it is planned for a gain of 0.1 over 0.3; a verdict stands even if 1 % of each arm's are forged.",
        ),
        (
            {"settings": Settings(1, worth=0.05, harm=0.1, control=1)},
            "that no arm is better than green by 0.05 is a verdict; an arm that is worse than green by more than 0.1 ",
        ),
        ({"settings": Settings(1, one_look=50)}, "at 95 % confidence, those of differences for the one look.\n"),
    ],
)
def test_what_an_experimenter_should_know_is_said(changes: dict[str, object], told: str) -> None:
    """The status, what is estimated, warnings, rejections, and the settings."""
    assert told in text.report(report(**changes), 200)


def test_a_mean_beyond_all_intervals_points_there() -> None:
    """A debiased mean of few responses may lie outside of the range of rewards; the scale does not follow it."""
    lines = text.report(report(arms=(replace(BLUE, mean=-3.0), replace(GREEN, mean=4.0))), 80).splitlines()
    assert lines[7].startswith("0 blue   ◂")
    assert lines[8].endswith("▸")
    assert "-3.00" in lines[3]


def test_arms_without_responses_have_no_mean() -> None:
    """Their interval is the whole range, and there is no share of nothing."""
    none: dict[str, Any] = {
        "mean": None,
        "low": 0.0,
        "high": 1.0,
        "worst_low": 0.0,
        "worst_high": 1.0,
        "pulls": 0,
        "share": None,
    }
    shown = str(report(arms=(replace(BLUE, **none), replace(GREEN, **none)), best=None))
    assert "●" not in shown
    assert shown.count(" 0.00 to 1.00") == 2


@pytest.mark.parametrize(("scale", "mean"), [(1000, "310"), (0.001, "0.00031"), (1e9, "3.1e+08")])
def test_numbers_have_as_many_digits_as_tell_arms_apart(scale: float, mean: str) -> None:
    """Rewards are of any size."""
    names = ("mean", "low", "high", "worst_low", "worst_high")
    larger: Any = [{name: getattr(arm, name) * scale for name in names} for arm in (BLUE, GREEN)]
    assert f" {mean}" in str(report(arms=tuple(replace(BLUE, **each) for each in larger)))


def test_intervals_that_are_points_are_drawn() -> None:
    """All of them at one place: nothing is divided by nothing."""
    point: dict[str, Any] = {"mean": 1.0, "low": 1.0, "high": 1.0, "worst_low": 1.0, "worst_high": 1.0}
    assert "●" in str(report(arms=(replace(BLUE, **point),)))


def test_what_others_wrote_does_nothing_to_a_terminal() -> None:
    """Names and sentences of a server are shown without control characters."""
    arms = (replace(BLUE, name="\x1b[2Jblue\u202e"), GREEN)
    shown = str(report(arms=arms, warnings=("\x9b2J",)))
    assert all(line.isprintable() for line in shown.splitlines())
    assert "?[2Jblue?" in shown


def test_a_list_is_a_table() -> None:
    """A line for each; or that there are none."""
    listed = (Summary("headline", "running", 1_700_000_000, 2, 2_256), Summary("price", "closed", 1_700_100_000, 12, 7))
    assert text.summaries(listed, 80) == (
        "name      status   arms  responses     created\n"
        "headline  running     2      2,256  2023-11-14\n"
        "price     closed     12          7  2023-11-16"
    )
    assert text.summaries((), 80) == "no experiments"
