"""One look: the first responses of an experiment, of a number fixed in advance, as they are judged once.

Until the look is taken, nothing that a server sends tells the results of the arms: `LiveExperiment.is_hidden`. The look
is the exact sums of the first responses in the order of the store, written once as events of the arms, so that it
survives a restart, and so that later responses change nothing.

Workers that take the look at the same moment write the same sums, unless the store has meanwhile counted a response
that comes before others in its order. The look of the smallest digest then counts, for every worker.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import chain, islice
from typing import TypeAlias

from ldpbandits.server.store import StoredResponse

PREFIX = "looked"
DIGEST_CHARACTERS = 16

Look: TypeAlias = Mapping[int, tuple[int, ...]]
"""For each arm the number and the sum, in units, of its responses at each level of the menu in a row."""


def first_sums(pieces: Iterable[Sequence[StoredResponse]], count: int, levels: int) -> Look:
    """Return the sums of the first `count` responses by arm and level."""
    sums: dict[int, list[int]] = defaultdict(lambda: [0] * (2 * levels))
    for _, arm, value, cell in islice(chain.from_iterable(pieces), count):
        level = cell % levels
        sums[arm][2 * level] += 1
        sums[arm][2 * level + 1] += value
    return {arm: tuple(numbers) for arm, numbers in sorted(sums.items())}


def look_events(look: Look) -> dict[int, str]:
    """Return the kind of the event of each arm.

    >>> look_events({0: (3, 1), 1: (1, 1)})
    {0: 'looked 4e976527a358b464 3 1', 1: 'looked 4e976527a358b464 1 1'}
    """
    digest = sha256(repr(sorted(look.items())).encode()).hexdigest()[:DIGEST_CHARACTERS]
    return {arm: " ".join([PREFIX, digest, *map(str, numbers)]) for arm, numbers in look.items()}


def is_look(kind: str) -> bool:
    """Tell whether the kind of an event is a part of a look."""
    return kind.startswith(PREFIX + " ")


def read_look(events: Iterable[tuple[int, str]], count: int) -> Look | None:
    """Return the look among the kinds of the events of arms; None where none of `count` responses is complete."""
    found: dict[str, dict[int, tuple[int, ...]]] = defaultdict(dict)
    for arm, kind in events:
        _, digest, *numbers = kind.split(" ")
        found[digest][arm] = tuple(map(int, numbers))
    whole = [digest for digest, look in found.items() if sum(sum(each[::2]) for each in look.values()) == count]
    return found[min(whole)] if whole else None
