"""Bounded argmax: find the arm that `kernels.select` chooses, and compute the indexes of a few arms only.

While the tally of an arm does not change, only a clock moves its index: t, or the largest mean. A rule declares which
one (`moves`), and then a `BoundedArgmax` decides. Without a declaration every decision computes every index.

**Arms of equal tallies share an index.** They form one group, represented by its lowest-numbered arm. Thousands of arms
with a few responses each form few groups, and ties are within them. Arms without a response share the mean of all
responses; their groups differ in N alone, so these are few too, and every decision computes their indexes.

**Every other group has an upper bound.** It is index(later clock) + margin, which the group's index does not exceed
until the clock passes that later reading: the index rises with the clock, and the margin exceeds the rounding error.

**The choice is that of the full scan.** A decision renews the bounds that the clock has passed. Then it computes exact
indexes, by the rule's own kernel on the numbers that the full scan uses, group by group in the order of falling bounds,
until every bound that remains is below the largest index found. A group that was skipped has an index <= its bound <
that index: none of its arms is the choice of the full scan, nor tied with it. Among the computed groups the largest
index wins, and ties go to the lowest-numbered arm. Starving arms come first, as in the full scan.

**Lookahead.** A later clock reading gives a bound that lasts longer and is looser, and a loose bound costs an index in
each decision. A group whose index was computed and lost halves the lookahead that would just have sufficed; a group
whose bound the clock has passed doubles its lookahead.
"""

from bisect import bisect_left, insort
from enum import Enum
from itertools import repeat
from math import inf, isfinite, log
from typing import Protocol, TypeAlias

from ldpbandits.agent.kernels import ArmView, Index, Parameters, Random
from ldpbandits.agent.max_tree import MaxTree
from ldpbandits.agent.tally import Row, Tally

CHEAP_INDEX_MIN_ARMS, COSTLY_INDEX_MIN_ARMS = 24, 6
"""Number of arms from which a bounded argmax is faster than a full scan: for an index that is cheap, and for others."""


class Moves(Enum):
    """How a clock moves the index of an arm whose own tally does not change; the index must draw nothing."""

    WITH_T = "t"
    """The index never falls as t rises, and does not depend on the largest mean."""
    AGAINST_BEST = "best"
    """The index never rises as the largest mean rises, and does not depend on t."""


class IndexRule(Protocol):
    """The kernel that decides, and its numbers: a `Rule` and a `BoundRule` both have them."""

    @property
    def index(self) -> Index:
        """The kernel that says how promising an arm is."""

    @property
    def parameters(self) -> Parameters:
        """The numbers that `index` takes."""

    @property
    def floor(self) -> float:
        """Arms with N <= floor log(t + 1) are pulled first."""


ROUNDING_MARGIN = 1e-9
"""Added to a bound, times |index| + |mean|: it exceeds the rounding error of the kernels, which is below 1e-11."""

MAX_LOOKAHEAD_SHARE = {Moves.WITH_T: 0.5, Moves.AGAINST_BEST: 0.25}
"""Largest lookahead of a bound: as a share of t, or of the distance from the largest mean to the arm's own mean."""

Key: TypeAlias = tuple[float, int, int, Row]
"""The tally that the arms of a group share: mean (0 without pulls), pulls, N and cells."""


