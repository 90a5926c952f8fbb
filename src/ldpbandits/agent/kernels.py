"""The kernels of the agent: plain scalar functions that the live agent calls and the lab compiles.

A kernel takes only numbers, sequences of numbers and other kernels. It has no state and checks nothing: callers do.
"""

from collections.abc import Callable, MutableSequence, Sequence
from math import cos, expm1, inf, log, log1p, sqrt
from typing import Any, NamedTuple, Protocol, TypeAlias

Parameters: TypeAlias = tuple[float, ...]


class ArmView(NamedTuple):
    """The numbers that a rule sees of an arm. A pull is pending (out) from its assignment until its response."""

    mean: float
    """The mean of the arm's responses."""
    pulls: float
    """The number of the arm's responses."""
    out: float
    """The number of its pending pulls."""
    n: float
    """The number of its pulls, answered or out: the paper's N = pulls + out."""
    t: float
    """The number of all pulls of all arms, answered or out."""
    best: float
    """The largest mean of all arms."""
    arms: float
    """The number of arms, the paper's K."""
    cells: Any = ()
    """Its responses by epsilon, where there are several, see `mixed.py`; or what the rule's `sharing` says of it."""


class Random(Protocol):
    """A source of random numbers, such as `random.Random` or numpy's Generator."""

    def random(self) -> float:
        """Draw a number uniformly from [0, 1)."""


Index: TypeAlias = Callable[[ArmView, Random, Parameters], float]
"""index(arm, random, parameters): how promising an arm is; the agent pulls the arm of largest index.

Only rules that draw use `random`.
"""

Sharing: TypeAlias = Callable[[Sequence[float], MutableSequence[float]], Sequence[float]]
"""A kernel that computes a number for each arm from N of all arms; `ArmView.cells` has it."""

Reading: TypeAlias = Callable[[float, Parameters], float]
"""reading(response, parameters): the number that a rule counts for a response; `ArmView.mean` is the mean of these."""


def as_it_is(response: float, _: Parameters) -> float:
    """Return the response itself: the reading of most rules."""
    return response


def ucb_index(arm: ArmView, _: Random, parameters: Parameters) -> float:
    """Mean + width sqrt(log t / N), with parameters = (width,).

    Pending pulls count as if their responses were in, but only for the width: nothing is assumed about them.
    """
    return arm.mean + parameters[0] * sqrt(log(arm.t) / arm.n)


def mean_index(arm: ArmView, _: Random, __: Parameters) -> float:
    """Return the mean: the leader of the duels has the largest."""
    return arm.mean


def random_index(_: ArmView, random: Random, __: Parameters) -> float:
    """Draw a number: every arm is equally likely to have the largest."""
    return random.random()


def kl(p: float, q: float) -> float:
    """The divergence of Bernoulli(p) from Bernoulli(q), p log(p / q) + (1 - p) log((1 - p) / (1 - q))."""
    return kl_term(p, q, q - p) + kl_term(1 - p, 1 - q, p - q)


def kl_term(p: float, q: float, step: float) -> float:
    """Return p (x - log(1 + x)) with x = step / p and step = q - p: p log(p / q), and a part that cancels in the sum.

    Close to 0 the series is used, in which the first-order terms cancel before any rounding.
    """
    if p == 0:
        return step
    if q == 0:
        return inf
    x = step / p
    if abs(x) < 1e-4:  # noqa: PLR2004 - the next term is below 1e-16 of the first
        return p * x * x * (0.5 - x * (1 / 3 - x * (0.25 - x * 0.2)))
    return p * (x - log1p(x) if abs(x) < 0.5 else x - log(q / p))  # noqa: PLR2004 - beyond, log1p gains nothing


def upper_confidence(p: float, level: float) -> float:
    """U(p, d) = sup{q in [p, 1]: kl(p, q) <= d}, by Newton's method from above.

    kl(p, q) is convex and increasing in q, so that steps from a point above the root go down to it and never pass it.
    Four bounds are above it: kl(p, q) is at least 2 (q - p)^2, (q - p)^2 / (2 q), (q - p)^2 / (2 (1 - p)) and
    (1 - p) log(1 / (1 - q)) - h, with h the entropy of p. The least of them is a few steps from the root.
    """
    if level <= 0 or p >= 1:
        return min(p, 1.0)
    p = max(p, 0.0)
    entropy = (-p * log(p) if p > 0 else 0.0) - (1 - p) * log1p(-p)
    far = -expm1(-(level + entropy) / (1 - p))
    q = min(p + sqrt(level / 2), p + level + sqrt(level * (level + 2 * p)), p + sqrt(2 * level * (1 - p)), far)
    for _ in range(50):  # some 5 are enough
        if q >= 1 or q <= p:
            return min(max(q, p), 1.0)
        step = (kl(p, q) - level) * q * (1 - q) / (q - p)
        if step <= 1e-16 * q:
            return q
        q -= step
    return q


def kl_ucb_index(arm: ArmView, _: Random, __: Parameters) -> float:
    """U(mean, log(t) / N) (Garivier and Cappe 2011, with no term of log log t)."""
    return upper_confidence(arm.mean, log(arm.t) / arm.n)


