"""Sieve: choose the arm of largest draw, by the law of `kernels.select`, and draw for a few arms only.

A rule whose index is a draw from a law on [0, 1], with a density f of which log f is concave, may declare log f and its
slope (`log_density`). Each arm has a level x of its own. Its draw exceeds x with some probability p, and lies below
otherwise. As log f is below its tangent, f(y) <= f(x) e^(s (y - x)) with s the slope at x. So the mass beyond x is at
most q, the integral of that exponential from x to 1, and this is a draw that exceeds x:

    with probability q: draw y from the exponential on (x, 1), and keep it with probability f(y) / (f(x) e^(s (y - x))).

It gives every y beyond x its density f(y), hence something beyond x with probability p, exactly.

**Who is asked.** On a line each arm has a piece of length -log(1 - q). Points fall on the line at distances that are
exponential; an arm is hit with probability q, independently of all others, and only arms that are hit are asked. Let m
be the largest draw so far. An arm without a draw beyond its x has one below; if x <= m, it does not matter which one.
If x > m the arm draws by the rule's own kernel until it is below x. At the end the largest of all draws is known, as if
every arm had drawn. An arm with x = 1 has no piece and draws each time: that is for those that often win.

**The levels** decide about the work alone. They follow the winning draws, a few standard deviations below their mean:
most arms then have a small q, and m is nearly always above all levels. Computed densities have a relative error of
1e-16 log(n!), which is 1e-9 at a million responses; so has the chance of an arm that is not asked each time.
"""

from math import exp, expm1, inf, log, log1p, sqrt

from ldpbandits.agent.bounded_argmax import IndexRule
from ldpbandits.agent.kernels import ArmView, LogDensity, Random
from ldpbandits.agent.max_tree import MaxTree
from ldpbandits.agent.tally import Tally

MAX_HIT_PROBABILITY = 0.3
"""An arm with a larger probability of a hit draws in every decision instead."""
LEVEL_UPDATE_STRIDE = 8
"""One in this number of the arms that drew gets a new level: levels change slowly, and cost as much as a draw."""
AVERAGE_WEIGHT = 1 / 32
"""The weight of the latest winning draw in their mean and variance."""

TINY = 1e-15
"""Smallest distance of a draw from 0 and 1 in the log-odds."""
MAX_EXPONENT = 700.0
"""Larger exponents overflow; an arm with this one draws in every decision anyway."""


class Pieces:
    """Sum tree: lengths side by side on a line; it finds the piece that a point is on in logarithmic time."""

    def __init__(self, count: int) -> None:
        """Start with `count` lengths of 0."""
        self.size = 1 << (count - 1).bit_length()
        self.sums = [0.0] * (2 * self.size)

    def set(self, place: int, length: float) -> None:
        """Set the length at `place`, and update its ancestors."""
        sums, node = self.sums, self.size + place
        sums[node] = length
        while node > 1:
            node >>= 1
            sums[node] = sums[2 * node] + sums[2 * node + 1]

    def at(self, point: float) -> int:
        """Return the place of the piece on which this point lies."""
        sums, node = self.sums, 1
        while node < self.size:
            node *= 2
            if point >= sums[node] and sums[node + 1] > 0:
                point -= sums[node]
                node += 1
        return node - self.size


