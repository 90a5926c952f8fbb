"""The account of a shuffler: the reference values, and each property that its sentences claim."""

from fractions import Fraction
from itertools import product
from math import exp

import pytest

from ldpbandits.errors import ParameterError
from ldpbandits.theory.shuffling import ones_of_others, proved_epsilon, scanned_epsilon, shuffled_delta


@pytest.mark.parametrize(
    ("batch", "expected"),
    [(1_000, (0.127, 0.323, 1.69)), (10_000, (0.0357, 0.087, 0.315)), (100_000, (0.0101, 0.0247, 0.0847))],
)
def test_the_reference_values(batch: int, expected: tuple[float, ...]) -> None:
    """At delta 1e-6, for epsilon 1, 2 and 4, to the digits that are given."""
    assert [float(f"{scanned_epsilon(epsilon, batch):.3g}") for epsilon in (1, 2, 4)] == pytest.approx(expected)


@pytest.mark.parametrize("ones", range(4))
@pytest.mark.parametrize("central", [0.0, 0.3, 0.9])
def test_delta_is_that_of_every_outcome_written_out(ones: int, central: float) -> None:
    """Of four people, by adding up all sixteen outcomes in fractions."""
    kept = Fraction(3, 4)  # epsilon = log 3
    epsilon = 1.0986122886681098

    def law(reward: int) -> list[Fraction]:
        rewards = [reward, *([1] * ones), *([0] * (3 - ones))]
        sums = [Fraction(0)] * 5
        for bits in product((0, 1), repeat=4):
            chance = Fraction(1)
            for bit, true in zip(bits, rewards, strict=True):
                chance *= kept if bit == true else 1 - kept
            sums[sum(bits)] += chance
        return sums

    def apart(one: list[Fraction], other: list[Fraction]) -> float:
        return sum(max(0.0, float(a) - exp(central) * float(b)) for a, b in zip(one, other, strict=True))

    expected = max(apart(law(1), law(0)), apart(law(0), law(1)))
    assert shuffled_delta(central, epsilon, ones_of_others(epsilon, 3, ones)) == pytest.approx(expected, abs=1e-12)


def test_nobody_else_adds_nothing() -> None:
    """A batch of one is the response itself, and a larger batch never tells more."""
    found = [scanned_epsilon(1.0, batch) for batch in (1, 10, 30, 100, 300, 1000)]
    assert found[0] == pytest.approx(1, abs=1e-5)
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_no_mix_of_others_exceeds_what_is_proved(epsilon: float) -> None:
    """Of 40 people; the scan is symmetric, and nowhere a hundredth more than where all others have the reward 0."""
    found = [scanned_epsilon(epsilon, 40, ones=ones) for ones in range(40)]
    assert found == pytest.approx(found[::-1], abs=1e-9)
    assert max(found) <= 1.01 * found[0]
    assert max(found) <= proved_epsilon(epsilon, 40) <= epsilon


@pytest.mark.parametrize(("batch", "ratio"), [(1_000, 1.25), (10_000, 1.4)])
def test_the_proof_loses_little(batch: int, ratio: float) -> None:
    """What is proved is above the scan, and not by much."""
    for epsilon in (1.0, 2.0, 4.0):
        assert 1 < proved_epsilon(epsilon, batch) / scanned_epsilon(epsilon, batch) < ratio


@pytest.mark.parametrize(("epsilon", "batch", "delta"), [(0, 10, 1e-6), (1, 0, 1e-6), (1, 10, 0), (1, 10, 1)])
def test_bad_numbers_are_refused(epsilon: float, batch: int, delta: float) -> None:
    """With the rule that they break."""
    for account in (proved_epsilon, scanned_epsilon):
        with pytest.raises(ParameterError, match="must"):
            account(epsilon, batch, delta)
