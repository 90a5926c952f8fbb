"""Past rewards as the baseline of a plan: a column of a table, in a range that is declared."""

from pathlib import Path

import pytest

from ldpbandits import Range
from ldpbandits.errors import ParameterError
from ldpbandits.lab.planning.case import Case
from ldpbandits.lab.planning.question import MAX_VALUES, Question, read_past
from ldpbandits.lab.rewards import Bernoulli, Empirical


def written(folder: Path, text: str) -> str:
    """Write a table; return its place."""
    path = folder / "past.csv"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    "text",
    ["reward\n1\n0\n0\n0\n", "1\n0\n0\n0\n", "time,reward\na,1\nb,0\nc,0\nd,0\n", "arm,reward\nx,1\nx,0\nx,0\n\nx,0\n"],
)
def test_a_column_of_rewards_is_read(tmp_path: Path, text: str) -> None:
    """Under the name reward, whatever else there is; or the only column, without a name."""
    past = read_past(written(tmp_path, text), Range())
    assert (past.values, past.counts, past.rewards, past.mean) == ((0.0, 1.0), (3, 1), 4, 0.25)


def test_one_of_several_arms_is_named(tmp_path: Path) -> None:
    """FILE.csv#ARM; without a name it is refused, and so is an arm that is not there."""
    place = written(tmp_path, "arm,reward\nold,1\nold,0\nnew,1\n")
    assert read_past(f"{place}#old", Range()).mean == 0.5
    with pytest.raises(ParameterError, match=r"line 4: there is more than one arm; name the one .*past\.csv#old"):
        read_past(place, Range())
    with pytest.raises(ParameterError, match="has no rewards"):
        read_past(f"{place}#other", Range())
    with pytest.raises(ParameterError, match="has no column arm"):
        read_past(f"{written(tmp_path, 'reward' + chr(10) + '1' + chr(10))}#old", Range())


def test_rewards_beyond_the_range_count_as_its_ends(tmp_path: Path) -> None:
    """As on a device; how many there are is kept. Without a range that is declared they are refused."""
    place = written(tmp_path, "reward\n-1\n0\n5\n20\n")
    past = read_past(place, Range(0, 10))
    assert (past.values, past.counts, past.clipped) == ((0.0, 0.5, 1.0), (2, 1, 1), 2)
    with pytest.raises(ParameterError, match=r"line 2: the reward is not in \[0, 1\]: declare with --low and --high"):
        read_past(place, Range())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("reward\n0.123456\nseven\n", "line 3: needs a reward that is a number"),
        ("reward\nnan\n", "line 2: needs a reward that is a number"),
        ("click,time\n1,2\n", "needs a first line with the column reward, or one column of numbers"),
        ("a,b\n", "needs a first line with the column reward"),
        ("", "needs a first line with the column reward"),
        ("time,reward\nx\n", "line 2: too few columns"),
        ("reward\n", "has no rewards"),
    ],
)
def test_a_table_that_cannot_be_read_is_one_line_without_a_reward(tmp_path: Path, text: str, told: str) -> None:
    """It names the file and the line."""
    with pytest.raises(ParameterError) as caught:
        read_past(written(tmp_path, text), Range())
    assert told in str(caught.value)
    assert "past.csv" in str(caught.value)
    assert "seven" not in str(caught.value)
    assert "0.123456" not in str(caught.value)


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    """With the reason of the disk."""
    with pytest.raises(ParameterError, match="cannot be read: No such file or directory"):
        read_past(str(tmp_path / "no.csv"), Range())
    (tmp_path / "bytes.csv").write_bytes(b"reward\n\xff\xfe\n")
    with pytest.raises(ParameterError, match="cannot be read"):
        read_past(str(tmp_path / "bytes.csv"), Range())


def test_many_values_are_grouped_and_keep_their_mean(tmp_path: Path) -> None:
    """To 64, each the mean of its group."""
    past = read_past(written(tmp_path, "reward\n" + "\n".join(str(i / 1000) for i in range(1000))), Range())
    assert len(past.values) <= MAX_VALUES
    assert past.rewards == 1000
    assert past.mean == pytest.approx(0.4995)


def test_the_baseline_is_the_mean_in_the_units_of_the_rewards(tmp_path: Path) -> None:
    """The lift is a part of it; a mean that cannot be lifted so far is refused."""
    place = written(tmp_path, "reward\n0\n0\n4\n8\n")
    asked = Question(data=place, declared=(0, 10), lift=0.5, seed=0)
    assert (asked.baseline, asked.best) == pytest.approx((3, 4.5))
    assert Case(asked, 2.0, 0.5).values == pytest.approx((0.3, 0.45))
    with pytest.raises(ParameterError, match="a baseline of 3 with a lift of 3 is 12; no mean reward is above 10"):
        Question(data=place, declared=(0, 10), lift=3, seed=0)
    with pytest.raises(ParameterError, match="give one of them only"):
        Question(data=place, declared=(0, 10), lift=0.5, baseline=3, seed=0)
    zeros = written(tmp_path, "reward\n0\n0\n")
    with pytest.raises(ParameterError, match="the mean of the past rewards must lie strictly between 0 and 1, got 0"):
        Question(data=zeros, lift=0.5, seed=0)


def test_for_bits_only_the_mean_matters_and_for_laplace_the_law(tmp_path: Path) -> None:
    """CTB: Bernoulli arms of these means. CTL: the data, and lifted by making some rewards the largest."""
    place = written(tmp_path, "reward\n0.1\n0.2\n0.3\n0.6\n")
    bits, noisy = (Question(data=place, lift=0.5, curator=curator, seed=0) for curator in ("ctb", "ctl"))
    assert all(isinstance(law, Bernoulli) for law in Case(bits, 2.0, 0.5).laws)
    assert [law.mean for law in Case(bits, 2.0, 0.5).laws] == pytest.approx([0.3, 0.45])
    old, new = Case(noisy, 2.0, 0.5).laws
    assert isinstance(old, Empirical)
    assert isinstance(new, Empirical)
    assert old.values == (0.1, 0.2, 0.3, 0.6)
    assert new.values == (0.1, 0.2, 0.3, 0.6, 1.0)
    assert [old.mean, new.mean] == pytest.approx([0.3, 0.45])
    ones = Question(data=written(tmp_path, "reward\n0\n1\n0\n0\n"), lift=0.5, curator="ctl", seed=0)
    assert Case(ones, 2.0, 0.5).laws == (Bernoulli(0.25), Bernoulli(0.375))


def test_values_that_vary_less_take_fewer_laplace_responses_by_the_textbook(tmp_path: Path) -> None:
    """The variance of the data counts: where all rewards are 0.3 there is the noise alone."""
    same = Question(data=written(tmp_path, "reward\n0.3\n0.3\n"), lift=0.5, curator="ctl", epsilon=4, seed=0)
    spread = Question(baseline=0.3, lift=0.5, curator="ctl", epsilon=4, seed=0)
    assert Case(same, 4.0, 0.5).textbook() < Case(spread, 4.0, 0.5).textbook()
