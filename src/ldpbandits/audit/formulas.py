"""A function that claims to be one of our curators, held to that curator's formulas."""

from dataclasses import replace
from math import inf

import numpy as np

from ldpbandits.audit.blackbox import Sample
from ldpbandits.audit.claim import Claim
from ldpbandits.audit.domain import unit
from ldpbandits.audit.guess import Guesses, bound_layer
from ldpbandits.audit.result import Layer
from ldpbandits.audit.sanity import Moments, moments_layer
from ldpbandits.device.curators import LaplaceCurator
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.spec.mechanisms import GRID_BITS

DEVICE_SAMPLES = 20_000
"""Responses to each reward from the device's own code, one by one, beside those drawn in bulk."""


LARGEST = 1e100
"""No curator of ours responds with as much; squares of less do not overflow."""


def on_device(claim: Claim) -> Claim:
    """Return the claim with as many samples as a device gives in a moment, and fresh ones each time."""
    return replace(claim, rewards=(claim.low, claim.high), samples=min(claim.samples, DEVICE_SAMPLES), seed=None)


def guess_layer(spec: CuratorSpec, of: Sample, claim: Claim, alpha: float) -> Layer:
    """Guess the high reward at or above it, the low one at or below it, else abstain (see ours.py)."""
    low, high = (0.0, 1.0) if spec.mechanism.kind == "bernoulli" else (unit(spec, claim.low), unit(spec, claim.high))
    is_low, is_high = (of.chosen == of.rewards.index(reward) for reward in (claim.low, claim.high))
    says_low, says_high = of.responses <= low, of.responses >= high
    right = np.count_nonzero(is_low & says_low) + np.count_nonzero(is_high & says_high)
    made = np.count_nonzero((is_low | is_high) & (says_low | says_high))
    guesses = Guesses(int(right), int(made), alpha)
    return bound_layer("empirical: best guess", guesses, claim.epsilon, f"best against {spec.mechanism.kind}")


def sanity_layer(name: str, spec: CuratorSpec, of: Sample, alpha: float) -> Layer:
    """Compare mean and variance with the formula."""
    moments = []
    for number, reward in enumerate(of.rewards):
        at = unit(spec, reward)
        origin = 0.0 if spec.mechanism.kind == "bernoulli" else LaplaceCurator.steps(at) / (1 << GRID_BITS)
        given = of.responses[of.chosen == number] - origin
        finite = bool((np.abs(given) < LARGEST).all())  # false for what is not a number, too
        total, squares = (float(given.sum()), float((given * given).sum())) if finite else (inf, inf)
        moments.append(Moments(at, len(given), total, squares, origin))
    return moments_layer(name, spec.mechanism.kind, spec.epsilon, moments, alpha)
