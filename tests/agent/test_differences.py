"""E-processes for the difference between two arms: valid by exact enumeration, and intervals that cover."""

from collections.abc import Callable, Sequence
from itertools import product
from math import exp, inf, isclose, log, sin, tanh
from random import Random

import pytest

from ldpbandits.agent.inference.differences import (
    Data,
    Pair,
    Slope,
    average_table,
    coin_table,
    least_evidence,
    log_average_evidence,
    log_coin_evidence,
    log_pair_evidence,
    odds_grid,
    pair_table,
)


def scale_of(*epsilons: float) -> tuple[float, ...]:
    """Return the scale of the bits of CTB with these epsilons."""
    return tuple(number for epsilon in epsilons for number in (1 / (1 + exp(epsilon)), tanh(epsilon / 2)))


def mean_over_duels(
    chances: Sequence[tuple[float, float]], evidence: Callable[[tuple[float, ...]], float], readings: tuple[float, ...]
) -> float:
    """Return the exact mean of e^evidence over all coins and responses; `chances` has q_b and q_a of each duel.

    A response is the first of `readings` or the second, so that its mean is q.
    """
    low, high = readings
    mean = 0.0
    for coins in product((0, 1), repeat=len(chances)):
        for bits in product((0, 1), repeat=len(chances)):
            weight, cells = 1.0, [0.0, 0.0, 0.0, 0.0]
            for pair, coin, bit in zip(chances, coins, bits, strict=True):
                one = (pair[coin] - low) / (high - low)
                weight *= 0.5 * (one if bit else 1 - one)
                cells[2 * coin] += 1
                cells[2 * coin + 1] += high if bit else low
            mean += weight * exp(evidence(tuple(cells)))
    return mean


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
@pytest.mark.parametrize("readings", [(0.0, 1.0), (0.1, 0.9)])
@pytest.mark.parametrize("planned", [None, (0.2, 0.6)])
def test_coin_evidence_has_mean_one_while_the_level_moves(
    epsilon: float, readings: tuple[float, ...], planned: tuple[float, float] | None
) -> None:
    """While b is nowhere better than a, the evidence for b has mean at most 1, however the common level moves."""
    low, slope = scale = scale_of(epsilon)
    levels = [0.1, 0.9, 0.5, 0.15, 0.8]
    table = coin_table(scale, planned)
    for behind in (0.0, 0.1):
        chances = [(low + slope * (level - behind), low + slope * level) for level in levels]
        if min(min(pair) for pair in chances) < readings[0] or max(max(pair) for pair in chances) > readings[1]:
            chances = [(0.5 - behind / 4, 0.5), (0.3, 0.3 + behind / 4), (0.8 - behind, 0.8)]
        mean = mean_over_duels(chances, lambda cells: log_coin_evidence(cells, table), readings)
        assert mean <= 1 + 1e-12
        if behind == 0 and readings == (0.0, 1.0):
            assert isclose(mean, 1.0, rel_tol=1e-9)  # no evidence is wasted on bits


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
@pytest.mark.parametrize("readings", [(0.0, 1.0), (0.05, 0.97)])
def test_average_evidence_has_mean_one_at_the_true_averages(epsilon: float, readings: tuple[float, ...]) -> None:
    """At the averages of q_b(t) and q_a(t) the e-process has mean at most 1, though both move in ways of their own."""
    low, slope = scale = scale_of(epsilon)
    for values in (
        [(0.2, 0.7), (0.9, 0.3), (0.4, 0.4), (0.6, 0.1), (0.1, 0.8)],
        [(0.3, 0.3)] * 5,
        [(0.9, 0.2), (0.1, 0.3), (0.9, 0.9), (0.5, 0.5), (0.3, 0.1)],
    ):
        chances = [(low + slope * b, low + slope * a) for b, a in values]
        mean_b, mean_a = (sum(pair[place] for pair in values) / len(values) for place in (0, 1))

        def evidence(cells: tuple[float, ...], mean_b: float = mean_b, mean_a: float = mean_a) -> float:
            return log_average_evidence(Data(cells, scale, average_table(scale)), mean_b - mean_a, 1.0, mean_a).log

        chances = [tuple(min(max(q, readings[0]), readings[1]) for q in pair) for pair in chances]  # type: ignore[misc]
        if readings == (0.0, 1.0) or all(readings[0] < q < readings[1] for pair in chances for q in pair):
            assert mean_over_duels(chances, evidence, readings) <= 1 + 1e-12