class BoundedArgmax:
    """Upper bounds on the indexes of all groups of one tally, for one rule."""

    def __init__(self, rule: IndexRule, moves: Moves, tally: Tally, random: Random) -> None:
        """Start with every arm of the tally; the first decision computes every bound."""
        self._index, self._parameters, self._floor, self._random = rule.index, rule.parameters, rule.floor, random
        self._moves, self._farthest = moves, MAX_LOOKAHEAD_SHARE[moves]
        self._tally, self.touched = tally, tally.touched
        self._arms = arms = len(tally.counts)
        self._fewest = MaxTree(-n for n in tally.counts)
        self._means, self._bounds, self._ends = (MaxTree(repeat(-inf, arms)) for _ in range(3))
        self._far = [self._farthest] * arms
        self._group = [-1] * arms
        self._groups: dict[Key, int] = {}  # at most as many as arms
        self._keys: list[Key] = [(0.0, 0, 0, ())] * arms
        self._members: list[list[int]] = [[] for _ in range(self._bounds.size)]
        self._free = list(range(arms - 1, -1, -1))
        self._t, self._best, self._clock = 0, 0.0, 0.0
        self.touched.clear()
        self.touched.update(place for place, n in enumerate(tally.counts) if n)

    def select(self) -> int:
        """Return the place of the arm that `kernels.select` returns."""
        fresh = self._regroup()
        self._read_clock()
        for group in fresh:
            self._renew(group, self._far[group])
        ends = self._ends
        while -ends.scores[1] < self._clock:
            group = ends.first()
            self._renew(group, min(2 * self._far[group], self._farthest))
        if -self._fewest.scores[1] <= self._floor * log(self._t + 1.0):
            return self._fewest.first()
        return self._argmax()

    def _regroup(self) -> list[int]:
        """Move each arm whose tally changed to its group; return the groups that are new."""
        tally, left = self._tally, list[int]()
        for place in self.touched:
            self._fewest.set(place, -tally.counts[place])
            group = self._group[place]
            if group >= 0:
                members = self._members[group]
                del members[bisect_left(members, place)]
                if not members:
                    del self._groups[self._keys[group]]
                    left.append(group)
        fresh = []
        for place in self.touched:
            pulls, n = tally.pulls[place], tally.counts[place]
            if not n:  # it starves: its index is not needed
                self._group[place] = -1
                continue
            key = (tally.means[place], pulls, n, tally.cells[place]) if pulls else (0.0, 0, n, ())
            group = self._groups.get(key, -1)
            if group < 0:
                group = left.pop() if left else self._free.pop()
                self._groups[key], self._keys[group] = group, key
                self._means.set(group, key[0] if pulls else -inf)
                # Staggered, so that not all bounds expire at once.
                self._far[group] = self._farthest * (0.5 + 0.5 * group / self._arms)
                fresh.append(group)
            insort(self._members[group], place)
            self._group[place] = group
        for group in left:
            self._means.set(group, -inf)
            self._set_bound(group, -inf, inf)
        self._free += left
        self.touched.clear()
        return fresh

    def _read_clock(self) -> None:
        tally = self._tally
        self._t, self._best = tally.t, self._means.scores[1]
        if tally.silent:
            self._best = max(self._best, tally.mean_of_all)
        match self._moves:
            case Moves.WITH_T:
                self._clock = float(self._t)
            case Moves.AGAINST_BEST:
                self._clock = -self._best

    def _renew(self, group: int, far: float) -> None:
        """Compute the upper bound of a group with the lookahead `far`."""
        mean, pulls, n, cells = self._keys[group]
        if not pulls:  # its mean moves with every response: compute its index each time
            self._set_bound(group, inf, inf)
            return
        self._far[group] = far
        match self._moves:
            case Moves.WITH_T:
                end = self._t + max(1.0, far * self._t)
                view = ArmView(mean, pulls, n - pulls, n, end, self._best, self._arms, cells)
            case Moves.AGAINST_BEST:
                lower = max(self._best - far * (self._best - mean), mean)
                end = -lower if lower > mean else inf  # the largest mean is never below this one
                view = ArmView(mean, pulls, n - pulls, n, self._t, lower, self._arms, cells)
        ahead = self._index(view, self._random, self._parameters)
        self._set_bound(group, ahead + ROUNDING_MARGIN * (abs(ahead) + abs(mean)) if isfinite(ahead) else ahead, end)

    def _set_bound(self, group: int, bound: float, end: float) -> None:
        self._bounds.set(group, bound)
        self._ends.set(group, -end)

    def _argmax(self) -> int:
        """Return the arm of largest index, the lowest-numbered of several."""
        bounds, size = self._bounds.scores, self._bounds.size
        chosen, most, computed = -1, -inf, list[tuple[int, float]]()
        nodes = [1]
        while nodes:
            node = nodes.pop()
            if bounds[node] < most:
                continue
            if node < size:
                node *= 2
                nodes += (node, node + 1) if bounds[node] < bounds[node + 1] else (node + 1, node)
                continue
            group = node - size
            members = self._members[group]
            if not members:
                continue
            mean, pulls, n, cells = self._keys[group]
            if not pulls:
                mean, cells = self._tally.mean_of_all, self._tally.cells_of_all
            view = ArmView(mean, pulls, n - pulls, n, self._t, self._best, self._arms, cells)
            value = self._index(view, self._random, self._parameters)
            computed.append((group, value))
            if value > most or chosen < 0 or (value == most and members[0] < chosen):
                chosen, most = members[0], value
        if len(computed) > 1:
            self._tighten(computed, most)
        return chosen

    def _tighten(self, computed: list[tuple[int, float]], most: float) -> None:
        """Lower the bounds of the groups that were computed and lost below the winning index, where possible."""
        for group, value in computed:
            bound = self._bounds.scores[self._bounds.size + group]
            if value < most < bound < inf:
                enough = (most - value) / (bound - value) if isfinite(value) else 1.0
                far = self._far[group] * 0.5 * enough
                if self._moves is Moves.AGAINST_BEST or far * self._t >= 1:
                    self._renew(group, far)
