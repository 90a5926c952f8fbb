"""How much is planted, killed and tried: some of it in `make test`, all of it in `make faults`."""

import os
from collections.abc import Iterable
from typing import TypeVar

FAULTS = "LDPBANDITS_FAULTS" in os.environ
"""Set by `make faults`."""

T = TypeVar("T")


def some(cases: Iterable[T], most: int = 1) -> list[T]:
    """Return the first of these planted faults, which show that a test can fail; in `make faults`, all of them."""
    return list(cases)[: None if FAULTS else most]


def spread(cases: Iterable[T], most: int) -> list[T]:
    """Return so many of these cases, from all parts of the list; in `make faults`, all of them."""
    every = list(cases)
    return every if FAULTS else every[:: -(-len(every) // most)]
