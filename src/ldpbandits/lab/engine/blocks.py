"""Many bits at once, against a line: pull an arm until its zeros pass room + slope j, drawing whole blocks of pulls.

A line comes from a region in which an arm is sure to be pulled. For rules that go by n kl(mean, u) the region
{(n, S): n kl+(S / n, u) <= level} is convex, since n kl(S / n, u) is the perspective of a convex function: a chord of
its edge lies inside, and so does what has fewer zeros. docs/leaping.md has the proofs, in the words and symbols used
here.
"""

from math import floor, lgamma, log, log1p, sqrt
from typing import NamedTuple

import numpy as np

from ldpbandits.agent import kernels
from ldpbandits.lab.engine import step  # noqa: F401 - makes the kernels ones that compiled code can call
from ldpbandits.lab.engine.compiled import uncached
from ldpbandits.lab.engine.laws import Floats

SHORT = 16
"""Below this many pulls it is cheaper to draw responses one by one than as a block."""
LONG = 96
"""After this many pulls one by one it is worth checking whether a block is possible."""
FEW = 24
"""Up to this many bits of a block are uncovered one by one."""
LONGEST = 2**40
"""The longest block: lines are whole multiples of 2^-60 times the block's length, and so are never rounded."""
STIRLING = 16.0
"""From here on what is left out of Stirling's series is below 1e-11."""
MARGIN = 1.2
"""A block is tried while its end is MARGIN standard deviations inside. Any value is right; this one is fast."""


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


@uncached
def stirling_tail(n: float) -> float:
    """log n! - ((n + 1/2) log n - n + log(2 pi) / 2), for n from STIRLING on."""
    x = 1 / (n * n)
    return (1 / 12 - x * (1 / 360 - x * (1 / 1260 - x / 1680))) / n


@uncached
def log_factorials(n: float, d: float) -> float:
    """log (n + d)! / n!."""
    if min(n, n + d) < STIRLING:
        return lgamma(n + d + 1) - lgamma(n + 1)
    return d * log(n) + (n + d + 0.5) * log1p(d / n) - d + stirling_tail(n + d) - stirling_tail(n)


@uncached
def log_ratio(k: float, z: float, m: float) -> float:
    """log C(k, m) / C(k, z), accurate also where the two logarithms are large: then by Stirling's series."""
    d = m - z
    if min(z, k - z, m, k - m) < STIRLING:
        return -log_factorials(z, d) - log_factorials(k - z, -d)
    main = d * log1p((k - 2 * z) / z) - (m + 0.5) * log1p(d / z) - (k - m + 0.5) * log1p(-d / (k - z))
    return main + stirling_tail(z) + stirling_tail(k - z) - stirling_tail(m) - stirling_tail(k - m)


@uncached
def split(rng: np.random.Generator, k: int, zeros: int, h: int) -> int:
    """Draw how many of the zeros are among the first h of k responses in random order: a hypergeometric variable.

    By the ratio of uniforms, with the hat of Stadlober (1989). Both h and k - h have to be at least 10.
    """
    rare = min(zeros, k - zeros)
    share = rare / k
    centre = h * share + 0.5
    width = 1.7155277699214135 * sqrt((k - h) * float(h) * share * (1 - share) / (k - 1) + 0.5) + 0.8989161620588988
    mode = floor((h + 1) * ((rare + 1) / (k + 2)))
    while True:
        x = 1 - rng.random()
        w = centre + width * (rng.random() - 0.5) / x
        if not max(0, rare - (k - h)) <= w < min(h, rare) + 1:
            continue
        y = floor(w)
        t = log_ratio(float(h), float(mode), float(y)) + log_ratio(float(k - h), float(rare - mode), float(rare - y))
        if 2 * log(x) <= t:
            return int(y) if rare == zeros else h - int(y)


@uncached
def _walk(rng: np.random.Generator, k: int, zeros: int, room: int, slope: int, unit: int) -> tuple[int, int]:
    """Uncover k responses one by one until the zeros pass the line; return (0, 0) if they do not."""
    found = 0
    for seen in range(k):
        if rng.random() * (k - seen) < zeros - found:
            found += 1
            if unit * found > room + slope * (seen + 1):
                return seen + 1, found
    return 0, 0