def test_a_wrong_difference_is_refuted_by_the_check_itself() -> None:
    """The enumeration can fail: at a difference that is not the true one, the mean is above 1."""
    scale = scale_of(2.0)
    low, slope = scale
    chances = [(low + slope * 0.9, low + slope * 0.1)] * 5
    table = coin_table(scale)
    assert mean_over_duels(chances, lambda cells: log_coin_evidence(cells, table), (0.0, 1.0)) > 1.05


def test_pair_evidence_has_mean_one_under_an_adaptive_allocation() -> None:
    """With constant means, the pair test has mean at most 1 under a rule that follows the responses."""
    scale = scale_of(2.0)
    low, slope = scale
    value = 0.35
    q = low + slope * value
    table = pair_table(scale)
    mean = 0.0
    for bits in product((0, 1), repeat=9):
        cells, arm, weight = [0.0] * 4, 0, 1.0
        for bit in bits:
            cells[2 * arm] += 1
            cells[2 * arm + 1] += bit
            weight *= q if bit else 1 - q
            arm = arm if bit else 1 - arm  # stay with a winner
        mean += weight * exp(log_pair_evidence(Data(cells, scale, table), 0.0, 1.0, value).log)
    assert mean <= 1 + 1e-12
    assert mean > 0.99


@pytest.mark.parametrize("process", [log_average_evidence, log_pair_evidence])
def test_slopes_are_derivatives(process: Callable[[Data, float, float, float], Slope]) -> None:
    """E'/E and E''/E are the derivatives along the line, so that the search for the least value is Newton's."""
    scale = scale_of(1.0, 3.0)
    table = average_table(scale) if process is log_average_evidence else pair_table(scale)
    cells = (400.0, 190.0, 300.0, 120.0, 50.0, 30.0, 70.0, 25.0)
    step = 1e-5
    at = [exp(process(Data(cells, scale, table), 0.1, 0.8, 0.4 + place * step).log) for place in (-1, 0, 1)]
    _, first, second = process(Data(cells, scale, table), 0.1, 0.8, 0.4)
    assert isclose(first, (at[2] - at[0]) / (2 * step) / at[1], rel_tol=1e-5)
    assert isclose(second, (at[2] - 2 * at[1] + at[0]) / step**2 / at[1], rel_tol=1e-3)