class Sieve:
    """The levels of all arms of one tally, for one rule."""

    def __init__(self, rule: IndexRule, log_density: LogDensity, tally: Tally, random: Random) -> None:
        """Start with levels of 1: the first decision draws for every arm."""
        self._rule, self._log_density, self._tally, self._random = rule, log_density, tally, random
        self.touched = tally.touched
        arms = len(tally.counts)
        self._fewest = MaxTree(-n for n in tally.counts)
        self._levels = MaxTree([1.0] * arms)
        self._pieces = Pieces(arms)
        self._below, self._turn = 0.8 * sqrt(2 * log(arms)), 0
        self._known: list[tuple[float, int]] = [(-1.0, -1)] * arms
        self._mean, self._variance, self._level = 0.0, -1.0, 1.0
        self.touched.update(range(arms))

    def select(self) -> int:
        """Return the place of an arm, by the law of `kernels.select`."""
        tally = self._tally
        for place in self.touched:
            self._fewest.set(place, -tally.counts[place])
            if self._known[place] != (tally.means[place], tally.pulls[place]):
                self._set_level(place)
        self.touched.clear()
        if -self._fewest.scores[1] <= self._rule.floor * log(tally.t + 1.0):
            return self._fewest.first()
        return self._draw()

    def _view(self, place: int) -> ArmView:
        tally = self._tally
        mean, pulls, n = tally.means[place], tally.pulls[place], tally.counts[place]
        return ArmView(mean if pulls else 0.0, pulls, n - pulls, n, tally.t, inf, len(tally.counts))

    def _set_level(self, place: int) -> None:
        """Give an arm the present level, or 1 if its draw is likely to exceed that."""
        self._known[place] = (self._tally.means[place], self._tally.pulls[place])
        level, length = self._level, 0.0
        if 0 < level < 1:
            height, slope = self._log_density(self._view(place), level)
            chance = _mass(height, slope, 1 - level)
            if chance < MAX_HIT_PROBABILITY:
                length = -log1p(-chance)
            else:
                level = 1.0
        else:
            level = 1.0
        self._levels.set(place, level)
        self._pieces.set(place, length)

    def _beyond(self, place: int) -> float:
        """Return a draw beyond the level of an arm that was hit, or -inf if it is not kept."""
        level, random, view = self._levels.scores[self._levels.size + place], self._random, self._view(place)
        height, slope = self._log_density(view, level)
        room = 1 - level
        step = random.random() * room
        if slope:
            step = log1p(step / room * expm1(slope * room)) / slope
        if not 0 < step < room:
            return -inf
        there = self._log_density(view, level + step)[0]
        return level + step if log(1 - random.random()) < there - height - slope * step else -inf

    def _draw(self) -> int:
        """Return the arm of largest draw."""
        random, rule, line, levels = self._random, self._rule, self._pieces.sums, self._levels.scores
        chosen, most, size, asked = -1, -inf, self._levels.size, list[int]()
        point = -log(1 - random.random())
        while point < line[1]:
            place = self._pieces.at(point)
            if not asked or place != asked[-1]:  # points go up, so that those on one piece follow each other
                asked.append(place)
                draw = self._beyond(place)
                if draw > most:
                    chosen, most = place, draw
            point -= log(1 - random.random())
        nodes = [1]
        while nodes:
            node = nodes.pop()
            level = levels[node]
            if level <= most:
                continue
            if node < size:
                node *= 2
                nodes += (node, node + 1) if levels[node] < levels[node + 1] else (node + 1, node)
                continue
            view = self._view(node - size)
            draw = rule.index(view, random, rule.parameters)
            while draw > level:
                draw = rule.index(view, random, rule.parameters)
            asked.append(node - size)
            if draw > most:
                chosen, most = node - size, draw
        self._learn(most)
        self._turn = (self._turn + 1) % LEVEL_UPDATE_STRIDE
        for place in asked[self._turn :: LEVEL_UPDATE_STRIDE]:
            self._set_level(place)
        return chosen

    def _learn(self, most: float) -> None:
        """Let the level follow the winning draws, in log-odds: near 1 their law is skew."""
        odds = log(max(most, TINY) / max(1 - most, TINY))
        if self._variance < 0:
            self._mean, self._variance = odds, 0.04
        step = odds - self._mean
        self._mean += AVERAGE_WEIGHT * step
        self._variance = (1 - AVERAGE_WEIGHT) * (self._variance + AVERAGE_WEIGHT * step * step)
        self._level = 1 / (1 + exp(min(self._below * sqrt(self._variance) - self._mean, MAX_EXPONENT)))


def _mass(height: float, slope: float, room: float) -> float:
    """Return the integral of e^(height + slope y) over y from 0 to room, with the exponential at its larger end."""
    if slope == 0:
        return exp(min(height, MAX_EXPONENT)) * room
    return exp(min(height + max(slope, 0.0) * room, MAX_EXPONENT)) * -expm1(-abs(slope) * room) / abs(slope)
