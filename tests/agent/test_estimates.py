"""Estimates are unbiased, in the units of the rewards, and their intervals cover at all times at once."""

import math
import random
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import pytest

from ldpbandits import (
    BernoulliCurator,
    CuratorSpec,
    ParameterError,
    Range,
    RealLine,
    ResponseError,
    Sigmoid,
    SpecError,
    Threshold,
    estimate,
)
from ldpbandits.agent.inference.mechanisms import debiased_mean
from ldpbandits.agent.inference.sequences import (
    _edge,
    bernoulli_interval,
    laplace_radius,
    log_bits_martingale,
    log_laplace_martingale,
    psi,
)
from ldpbandits.spec import mechanisms
from ldpbandits.spec.mechanisms import response_mean

CTB, CTL = CuratorSpec(mechanisms.Bernoulli(1.0)), CuratorSpec(mechanisms.Laplace(1.0))


def half_width(curator: CuratorSpec, pulls: int, total: float) -> float:
    """Half the width of the 95 % interval."""
    made = estimate(pulls, total, curator)
    return (made.high - made.low) / 2


def test_widths_at_ten_thousand_pulls() -> None:
    """At epsilon 1, 10,000 pulls and 95 %: about 0.032 (CTB) and at most 0.048 (CTL)."""
    assert half_width(CTB, 10_000, 5_000) == pytest.approx(0.032, rel=0.07)
    assert 0.040 < half_width(CTL, 10_000, 5_000) < 0.048


