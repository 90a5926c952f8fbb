"""Max tree: a segment tree over a row of numbers that keeps their maximum while single numbers change."""

from collections.abc import Iterable
from math import inf


class MaxTree:
    """A complete binary tree in an array; each inner node holds the maximum of its two children.

    `scores[1]` is the root, the maximum of all; the children of `node` are `2 node` and `2 node + 1`; the number at
    `place` is the leaf `size + place`. A change updates the leaf's ancestors as long as they change: at most log2 of
    the row's length.
    """

    def __init__(self, values: Iterable[float]) -> None:
        """Build the tree over these numbers; there must be at least one."""
        row = list(values)
        self.size = 1 << (len(row) - 1).bit_length()
        row += [-inf] * (self.size - len(row))
        self.scores = row
        while len(row) > 1:
            row = list(map(max, row[::2], row[1::2]))
            self.scores = row + self.scores
        self.scores = [-inf, *self.scores]

    def set(self, place: int, value: float) -> None:
        """Set the number at `place`, and update its ancestors."""
        scores, node = self.scores, self.size + place
        scores[node] = value
        while node > 1:
            other = scores[node ^ 1]
            value = max(value, other)
            node >>= 1
            if scores[node] == value:
                return
            scores[node] = value

    def first(self) -> int:
        """Return the place of the maximum, the first of several."""
        scores, node = self.scores, 1
        while node < self.size:
            node *= 2
            if scores[node] < scores[node + 1]:
                node += 1
        return node - self.size
