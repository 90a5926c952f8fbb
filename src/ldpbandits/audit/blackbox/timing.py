"""Does the time that a response takes tell the size of its noise, or the reward? It is reported, never judged.

Two things are measured: the rank correlation of time with the size of the noise, and the median time for each of two
rewards. Somebody who can measure them has a side channel that no law of responses closes; the remedy is outside of the
curator.
"""

from math import sqrt
from time import perf_counter_ns

import numpy as np
from scipy.stats import rankdata

from ldpbandits.audit.evidence import Evidence
from ldpbandits.audit.result import Finding, Reals
from ldpbandits.audit.subject import Respond, as_number

CALLS = 2_000
NOTEWORTHY = 5.0
"""Standard errors of a rank correlation; by chance once in a million."""
LARGEST = 1e100
"""Responses beyond are taken for this, and NaN for 0: only their ranks matter here."""
REMEDY = "send responses at a fixed delay after the reward, so that their time tells nothing"


def response_time(evidence: Evidence, _alpha: float) -> Finding:
    """Time single responses to two rewards in turn."""
    if evidence.subject.respond is None:
        return Finding("not applicable", f"not measured through a pipe; to be safe, {REMEDY}")
    measured = _measure(evidence.subject.respond, evidence.claim.low, evidence.claim.high)
    if isinstance(measured, str):
        return Finding("reported", f"not measured: {measured}")
    times, responses = measured
    noise = np.abs(responses - np.median(responses, axis=1, keepdims=True))
    link = max((_rank_correlation(times[i], noise[i]) for i in (0, 1)), key=abs)
    medians = np.median(times, axis=1) / 1e3
    is_large = noise > np.median(noise, axis=1, keepdims=True)
    longer = float(np.median(times[is_large]) - np.median(times[~is_large])) if is_large.any() else 0.0
    text = (
        f"median {medians[0]:.2f} and {medians[1]:.2f} us for the two rewards, "
        f"{longer:+.0f} ns where noise is large (rank correlation {link:+.2f})"
    )
    is_linked = abs(link) * sqrt(CALLS - 1) > NOTEWORTHY
    return Finding("reported", f"{text}{': time tells of noise' if is_linked else ''}. To be safe, {REMEDY}")


def _measure(respond: Respond, low: float, high: float) -> tuple[Reals, Reals] | str:
    """Return times and responses, or why there are none; what an error says is not repeated."""
    times, responses = np.empty((2, CALLS)), np.empty((2, CALLS))
    for call in range(CALLS):
        for side, reward in enumerate((low, high)):
            try:
                started = perf_counter_ns()
                response = respond(reward)
                times[side, call] = perf_counter_ns() - started
            except (Exception, SystemExit) as error:  # noqa: BLE001 - anybody's code may raise anything
                return f"the curator raised {type(error).__name__} on a reward that it had answered before"
            number = as_number(response)
            if isinstance(number, str):
                return number
            responses[side, call] = number
    return times, np.clip(np.nan_to_num(responses), -LARGEST, LARGEST)


def _rank_correlation(one: Reals, other: Reals) -> float:
    """Spearman's; 0 where one of them does not vary."""
    x, y = rankdata(one) - (len(one) + 1) / 2, rankdata(other) - (len(other) + 1) / 2
    spread = sqrt(float((x * x).sum()) * float((y * y).sum()))
    return float((x * y).sum()) / spread if spread else 0.0
