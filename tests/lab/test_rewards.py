"""Arms know their mean exactly, and are read from text."""

import math
from pathlib import Path

import numpy as np
import pytest

from ldpbandits.errors import ArmError
from ldpbandits.lab.experiments import simulate
from ldpbandits.lab.panels import paper
from ldpbandits.lab.rewards import (
    Bernoulli,
    Beta,
    Choice,
    Drift,
    Empirical,
    Gaussian,
    Law,
    Uniform,
    arm_text,
    gaps,
    identity,
    parse_arms,
    read_arms,
)


@pytest.mark.parametrize(
    ("text", "arms", "mean"),
    [
        ("bernoulli(0.9)", [Bernoulli(0.9)], 0.9),
        ("5*beta(4,1)", [Beta(4, 1)] * 5, 0.8),
        ("uniform(0,1)", [Uniform(0, 1)], 0.5),
        ("choice(0.4,1)", [Choice((0.4, 1))], 0.7),
        ("gaussian(0.7,1)", [Gaussian(0.7, 1)], 0.7),
        (" 2 * choice( -1 , 2, 5e-1 ) ", [Choice((-1, 2, 0.5))] * 2, 0.5),
        ("2*drift(0.3,0.1,40000)", [Drift(0.3, 0.1, 40000)] * 2, 0.3),
        ("choice(0.1,0.2,0.3)", [Choice((0.1, 0.2, 0.3))], 0.2),
    ],
)
def test_arms_are_read_and_know_their_mean(text: str, arms: list[Law], mean: float) -> None:
    """The mean is the float nearest to the true one, with no rounding in between."""
    assert parse_arms(text) == arms
    assert arms[0].mean == mean
    assert parse_arms(arm_text(arms[0])) == arms[:1]


def test_arms_are_written_without_loss() -> None:
    """Every digit of a parameter comes back."""
    arm = Bernoulli(0.1234567890123456)
    assert parse_arms(arm_text(arm)) == [arm]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("bernoulli", "an arm is written law(numbers)"),
        ("bernoulli(0.5", "an arm is written"),
        ("0*bernoulli(0.5)", "the count before * must be from 1"),
        ("-1*bernoulli(0.5)", "an arm is written"),
        (
            "poisson(1)",
            "law must be one of bernoulli, beta, uniform, choice, gaussian, drift, empirical, got 'poisson'",
        ),
        ("drift(0.3,0.4,100)", "drift(level, amplitude, period) needs level +- amplitude in [0, 1]"),
        ("drift(0.3,0.1,0)", "a period > 0 in rounds, got 0.3, 0.1, 0.0"),
        ("drift(0.3,0.1)", "drift takes level, amplitude, period, got 2 numbers"),
        ("bernoulli(1.5)", "bernoulli(p) needs p in [0, 1], got 1.5"),
        ("bernoulli(nan)", "needs p in [0, 1]"),
        ("bernoulli(0.1,0.2)", "bernoulli takes p, got 2 numbers"),
        ("bernoulli()", "bernoulli takes p, got 0 numbers"),
        ("bernoulli(x)", "must be numbers, got 'x'"),
        ("beta(0,1)", "a > 0 and b > 0, from 0.01"),
        ("uniform(1,0)", "low < high"),
        ("choice()", "one value or more"),
        ("choice(inf)", "one value or more"),
        ("gaussian(0,0)", "sd > 0"),
        ("gaussian(inf,1)", "of size <= 1e+100"),
        ("uniform(-1e308,1e308)", "of size <= 1e+100"),
        ("beta(1e-10,1)", "from 0.01"),
        ("999999999*bernoulli(0.5)", "the count before * must be from 1 to 100000"),
    ],
)
def test_what_is_not_an_arm_is_refused_by_its_rule(text: str, rule: str) -> None:
    """In one line, with what was given."""
    with pytest.raises(ArmError) as caught:
        parse_arms(text)
    assert rule in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("arms", [paper.BERNOULLI, paper.MIXED, paper.GAUSSIAN])
def test_the_papers_arms(arms: tuple[Law, ...]) -> None:
    """20 arms: one of mean 0.9, five of 0.8, 0.7 and 0.6, four of 0.5."""
    assert [arm.mean for arm in arms] == [0.9, *[0.8] * 5, *[0.7] * 5, *[0.6] * 5, *[0.5] * 4]
    assert gaps(arms)[0] == 0
    assert gaps(arms)[-1] == pytest.approx(0.4)


def test_ranges() -> None:
    """The smallest interval that holds all rewards."""
    assert Choice((0.4, 1.0)).range == (0.4, 1.0)
    assert Uniform(-1, 2).range == (-1, 2)
    assert Gaussian(0).range == (-math.inf, math.inf)
    assert Beta(2, 2).range == Bernoulli(0.5).range == (0, 1)


PAST = "arm,reward,when\nblue,1,mon\nred,0,mon\nblue,0,tue\nred,0.25,tue\nblue,1,wed\n"


@pytest.fixture
def past(tmp_path: Path) -> Path:
    """A table of five rewards of two arms."""
    path = tmp_path / "past, all (2).csv"
    path.write_text(PAST, encoding="utf-8")
    return path


def test_data_of_ones_own_are_a_law_an_arm(past: Path) -> None:
    """Arms by name, in the order in which they come; each has the mean and the range of its rewards."""
    blue, red = parse_arms(f"empirical({past})")
    assert isinstance(blue, Empirical)
    assert (blue.arm, blue.values, blue.counts, blue.mean, blue.range) == ("blue", (0, 1), (1, 2), 2 / 3, (0, 1))
    assert (red.mean, red.range) == (0.125, (0, 0.25))
    assert parse_arms(f"empirical({past}#red)") == [red]


