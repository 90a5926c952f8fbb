"""Lines inside which an arm is sure to be pulled, for rules that go by n kl(mean, u).

{(n, S): n kl+(S / n, u) <= level} is convex, since n kl(S / n, u) is the perspective of a convex function: a chord of
its edge lies inside, and so does what has fewer zeros.
"""

from math import log1p, sqrt
from typing import NamedTuple

from ldpbandits.agent import kernels
from ldpbandits.lab.engine import step  # noqa: F401 - makes the kernels ones that compiled code can call
from ldpbandits.lab.engine.compiled import uncached


class Line(NamedTuple):
    """Zeros among j more pulls may be room + slope j."""

    room: float
    slope: float


@uncached
def lowest_mean(u: float, level: float) -> float:
    """The least x with kl(x, u) <= level, never too small: Newton's method, and a little more.

    kl(x, u) is convex and falling in x, so that steps from a point below the root go up to it and never pass it.
    """
    if level <= 0 or u <= 0:
        return u
    if u >= 1 or level >= -log1p(-u):
        return 1.0 if u >= 1 else 0.0
    x = u - sqrt(2 * u * (1 - u) * level)
    if x <= 0:
        x = u / 16
    for _ in range(60):  # some 3 are enough
        slope = log1p((x - u) / (u * (1 - x)))
        after = x - (kernels.kl(x, u) - level) / slope
        if after <= 0:
            after = x / 16
        done = abs(after - x) <= 1e-7 * (u - after)
        x = min(after, u * (1 - 1e-16))
        if done:
            break
    return min(x + 1e-9 * (u - x) + 2e-16, u)


@uncached
def chord(pulls: float, mean: float, u: float, level: float, k: int) -> Line:
    """A line under which n kl+(S / n, u) <= level for all n from `pulls` to `pulls` + k."""
    room = pulls * (mean - lowest_mean(u, level / pulls))
    after = pulls + k
    last = after * (1 - lowest_mean(u, level / after)) - pulls * (1 - mean)
    return Line(room, (last - room) / k)
