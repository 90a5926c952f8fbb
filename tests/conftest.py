"""What several tests need."""

import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from ldpbandits.device.randomness import Draw

# A promise that is broken shows the values, as a test does.
pytest.register_assert_rewrite("tests.server.store_contract", "tests.spec.kind_contract")

# A program that a script starts in the background ignores Ctrl-C, and so do those that it starts. Tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def seeded() -> Callable[[int], Draw]:
    """Make words from a seed, the same ones every time."""

    def make(seed: int) -> Draw:
        rng = random.Random(seed)
        return lambda count: [rng.getrandbits(64) for _ in range(count)]

    return make


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return Path(__file__).parent.parent