@uncached
def first_crossing(  # noqa: PLR0911 - one for each way to settle it
    rng: np.random.Generator, k: int, zeros: int, room: int, slope: int, unit: int
) -> tuple[int, int]:
    """Draw the first j at which unit z_j > room + slope j, and z_j, given z_k = zeros, or (0, 0) if there is none.

    z_j counts the zeros among the first j of k responses in random order. A path that ends e below the line is
    compared with one of D zeros more, which ends above it: where the latter crosses, the former does with a chance
    whose largest value is known. Where that does not settle the matter, the block is halved.
    """
    if (unit - slope) * zeros <= room:  # not even with all zeros first
        return 0, 0
    if k <= FEW:
        return _walk(rng, k, zeros, room, slope, unit)
    end = room + slope * k - unit * zeros
    if end >= unit:
        e, odds = end / unit, slope / (unit - slope)
        more = floor(e + (e - 1) / max(1.0, odds))
        if zeros + more > k:  # a path that crosses has room for as many zeros more behind the crossing
            return 0, 0
        # Second differences of log C(k, .) are at most -4 / (k + 2).
        bound = more * log((k - zeros) / (zeros + 1.0) * odds) - 2.0 * more * (more - 1.0) / (k + 2.0)
        u = log(1 - rng.random())
        if u >= bound:
            return 0, 0
        most = log_ratio(float(k), float(zeros), float(zeros + more)) + more * log(odds)
        if most < 0:
            if u >= most:
                return 0, 0
            j, found = first_crossing(rng, k, zeros + more, room, slope, unit)
            left, x = k - j, zeros - found
            if j == 0 or x < 0:
                return 0, 0
            accepted = log_ratio(float(left), float(x + more), float(x)) - more * log(odds)
            return (j, found) if log(1 - rng.random()) < accepted else (0, 0)
    h = k // 2
    first = split(rng, k, zeros, h)
    j, found = first_crossing(rng, h, first, room, slope, unit)
    if j > 0:
        return j, found
    j, found = first_crossing(rng, k - h, zeros - first, room + slope * h - unit * first, slope, unit)
    return (h + j, first + found) if j > 0 else (0, 0)


@uncached
def one_by_one(rng: np.random.Generator, chance: float, room: float, slope: float, k: int) -> tuple[int, float]:
    """Pull until the zeros pass room + slope j, or k times. Responses are 1 with this chance. Return pulls and ones."""
    j = zeros = 0
    while j < k and (j == 0 or zeros <= room + slope * j):
        zeros += rng.random() >= chance
        j += 1
    return j, float(j - zeros)


@uncached
def pull_bits(rng: np.random.Generator, chance: float, room: float, slope: float, k: int) -> tuple[int, float]:
    """Do the same in one block. The line is rounded down, to whole multiples of what keeps all later sums exact."""
    if slope < 0:  # below a falling line lies a level one
        room, slope = room + slope * k, 0.0
    if k < SHORT or not room >= 0:
        return one_by_one(rng, chance, room, slope, min(k, LONG))
    k = min(k, LONGEST)
    unit = 1
    while unit * k < 2**58:
        unit *= 2
    zeros = rng.binomial(k, 1 - chance)
    j, found = first_crossing(rng, k, zeros, int(min(room, float(k)) * unit), int(min(slope, 1.0) * unit), unit)
    if j > 0:
        return j, float(j - found)
    return k, float(k - zeros)


@uncached
def first_pulls(rng: np.random.Generator, chance: Floats, pulls: Floats, totals: Floats, t: int, until: int) -> int:
    """Give each arm its first pull, in order, up to round `until`; return the round after."""
    while t < min(len(pulls), until):
        totals[t] += rng.random() < chance[t]
        pulls[t] += 1
        t += 1
    return t


@uncached
def length(room: float, closing: float, chance: float) -> float:
    """How long a block to try: closing k + MARGIN standard deviations of k bits = room. More where ones are rare.

    There a path is compared with one that ends closer to the line, and a crossing takes longer to find.
    """
    rarity = min(max(1.0, sqrt((1 - chance) / max(chance, 1e-3))), 2.5)
    spread = MARGIN * rarity * sqrt(chance * (1 - chance))
    if room <= 0:
        return 0.0
    if closing <= 0 and spread == 0:
        return 1e300
    root = 2 * room / (spread + sqrt(spread * spread + 4 * max(closing, 0.0) * room))
    return max(root * root, 0.5 / max(1 - chance, 1e-300))  # where zeros are rare, about half of such blocks have none
