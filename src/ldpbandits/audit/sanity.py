"""Mean and variance of the debiased responses against the formula: a curator that keeps its law keeps both.

CTB: a debiased response is 1/2 + (y - 1/2) / tanh(epsilon / 2). Its mean is the reward, and its variance is that of a
bit of mean p over tanh(epsilon / 2)^2, so that the count of ones decides both; that count is Binomial, and is tested
exactly. CTL: the response is the debiased response; mean r, variance 2 / epsilon^2 (on a grid of 2^-20 the difference
is below 2^-40). Both are tested by their standard errors, with E L^4 = 24 / epsilon^4 for the variance. The normal law
is not exact here: squares of Laplace noise have skewness 6.6 and excess kurtosis 85, so by Cramer's correction the tail
at z standard errors is exp(6.6 z^3 / (6 sqrt n) - 46 z^4 / (24 n)) times the normal one. From LEAST responses on, and
for levels down to 1e-10 (z = 6.4), that is below ten: so these tests use a tenth of the level that they are given.
"""

from dataclasses import dataclass
from math import isfinite, sqrt, tanh

from scipy.special import bdtr, bdtrc, ndtri

from ldpbandits.audit.result import Layer
from ldpbandits.spec.mechanisms import debiased_mean, response_mean

LEAST = 15_000
MARGIN = 10


@dataclass(frozen=True, slots=True)
class Moments:
    """How many responses there were to a reward (already scaled to [0, 1]), their sum and their sum of squares.

    Both sums are of responses minus `origin`: for CTL that is the reward on its grid, because squares of large rewards
    would leave no digits for the noise.
    """

    unit: float
    count: int
    total: float
    squares: float
    origin: float = 0.0

    @property
    def mean(self) -> float:
        """The mean response."""
        return self.origin + self.total / self.count

    @property
    def variance(self) -> float:
        """The variance of the responses about their mean."""
        return self.squares / self.count - (self.total / self.count) ** 2


def moments_layer(name: str, mechanism: str, epsilon: float, moments: list[Moments], alpha: float) -> Layer:
    """Compare mean and variance with the formula, for each reward."""
    if mechanism == "laplace" and min(each.count for each in moments) < LEAST:
        return Layer(name, "not applicable", f"needs {LEAST:,} responses to each reward")
    judge = _bernoulli if mechanism == "bernoulli" else _laplace
    if not all(isfinite(each.squares) for each in moments):
        return Layer(name, "violated", "some responses are infinite, not a number, or too large to be of this curator")
    told = [judge(each, epsilon, alpha / len(moments)) for each in moments]
    detail = "; ".join(text for text, _ in told)
    return Layer(name, "consistent" if all(fits for _, fits in told) else "violated", detail)


def _bernoulli(of: Moments, epsilon: float, alpha: float) -> tuple[str, bool]:
    p, ones = response_mean(of.unit, epsilon), round(of.total)
    scale = tanh(epsilon / 2)
    text = (
        f"debiased mean {debiased_mean(of.mean, epsilon):.5f} for {of.unit:g}, "
        f"variance {of.variance / scale**2:.5g} for {p * (1 - p) / scale**2:.5g}"
    )
    is_bits = of.total == of.squares == ones
    tail = min(float(bdtr(ones, of.count, p)), float(bdtrc(ones - 1, of.count, p)) if ones else 1.0)
    return text, is_bits and tail >= alpha / 2


def _laplace(of: Moments, epsilon: float, alpha: float) -> tuple[str, bool]:
    variance = 2 / epsilon**2
    sd = -float(ndtri(alpha / 4 / MARGIN))  # two quantities, two sides
    text = f"mean {of.mean:.5f} for {of.unit:g}, variance {of.variance:.5g} for {variance:.5g} (approximate test)"
    off = of.total / of.count + (of.origin - of.unit)
    mean_fits = abs(off) <= sd * sqrt(variance / of.count) + 2**-20
    variance_fits = abs(of.variance - variance) <= sd * sqrt(20 / of.count) / epsilon**2 + 2**-20
    return text, mean_fits and variance_fits
