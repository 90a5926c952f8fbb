"""The privacy that a shuffler would add. It is never the guarantee: it rests on trust in the one who counts.

Suppose that of each batch of n bits by CTB for the same arm only their number and their sum were passed on. Let x of
the n - 1 others have the reward 1, p = e^epsilon / (1 + e^epsilon), and f(k) = P(the others send k ones), the law of
Bin(x, p) + Bin(n - 1 - x, 1 - p). The sum is then k with probability

    P1(k) = p f(k - 1) + (1 - p) f(k)    for somebody with reward 1
    P0(k) = (1 - p) f(k - 1) + p f(k)    for somebody with reward 0

and is (E, delta)-private with delta(E) = max(sum (P1 - e^E P0)+, sum (P0 - e^E P1)+).

**Proved for all others.** CTB is a fair coin with chance 2 (1 - p), and else the true reward rounded. Tell the observer
who of the others tossed the coin, and what the rest sent: that does not depend on the person, and can only help the
observer. Then f = Bin(M, 1/2), where M is Bin(n - 1, 2 (1 - p)); delta(E) is at most its mean over M. It
falls with M, since anyone can add a further fair coin to a sum. M may therefore be rounded down, in groups.

**Scanned.** The exact value for given others is less. The worst x is 0 or nearly so: `benchmarks/shuffling.py` finds no
x whose epsilon is a hundredth larger than that of x = 0, which is what `scanned_epsilon` returns.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import exp, fsum, lgamma, log, log1p, sqrt
from typing import TypeAlias

from ldpbandits.checks import check_count, check_epsilon, check_probability

DELTA = 1e-6
"""The delta at which accounts are given by default."""
WIDEST_SD = 12.0
"""Numbers of ones that are further from their mean, in standard deviations, have less than 1e-30 of the mass."""
GROUPS = 48
"""Groups of the number of coins: with more, the proved epsilon falls by at most a few parts in a hundred."""
NEGLIGIBLE = 1e-15
"""Groups with less chance are counted as if they had no coins."""
BISECTIONS = 40

Law: TypeAlias = Sequence[float]
"""Probabilities of consecutive numbers of ones; the first number does not matter here."""


def proved_epsilon(epsilon: float, batch: int, delta: float = DELTA) -> float:
    """Return an epsilon, with this delta, of the sum of a batch of epsilon-private bits, whatever the others' rewards.

    >>> [round(proved_epsilon(epsilon, 1000), 2) for epsilon in (1, 2, 4)]
    [0.15, 0.4, 1.92]
    """
    _check(epsilon, batch, delta)
    groups = _coins(epsilon, batch - 1)
    return _least(epsilon, delta, lambda central: fsum(w * shuffled_delta(central, epsilon, law) for w, law in groups))


def scanned_epsilon(epsilon: float, batch: int, delta: float = DELTA, *, ones: int = 0) -> float:
    """Return the epsilon, with this delta, of the sum of a batch in which `ones` of the others have the reward 1.

    >>> [round(scanned_epsilon(epsilon, 1000), 3) for epsilon in (1, 2, 4)]
    [0.127, 0.323, 1.691]
    """
    _check(epsilon, batch, delta)
    others = ones_of_others(epsilon, batch - 1, ones)
    return _least(epsilon, delta, lambda central: shuffled_delta(central, epsilon, others))


def ones_of_others(epsilon: float, others: int, ones: int = 0) -> Law:
    """Return the law of the number of ones that the others send, `ones` of whom have the reward 1."""
    p = 1 / (1 + exp(-epsilon))
    (_, many), (_, few) = _binomial(others - ones, 1 - p), _binomial(ones, p)
    law = [0.0] * (len(many) + len(few) - 1)
    for place, weight in enumerate(few):
        for offset, chance in enumerate(many):
            law[place + offset] += weight * chance
    return law


def shuffled_delta(central: float, epsilon: float, others: Law) -> float:
    """Return the smallest delta at which the sum is (central, delta)-private, given the law of the others."""
    p = 1 / (1 + exp(-epsilon))
    before, here, ratio = [0.0, *others], [*others, 0.0], exp(central)
    law_1 = [p * less + (1 - p) * same for less, same in zip(before, here, strict=True)]
    law_0 = [(1 - p) * less + p * same for less, same in zip(before, here, strict=True)]
    return max(
        sum(max(0.0, one - ratio * zero) for one, zero in zip(law_1, law_0, strict=True)),
        sum(max(0.0, zero - ratio * one) for one, zero in zip(law_1, law_0, strict=True)),
    )


def _coins(epsilon: float, others: int) -> list[tuple[float, Law]]:
    """Return groups of the number of fair coins: the chance of each, and the law of the ones of its fewest coins."""
    first, chances = _binomial(others, 2 / (1 + exp(epsilon)))
    edges = sorted({len(chances) * group // GROUPS for group in range(GROUPS + 1)})
    groups = [(fsum(chances[low:high]), first + low) for low, high in pairwise(edges)]
    kept = [(weight, coins) for weight, coins in groups if weight > NEGLIGIBLE]
    kept.append((max(0.0, 1 - fsum(weight for weight, _ in kept)), 0))  # all others, as if nobody tossed a coin
    return [(weight, _binomial(coins, 0.5)[1]) for weight, coins in kept]


def _binomial(n: int, p: float) -> tuple[int, Law]:
    """Return the first number of successes with mass, and the law of Bin(n, p) from there on."""
    spread = WIDEST_SD * (sqrt(n * p * (1 - p)) + 1)
    least, most = max(0, int(n * p - spread)), min(n, int(n * p + spread))
    whole, success, failure = lgamma(n + 1), log(p), log1p(-p)
    return least, [
        exp(whole - lgamma(k + 1) - lgamma(n - k + 1) + k * success + (n - k) * failure) for k in range(least, most + 1)
    ]


def _least(epsilon: float, delta: float, delta_at: Callable[[float], float]) -> float:
    """Return the least epsilon at which the delta is reached; that of a single response always holds."""
    least, most = 0.0, epsilon
    for _ in range(BISECTIONS):
        middle = (least + most) / 2
        if delta_at(middle) <= delta:
            most = middle
        else:
            least = middle
    return most


def _check(epsilon: float, batch: int, delta: float) -> None:
    check_epsilon(epsilon)
    check_count("batch", batch)
    check_probability("delta", delta)
