"""Stakes are fair: on average nothing is gained at the epsilon that is claimed, however they are placed."""

import math
from itertools import product

import numpy as np
import pytest

from ldpbandits.audit.betting import Again, Bet, Cells, Event, Extremes, judge_bets, log_fortune, lower_bound


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("guesses", [1, 5, 40])
@pytest.mark.parametrize("among", [2, 7])
def test_a_fortune_is_one_on_average(epsilon: float, guesses: int, among: int) -> None:
    """Summed over all outcomes: 1 if guesses are right as often as the claim allows, and less if less often."""
    right = np.arange(guesses + 1)
    fortunes = np.exp(log_fortune(right, guesses - right, epsilon, among))
    p = math.exp(epsilon) / (math.exp(epsilon) + among - 1)
    for chance in (p, 0.9 * p, 0.5 * p):
        law = np.array([math.comb(guesses, k) * chance**k * (1 - chance) ** (guesses - k) for k in right])
        mean = float((law * fortunes).sum())
        assert mean == pytest.approx(1.0) if chance == p else mean < 1.0


def bets(responses: tuple[int, ...], coins: tuple[int, ...]) -> list[Bet]:
    """All ways of staking on a few responses."""
    cells, tossed = np.array(responses), np.array(coins)
    counts = np.stack([np.bincount(cells[tossed == coin], minlength=2) for coin in (0, 1)])
    return [Cells("text", counts), Again.of("again", cells, tossed), Extremes.of(cells.astype(float), tossed)]


def test_every_way_of_staking_is_fair() -> None:
    """Over all coins of twelve calls, whatever the responses: bits that keep epsilon = 1 exactly, summed, not drawn.

    No average is above 1, for responses that are all alike, by turns, or in blocks; most of them are exactly 1.
    """
    p = 1 / (1 + math.exp(-1.0))
    for responses in ((0,) * 10, (0, 1) * 5, (0, 0, 0, 0, 0, 1, 1, 1, 1, 1)):
        total = np.zeros(3)
        for coins in product((0, 1), repeat=10):
            # Given the response y, the coin is y with probability p, independently: the boundary of the claim.
            chance = math.prod(p if coin == said else 1 - p for coin, said in zip(coins, responses, strict=True))
            total += chance * np.exp([bet.log_value(1.0) for bet in bets(responses, coins)])
        assert (total <= 1 + 1e-9).all()


def test_a_dozen_and_more_of_a_sharp_event_are_enough() -> None:
    """At epsilon = 1 and alpha = 2.1e-4 some thirty suffice; a bound is given with them, and one wrong is no loss."""
    assert judge_bets([[Event("bare", 31, 0)]], 1.0, 2.1e-4).verdict == "violated"
    assert judge_bets([[Event("bare", 27, 0)]], 1.0, 2.1e-4).verdict == "consistent"
    found = judge_bets([[Event("bare", 200, 1)]], 1.0, 2.1e-4)
    assert found.verdict == "violated"
    assert 2 < found.epsilon_lower < math.log(200)


def test_a_bound_falls_with_the_level() -> None:
    """The largest epsilon at which there is still 1/alpha: it is smaller for smaller alpha, and 0 if there is none."""
    bet = Event("bare", 100, 2)
    bounds = [lower_bound(bet.log_value, alpha, 0.5) for alpha in (0.1, 1e-3, 1e-6)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] > 0.5
    assert lower_bound(Event("none", 1, 1).log_value, 0.01, 0.5) == 0


def test_the_level_is_kept() -> None:
    """600 times sixty responses that keep epsilon = 1 exactly, at alpha = 0.1: more than 95 alarms had chance 1e-5.

    The boundary of the claim: a response betrays its coin with probability e / (1 + e). Seeded.
    """
    rng, alarms = np.random.default_rng(5), 0
    for _ in range(600):
        cells, p = rng.integers(4, size=60), 1 / (1 + math.exp(-1.0))
        coins = np.where(rng.random(60) < p, cells % 2, 1 - cells % 2)
        counts = np.stack([np.bincount(cells[coins == coin], minlength=4) for coin in (0, 1)])
        tried: list[Bet] = [Cells("text", counts), Again.of("again", cells, coins)]
        tried.append(Extremes.of(cells + rng.random(60) / 2 + 10 * (cells % 2), coins))
        alarms += judge_bets([tried], 1.0, 0.1).verdict == "violated"
    assert alarms <= 95
