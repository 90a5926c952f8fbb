"""The exact layer proves what holds, and refutes what does not."""

from dataclasses import replace
from fractions import Fraction
from math import inf

import pytest

from ldpbandits import BernoulliCurator, LaplaceCurator, ParameterError
from ldpbandits.audit.exact import at_most_exp, largest_ratio, of_curator, of_table
from ldpbandits.device.randomness import Coin, DiscreteLaplace

EPSILONS = [1e-6, 0.05, 1 / 3, 1.0, 4.0, 20.0, 50.0]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("kind", [BernoulliCurator, LaplaceCurator])
def test_our_curators_are_proved(kind: type[BernoulliCurator | LaplaceCurator], epsilon: float) -> None:
    """At their epsilon, and refuted a millionth of a millionth below it."""
    curator = kind(epsilon)
    assert of_curator(curator, epsilon).verdict == "consistent"
    if epsilon < 40:  # beyond, the words of CTB round epsilon down by more
        assert of_curator(curator, epsilon * (1 - 1e-12)).verdict == "violated"


def test_a_ratio_just_above_is_seen() -> None:
    """One word more for the truth than there may be."""
    curator = BernoulliCurator(1.0)
    most, least = curator.threshold(1.0), curator.threshold(0.0)
    assert at_most_exp(Fraction(most, least), 1.0)
    assert not at_most_exp(Fraction(most + 1, least - 1), 1.0)


def coins(law: DiscreteLaplace, k: int, coin: Coin) -> DiscreteLaplace:
    """The law with another coin for digit k."""
    return replace(law, digits=(*law.digits[:k], coin, *law.digits[k + 1 :]))


@pytest.mark.parametrize("change", [-1, 1])
def test_a_coin_off_by_one_word_is_seen(change: int) -> None:
    """A threshold one too small or too large is not the first word of its probability."""
    curator = LaplaceCurator(1.0)
    coin = curator.noise.digits[7]
    curator._noise = coins(curator.noise, 7, replace(coin, threshold=coin.threshold + change))
    layer = of_curator(curator, 1.0)
    assert (layer.verdict, layer.epsilon_lower) == ("violated", inf)
    assert "wrong probability" in layer.detail


def test_coins_of_another_law_are_seen() -> None:
    """A digit with the coin of its neighbour."""
    curator = LaplaceCurator(1.0)
    curator._noise = coins(curator.noise, 7, curator.noise.digits[8])
    assert "not those of a discrete Laplace law" in of_curator(curator, 1.0).detail


def test_tables() -> None:
    """The largest ratio over all pairs and responses; infinite if a response is possible under one reward only."""
    half, third = Fraction(1, 2), Fraction(1, 3)
    law = {0.0: {"a": half, "b": half}, 0.5: {"a": third, "b": 1 - third}, 1.0: {"a": 1 - third, "b": third}}
    assert largest_ratio(law) == 2
    assert of_table(law, 0.7, "3 rewards").verdict == "consistent"
    assert of_table(law, 0.69, "3 rewards").verdict == "violated"
    assert largest_ratio({0.0: {"a": Fraction(1)}, 1.0: {"b": Fraction(1)}}) is None
    assert of_table({0.0: {"a": half, "b": half}, 1.0: {"a": Fraction(1)}}, 50, "2 rewards").verdict == "violated"


@pytest.mark.parametrize("row", [{1: Fraction(1, 2)}, {1: Fraction(3, 2), 0: Fraction(-1, 2)}])
def test_a_table_must_hold_probabilities(row: dict[object, Fraction]) -> None:
    """They are not negative and add up to one."""
    with pytest.raises(ParameterError, match="must be >= 0 and add up to 1"):
        largest_ratio({0.0: row, 1.0: row})
