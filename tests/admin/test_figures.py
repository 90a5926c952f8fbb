"""Reports and histories as figures, and as tables of pandas."""

import sys
from dataclasses import fields, replace
from typing import Any

import pytest
from tests.admin.reports import BLUE, GREEN, HISTORY, REPORT, report

from ldpbandits.errors import ArmError, MissingExtra
from ldpbandits.output.colours import BLACK, GREY
from ldpbandits.output.colours import BLUE as BLUE_COLOUR
from ldpbandits.output.colours import GREEN as GREEN_COLOUR
from ldpbandits.output.style import save
from ldpbandits.spec.messages import ArmReport, Best


def test_each_arm_is_a_dot_in_its_interval() -> None:
    """At its mean, with whiskers from low to high, the first arm on top."""
    axes: Any = REPORT.plot().axes[0]
    assert [tuple(line.get_xydata()[0]) for line in axes.lines] == [(0.31, 0), (0.58, 1)]
    whiskers = [[tuple(point) for point in line.get_segments()[0]] for line in axes.collections]
    assert [(0.22, 0), (0.40, 0)] in whiskers
    assert [(0.50, 1), (0.65, 1)] in whiskers  # whatever the missing answers would have said
    assert [label.get_text() for label in axes.get_yticklabels()] == ["blue", "green"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]
    assert axes.get_xlabel() == "the mean reward, 95 % intervals"


def test_a_mean_beyond_all_intervals_points_there() -> None:
    """The axis does not follow the noise of few responses."""
    axes: Any = report(arms=(replace(BLUE, mean=-3.0), replace(GREEN, mean=4.0))).plot().axes[0]
    assert [line.get_marker() for line in axes.lines] == ["<", ">"]
    left, right = axes.get_xlim()
    assert (left, right) == pytest.approx((0.2, 0.65), abs=0.02)
    low, high = HISTORY.plot().axes[0].get_ylim()
    assert (low, high) == pytest.approx((0, 1), abs=0.05)


def colours(*arms: object, best: Best | None) -> list[object]:
    """Return the colour of each dot."""
    (axes,) = report(arms=arms, best=best).plot().axes
    return [line.get_color() for line in axes.lines]


def test_the_best_arm_shows_by_its_colour() -> None:
    """Blue while it is not known to be the best, then green; retired arms are grey."""
    retired = replace(BLUE, retired=True)
    assert colours(retired, GREEN, best=Best(1, "green", separated=True)) == [GREY, GREEN_COLOUR]
    assert colours(BLUE, GREEN, best=Best(1, "green", separated=False)) == [BLACK, BLUE_COLOUR]
    assert colours(replace(BLUE, mean=None), GREEN, best=None) == [BLACK]


def test_a_history_is_a_line_with_its_band_for_each_arm() -> None:
    """Over responses; where there is no mean yet, there is no line."""
    figure = HISTORY.plot()
    axes: Any = figure.axes[0]
    blue, green = axes.lines
    assert [*green.get_ydata()] == [2.1, 0.7, 0.6]
    assert [*blue.get_ydata()][1:] == [0.1, 0.3]
    assert blue.get_ydata()[0] != blue.get_ydata()[0]
    assert len(axes.collections) == 2
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["blue", "green"]


def test_a_dollar_sign_is_one() -> None:
    """Prices are arms, and not mathematics."""
    figure = report(arms=(replace(BLUE, name="$9 or $8_"), GREEN)).plot()
    assert save(figure, "svg")


def test_a_report_is_a_frame_with_a_row_for_each_arm() -> None:
    """And a column for each field."""
    frame = REPORT.to_frame()
    assert list(frame["name"]) == ["blue", "green"]
    assert list(frame["mean"]) == [0.31, 0.58]
    assert frame.shape == (2, len(fields(ArmReport)))


def test_a_history_is_a_tidy_frame() -> None:
    """A row for each moment and arm."""
    frame = HISTORY.to_frame()
    assert list(frame.columns) == ["responses", "arm", "name", "pulls", "mean", "low", "high"]
    assert list(frame["responses"]) == [1, 1, 10, 10, 100, 100]
    assert list(frame["low"]) == [0.0, 0.0, 0.0, 0.1, 0.1, 0.3]


def test_without_pandas_or_matplotlib_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    for drawn in (REPORT, HISTORY):
        with pytest.raises(MissingExtra, match="to_frame needs pandas: pip install pandas"):
            drawn.to_frame()
    monkeypatch.delitem(sys.modules, "ldpbandits.admin.figures", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for drawn in (REPORT, HISTORY):
        with pytest.raises(MissingExtra, match=r"plot needs matplotlib: pip install '.\[lab\]' in the source folder"):
            drawn.plot()


def test_an_arm_goes_by_its_number_or_its_name() -> None:
    """A text is a name, also when it is made of digits."""
    odd = report(arms=(replace(BLUE, name="1"), GREEN))
    assert (odd.arm("1").arm, odd.arm(1).arm, odd.arm("green").arm) == (0, 1, 1)
    for none in ("blue", 2, -1, "0"):
        with pytest.raises(ArmError, match=r"the experiment headline has no arm .*; it has 0 \(1\), 1 \(green\)"):
            odd.arm(none)


def test_what_a_notebook_shows_is_short() -> None:
    """Which it is, and how far it has come."""
    assert repr(REPORT) == "<Report headline: running, 2 arms, 2,256 responses>"
    assert repr(HISTORY) == "<History headline: 2 arms at 3 moments>"
