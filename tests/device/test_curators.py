"""Curators keep their guarantee, exactly, and take only rewards that the guarantee speaks of."""

import json
import math
import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise

import pytest

from ldpbandits import (
    BernoulliCurator,
    Curator,
    LaplaceCurator,
    Range,
    RealLine,
    RewardError,
    Sigmoid,
    SpecError,
    curator_from_json,
)
from ldpbandits.device import curators as curators_module
from ldpbandits.device.curators import transformed
from ldpbandits.device.randomness import Draw
from ldpbandits.spec.mechanisms import GRID_BITS
from ldpbandits.spec.transforms import Transform

EPSILONS = [1e-6, 1e-3, 0.05, 0.1, 0.2, 1 / 3, 0.5, 1.0, 1.1, 2.0, 4.0, 8.0, 20.0, 44.0, 45.0, 50.0]
KINDS: list[type[Curator]] = [BernoulliCurator, LaplaceCurator]


def e_to(x: float) -> Fraction:
    """A rational number just below e^x: the first 300 terms of its series."""
    total = term = Fraction(1)
    for i in range(1, 300):
        term *= Fraction(x) / i
        total += term
    return total


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_ctb_never_exceeds_epsilon(epsilon: float) -> None:
    """The largest ratio over all rewards and both responses is at most e^epsilon, in exact arithmetic."""
    curator = BernoulliCurator(epsilon)
    rng = random.Random(1)
    rewards = [0.0, 5e-324, 2**-53, 0.5, 1 - 2**-53, 1.0, *(rng.random() for _ in range(200))]
    ones = [Fraction(curator.threshold(reward), 2**64) for reward in rewards]
    worst = max(max(ones) / min(ones), (1 - min(ones)) / (1 - max(ones)))
    assert worst <= e_to(epsilon)
    assert min(ones) == ones[0]
    assert max(ones) == ones[5]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_ctb_gives_up_no_more_than_rounding(epsilon: float) -> None:
    """The ratio reached is that of the best P below 2^64 p: one more word for the truth would break the promise."""
    curator = BernoulliCurator(epsilon)
    most, least = curator.threshold(1.0), curator.threshold(0.0)
    assert most + least == 2**64
    assert least > 0
    if least > 1:
        assert Fraction(most + 1, least - 1) > e_to(epsilon)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_ctb_has_the_law_of_the_paper(epsilon: float) -> None:
    """P(1) = (r e^epsilon + 1 - r) / (1 + e^epsilon), up to the last bits of a double."""
    curator = BernoulliCurator(epsilon)
    for reward in (0.0, 0.1, 0.25, 0.9, 1.0):
        paper = (reward * math.exp(epsilon) + 1 - reward) / (1 + math.exp(epsilon))
        assert curator.threshold(reward) / 2**64 == pytest.approx(paper, rel=1e-14, abs=2**-52)


def test_ctb_threshold_grows_with_the_reward() -> None:
    """A larger reward makes a response of 1 likelier."""
    curator = BernoulliCurator(0.5)
    thresholds = [curator.threshold(i / 1000) for i in range(1001)]
    assert all(later > earlier for earlier, later in pairwise(thresholds))


def laplace_cdf(z: int, x: float) -> float:
    """P(Z <= z) for P(Z = z) proportional to e^(-x |z|)."""
    q = math.exp(-x)
    return q**-z / (1 + q) if z < 0 else 1 - q ** (z + 1) / (1 + q)


def chi_square(counts: Sequence[int], probabilities: Sequence[float]) -> float:
    """Pearson's statistic."""
    total = sum(counts)
    return sum((count - total * p) ** 2 / (total * p) for count, p in zip(counts, probabilities, strict=True))


CHI_SQUARE_99 = 180.80
"""The upper 1e-6 quantile of chi-square with 99 degrees of freedom."""
CHI_SQUARE_255 = 377.08
"""The upper 1e-6 quantile of chi-square with 255 degrees of freedom."""


@pytest.mark.parametrize(("epsilon", "reward"), [(0.1, 0.3), (1.0, 0.0), (1.0, 1.0), (8.0, 0.7)])
def test_ctl_has_exactly_the_discrete_laplace_law(epsilon: float, reward: float, seeded: Callable[[int], Draw]) -> None:
    """Noise in 100 equally likely bins, and its last 8 bits, fit the exact pmf. False alarm: 2e-6 a case; seeded."""
    curator, draw, samples = LaplaceCurator(epsilon), seeded(20), 40_000
    x = epsilon / 2**GRID_BITS
    steps = math.floor(reward * 2**GRID_BITS + 0.5)
    noise = [round(curator.respond_not_private(reward, draw) * 2**GRID_BITS) - steps for _ in range(samples)]
    edges = [round(math.copysign(math.log(2 * min(p, 1 - p)) / x, 2 * p - 1)) for p in (i / 100 for i in range(1, 100))]
    cuts = [0.0, *(laplace_cdf(edge, x) for edge in edges), 1.0]
    counts = [0] * 100
    for z in noise:
        counts[sum(z > edge for edge in edges)] += 1
    assert chi_square(counts, [high - low for low, high in pairwise(cuts)]) < CHI_SQUARE_99
    last_bits = [0] * 256
    for z in noise:
        last_bits[z % 256] += 1
    assert chi_square(last_bits, [1 / 256] * 256) < CHI_SQUARE_255