@pytest.mark.parametrize("is_fair", [True, False])
def test_the_search_finds_the_least_evidence(is_fair: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """The least evidence on a line is that of a fine grid, also where the line leaves the square of the means."""
    scale = scale_of(2.0)
    process, table = (log_average_evidence, average_table) if is_fair else (log_pair_evidence, pair_table)
    for cells in ((5000.0, 2600.0, 5000.0, 2300.0), (900.0, 500.0, 20.0, 3.0), (3.0, 3.0, 2.0, 0.0)):
        for start, factor in ((0.0, 1.0), (0.3, 1.0), (-0.4, 1.0), (0.0, 2.5)):
            data = Data(cells, scale, table(scale))
            found = least_evidence(process, data, start, factor)
            grid = [place / 2000 for place in range(2001) if 0 <= start + factor * place / 2000 <= 1]
            least = min(process(data, start, factor, mu).log for mu in grid)
            assert found <= least + 1e-6
            assert found >= least - 0.02


@pytest.mark.parametrize("is_fair", [True, False])
def test_intervals_hold_the_estimate_and_mirror(is_fair: bool) -> None:  # noqa: FBT001 - as above
    """The intervals of the difference hold the estimate, and exchanging the arms turns them round."""
    pair = Pair((10_000.0, 4_400.0, 9_000.0, 3_600.0), scale_of(1.0), is_fair)
    low, high = pair.difference(0.05)
    other_low, other_high = pair.swapped.difference(0.05)
    assert low < pair.gain < high
    assert isclose(low, -other_high, abs_tol=2e-6)
    assert isclose(high, -other_low, abs_tol=2e-6)
    ratio_low, ratio_high = pair.ratio(0.05)
    assert (ratio_low > 1) == (low > 0)
    assert ratio_low < (pair.mean_a + pair.gain) / pair.mean_a < ratio_high


def test_reference_half_widths() -> None:
    """At 10,000 responses each, half-widths are no more than those of the reference: .0525, .0241, .0140."""
    for epsilon, value, most in ((1.0, 0.5, 0.0525), (2.0, 0.05, 0.0253), (4.0, 0.05, 0.0140)):
        low, slope = scale = scale_of(epsilon)
        ones = 10_000 * (low + slope * value)
        for is_fair in (True, False):
            edge, _ = Pair((10_000.0, ones, 10_000.0, ones), scale, is_fair).difference(0.05)
            assert -edge <= most


def test_missing_answers_widen_both_ends() -> None:
    """With missing answers at worst, intervals hold those of any answers, and evidence falls."""
    scale = scale_of(2.0)
    told = (3_000.0, 1_700.0, 3_000.0, 1_400.0)
    for is_fair in (True, False):
        low, high = Pair(told, scale, is_fair, (50.0, 40.0)).difference(0.05)
        for ones_b, ones_a in product((0, 50), (0, 40)):
            full = (told[0] + 50, told[1] + ones_b, told[2] + 40, told[3] + ones_a)
            least, most = Pair(full, scale, is_fair).difference(0.05)
            assert low <= least + 2e-6
            assert high >= most - 2e-6
    table = coin_table(scale)
    worst = log_coin_evidence(told, table, 50, 40)
    assert worst <= log_coin_evidence((told[0] + 50, told[1], told[2] + 40, told[3] + 40), table) + 1e-9


def test_two_levels_of_one_epsilon_are_one() -> None:
    """Responses that are split over two levels of the same epsilon give the evidence of one level."""
    one, two = scale_of(1.0), scale_of(1.0, 1.0)
    assert isclose(
        log_coin_evidence((500.0, 260.0, 480.0, 220.0), coin_table(one)),
        log_coin_evidence((300.0, 150.0, 280.0, 120.0, 200.0, 110.0, 200.0, 100.0), coin_table(two)),
    )


def test_the_difference_covers_while_arms_drift() -> None:
    """The interval covers the average difference at every look in 40 runs with drift: 5 % are allowed to miss.

    With a miss in at most 5 % of the runs, 9 of 40 or more miss with probability below 1e-4.
    """
    low, slope = scale = scale_of(3.0)
    missed = 0
    for seed in range(40):
        random, cells, total = Random(seed), [0.0] * 4, 0.0
        looks = {50, 200, 800}
        for t in range(1, 801):
            level = 0.5 + 0.3 * sin(t / 60)
            means = (level + 0.1 * sin(t / 17), level)
            total += means[0] - means[1]
            arm = random.randrange(2)
            cells[2 * arm] += 1
            cells[2 * arm + 1] += random.random() < low + slope * means[arm]
            if t in looks:
                least, most = Pair(tuple(cells), scale, is_fair=True).difference(0.05)
                if not least <= total / t <= most:
                    missed += 1
                    break
    assert missed < 9


def test_weights_add_up_to_one() -> None:
    """The weights of every mixture add up to 1: else it would not start at 1."""
    scale = scale_of(1.0)
    for table in (coin_table(scale), coin_table(scale, (0.05, 0.06)), average_table(scale), pair_table(scale)):
        assert isclose(sum(exp(row[0]) for row in table), 1.0, rel_tol=1e-12)
    assert isclose(sum(weight for _, weight in odds_grid(0.5)), 1.0)


def test_nothing_is_known_without_responses() -> None:
    """Without responses the evidence is 1, and the interval is all that is possible."""
    scale = scale_of(1.0)
    assert isclose(log_coin_evidence((0.0,) * 4, coin_table(scale)), 0.0, abs_tol=1e-12)
    for is_fair in (True, False):
        pair = Pair((0.0,) * 4, scale, is_fair)
        assert pair.difference(0.05) == (-1.0, 1.0)
        assert pair.ratio(0.05) == (0.0, inf)
        assert pair.log_evidence() <= log(1 + 1e-9)
