"""Lower bounds are below the truth as often as they say, whatever is guessed and however the guess was chosen."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from ldpbandits.audit.blackbox.events import LOWEST, atoms, judge_sorted, low_bits, lowest_bit, size_bins
from ldpbandits.audit.guess import ABSTAIN, Guesses, best_rule, epsilon_lower, rule_sizes, try_rule
from ldpbandits.audit.sample import Sample


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 1.0, 4.0])
@pytest.mark.parametrize("guesses", [1, 7, 100, 3000])
@pytest.mark.parametrize("alpha", [0.05, 0.001])
def test_a_bound_is_too_high_no_more_often_than_alpha(epsilon: float, guesses: int, alpha: float) -> None:
    """Summed over all outcomes, not sampled: the exact chance that the bound exceeds epsilon is at most alpha."""
    right = np.arange(guesses + 1)
    too_high = epsilon_lower(right, np.full(guesses + 1, guesses), alpha) > epsilon
    assert binom.pmf(right, guesses, 1 / (1 + math.exp(-epsilon)))[too_high].sum() <= alpha * (1 + 1e-9)


def test_bounds_at_the_ends() -> None:
    """No guess right shows nothing; all right shows as much as their number allows: log of m / log(1/alpha)."""
    assert Guesses(0, 10, 0.01).epsilon_lower == 0
    assert Guesses(0, 0, 0.01).epsilon_lower == 0
    assert Guesses(5, 10, 0.01).epsilon_lower == 0
    p = 0.01 ** (1 / 1000)
    assert Guesses(1000, 1000, 0.01).epsilon_lower == pytest.approx(math.log(p / (1 - p)), rel=1e-9)


def test_a_chosen_event_keeps_its_level() -> None:
    """Chosen on one half and tested on the other, an event is called a violation at most alpha of the time.

    600 audits of randomised response and of Laplace noise at their true epsilon, at alpha = 0.1: more than 90 alarms
    have probability below 1e-4 even if the level were used up; the seed is fixed.
    """
    rng, alarms = np.random.default_rng(11), 0
    for run in range(600):
        chosen = rng.integers(2, size=400)
        truth = rng.random(400) < 1 / (1 + math.exp(-1))
        bits, noise = np.where(truth, chosen, 1 - chosen), np.round(8 * rng.laplace(size=400)) / 8  # on a grid of 1/8
        responses = (bits if run % 2 else chosen + noise).astype(float)
        sample = Sample((0.0, 1.0), chosen, responses, rng=rng)
        ways = [size_bins(responses, (0, 1)), atoms(responses), *low_bits(responses)]
        alarms += judge_sorted(ways, sample, [(0, 1)], 0.1, 1.0).verdict == "violated"
    assert alarms <= 90


def test_a_rule_guesses_where_the_ratio_is_extreme() -> None:
    """Cells that tell are used, on the right side; cells that do not are left out."""
    counts = np.array([[9000, 5000, 1000, 0], [1000, 5000, 9000, 0]])
    rule, _ = best_rule(counts, counts, 0.001)
    assert rule.tolist() == [0, ABSTAIN, 1, ABSTAIN]
    assert try_rule(rule, counts, 0.001) == Guesses(18_000, 20_000, 0.001)


def test_a_rule_among_thousands_of_cells() -> None:
    """Cells are ranked by their own bounds, equal counts in their order, and few of many that tell are not lost."""
    rng = np.random.default_rng(5)
    counts = rng.integers(0, 6, size=(2, 3000))
    counts[:, 700:1400] = [[40], [2]]
    rule, promise = best_rule(counts, counts, 0.001)
    assert np.count_nonzero(rule[700:1400] == 0) >= 680
    assert np.count_nonzero(rule != ABSTAIN) < 1_500
    assert promise > 2.5
    assert rule_sizes(3000).tolist() == sorted({*rule_sizes(3000).tolist()})
    assert (rule_sizes(3000)[0], rule_sizes(3000)[-1], rule_sizes(7).tolist()) == (1, 3000, [1, 2, 3, 4, 5, 6, 7])


def test_no_response_in_any_cell() -> None:
    """Then there is nothing to guess."""
    none = np.zeros((2, 3), np.int64)
    rule, promise = best_rule(none, none, 0.1)
    assert (rule == ABSTAIN).all()
    assert promise == -math.inf


@pytest.mark.parametrize(
    ("response", "position"),
    [(1.0, 0), (-1.0, 0), (0.5, -1), (3.0, 0), (12.0, 2), (1 + 2**-52, -52), (5e-324, -1074), (2.0**1023, 1023)],
)
def test_the_lowest_bit(response: float, position: int) -> None:
    """A response is a multiple of 2^position and of no higher power."""
    assert lowest_bit(np.array([response]))[0] - LOWEST == position


def test_what_has_no_lowest_bit() -> None:
    """0, NaN and infinity have a cell of their own, and every feature takes them."""
    special = np.array([0.0, math.nan, math.inf, -math.inf, 1.0])
    assert lowest_bit(special)[:4].tolist() == [2 * LOWEST] * 4
    for way in (*low_bits(special), size_bins(special, (0, 1)), atoms(np.repeat(special, 20)), atoms(special)):
        assert way.cells is not None
        cells = way.cells(special)
        assert 0 <= cells.min() <= cells.max() < way.size


def test_noise_that_ends_is_seen_in_the_tails() -> None:
    """Laplace noise drawn again when beyond 6: of 200,000 responses to each reward, 1 in 1,000 betrays it. Seeded."""
    rng = np.random.default_rng(9)
    chosen = rng.integers(2, size=400_000)

    def verdict(most: float) -> str:
        noise = rng.laplace(size=800_000)
        responses = chosen + noise[np.abs(noise) <= most][: len(chosen)]
        sample = Sample((0.0, 1.0), chosen, responses, rng=rng)
        return judge_sorted([size_bins(responses, (0, 1))], sample, [(0, 1)], 1e-4, 1.0).verdict

    assert verdict(6.0) == "violated"
    assert verdict(math.inf) == "consistent"


def test_tails_are_cut_down_to_twenty_responses() -> None:
    """Cells of half the weight, down to 20 responses or some more, and no fewer."""
    responses = np.random.default_rng(1).random(100_000)
    way = size_bins(responses, (0.5, 0.5))
    counts = np.bincount(way.at, minlength=way.size)
    assert 20 <= counts.min() < 45
    assert 20 <= counts[0] < 45
    assert 20 <= counts[-1] < 45


def test_the_sign_of_a_zero_is_a_value() -> None:
    """-0.0 and 0.0 are equal, and yet tell one reward from another."""
    given = np.repeat([0.0, -0.0, 1.0], 50)
    assert len({*atoms(given).at.tolist()}) == 3


def test_three_rewards_are_compared_pairwise() -> None:
    """The pair that tells most is found, and only that pair is judged."""
    rng = np.random.default_rng(4)
    chosen = rng.integers(3, size=30_000)
    responses = (rng.random(30_000) < np.array([0.4, 0.5, 0.9])[chosen]).astype(float)
    sample = Sample((0.0, 0.5, 1.0), chosen, responses, rng=rng)
    layer = judge_sorted([atoms(responses)], sample, sample.pairs, 0.001, 1.0)
    assert layer.detail.startswith("0 or 1 by value")
    assert 1.3 < layer.epsilon_lower < math.log(6)
