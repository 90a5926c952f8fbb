"""Estimates of an arm: its debiased mean, and an anytime-valid confidence interval."""

from dataclasses import dataclass, replace
from math import inf

from ldpbandits.agent.inference.mechanisms import inference_for
from ldpbandits.agent.inference.sequences import mixed_interval
from ldpbandits.agent.levels import Levels
from ldpbandits.agent.mixed import likeliest
from ldpbandits.agent.tally import ArmTally
from ldpbandits.checks import brief, check_count, check_probability, is_number
from ldpbandits.errors import ParameterError, ResponseError
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.spec.menu import Menu
from ldpbandits.spec.transforms import Transform

HOEFFDING = 0.5
"""Values in [0, 1] are sub-Gaussian with this sigma, whatever their law."""

LARGEST_SIGMA = 1e100


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate of one arm's mean, and an interval that covers the mean at all times at once.

    The estimate is unbiased; with several epsilons it is the maximum-likelihood mean, which is asymptotically unbiased.

    `of` says which mean: of the reward, behind a sigmoid of sigmoid(reward), and behind a threshold the probability
    P(reward > theta). Noise may put the estimate outside the range of the rewards: clipping would bias it. The interval
    stays inside.
    `fits` is False when every mean in the range is refuted: then the responses are not those of this curator.
    """

    of: str
    mean: float | None
    low: float
    high: float
    alpha: float
    pulls: int
    fits: bool

    def hidden(self, ends: tuple[float, float]) -> "Estimate":
        """Return the estimate of somebody who has seen no response: the mean lies between these ends."""
        return replace(self, mean=None, low=ends[0], high=ends[1], fits=True)


def share(alpha: float, arm: int) -> float:
    """Return an arm's part of alpha: 1/2, 1/6, 1/12, ... of it, which add up to all of it and never change.

    A share that depended on the number of arms would shrink when an arm is added, but intervals that were published
    cannot be withdrawn: the shares of all published intervals would add up to more than alpha.
    """
    return alpha / ((arm + 1) * (arm + 2))


def estimate(
    pulls: int, total: float, curator: object, *, alpha: float = 0.05, sub_gaussian: float | None = None
) -> Estimate:
    """Estimate the mean of an arm, in the units of its rewards, from the number and the sum of its responses.

    `curator` is the curator itself, its spec, or its JSON. For a curator on the real line, `sub_gaussian`
    is a sigma with E e^(l (R - mean)) <= e^(l^2 sigma^2 / 2) for rewards R and all l. In a range it is known.

    >>> from ldpbandits import BernoulliCurator
    >>> found = estimate(10_000, 6_000.0, BernoulliCurator(epsilon=1.0))
    >>> f"{found.mean:.3f} in [{found.low:.3f}, {found.high:.3f}]"
    '0.716 in [0.683, 0.749]'
    """
    spec = CuratorSpec.of(curator)
    pulls = check_count("pulls", pulls, least=0)
    alpha = check_probability("alpha", alpha)
    if not is_number(total) or (pulls == 0 and total != 0):
        raise ResponseError(f"a total must be a finite number, and 0 without pulls, got {brief(total)}")
    sigma = _sigma(spec, sub_gaussian)
    mean, low, high = None, -inf, inf
    if pulls:
        inference = inference_for(spec.mechanism)
        mean = inference.debiased_mean(total / pulls)
        low, high = inference.interval(pulls, total, alpha, sigma)
    return in_rewards(spec.transform, mean, (low, high), alpha, pulls)


def estimate_arm(arm: ArmTally, menu: Menu, *, alpha: float, sub_gaussian: float | None = None) -> Estimate:
    """Estimate the mean of an arm from its tally; with several epsilons, by the likelihood of all its responses.

    Then the estimate is the maximum-likelihood mean among those that give every bit a probability in [0, 1]: it may lie
    outside the range of the rewards, as that of one epsilon may.
    """
    if len(menu) == 1:
        return estimate(arm.pulls, arm.total, menu.curators[0], alpha=alpha, sub_gaussian=sub_gaussian)
    alpha = check_probability("alpha", alpha)
    _sigma(menu.curators[0], sub_gaussian)
    mean, low, high = None, -inf, inf
    if arm.pulls:
        levels, cells = Levels.of(menu).numbers, [number for cell in arm.cells for number in cell]
        places = [place for place in range(0, len(levels), 2) if cells[place]]
        least = max(-levels[place] / levels[place + 1] for place in places)
        most = min((1 - levels[place]) / levels[place + 1] for place in places)
        mean = likeliest(cells, levels, least, most)
        low, high = mixed_interval(cells, levels, alpha, near=min(max(mean, 0.0), 1.0))
    return in_rewards(menu.transform, mean, (low, high), alpha, arm.pulls)


def in_rewards(
    transform: Transform, mean: float | None, edges: tuple[float, float], alpha: float, pulls: int
) -> Estimate:
    """Convert an estimate of the mean value, and the edges of its interval, to the units of the rewards."""
    fits, (low, high) = True, edges
    if transform.bounded:
        fits = low <= 1 and high >= 0
        low, high = (min(max(edge, 0.0), 1.0) for edge in (low, high))
    mean = None if mean is None else transform.reward(mean)
    return Estimate(transform.of, mean, transform.reward(low), transform.reward(high), alpha, pulls, fits)


def _sigma(spec: CuratorSpec, sub_gaussian: float | None) -> float:
    if spec.transform.bounded:
        if sub_gaussian is not None:
            raise ParameterError("sub_gaussian is for curators on the real line; in a range it is known to be 1/2")
        return HOEFFDING
    if not is_number(sub_gaussian) or not 0 <= sub_gaussian <= LARGEST_SIGMA:
        rule = f"an interval on the real line needs sub_gaussian=sigma from 0 to {LARGEST_SIGMA:g}"
        raise ParameterError(f"{rule}, got {brief(sub_gaussian)}")
    return float(sub_gaussian)
