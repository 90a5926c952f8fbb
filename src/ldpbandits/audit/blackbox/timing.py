"""Does the time that a response takes tell the size of its noise, or the reward? It is reported, never judged.

Two things are measured: the rank correlation of time with the size of the noise, and the median time for each of two
rewards. Of a program, which is asked one reward at a time, the second only; and how well the reward is guessed by time
alone, as by a response. Somebody who can measure them has a side channel that no law of responses closes; the remedy
is outside of the curator.
"""

from math import sqrt
from time import perf_counter_ns

import numpy as np
from scipy.stats import rankdata

from ldpbandits.audit.blackbox.events import judge_event, size_bins
from ldpbandits.audit.blackbox.stderr_leak import Turns, turns_of
from ldpbandits.audit.evidence import Evidence
from ldpbandits.audit.result import Finding, Reals
from ldpbandits.audit.sample import Sample
from ldpbandits.audit.texts import Texts, number, text_of

CALLS = 2_000
NOTEWORTHY = 5.0
"""Standard errors of a rank correlation; by chance once in a million."""
CHANCE = 1e-6
"""That time is said to tell of the reward where it does not."""
LARGEST = 1e100
"""Responses beyond are taken for this, and NaN for 0: only their ranks matter here."""
REMEDY = "send responses at a fixed delay after the reward, so that their time tells nothing"


def response_time(evidence: Evidence, _alpha: float) -> Finding:
    """Time single responses to two rewards in turn."""
    if evidence.target.respond is None:
        turns = turns_of(evidence)
        if turns is None:
            return Finding("not applicable", f"not measured through a pipe; to be safe, {REMEDY}")
        return _through_a_pipe(turns)
    measured = _measure(evidence)
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


def _through_a_pipe(turns: Turns) -> Finding:
    """Guess the reward by the time from its sending to its response: a rule that is chosen on disclosed coins."""
    times, chosen = turns.seconds, turns.chosen
    rewards = turns.rewards
    sample = Sample(rewards, chosen, times, Texts.of([b""] * len(times)), rng=np.random.default_rng())
    guessed = judge_event([size_bins(times, ())], sample, CHANCE, 0.0)
    medians = [1e6 * float(np.median(times[chosen == side])) if (chosen == side).any() else 0.0 for side in (0, 1)]
    text = f"median {medians[0]:.0f} and {medians[1]:.0f} us for the two rewards, one at a time through a pipe"
    if guessed.verdict == "violated":
        text += (
            f": time tells of the reward, by itself like a response with epsilon {guessed.epsilon_lower:.2f} or more"
        )
    return Finding("reported", f"{text}. To be safe, {REMEDY}")


def _measure(evidence: Evidence) -> tuple[Reals, Reals] | str:
    """Return times and responses, or why there are none; what an error says is not repeated."""
    respond = evidence.target.respond
    assert respond is not None  # noqa: S101 - as was asked before
    times, responses = np.empty((2, CALLS)), np.empty((2, CALLS))
    for call in range(CALLS):
        evidence.check_time()
        for side, reward in enumerate((evidence.claim.low, evidence.claim.high)):
            try:
                started = perf_counter_ns()
                response = respond(reward)
                times[side, call] = perf_counter_ns() - started
            except (Exception, SystemExit) as error:  # noqa: BLE001 - anybody's code may raise anything
                return f"the curator raised {type(error).__name__} on a reward that it had answered before"
            responses[side, call] = number(text_of(response))
    return times, np.clip(np.nan_to_num(responses), -LARGEST, LARGEST)


def _rank_correlation(one: Reals, other: Reals) -> float:
    """Spearman's; 0 where one of them does not vary."""
    x, y = rankdata(one) - (len(one) + 1) / 2, rankdata(other) - (len(other) + 1) / 2
    spread = sqrt(float((x * x).sum()) * float((y * y).sum()))
    return float((x * y).sum()) / spread if spread else 0.0
