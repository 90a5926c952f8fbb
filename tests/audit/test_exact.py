"""The exact layer proves what holds, and refutes what does not."""

import random
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import inf

import pytest

from ldpbandits import BernoulliCurator, Curator, LaplaceCurator, ParameterError, RealLine
from ldpbandits.audit import Layer, audit
from ldpbandits.audit.result import Finding
from ldpbandits.audit.whitebox.exact import at_most_exp, judge_table, largest_ratio
from ldpbandits.audit.whitebox.known import KNOWN
from ldpbandits.device.randomness import Coin, DiscreteLaplace

EPSILONS = [1e-6, 0.05, 1 / 3, 1.0, 4.0, 20.0, 50.0]


def proof(curator: Curator, epsilon: float) -> Finding:
    """Judge a curator by its code."""
    return KNOWN[type(curator.spec.mechanism)].prove(curator, epsilon)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("kind", [BernoulliCurator, LaplaceCurator])
def test_our_curators_are_proved(kind: type[BernoulliCurator | LaplaceCurator], epsilon: float) -> None:
    """At their epsilon, and refuted a millionth of a millionth below it."""
    curator = kind(epsilon)
    assert proof(curator, epsilon).verdict == "consistent"
    if epsilon < 40:  # beyond, the words of CTB round epsilon down by more
        assert proof(curator, epsilon * (1 - 1e-12)).verdict == "violated"


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
    layer = proof(curator, 1.0)
    assert (layer.verdict, layer.epsilon_lower) == ("violated", inf)
    assert "wrong probability" in layer.detail


def test_coins_of_another_law_are_seen() -> None:
    """A digit with the coin of its neighbour."""
    curator = LaplaceCurator(1.0)
    curator._noise = coins(curator.noise, 7, curator.noise.digits[8])
    assert "not those of a discrete Laplace law" in proof(curator, 1.0).detail


def test_tables() -> None:
    """The largest ratio over all pairs and responses; infinite if a response is possible under one reward only."""
    half, third = Fraction(1, 2), Fraction(1, 3)
    law = {0.0: {"a": half, "b": half}, 0.5: {"a": third, "b": 1 - third}, 1.0: {"a": 1 - third, "b": third}}
    assert largest_ratio(law) == 2
    assert judge_table(law, 0.7, "3 rewards").verdict == "consistent"
    assert judge_table(law, 0.69, "3 rewards").verdict == "violated"
    assert largest_ratio({0.0: {"a": Fraction(1)}, 1.0: {"b": Fraction(1)}}) is None
    assert judge_table({0.0: {"a": half, "b": half}, 1.0: {"a": Fraction(1)}}, 50, "2 rewards").verdict == "violated"


@pytest.mark.parametrize("row", [{1: Fraction(1, 2)}, {1: Fraction(3, 2), 0: Fraction(-1, 2)}])
def test_a_table_must_hold_probabilities(row: dict[object, Fraction]) -> None:
    """They are not negative and add up to one."""
    with pytest.raises(ParameterError, match="must be >= 0 and add up to 1"):
        largest_ratio({0.0: row, 1.0: row})


THIRD = Fraction(1, 3)
FAIR = {0: {0: 1 - THIRD, 1: THIRD}, 1: {0: THIRD, 1: 1 - THIRD}}


def fair(reward: float) -> float:
    """Randomised response with the law above."""
    return float(random.SystemRandom().randrange(3) < (2 if reward else 1))


def of_given(law: object) -> Layer:
    """The exact layer of an audit with a law."""
    return audit(fair, (0, 1), 0.7, samples=1_000, law=law).layers[0]  # type: ignore[arg-type]


def test_a_law_is_proved_for_the_table_that_was_given() -> None:
    """And not for the code behind it, which nobody has read; integers and decimals are exact too."""
    assert of_given(FAIR).verdict == "consistent"
    assert "proved for the table you gave" in of_given(FAIR).detail
    half = {0: Decimal("0.5"), 1: Decimal("0.5"), 2: 0}
    assert of_given({0: half, 1: half}).verdict == "consistent"


def test_a_response_that_the_law_rules_out_is_a_violation() -> None:
    """A table of other responses proves nothing of these."""
    layer = of_given({0: {5: Fraction(1)}, 1: {5: Fraction(1)}})
    assert layer.verdict == "violated"
    assert "2 of them are impossible for a reward of 0" in layer.detail


@pytest.mark.parametrize(
    ("law", "rule"),
    [
        ({0: FAIR[0]}, "a row for each of the rewards, and 1 of them have none"),
        ({}, "a row for each of the rewards, and 2 of them have none"),
        ({0: {0: 0.5, 1: 0.5}, 1: {0: 0.5, 1: 0.5}}, r"must be exact, such as Fraction\(1, 3\): row 0 holds a float"),
        ({0: FAIR[0], 1: {}}, "row 1 must be >= 0 and add up to 1"),
        ({0: [1], 1: [1]}, "law must map each reward to a table"),
        (3, "law must map each reward to a table"),
    ],
)
def test_a_law_must_speak_of_the_claim_in_exact_numbers(law: object, rule: str) -> None:
    """A row for each reward, of fractions that add up to one; anything else is a bad call."""
    with pytest.raises(ParameterError, match=rule):
        of_given(law)


def test_on_the_real_line_only_neighbours_are_covered() -> None:
    """The proof says so, and rewards further apart are a bad call, for our code and for who claims to be like it."""
    curator = LaplaceCurator(1.0, RealLine())
    assert "over rewards that differ by at most 1" in proof(curator, 1.0).detail
    assert "all rewards" not in proof(curator, 1.0).detail
    for respond in (curator, curator.respond):
        with pytest.raises(ParameterError, match="differ by at most 1 are protected from each other"):
            audit(respond, (0, 1.5), samples=1_000, spec=curator.spec)


@pytest.mark.parametrize("low", [1e8, 1e12, -1e12])
def test_large_rewards_raise_no_false_alarm(low: float) -> None:
    """The squares of large rewards do not drown the noise. False alarm: 1e-6 a case; bulk sampling is seeded."""
    curator = LaplaceCurator(1.0, RealLine())
    found = audit(curator, (low, low + 1), samples=30_000, confidence=0.999999, seed=4)
    assert found.verdict == "consistent", str(found)


def test_rewards_beyond_the_integers_of_bulk_sampling_are_a_bad_call() -> None:
    """From 2^62 steps on nothing is drawn."""
    with pytest.raises(ParameterError, match="within 2\\^62 steps"):
        audit(LaplaceCurator(1.0, RealLine()), (2.0**42, 2.0**42 + 1), samples=1_000)
