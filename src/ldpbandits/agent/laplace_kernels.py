"""The kernels of the agent for responses of CTL: a value in [0, 1] plus Laplace noise of scale 1 / epsilon.

Such a response X of mean m has log E e^(l (X - m)) <= psi(l) = l^2 / 8 - log(1 - l^2 / epsilon^2) for |l| < epsilon, by
Hoeffding's lemma and the law of the noise; noise on the grid has less (`agent/inference/sequences.py`). Its conjugate
is the rate: the mean of N responses is d or more away from m, on one side, with probability at most e^(-N rate(d)).
"""

from math import hypot, log, log1p, sqrt

from ldpbandits.agent.kernels import ArmView, Parameters, Random, imed_index, kl_ucb_plus_index, plus_level


def laplace_rate(distance: float, epsilon: float) -> float:
    """I(d) = sup over l of l d - psi(l), for d >= 0.

    With l = epsilon x, w = 2 x / (1 - x^2) and a = epsilon^2 / 8, the best l solves w + 2 a x = epsilon d, where
    x = w / (1 + sqrt(1 + w^2)) is concave in w: Newton's steps from below rise to the root and never pass it.
    """
    target, a = epsilon * distance, epsilon * epsilon / 8
    if target <= 0:
        return 0.0
    w = max(target / (1 + a), target - 2 * a)
    for _ in range(50):  # some 4 are enough
        h = hypot(1.0, w)
        step = (target - w - 2 * a * w / (1 + h)) / (1 + 2 * a / (h * (1 + h)))
        w += step
        if step <= 1e-9 * w:  # the rate depends on the remaining error by its square
            break
    x = w / (1 + hypot(1.0, w))
    return x * target - a * x * x - log1p(x * w / 2)


def laplace_distance(level: float, epsilon: float) -> float:
    """Return the d with I(d) = level: the least (level + psi(l)) / l over l.

    With u = l^2 / (epsilon^2 - l^2) the best l solves a u / (1 + u) + 2 u - log(1 + u) = level, which grows in u. As
    u / (1 + u) <= log(1 + u) <= u, two quadratic equations have the root between theirs. Newton, or else bisection.
    """
    if level <= 0:
        return 0.0
    a = epsilon * epsilon / 8
    low, high = positive_root(2.0, 1 + a - level, level), positive_root(1.0, 1 + a - level, level)
    u = low
    for _ in range(100):  # some 4 are enough
        excess = a * u / (1 + u) + 2 * u - log1p(u) - level
        if excess > 0:
            high = min(high, u)
        else:
            low = max(low, u)
        after = u - excess / (a / ((1 + u) * (1 + u)) + 2 - 1 / (1 + u))
        if not low <= after <= high:
            after = (low + high) / 2
        is_close = abs(after - u) <= 1e-9 * u  # the distance depends on the remaining error by its square
        u = after
        if is_close:
            break
    return (level + a * u / (1 + u) + log1p(u)) / (epsilon * sqrt(u / (1 + u)))


def positive_root(a: float, b: float, c: float) -> float:
    """Return the u > 0 with a u^2 + b u = c, for a, c > 0, without cancellation."""
    root = hypot(b, 2 * sqrt(a) * sqrt(c))
    return 2 * c / (b + root) if b >= 0 else (root - b) / (2 * a)


def imed_laplace_index(arm: ArmView, _: Random, parameters: Parameters) -> float:
    """Minus N I(best - mean) + log N, with parameters = (epsilon,): the agent pulls where that is smallest."""
    return -(arm.n * laplace_rate(arm.best - arm.mean, parameters[0]) + log(arm.n))


def kl_ucb_plus_laplace_index(arm: ArmView, _: Random, parameters: Parameters) -> float:
    """Mean + d with N I(d) = f(t / (K N)), with parameters = (epsilon,) and f as in kl-ucb++."""
    return arm.mean + laplace_distance(plus_level(arm) / arm.n, parameters[0])


def above_half(response: float, _: Parameters) -> float:
    """Read a response as 1 if it exceeds 1/2, else as 0."""
    return 1.0 if response > 0.5 else 0.0  # noqa: PLR2004 - as it says


def clipped(response: float, parameters: Parameters) -> float:
    """Read a response in [0, 1] as it is, one below 0 as -c and one above 1 as 1 + c, with parameters = (c,).

    Beyond [0, 1] the excess of a response has the same law for every value, so it carries no information. With its mean
    for c the reading keeps the mean of the response, for every law of rewards in [0, 1], and has less variance.
    """
    if response < 0:
        return -parameters[0]
    return 1 + parameters[0] if response > 1 else response


def as_share(arm: ArmView, excess: float) -> ArmView:
    """Return the arm with its means, of readings in [-excess, 1 + excess], rescaled to [0, 1]."""
    width = 1 + 2 * excess
    mean, best = (arm.mean + excess) / width, (arm.best + excess) / width
    return ArmView(mean, arm.pulls, arm.out, arm.n, arm.t, best, arm.arms)


def imed_clip_index(arm: ArmView, random: Random, parameters: Parameters) -> float:
    """Return IMED's index of clipped readings rescaled to [0, 1]; parameters = (excess,)."""
    return imed_index(as_share(arm, parameters[0]), random, parameters)


def kl_ucb_plus_clip_index(arm: ArmView, random: Random, parameters: Parameters) -> float:
    """Return KL-UCB++'s index of clipped readings rescaled to [0, 1]; parameters = (excess,)."""
    return kl_ucb_plus_index(as_share(arm, parameters[0]), random, parameters)
