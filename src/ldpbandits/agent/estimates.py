"""What an experimenter may conclude of an arm: its debiased mean, and an interval that is valid whenever one looks."""

from dataclasses import dataclass
from math import inf
from typing import Any

from ldpbandits.agent.sequences import bernoulli_interval, laplace_radius
from ldpbandits.checks import check_count, check_probability, is_number, shown
from ldpbandits.errors import ParameterError, ResponseError
from ldpbandits.mean_map import debiased_mean
from ldpbandits.wire import GRID_BITS, CuratorSpec, RealLine, Sigmoid

HOEFFDING = 0.5
"""Rewards in [0, 1] are sub-Gaussian with this sigma, whatever their law."""

LARGEST_SIGMA = 1e100


@dataclass(frozen=True, slots=True)
class Estimate:
    """An unbiased estimate of one arm's mean, and an interval that covers the mean at all times at once.

    `of` says which mean: that of the reward or, behind a sigmoid, that of sigmoid(reward). The estimate may lie outside
    the range of the rewards, where the noise puts it: cutting it off would bias it. The interval stays inside.
    `fits` is False when every mean in the range is refuted: then the responses are not those of this curator.
    """

    of: str
    mean: float | None
    low: float
    high: float
    alpha: float
    pulls: int
    fits: bool


def estimate(
    pulls: int,
    total: float,
    curator: CuratorSpec | dict[str, Any],
    *,
    alpha: float = 0.05,
    sub_gaussian: float | None = None,
) -> Estimate:
    """Estimate the mean of an arm, in the units of its rewards, from the number and the sum of its responses.

    `curator` is the spec, as `curator.spec` or its JSON. For a curator on the real line, say by `sub_gaussian` how far
    rewards R spread: a sigma with E e^(l (R - mean)) <= e^(l^2 sigma^2 / 2) for all l. In a range it is known.
    """
    spec = CuratorSpec.of(curator)
    pulls = check_count("pulls", pulls, least=0)
    alpha = check_probability("alpha", alpha)
    if not is_number(total) or (pulls == 0 and total != 0):
        raise ResponseError(f"a total must be a finite number, and 0 without pulls, got {shown(total)}")
    sigma = _sigma(spec, sub_gaussian)
    mean: float | None
    if pulls == 0:
        mean, low, high = None, -inf, inf
    elif spec.mechanism == "bernoulli":
        bits = (total / pulls, *bernoulli_interval(pulls, total, alpha))
        mean, low, high = (debiased_mean(p, spec.epsilon) for p in bits)
    else:
        # Rounding rewards to the grid moves their mean by up to half a step.
        mean, radius = total / pulls, laplace_radius(pulls, spec.epsilon, sigma, alpha) + 0.5**GRID_BITS / 2
        low, high = mean - radius, mean + radius
    return _in_units(spec, mean, low, high, alpha, pulls)


def _in_units(  # noqa: PLR0913, PLR0917 - the fields of an Estimate
    spec: CuratorSpec, mean: float | None, low: float, high: float, alpha: float, pulls: int
) -> Estimate:
    if isinstance(spec.transform, RealLine):
        return Estimate("reward", mean, low, high, alpha, pulls, fits=True)
    fits = low <= 1 and high >= 0
    low, high = (min(max(edge, 0.0), 1.0) for edge in (low, high))
    if isinstance(spec.transform, Sigmoid):
        return Estimate("sigmoid(reward)", mean, low, high, alpha, pulls, fits)
    least, width = spec.transform.low, spec.transform.high - spec.transform.low
    mean = None if mean is None else least + width * mean
    return Estimate("reward", mean, least + width * low, least + width * high, alpha, pulls, fits)


def _sigma(spec: CuratorSpec, sub_gaussian: float | None) -> float:
    if not isinstance(spec.transform, RealLine):
        if sub_gaussian is not None:
            raise ParameterError("sub_gaussian is for curators on the real line; in a range it is known to be 1/2")
        return HOEFFDING
    if not is_number(sub_gaussian) or not 0 <= sub_gaussian <= LARGEST_SIGMA:
        rule = f"an interval on the real line needs sub_gaussian=sigma from 0 to {LARGEST_SIGMA:g}"
        raise ParameterError(f"{rule}, got {shown(sub_gaussian)}")
    return float(sub_gaussian)