def test_data_are_known_again_and_a_change_is_noticed(past: Path) -> None:
    """An arm that was written down is read again; other rewards in its file than those that were played are refused."""
    blue, red = parse_arms(f"empirical({past})")
    assert [*parse_arms(arm_text(blue)), *parse_arms(arm_text(red))] == [blue, red]
    past.write_text(PAST + "blue,0,thu\n", encoding="utf-8")
    assert parse_arms(arm_text(red)) == [red]
    with pytest.raises(ArmError, match=r"the rewards of arm 'blue' in .* are no longer those that were played"):
        parse_arms(arm_text(blue))


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("arm,value\na,1\n", "needs a first line with the columns arm and reward"),
        ("", "needs a first line with the columns arm and reward"),
        ("arm,reward\n", "has no rewards"),
        ("arm,reward\na,1\na,secret-7\n", "line 3: needs an arm and a reward that is a number"),
        ("arm,reward\na,nan\n", "line 2: needs an arm and a reward"),
        ("arm,reward\na\n", "line 2: needs an arm and a reward"),
        ("arm,reward\n,1\n", "line 2: needs an arm and a reward"),
    ],
)
def test_bad_data_are_refused_by_line_and_without_a_reward(tmp_path: Path, text: str, rule: str) -> None:
    """One line that says where; what stands there is shown to nobody."""
    path = tmp_path / "bad.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ArmError) as caught:
        parse_arms(f"empirical({path})")
    assert rule in str(caught.value)
    assert "secret" not in str(caught.value)
    path.write_text("arm,reward\na,1\n", encoding="utf-8")
    with pytest.raises(ArmError, match="has no arm 'green'; it has 'a'"):
        parse_arms(f"empirical({path}#green)")
    with pytest.raises(ArmError, match="cannot be read: No such file"):
        parse_arms(f"empirical({tmp_path / 'none.csv'})")


def test_data_in_memory_are_arms_like_those_of_a_file(tmp_path: Path) -> None:
    """A DataFrame, a dict, Series and arrays; rewards that are true or false; columns named by the user."""
    path = tmp_path / "past.csv"
    path.write_text("variant,clicked\nold,true\nnew,False\nold,0\nnew,TRUE\nnew,1\n", encoding="utf-8")
    old, new = parse_arms(f"empirical({path}, arm=variant, reward=clicked)")
    assert isinstance(old, Empirical)
    assert (old.values, old.counts, old.columns) == ((0.0, 1.0), (1, 1), ("variant", "clicked"))
    assert parse_arms(f"empirical({path}#new, arm=variant, reward=clicked)") == [new]
    assert parse_arms(arm_text(new)) == [new]
    table = {"variant": ["old", "new", "old", "new", "new"], "clicked": [True, False, 0, 1, "true"]}
    named = ("variant", "clicked")
    wide = {"old": [1, 0], "new": np.array([False, True, True])}
    pandas = pytest.importorskip("pandas")
    laws = [
        read_arms(table, columns=named),
        read_arms(pandas.DataFrame(table), columns=named),
        read_arms(wide),
        read_arms({"arm": table["variant"], "reward": table["clicked"]}),
    ]
    assert {tuple(map(identity, each)) for each in laws} == {(identity(old), identity(new))}
    listed = read_arms([pandas.Series([True, False]), np.array([0, 1, 1]), [0.5, 0.5], "bernoulli(0.3)"])
    assert [arm.mean for arm in listed] == pytest.approx([1 / 2, 2 / 3, 1 / 2, 0.3])
    assert read_arms(np.array([0.0, 1.0]))[0].mean == 0.5


@pytest.mark.parametrize(
    ("data", "columns", "told"),
    [
        ({"a": [1], "b": [0]}, ("arm", "clicked"), "data has no columns 'arm' and 'clicked'; it has 'a', 'b'"),
        (
            {"a": [1, 0.123456, "x"]},
            ("arm", "reward"),
            "data, row 3: needs an arm and a reward that is a number, true or",
        ),
        ({"a": [1, math.nan]}, ("arm", "reward"), "data, row 2: needs an arm and a reward"),
        (np.zeros((2, 2)), ("arm", "reward"), "an array is the rewards of one arm; give a list of arrays"),
        ({"a": []}, ("arm", "reward"), "data has no rewards"),
    ],
)
def test_data_that_cannot_be_read_are_one_line(data: object, columns: tuple[str, str], told: str) -> None:
    """It names the row, and never a reward."""
    with pytest.raises(ArmError) as caught:
        read_arms(data, columns=columns)
    assert told in str(caught.value)
    assert "0.123456" not in str(caught.value)


def test_simulate_takes_a_table_of_past_rewards() -> None:
    """The arms are its laws, under their names; the same rewards under other columns give the same numbers."""
    table = {"variant": ["old", "new"] * 20, "clicked": [False, True] * 20}
    made = simulate("kl-ucb++", table, 500, seed=1, trials=2, column="clicked", arm_column="variant")
    assert [arm.mean for arm in made.arms] == [0.0, 1.0]
    again = simulate("kl-ucb++", {"old": [0] * 20, "new": [1] * 20}, 500, seed=1, trials=2)
    assert np.array_equal(made.pulls, again.pulls)
