"""Curators by name, as the command line and the lab take them. Devices get curators as data, and need no names."""

import re

from ldpbandits.errors import SpecError
from ldpbandits.spec.mechanisms import Bernoulli, Laplace
from ldpbandits.spec.transforms import Range, Sigmoid, Threshold, Transform

PAPER_CURATORS: dict[str, tuple[type[Bernoulli | Laplace], Transform]] = {
    "ctb": (Bernoulli, Range()),
    "ctl": (Laplace, Range()),
    "ctb-s": (Bernoulli, Sigmoid()),
    "ctl-s": (Laplace, Sigmoid()),
}
"""The curators of the paper by its own names, up to their epsilon."""

THRESHOLD_CURATORS: dict[str, type[Bernoulli | Laplace]] = {"ctb-t": Bernoulli, "ctl-t": Laplace}
"""The curators behind a threshold, up to epsilon and theta: theta stands in the name, as in ctb-t(0.9)."""

CURATOR_NAMES = (*PAPER_CURATORS, *(f"{name}(THETA)" for name in THRESHOLD_CURATORS))


def find_curator(name: str) -> tuple[type[Bernoulli | Laplace], Transform] | None:
    """Return the curator of a name up to its epsilon; None if there is none.

    >>> find_curator("ctb-t(0.9)")
    (<class 'ldpbandits.spec.mechanisms.Bernoulli'>, Threshold(theta=0.9))
    """
    base, threshold = split_threshold(name)
    if threshold is None:
        return PAPER_CURATORS.get(name)
    mechanism = THRESHOLD_CURATORS.get(base)
    return None if mechanism is None else (mechanism, threshold)


def split_threshold(name: str) -> tuple[str, Threshold | None]:
    """Split a name such as `ctb-t(0.9)` into its base and its threshold; any other name has no threshold.

    >>> split_threshold("ctb-t(0.9)")
    ('ctb-t', Threshold(theta=0.9))
    >>> split_threshold("ctb-s")
    ('ctb-s', None)
    """
    if parts := re.fullmatch(r"(.*t)\(([^()]*)\)", name):
        try:
            return parts[1], Threshold(float(parts[2]))
        except (ValueError, SpecError):  # not a valid theta: then it is no such name
            pass
    return name, None