@pytest.mark.parametrize("reward", [0.0, 0.3, 1.0])
def test_no_response_is_finer_than_the_grid(reward: float) -> None:
    """The precision event never happens: every response is a multiple of 2^-20, so no low bit tells the reward."""
    curator = LaplaceCurator(1.0)
    assert all((curator.respond(reward) * 2**GRID_BITS).is_integer() for _ in range(5_000))


def test_the_precision_event_is_real() -> None:
    """Laplace noise by inverse CDF on doubles is finer than 2^-53 in 27 % of the draws at r = 0, in none at r = 1."""
    rng = random.Random(2)

    def naive(reward: float) -> float:
        u = rng.random() - 0.5
        return reward - math.copysign(math.log(1 - 2 * abs(u)), u)

    finer = [sum(not (naive(reward) * 2**53).is_integer() for _ in range(5_000)) / 5_000 for reward in (0.0, 1.0)]
    assert finer[0] > 0.2
    assert finer[1] == 0


def test_rewards_on_the_real_line_within_one_are_within_one_on_the_grid() -> None:
    """Rounding to the grid never takes two rewards that differ by at most 1 more than 2^20 steps apart."""
    rng = random.Random(5)
    for _ in range(2_000):
        low = rng.uniform(-50, 50)
        high = low + 1
        if Fraction(high) - Fraction(low) <= 1:
            assert LaplaceCurator.steps(high) - LaplaceCurator.steps(low) <= 2**GRID_BITS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_mean_response_is_the_formula(kind: type[Curator], epsilon: float, seeded: Callable[[int], Draw]) -> None:
    """Debiased responses average to the reward within five standard errors. False alarm: 6e-7 a case, seed fixed."""
    curator, draw, samples, reward = kind(epsilon), seeded(9), 2_000, 0.3
    responses = [curator.respond_not_private(reward, draw) for _ in range(samples)]
    if kind is BernoulliCurator:
        expected, sd = 0.5 + (reward - 0.5) * math.tanh(epsilon / 2), 0.5
    else:
        expected, sd = reward, math.sqrt(2) / epsilon
    assert abs(sum(responses) / samples - expected) <= 5 * sd / math.sqrt(samples) + 2**-20


