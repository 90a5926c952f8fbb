"""One look: an exact test at a number of responses fixed in advance."""

from collections.abc import Sequence
from itertools import product
from math import comb, inf
from random import Random

import pytest

from ldpbandits.agent.inference.differences import Pair
from ldpbandits.agent.inference.one_look import fisher_p, fixed_difference, fixed_ratio, hypergeometric
from ldpbandits.agent.inference.verdicts import Criteria, Pairs, judge

PLAIN = (0.0, 1.0)


def exact_p(cells: tuple[int, ...], scale: tuple[float, ...]) -> float:
    """Add up the chances of all tables that are at least as extreme, one by one."""
    levels = []
    for place in range(0, len(cells), 4):
        n_b, x_b, n_a, x_a = cells[place : place + 4]
        share = (x_b + x_a) / (n_b + n_a)
        weight = scale[place // 2 + 1] / (share * (1 - share))
        drawn = range(max(0, x_b + x_a - n_a), min(n_b, x_b + x_a) + 1)
        ways = comb(n_b + n_a, n_b)
        levels.append(
            [(weight * (x - x_b), comb(x_b + x_a, x) * comb(n_b + n_a - x_b - x_a, n_b - x) / ways) for x in drawn]
        )
    total = 0.0
    for tables in product(*levels):
        chance = 1.0
        for _, part in tables:
            chance *= part
        total += chance if sum(excess for excess, _ in tables) >= -1e-12 else 0.0
    return total


def pairs(sums: Sequence[Sequence[int]]) -> Pairs:
    """Return the comparisons of arms with these numbers of pulls and of ones."""
    return lambda b, a: Pair((*sums[b], *sums[a]), PLAIN, is_fair=True)


@pytest.mark.parametrize("cells", [(10, 8, 10, 3), (7, 1, 30, 2), (5, 5, 9, 1), (40, 20, 41, 20), (3, 0, 4, 4)])
def test_the_p_value_is_that_of_fisher(cells: tuple[int, ...]) -> None:
    """With one level it is the sum of the hypergeometric chances."""
    assert fisher_p(cells, PLAIN) == pytest.approx(exact_p(cells, PLAIN), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("cells", [(10, 8, 10, 3, 12, 6, 11, 5), (6, 2, 7, 1, 5, 4, 6, 4, 9, 6, 8, 3)])
def test_with_several_levels_the_p_value_is_a_little_larger(cells: tuple[int, ...]) -> None:
    """It is never smaller than the exact one, and by no more than the grid explains."""
    scale = (0.4, 0.2, 0.25, 0.5, 0.1, 0.8)[: len(cells) // 2]
    exact = exact_p(cells, scale)
    assert exact * (1 - 1e-9) <= fisher_p(cells, scale) <= exact + 0.05


def test_nothing_to_compare_proves_nothing() -> None:
    """An arm without responses, and bits that are all alike, have p = 1."""
    assert fisher_p((10, 5, 0, 0), PLAIN) == 1.0
    assert fisher_p((10, 10, 10, 10), PLAIN) == 1.0
    assert fixed_difference((10, 5, 0, 0), PLAIN, 0.05) == (-1.0, 1.0)
    assert fixed_ratio((10, 5, 10, 0), PLAIN, 0.05, 0.0) == (0.0, inf)


def test_the_law_has_the_mean_and_the_variance_of_the_textbook() -> None:
    """Also where chances far from the mode are left out."""
    pulls, ones, drawn = 20_000, 1_200, 9_000
    law = hypergeometric(pulls, ones, drawn)
    mean = sum(x * chance for x, chance in law)
    variance = sum((x - mean) ** 2 * chance for x, chance in law)
    assert mean == pytest.approx(drawn * ones / pulls)
    assert variance == pytest.approx(drawn * ones * (pulls - ones) * (pulls - drawn) / (pulls**2 * (pulls - 1)))


@pytest.mark.parametrize(("arms", "amplitude"), [(2, 0.0), (2, 0.25), (4, 0.25)])
def test_a_wrong_verdict_has_the_level_also_while_the_level_moves(arms: int, amplitude: float) -> None:
    """Equal arms, 600 trials of 300 responses: 5 % wrong at most. At exactly 5 %, more than 51 have p = 0.0001."""
    random, wrong = Random(7), 0
    criteria = Criteria(arms=arms, one_look=300)
    for _ in range(600):
        sums = [[0, 0] for _ in range(arms)]
        for moment in range(300):
            mean = 0.5 + (amplitude if moment // 50 % 2 else -amplitude)
            arm = sums[random.randrange(arms)]
            arm[0] += 1
            arm[1] += random.random() < mean
        found = judge(range(arms), pairs(sums), criteria)
        wrong += found.is_decided
    assert wrong <= 51


def test_it_finds_with_the_power_of_the_textbook() -> None:
    """0.40 against 0.50, 388 responses an arm: a z-test has power 0.8; of 240 trials fewer than 170 have p = 0.0003."""
    random, found = Random(8), 0
    criteria = Criteria(arms=2, one_look=776)
    for _ in range(240):
        ones = [sum(random.random() < mean for _ in range(388)) for mean in (0.4, 0.5)]
        made = judge((0, 1), pairs([(388, each) for each in ones]), criteria)
        found += made.kind == "better" and made.leader == 1
    assert found >= 170


def test_the_intervals_cover_the_difference_and_the_ratio() -> None:
    """0.3 against 0.2 with 400 responses an arm: of 400 intervals at 95 % fewer than 362 have p = 0.0001."""
    random, differences, ratios = Random(9), 0, 0
    for _ in range(400):
        ones = [sum(random.random() < mean for _ in range(400)) for mean in (0.3, 0.2)]
        cells = (400, ones[0], 400, ones[1])
        low, high = fixed_difference(cells, PLAIN, 0.05)
        differences += low <= 0.1 <= high
        low, high = fixed_ratio(cells, PLAIN, 0.05, 0.0)
        ratios += low <= 1.5 <= high
    assert differences >= 362
    assert ratios >= 362
