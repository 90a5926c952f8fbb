"""A row of numbers whose greatest is known at all times, however the numbers change."""

from collections.abc import Iterable
from math import inf


class Tournament:
    """The numbers play each other in pairs, the greater ones in pairs again, and so on; every match keeps its result.

    A number that changes replays only its own matches, and only as long as their results change: log2 of the row's
    length at most. `scores[1]` is the final; the match `node` is between `2 node` and `2 node + 1`; the number of
    `place` is at `size + place`.
    """

    def __init__(self, values: Iterable[float]) -> None:
        """Play all matches of these numbers, of which there must be one."""
        row = list(values)
        self.size = 1 << (len(row) - 1).bit_length()
        row += [-inf] * (self.size - len(row))
        self.scores = row
        while len(row) > 1:
            row = list(map(max, row[::2], row[1::2]))
            self.scores = row + self.scores
        self.scores = [-inf, *self.scores]

    def set(self, place: int, value: float) -> None:
        """Change one number."""
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
        """Return the place of the greatest number, the first of several."""
        scores, node = self.scores, 1
        while node < self.size:
            node *= 2
            if scores[node] < scores[node + 1]:
                node += 1
        return node - self.size
