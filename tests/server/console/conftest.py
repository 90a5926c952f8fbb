"""What the tests of the console share."""

from collections.abc import Iterator

import pytest
from tests.server.console.browsing import ENVIRONMENT
from tests.server.memory_store import MemoryStore

from ldpbandits.server.service import Service


class Clock:
    """A time that passes when it is told to."""

    def __init__(self) -> None:
        """Begin at some time."""
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """The time of the service."""
    return Clock()


@pytest.fixture
def service(clock: Clock) -> Iterator[Service]:
    """A service without experiments."""
    made = Service(MemoryStore(), ENVIRONMENT, now=clock)
    yield made
    made.close()
