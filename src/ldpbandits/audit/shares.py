"""How the chance of a false alarm, 1 - confidence, is shared among the tests of one audit.

By the union bound an honest curator is called violated, or some lower bound lies above its true epsilon, with
probability at most the sum of the shares, which is 1 - confidence. Nearly all of it goes to the test that gives the
lower bound: a share of 0.84 instead of 1 costs that bound 0.05 standard errors, and the tests for faults, which are
absent or glaring, need little.
"""

from typing import Literal, TypeAlias

Share: TypeAlias = Literal[
    "bound",
    "low bits",
    "before",
    "device event",
    "device low bits",
    "precision",
    "memory",
    "fork",
    "seed",
    "sanity",
    "device",
]

SHARES: dict[Share, float] = {
    "bound": 0.84,
    "low bits": 0.03,
    "before": 0.03,
    "device event": 0.02,
    "device low bits": 0.01,
    "precision": 0.02,
    "memory": 0.01,
    "fork": 0.01,
    "seed": 0.01,
    "sanity": 0.01,
    "device": 0.01,
}
"""What part of 1 - confidence each test may use up."""
