"""What an experimenter may conclude of an arm: its debiased mean, and an interval that is valid whenever one looks."""

from dataclasses import dataclass
from math import inf

from ldpbandits.agent.sequences import bernoulli_interval, laplace_radius
from ldpbandits.checks import check_count, check_probability, is_number
from ldpbandits.errors import ParameterError, ResponseError
from ldpbandits.mean_map import debiased_mean
from ldpbandits.wire import CuratorSpec, Range, RealLine, Sigmoid

HOEFFDING = 0.5
"""Rewards in [0, 1] are sub-Gaussian with this sigma, whatever their law."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """An unbiased estimate of one arm's mean, and an interval that covers the mean at all times at once.

    `of` says which mean: that of the reward or, behind a sigmoid, that of sigmoid(reward). The estimate may lie outside
    the range of the rewards, where the noise puts it: cutting it off would bias it. The interval stays inside.
    """

    of: str
    mean: float | None
    low: float
    high: float
    alpha: float
    pulls: int


def estimate(
    pulls: int, total: float, curator: CuratorSpec, *, alpha: float = 0.05, sub_gaussian: float | None = None
) -> Estimate:
    """Estimate the mean of an arm, in the units of its rewards, from the number and the sum of its responses.

    For a curator on the real line, say by `sub_gaussian` how far rewards R spread: a sigma with
    E e^(l (R - mean)) <= e^(l^2 sigma^2 / 2) for all l. In a range it is known.
    """
    pulls = check_count("pulls", pulls, least=0)
    alpha = check_probability("alpha", alpha)
    if not is_number(total):
        raise ResponseError(f"a total must be a finite number, got {total!r}")
    sigma = _sigma(curator, sub_gaussian)
    if pulls == 0:
        mean, low, high = None, -inf, inf
    elif curator.mechanism == "bernoulli":
        bits = (total / pulls, *bernoulli_interval(pulls, total, alpha))
        mean, low, high = (debiased_mean(p, curator.epsilon) for p in bits)
    else:
        mean, radius = total / pulls, laplace_radius(pulls, curator.epsilon, sigma, alpha)
        low, high = mean - radius, mean + radius
    match curator.transform:
        case Range(low=least, high=most):
            width = most - least
            mean = None if mean is None else least + width * mean
            return Estimate("reward", mean, least + width * _clip(low), least + width * _clip(high), alpha, pulls)
        case Sigmoid():
            return Estimate("sigmoid(reward)", mean, _clip(low), _clip(high), alpha, pulls)
        case RealLine():
            return Estimate("reward", mean, low, high, alpha, pulls)


def _sigma(curator: CuratorSpec, sub_gaussian: float | None) -> float:
    if not isinstance(curator.transform, RealLine):
        if sub_gaussian is not None:
            raise ParameterError("sub_gaussian is for curators on the real line; in a range it is known to be 1/2")
        return HOEFFDING
    if not is_number(sub_gaussian) or sub_gaussian < 0:
        raise ParameterError(
            f"an interval on the real line needs sub_gaussian=sigma, finite and >= 0, got {sub_gaussian!r}"
        )
    return sub_gaussian


def _clip(unit: float) -> float:
    return min(max(unit, 0.0), 1.0)