BAD_REWARDS = [math.nan, math.inf, -math.inf, 1.25, -0.25, pytest.param(10**400, id="huge"), "0.75", None, 1j, b"1"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reward", BAD_REWARDS)
def test_a_bad_reward_is_refused_without_being_shown(kind: type[Curator], reward: object) -> None:
    """NaN, infinity, out of range and what is not a number are refused; the error does not hold the reward."""
    with pytest.raises(RewardError) as caught:
        kind(1.0, Range(0, 1)).respond(reward)  # type: ignore[arg-type]
    error = caught.value
    assert str(error).startswith("a reward must")
    assert error.__cause__ is None
    assert error.__context__ is None
    shown = str(error) + repr(error.args)
    assert not any(text in shown for text in ("1.25", "0.25", "0.75", "inf", "1j", "1000", "b'1'"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reward", [math.inf, -math.inf, math.nan, "1"])
def test_unbounded_rewards_are_finite_numbers(kind: type[Curator], reward: object) -> None:
    """Behind the sigmoid and on the real line any finite number will do, and nothing else."""
    with pytest.raises(RewardError):
        kind(1.0, Sigmoid()).respond(reward)  # type: ignore[arg-type]
    with pytest.raises(RewardError):
        LaplaceCurator(1.0, RealLine()).respond(reward)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("transform", "reward", "counts_as"),
    [
        (Range(0, 5), 7, 5.0),
        (Range(0, 5), -math.inf, 0.0),
        (Range(0, 5), math.inf, 5.0),
        pytest.param(Range(0, 5), 10**400, 5.0, id="huge"),
        (Sigmoid(), math.inf, 1e9),
        (Sigmoid(), -math.inf, -1e9),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_clipping_by_name(
    kind: type[Curator], transform: Transform, reward: float, counts_as: float, seeded: Callable[[int], Draw]
) -> None:
    """With clip=True a reward out of range counts as the nearest one in range; NaN is still refused."""
    curator = kind(2.0, transform)
    clipped = [curator.respond_not_private(reward, seeded(i), clip=True) for i in range(50)]
    nearest = [curator.respond_not_private(counts_as, seeded(i)) for i in range(50)]
    assert clipped == nearest
    with pytest.raises(RewardError, match="NaN"):
        curator.respond(math.nan, clip=True)


@pytest.mark.parametrize(
    "reward",
    [
        2**53 + 1,
        2**54 + 2,
        2**60 + 128,
        -(2**70),
        Fraction(1, 2**21) - Fraction(1, 2**74),
        pytest.param(10**300, id="huge"),
    ],
)
def test_no_rounding_moves_neighbours_apart_on_the_real_line(reward: float) -> None:
    """Ints and fractions that no float holds keep their distance of 1: they go to the grid exactly."""
    steps = []
    for number in (reward, reward + 1):
        value = transformed(RealLine(), number)
        assert isinstance(value, Fraction)
        steps.append(LaplaceCurator.steps(value))
    assert steps[1] - steps[0] == 2**GRID_BITS


def test_a_curator_cannot_be_given_another_guarantee() -> None:
    """The spec is what the thresholds were made for: it cannot be replaced."""
    for name in ("spec", "epsilon", "guarantee"):
        with pytest.raises(AttributeError):
            setattr(BernoulliCurator(5.0), name, 0.1)


@pytest.mark.parametrize("reward", [10**400, -(10**400), Fraction(10**400, 3), math.inf, math.nan])
def test_a_reward_that_no_response_could_carry_is_refused_on_the_real_line(reward: float) -> None:
    """Beyond the largest float there is no response: a RewardError, in no frame of which the reward is left."""
    with pytest.raises(RewardError, match=r"must be finite|not NaN") as caught:
        LaplaceCurator(1.0, RealLine()).respond(reward)
    trace = caught.value.__traceback__
    while trace is not None and (trace := trace.tb_next) is not None:
        assert not any(value is reward for value in trace.tb_frame.f_locals.values())


def test_other_real_numbers_are_rewards_too(seeded: Callable[[int], Draw]) -> None:
    """A Fraction or a bool counts as the number it is."""
    curator = LaplaceCurator(1.0)
    half = curator.respond_not_private(0.5, seeded(1))
    assert curator.respond_not_private(Fraction(1, 2), seeded(1)) == half  # type: ignore[arg-type]
    assert curator.respond_not_private(True, seeded(1)) == curator.respond_not_private(1.0, seeded(1))  # noqa: FBT003


@pytest.mark.parametrize("reward", [2.0, -(2**60) - 1, Fraction(1, 3)])
def test_on_the_real_line_nothing_is_clipped(reward: float, seeded: Callable[[int], Draw]) -> None:
    """The nearest reward to a finite one is itself, exactly; to infinity none is near."""
    curator = LaplaceCurator(1.0, RealLine())
    as_it_is = curator.respond_not_private(reward, seeded(1))
    assert curator.respond_not_private(reward, seeded(1), clip=True) == as_it_is
    for infinite in (math.inf, -math.inf, 10**400):
        with pytest.raises(RewardError, match="must be finite"):
            curator.respond(infinite, clip=True)


class UpToFour(RealLine):
    """A transform that takes rewards unrounded, and has a range to clip to."""

    def nearest(self, reward: float) -> float:
        """Clip to [0, 4]."""
        return min(max(reward, 0.0), 4.0)


def test_an_exact_transform_clips_too() -> None:
    """What counts is the nearest reward in range, not the one that was given; one in range stays as it is."""
    assert transformed(UpToFour(), Fraction(13, 3), clip=True) == 4
    assert transformed(UpToFour(), Fraction(1, 3), clip=True) == Fraction(1, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_respond_many_draws_nothing_unless_all_rewards_are_good(
    kind: type[Curator], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One bad reward among many costs no privacy: nothing is drawn for the others."""
    drawn: list[int] = []

    def watched(count: int) -> list[int]:
        drawn.append(count)
        return [2**62] * count

    monkeypatch.setattr(curators_module, "system_words", watched)
    with pytest.raises(RewardError):
        kind(1.0).respond_many([0.1, 0.2, 7.0])
    assert drawn == []
    assert len(kind(1.0).respond_many(iter([0.1, 1, True]))) == 3
    assert len(drawn) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_ranges_scale_to_the_unit_interval(kind: type[Curator], seeded: Callable[[int], Draw]) -> None:
    """A reward in [low, high] is treated as its place in that range."""
    for i in range(50):
        unit = kind(1.0).respond_not_private(0.25, seeded(i))
        assert kind(1.0, Range(-10, 30)).respond_not_private(0.0, seeded(i)) == unit


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("transform", [Range(), Range(-2, 3.5), Sigmoid(), RealLine()])
def test_specs_go_through_json(kind: type[Curator], transform: Transform) -> None:
    """A curator is what its JSON says."""
    if kind is BernoulliCurator and isinstance(transform, RealLine):
        with pytest.raises(SpecError, match="needs rewards in a range"):
            kind(1.5, transform)
        return
    curator = kind(1.5, transform)
    again = curator_from_json(json.loads(json.dumps(curator.to_json())))
    assert again == curator
    assert type(again) is kind
    assert hash(again) == hash(curator)
    assert curator_from_json(curator.spec) == curator


GOOD = {"mechanism": "bernoulli", "epsilon": 1.0}


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        ({**GOOD, "mechanism": "gauss"}, "mechanism must be"),
        ({**GOOD, "epsilon": 0}, "epsilon must be finite and > 0"),
        ({**GOOD, "epsilon": -1}, "epsilon must be finite and > 0, from 1e-06 to 50, got -1"),
        ({**GOOD, "epsilon": math.nan}, "epsilon must be finite"),
        ({**GOOD, "epsilon": math.inf}, "epsilon must be finite"),
        ({**GOOD, "epsilon": 50.5}, "epsilon must be finite"),
        ({**GOOD, "epsilon": 1e-7}, "epsilon must be finite"),
        ({**GOOD, "epsilon": "1"}, "epsilon must be finite"),
        ({**GOOD, "epsilon": True}, "epsilon must be finite"),
        ({**GOOD, "seed": 1}, "has no seed"),
        ({"mechanism": "laplace"}, "lacks epsilon"),
        ({**GOOD, "transform": {"kind": "range", "low": 1, "high": 1}}, "low < high"),
        ({**GOOD, "transform": {"kind": "range", "low": 0, "high": math.inf}}, "low < high"),
        ({**GOOD, "transform": {"kind": "range", "low": -1e308, "high": 1e308}}, "no wider than"),
        ({**GOOD, "transform": {"kind": "range", "low": 2**53, "high": 2**53 + 1}}, "low < high"),
        pytest.param({**GOOD, "epsilon": 10**5000}, "got a number too long to show", id="long"),
        ({**GOOD, "transform": {"kind": "tanh"}}, "kind must be one of range, sigmoid, threshold, real-line"),
        ({**GOOD, "transform": {"kind": "sigmoid", "low": 0}}, "has no low"),
        ({**GOOD, "transform": "sigmoid"}, "must be an object"),
        ({**GOOD, "transform": {"kind": "real-line"}}, "needs rewards in a range"),
        ({**GOOD, "transform": {"kind": "threshold"}}, "lacks theta"),
        ({**GOOD, "transform": {"kind": "threshold", "theta": 0, "low": 0}}, "has no low"),
        ({**GOOD, "transform": {"kind": "threshold", "theta": math.nan}}, "finite theta of size <= 1e+300, got nan"),
        ({**GOOD, "transform": {"kind": "threshold", "theta": -2e300}}, "finite theta of size <= 1e+300"),
        ({**GOOD, "transform": {"kind": "threshold", "theta": "0"}}, "finite theta of size <= 1e+300"),
        ([], "must be an object"),
        (None, "must be an object"),
    ],
)
def test_a_bad_spec_is_refused_by_its_rule(spec: object, rule: str) -> None:
    """What is unknown or out of range is refused in one clear line."""
    with pytest.raises(SpecError) as caught:
        curator_from_json(spec)
    assert rule in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_curator_says_what_it_guarantees() -> None:
    """Each transform has its neighbours, in words and as a distance; on the real line, only rewards within 1."""
    assert LaplaceCurator(0.5).guarantee.epsilon == 0.5
    assert "in [0.0, 5.0]" in BernoulliCurator(1.0, Range(0, 5)).guarantee.covers
    assert BernoulliCurator(1.0, Sigmoid()).guarantee.covers == "any two finite rewards"
    assert "differ by at most 1" in LaplaceCurator(1.0, RealLine()).guarantee.covers
    assert BernoulliCurator(1.0, Range(-1, 4)).guarantee.neighbours == 5.0
    assert BernoulliCurator(1.0, Sigmoid()).guarantee.neighbours == math.inf
    assert LaplaceCurator(1.0, RealLine()).guarantee.neighbours == 1.0
    assert str(BernoulliCurator(2.0).guarantee).startswith(
        "For any two rewards in [0.0, 1.0], every response is at most"
    )
    assert repr(BernoulliCurator(2)) == "BernoulliCurator(epsilon=2.0, transform=Range(low=0.0, high=1.0))"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_every_epsilon_works_with_the_operating_systems_randomness(kind: type[Curator], epsilon: float) -> None:
    """From 1e-6 to 50, a response is a finite number; CTB's is a bit."""
    responses = kind(epsilon).respond_many([0, 0.5, 1, True])
    assert all(math.isfinite(response) for response in responses)
    if kind is BernoulliCurator:
        assert set(responses) <= {0.0, 1.0}