@pytest.mark.parametrize("curator", [CTB, CTL])
def test_widths_shrink_like_the_root_of_the_pulls_at_all_scales(curator: CuratorSpec) -> None:
    """From 10^3 to 10^10 pulls the half-width is 2.8 to 5 standard errors: no scale is left out by the mixture."""
    sd = 0.5 / math.tanh(0.5) if curator is CTB else math.sqrt(0.25 + 2)
    for exponent in range(3, 11):
        pulls = 10**exponent
        assert 2.8 < half_width(curator, pulls, pulls // 2) * math.sqrt(pulls) / sd < 5


def test_smaller_alpha_is_wider() -> None:
    """An interval at a smaller level holds the one at a larger level."""
    for curator in (CTB, CTL):
        wide, narrow = (estimate(5_000, 2_400, curator, alpha=alpha) for alpha in (0.001, 0.1))
        assert wide.low < narrow.low < narrow.high < wide.high


@pytest.mark.parametrize("p", [0.5, 0.1, 0.999])
@pytest.mark.parametrize("pulls", [1, 10, 1_000])
def test_the_bits_martingale_has_mean_one(pulls: int, p: float) -> None:
    """E M_n(p) = 1, summed over all outcomes, to 1e-3: with Ville's inequality that is the coverage."""

    def log_pmf(ones: int) -> float:
        ways = math.lgamma(pulls + 1) - math.lgamma(ones + 1) - math.lgamma(pulls - ones + 1)
        return ways + ones * math.log(p) + (pulls - ones) * math.log1p(-p)

    outcomes = range(pulls + 1)
    mean = math.fsum(math.exp(log_pmf(ones) + log_bits_martingale(pulls, ones, p)) for ones in outcomes)
    assert mean == pytest.approx(1, abs=1e-3)  # components of large rho lose digits in lgamma


@pytest.mark.parametrize("alpha", [0.001, 0.05, 0.5])
def test_intervals_end_where_the_martingale_reaches_its_limit(alpha: float) -> None:
    """At both ends M = 1 / alpha."""
    for end in bernoulli_interval(1_000, 300, alpha):
        assert log_bits_martingale(1_000, 300, end) == pytest.approx(-math.log(alpha), abs=0.05)
    distance = 1_000 * laplace_radius(1_000, 1.0, 0.5, alpha)
    assert log_laplace_martingale(1_000, distance, 1.0, 0.5) == pytest.approx(-math.log(alpha))


def halving(inside: Callable[[float], bool], near: float, far: float) -> float:
    """Find the edge of a convex set by halving alone."""
    while abs(far - near) > 1e-13:
        middle = (near + far) / 2
        near, far = (middle, far) if inside(middle) else (near, middle)
    return far


@pytest.mark.parametrize(
    ("pulls", "ones"),
    [(1, 1), (2, 1), (10, 0), (30, 29), (1_000, 1), (10_000, 6_000), (10**7, 10**4), (10**10, 5 * 10**9)],
)
def test_edges_are_where_halving_finds_them(pulls: int, ones: int) -> None:
    """The quick search for an edge ends where the slow one does, up to a thousandth of the interval."""
    mean, limit = ones / pulls, -math.log(0.01)

    def log_martingale(p: float) -> float:
        return log_bits_martingale(pulls, ones, p) if 0 < p < 1 else math.inf

    low, high = (halving(lambda p: log_martingale(p) < limit, mean, end) for end in (0.0, 1.0))
    for expected, end in ((low, 0.0), (high, 1.0)):
        # With 10^10 pulls what lgamma loses is seen, by either search.
        assert _edge(log_martingale, limit, mean, end) == pytest.approx(expected, abs=1e-3 * (high - low))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("mean", [0.0, 0.1, 0.5, 0.9])
def test_the_laplace_martingale_starts_at_one_and_does_not_grow_on_average(epsilon: float, mean: float) -> None:
    """M_0 = 1, and E e^(l (X - mean)) <= e^psi(l) for Bernoulli rewards, of all in [0, 1] the most spread out."""
    assert log_laplace_martingale(0, 0.0, epsilon, 0.5) == pytest.approx(0, abs=1e-12)
    for share in (-0.99, -0.5, -0.01, 0.01, 0.5, 0.99):
        tilt = share * epsilon
        bernoulli = mean * math.exp(tilt * (1 - mean)) + (1 - mean) * math.exp(-tilt * mean)
        assert math.log(bernoulli / (1 - share**2)) <= psi(tilt, epsilon, 0.5) + 1e-12


LOOKS = sorted({round(1.3**i) for i in range(1, 29)})
"""28 looks between 1 and 1,555 pulls."""

RUNS, MOST_MISSES = 1_000, 148
"""If an interval misses with probability 10 %, more than 148 of 1,000 independent runs miss with probability 1e-6."""


def covering_counts(pulls: int, p: float, alpha: float) -> tuple[int, int]:
    """The smallest and the largest number of ones among `pulls` bits at which the interval holds p."""
    counts = range(pulls + 1)
    fewest = bisect_left(counts, True, key=lambda ones: bernoulli_interval(pulls, ones, alpha)[1] >= p)  # noqa: FBT003
    most = bisect_left(counts, True, key=lambda ones: bernoulli_interval(pulls, ones, alpha)[0] > p) - 1  # noqa: FBT003
    return fewest, most


@pytest.mark.parametrize("p", [0.5, 0.1])
def test_intervals_for_bits_cover_at_all_looks(p: float) -> None:
    """At alpha = 0.1, at most 10 % of the runs ever miss p. False alarm: 1e-6; seeded."""
    limits = {look: covering_counts(look, p, 0.1) for look in LOOKS}
    rng = random.Random(11)

    def misses() -> bool:
        ones = pulls = 0
        for look, (fewest, most) in limits.items():
            ones += sum(rng.random() < p for _ in range(look - pulls))
            pulls = look
            if not fewest <= ones <= most:
                return True
        return False

    assert sum(misses() for _ in range(RUNS)) <= MOST_MISSES


def runs_that_miss(radii: dict[int, float], epsilon: float, seed: int) -> int:
    """Count the runs in which |mean response - 1/2| exceeds the radius at any look, for fair bits behind CTL."""
    rng = random.Random(seed)

    def misses() -> bool:
        pulls, total = 0, 0.0
        for look, radius in radii.items():
            for _ in range(look - pulls):
                total += (rng.random() < 0.5) + (rng.expovariate(epsilon) - rng.expovariate(epsilon))
            pulls = look
            if abs(total / pulls - 0.5) > radius:
                return True
        return False

    return sum(misses() for _ in range(RUNS))


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_intervals_for_laplace_responses_cover_at_all_looks(epsilon: float) -> None:
    """As above, for CTL on rewards of the largest variance."""
    radii = {look: laplace_radius(look, epsilon, 0.5, 0.1) for look in LOOKS}
    assert runs_that_miss(radii, epsilon, seed=12) <= MOST_MISSES


def test_the_coverage_test_can_fail() -> None:
    """An interval made for one look, looked at as often, is caught."""
    radii = {look: 1.645 * math.sqrt((0.25 + 2) / look) for look in LOOKS}
    assert runs_that_miss(radii, 1.0, seed=13) > MOST_MISSES


@pytest.mark.parametrize(("pulls", "ones"), [(1, 0), (1, 1), (10, 0), (10, 10), (1000, 3), (10**6, 10**6)])
def test_intervals_for_bits_hold_the_mean_and_stay_in_the_unit_interval(pulls: int, ones: int) -> None:
    """Also when all bits agree."""
    low, high = bernoulli_interval(pulls, ones, 0.05)
    assert 0 <= low <= ones / pulls <= high <= 1
    assert low == 0 or ones > 0
    assert high == 1 or ones < pulls


def test_debiasing_inverts_lemma_3() -> None:
    """The map of the paper and back."""
    for epsilon in (0.01, 1.0, 10.0):
        for mean in (0.0, 0.3, 1.0):
            paper = 0.5 + (2 * mean - 1) * (math.exp(epsilon) - 1) / (2 * (math.exp(epsilon) + 1))
            assert response_mean(mean, epsilon) == pytest.approx(paper)
            assert debiased_mean(response_mean(mean, epsilon), epsilon) == pytest.approx(mean)


def test_estimates_are_in_the_units_of_the_rewards() -> None:
    """A range of [-10, 30] stretches mean and interval; the mean is not cut off, the interval is."""
    unit = estimate(1_000, 600, CTB)
    scaled = estimate(1_000, 600, CuratorSpec(mechanisms.Bernoulli(1.0), Range(-10, 30)))
    assert unit.mean is not None
    assert scaled.mean == pytest.approx(-10 + 40 * unit.mean)
    assert scaled.low == pytest.approx(-10 + 40 * unit.low)
    assert scaled.high == pytest.approx(-10 + 40 * unit.high)
    assert (scaled.of, scaled.pulls, scaled.alpha) == ("reward", 1_000, 0.05)
    beyond = estimate(10, 10, CTB)
    assert beyond.mean is not None
    assert beyond.mean > 1
    assert beyond.high == 1
    assert beyond.fits


def test_responses_that_no_mean_explains_are_noticed() -> None:
    """1,000 ones of 1,000 at epsilon 1 refute every mean: the estimate says so."""
    assert not estimate(1_000, 1_000, CTB).fits
    assert estimate(1_000, 731, CTB).fits


def test_the_spec_may_be_json() -> None:
    """What came over the wire is understood, and so is the curator itself; what is no spec is refused."""
    assert estimate(100, 50, CTB.to_json()) == estimate(100, 50, CTB) == estimate(100, 50, BernoulliCurator(1.0))
    with pytest.raises(SpecError, match="must be an object"):
        estimate(100, 50, "bernoulli")


def test_rounding_to_the_grid_is_allowed_for() -> None:
    """A constant reward of half a step is answered with a whole step on average: the interval still holds it."""
    curator = CuratorSpec(mechanisms.Laplace(50.0), RealLine())
    made = estimate(10**12, 10**12 * 2**-20, curator, sub_gaussian=0)
    assert made.low <= 2**-21 <= made.high


def test_a_sigmoid_estimate_says_so() -> None:
    """Behind the sigmoid, the mean of sigmoid(reward) is what is estimated."""
    for mechanism in (mechanisms.Bernoulli(1.0), mechanisms.Laplace(1.0)):
        made = estimate(100, 50, CuratorSpec(mechanism, Sigmoid()))
        assert made.of == "sigmoid(reward)"
        assert 0 <= made.low <= made.high <= 1


def test_a_threshold_estimate_says_so() -> None:
    """Behind a threshold it is P(reward > theta), with theta in it; the interval is one of probabilities."""
    for mechanism in (mechanisms.Bernoulli(1.0), mechanisms.Laplace(1.0)):
        made = estimate(100, 50, CuratorSpec(mechanism, Threshold(-2.5)))
        assert made.of == "P(reward > -2.5)"
        assert made.mean == 0.5
        assert 0 <= made.low < 0.5 < made.high <= 1
    assert Threshold(10).of == "P(reward > 10)"
    assert Threshold(-0.0) == Threshold(0)
    assert Threshold(-0.0).of == "P(reward > 0)"


def test_the_real_line_needs_to_know_how_far_rewards_spread() -> None:
    """No interval without `sub_gaussian`; with it, a wider spread is a wider interval, not cut to any range."""
    curator = CuratorSpec(mechanisms.Laplace(1.0), RealLine())
    with pytest.raises(ParameterError, match="needs sub_gaussian"):
        estimate(100, 500, curator)
    narrow, wide = (estimate(100, 500, curator, sub_gaussian=sigma) for sigma in (0, 3))
    assert narrow.mean == wide.mean == 5
    assert wide.low < narrow.low < 5 < narrow.high < wide.high
    with pytest.raises(ParameterError, match="in a range it is known"):
        estimate(100, 50, CTL, sub_gaussian=1)


def test_without_pulls_everything_is_possible() -> None:
    """No pulls: no mean, and the whole range."""
    made = estimate(0, 0, CuratorSpec(mechanisms.Laplace(1.0), Range(2, 5)))
    assert (made.mean, made.low, made.high) == (None, 2, 5)


@pytest.mark.parametrize(
    ("pulls", "total", "alpha", "error"),
    [
        (10, 11, 0.05, ResponseError),
        (10, 2.5, 0.05, ResponseError),
        (10, -1, 0.05, ResponseError),
        (10, math.nan, 0.05, ResponseError),
        (0, 7, 0.05, ResponseError),
        (-1, 0, 0.05, ParameterError),
        (1.5, 0, 0.05, ParameterError),
        (10, 5, 0, ParameterError),
        (10, 5, 1, ParameterError),
    ],
)
def test_bad_input_is_refused(pulls: Any, total: float, alpha: float, error: type[Exception]) -> None:
    """A tally of bits adds up, and alpha is a level."""
    with pytest.raises(error):
        estimate(pulls, total, CTB, alpha=alpha)
