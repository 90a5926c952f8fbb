"""The whole audit, from a curator, a function or a program to its layers; and its power.

Power is the epsilon that single responses could have and still pass: `consistent` says little without power.

A rule that makes m guesses calls a claim violated if k or more of them are right, for some k. A curator whose guesses
are right with probability e^x / (1 + e^x) is caught nineteen times in twenty if x is at least

    logit of the p with P(Binomial(m, p) >= k) = 0.95

and there is no such x if even m right ones would not do. That is what epsilon could be, as far as this rule goes. It
is all that can be said of single responses if they are few different ones, since then a rule by value sees all that
one of them shows; or if a rule came near the claim. Otherwise responses are many and no rule could read them: epsilon
could be anything. It says nothing of a leak that several responses show together, such as noise that is used twice: a
curator may have any epsilon by such a leak and still pass the rules that are counted here.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import inf, log
from time import monotonic, perf_counter

import numpy as np
from scipy.special import betaincinv

import ldpbandits
from ldpbandits.audit.blackbox import events
from ldpbandits.audit.checks import run_checks
from ldpbandits.audit.evidence import FEWEST_CALLS, LEAST_SAMPLES, Claim, Evidence, Guesser, Progress, ResponseTable
from ldpbandits.audit.guess import epsilon_lower
from ldpbandits.audit.result import Audit, Layer, Record
from ldpbandits.audit.sample import TEST, Sample
from ldpbandits.audit.target import FOREVER_S, Late, Respond, Target, Unanswered, target_of
from ldpbandits.audit.whitebox import ours
from ldpbandits.audit.whitebox.known import is_known_by_code, knowledge
from ldpbandits.audit.whitebox.ours import WhiteBox
from ldpbandits.device.curators import Curator
from ldpbandits.errors import ParameterError
from ldpbandits.spec.curator import CuratorSpec

OUR_SAMPLES = 10_000_000
OTHERS_SAMPLES = 200_000
RULE_SHARE = 0.015
"""The least share of a rule that reads responses, that of a window of calls."""
MOST_UNITS = 1 << 62
"""Responses in bulk are 64-bit integers, in units of the mechanism."""
DETECTION_PROBABILITY = 0.95
MIN_REPEATS = 20
"""A response that came as often as this is told from others by its value."""
MIN_REPEATED_SHARE = 0.99
MIN_BOUND_SHARE = 0.25
"""A rule has read the responses if its bound is this part of the claim, or more."""


def audit(  # noqa: PLR0913 - a claim, what supports it, and how hard to look
    respond: Curator | Respond | Target,
    rewards: Sequence[float] | None = None,
    epsilon: float | None = None,
    *,
    samples: float | None = None,
    confidence: float = 0.999,
    spec: CuratorSpec | None = None,
    law: ResponseTable | None = None,
    another_user: Callable[[], Respond] | None = None,
    guesser: Guesser | None = None,
    calls_per_run: int | None = None,
    time: float = FOREVER_S,
    seed: int | None = None,
    progress: Progress = lambda _count: None,
    command: str | None = None,
) -> Audit:
    """Check the claim that `respond` is epsilon-LDP between the rewards given.

    `respond` is a curator, or any function from a reward to a response: a number, a text, anything that `str` writes.
    `rewards` are those to tell apart: by default the ends of the curator's range, or 0 and 1, and some between them.
    `samples` responses are drawn to each reward on average: each call gets a reward chosen at random. The chance of a
    false alarm is at most 1 - confidence.

    `spec` says which curator the function claims to be, so that its mean, its variance and its refusals can be checked;
    `law`, the exact probability of each response for each reward, so that the claim can be proved; `another_user`, a
    function that makes the curator of another user, whether users share their noise; `guesser`, a function from a
    response as text to the reward that it guesses, or None, what one needs to know to read the responses. A run of a
    program has `calls_per_run` calls at the most. After `time` seconds, what there is is judged. With a `seed`, bulk
    sampling and the choice of rewards can be repeated; without, all is the operating system's. `command` is what the
    record of the audit says of how it was called.
    """
    start = perf_counter()
    target = target_of(respond, spec, another_user)
    spec, usual_samples = target.spec, OUR_SAMPLES if is_known_by_code(respond) else OTHERS_SAMPLES
    if epsilon is None and spec is None:
        raise ParameterError("epsilon is needed: what does this function claim?")
    usual_rewards = (0.0, 1.0) if spec is None else spec.transform.ends
    claim = Claim.of(
        spec.epsilon if epsilon is None and spec is not None else epsilon,
        usual_rewards if rewards is None else rewards,
        usual_samples if samples is None else samples,
        confidence,
        seed,
        calls_per_run,
    )
    evidence = (
        WhiteBox(target, claim, progress=progress, curator=respond)
        if is_known_by_code(respond)
        else Evidence(target, claim, law, progress, monotonic() + time, interior=rewards is None, guesser=guesser)
    )
    _check_coverage(evidence)
    evidence.seconds_to_respond()  # it raises where nothing can be judged
    layers = run_checks(evidence)
    if isinstance(evidence, WhiteBox):
        is_proved = layers[0].verdict == "consistent"
        found = claim.samples, ours.profiles(evidence), claim.epsilon if is_proved else inf
    else:
        try:
            sample = evidence.drawn
        except Late:  # before the first response of the main sample: its checks are not finished
            found = 0, (), inf
        else:
            layers, samples_drawn = _with_trouble(claim, sample, layers)
            most = could_be(claim, sample, layers, claim.alpha(RULE_SHARE))
            found = samples_drawn, events.profiles(sample), most
    drawn, profiles, most = found
    seconds = perf_counter() - start
    record = Record(claim.rewards, seed, command, target.digest, ldpbandits.__version__)
    return Audit(target.what, claim.epsilon, claim.confidence, drawn, seconds, layers, profiles, most, record)


def _with_trouble(claim: Claim, sample: Sample, layers: tuple[Layer, ...]) -> tuple[tuple[Layer, ...], int]:
    """Return how many responses there are to each reward, and say so where the time was up before there were all.

    A suspect that fails is an error, unless enough was found: a violation stands, whatever happens afterwards.
    """
    trouble, drawn = sample.trouble, sample.calls // len(claim.rewards)
    if sample.missing:
        told = f"{sample.missing:,} of {len(sample.chosen):,} responses are missing"
        layers = (*layers, Layer("the run", "reported", told))
    if trouble is None and sample.calls >= claim.calls:
        return layers, claim.samples
    if trouble is None:
        told = f"{drawn:,} of {claim.samples:,} responses to each reward in the time given (--time allows more)"
        if drawn < LEAST_SAMPLES:
            return (*layers, Layer("the run", "not finished", f"{told}; {LEAST_SAMPLES:,} are needed")), drawn
        return (*layers, Layer("the run", "reported", told)), min(drawn, claim.samples)
    if sample.calls < FEWEST_CALLS or not any(layer.verdict == "violated" for layer in layers):
        raise Unanswered(trouble)
    return (*layers, Layer("the run", "reported", f"not finished: {trouble}")), drawn


def _check_coverage(evidence: Evidence) -> None:
    """Check that the curator takes the rewards of the claim, and promises to hide which of them it was."""
    spec, low, high = evidence.spec, evidence.claim.low, evidence.claim.high
    if spec is None:
        return
    transform, unit = spec.transform, spec.mechanism.unit
    refusals = [rule for reward in evidence.claim.rewards if (rule := transform.refusal(reward)) is not None]
    if refusals:
        raise ParameterError(f"this curator takes no such rewards: {refusals[0]}")
    if knowledge(spec) is not None and max(abs(spec.value(low)), abs(spec.value(high))) >= MOST_UNITS * unit:
        most = f"{MOST_UNITS * unit:.0e}".replace("+", "")
        raise ParameterError(f"rewards must lie within 2^62 steps of the grid, some {most}, to be audited")
    ends = transform.ends  # neighbours, and so are any two between them
    if not (ends[0] <= low and high <= ends[1]) and Fraction(high) - Fraction(low) > transform.neighbours:
        where = "" if transform.bounded else "on the real line "
        most = f"{transform.neighbours:g}"
        raise ParameterError(f"{where}only rewards that differ by at most {most} are protected from each other")


def detectable(guesses: int, alpha: float, epsilon: float) -> float:
    """Return the least true epsilon that `guesses` guesses detect nearly always, if `epsilon` is claimed."""
    if guesses < 1 or epsilon_lower(guesses, guesses, alpha) <= epsilon:
        return inf
    low, high = 0, guesses  # the fewest right guesses that refute the claim, by bisection
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if epsilon_lower(middle, guesses, alpha) > epsilon else (middle, high)
    p = float(betaincinv(high, guesses - high + 1, DETECTION_PROBABILITY))
    return log(p) - log(1 - p) if p < 1 else inf


def could_be(claim: Claim, sample: Sample, layers: Sequence[Layer], alpha: float) -> float:
    """Return what epsilon could be, as far as the rules of these layers go, each at this level or a larger one."""
    _, counts = np.unique(sample.said.hashes, return_counts=True)
    if counts[counts >= MIN_REPEATS].sum() >= MIN_REPEATED_SHARE * len(sample.chosen):
        tested = np.count_nonzero(sample.roles == TEST) + sample.calls - len(sample.chosen)
        return detectable(int(tested * 2 / len(sample.rewards)), alpha, claim.epsilon)
    rules = [layer for layer in layers if layer.guesses and layer.epsilon_lower >= MIN_BOUND_SHARE * claim.epsilon]
    return min((detectable(layer.guesses, alpha, claim.epsilon) for layer in rules), default=inf)