def kl_ucb_plus_index(arm: ArmView, _: Random, __: Parameters) -> float:
    """U(mean, f(t / (K N)) / N) with f as in `plus_level` (Menard and Garivier 2017)."""
    return upper_confidence(arm.mean, plus_level(arm) / arm.n)


def plus_level(arm: ArmView) -> float:
    """Return f(t / (K N)) for `plus_function` f."""
    return plus_function(arm.t / (arm.arms * arm.n))


def plus_function(x: float) -> float:
    """f(x) = log(x (1 + log(x)^2)) for x > 1, else 0."""
    return log(x * (1 + log(x) ** 2)) if x > 1 else 0.0


def ada_ucb_index(arm: ArmView, _: Random, parameters: Parameters) -> float:
    """U(mean, log+(x / H) / N), with parameters = (x, low) and the mean at least low and at most 1 - low.

    H is the arm's `shared_counts`, and low the smallest mean that an arm can have. Few responses may have a smaller
    mean: then the arm is better than they tell, and without the bound some trials give it up for good.
    """
    x = parameters[0] / arm.cells
    mean = min(max(arm.mean, parameters[1]), 1 - parameters[1])
    return upper_confidence(mean, log(x) / arm.n if x > 1 else 0.0)


def shared_counts(counts: Sequence[float], shared: MutableSequence[float]) -> MutableSequence[float]:
    """Write H of each arm into `shared`: the sum of min(N, sqrt(N M)) over the N = M of all arms (Lattimore 2018)."""
    for arm in range(len(counts)):
        total = 0.0
        for other in counts:
            total += min(counts[arm], sqrt(counts[arm] * other))
        shared[arm] = total
    return shared


def own_counts(counts: Sequence[float], _: MutableSequence[float]) -> Sequence[float]:
    """Return the counts themselves: most rules take of each arm its own."""
    return counts


def imed_index(arm: ArmView, _: Random, __: Parameters) -> float:
    """Minus N kl(mean, best) + log N (Honda and Takemura 2015): the agent pulls where that is smallest."""
    if arm.mean >= arm.best:
        return -log(arm.n)
    return -(arm.n * kl(max(arm.mean, 0.0), min(arm.best, 1.0)) + log(arm.n))


def thompson_index(arm: ArmView, random: Random, _: Parameters) -> float:
    """A draw from Beta(1 + S, 1 + pulls - S), S the sum of the responses (Thompson 1933); open pulls do not count.

    A Beta variable is G / (G + H), with G and H of the Gamma laws of its two shapes.
    """
    ones = min(max(arm.mean, 0.0), 1.0) * arm.pulls
    g, h = gamma(1 + ones, random), gamma(1 + arm.pulls - ones, random)
    return g / (g + h)


def gamma(shape: float, random: Random) -> float:
    """Draw from the Gamma law of this shape >= 1 and scale 1 (Marsaglia and Tsang 2000)."""
    d = shape - 1 / 3
    c = 1 / sqrt(9 * d)
    while True:
        x = normal(random)
        v = (1 + c * x) ** 3
        if v > 0 and log(1 - random.random()) < 0.5 * x * x + d - d * v + d * log(v):
            return d * v


def normal(random: Random) -> float:
    """Draw from the standard normal law (Box and Muller 1958)."""
    return sqrt(-2 * log(1 - random.random())) * cos(6.283185307179586 * random.random())


def starving(floor: float, counts: Sequence[float], t: float) -> int:
    """Return the least pulled arm (the lowest-numbered of several) if its count is <= floor log(t + 1), else -1.

    Under any floor each arm gets its first pull, since 0 <= 0; floor 4 gives the forced exploration of LDP-UCB-L.
    """
    limit = floor * log(t + 1.0)
    hungry = 0
    for arm in range(len(counts)):  # a sum compiles to vector instructions, and in nearly every round it is zero
        hungry += counts[arm] <= limit
    if hungry == 0:
        return -1
    least = 0
    for arm in range(1, len(counts)):
        if counts[arm] < counts[least]:
            least = arm
    return least


def greatest(values: Sequence[float]) -> float:
    """Return the largest value; a compiler removes the loop for a rule that does not use the result."""
    most = values[0]
    for place in range(1, len(values)):
        if values[place] > most:  # noqa: PLR1730 - in plain Python a call of max takes twice as long
            most = values[place]
    return most


def select(
    index: Index,
    parameters: Parameters,
    floor: float,
    means: Sequence[float],
    pulls: Sequence[float],
    counts: Sequence[float],
    cells: Sequence[Any],
    t: float,
    random: Random,
    indexes: MutableSequence[float],
) -> int:
    """Return the arm to pull next: a starving one, else the one of largest index (the lowest-numbered of several).

    `counts` has N of each arm: its pulls, answered or out. `cells` has an entry per arm, which most rules ignore.
    `indexes` is a buffer of one number per arm: a loop without a running maximum compiles to vector instructions.
    """
    arm = starving(floor, counts, t)
    if arm >= 0:
        return arm
    best, arms = greatest(means), float(len(means))
    for arm in range(len(pulls)):
        n = counts[arm]
        view = ArmView(means[arm], pulls[arm], n - pulls[arm], n, t, best, arms, cells[arm])
        indexes[arm] = index(view, random, parameters)
    chosen = 0
    for arm in range(1, len(indexes)):
        if indexes[arm] > indexes[chosen]:
            chosen = arm
    return chosen
