"""What repeats: two streams of noise that are the same, and a response that is remembered.

STREAMS. Two streams of noise that are the same: a seed left in, a seed shared by two users, a generator copied by fork.

Ask two curators for responses to the same rewards. If both draw fresh noise, then for each reward the responses of the
second are exchangeable: given which values occur how often, every order of them is equally likely. So the chance that
they come in exactly the order of the first is at most

    1 / product over rewards of (count)! / product of (multiplicities)!

whatever the law. It is a p-value that needs no model: 2^-120 or so for 128 fair bits, and 1 for a curator that always
says the same, of which nothing can be told in this way.

One stream may also run a few responses behind the other, so they are compared at several lags too, over those calls
that had the same reward. A seed of few bits repeats only among many users, so many are asked. The level is divided by
the number of all these comparisons.

MEMORY. A response that is remembered: the same reward, the same answer again.

Two rewards get a first response each. A fair coin chooses one of them, and that reward gets a second response. Whoever
has seen the three responses knows which of the first two came again: the one, the other, both or neither. If noise is
fresh, the coin shows in the second response only, and guess.py applies with epsilon itself, whatever is guessed from
those four cases. If responses are kept by reward, the guesses are right. So a rule is chosen on one half of the pairs,
and tried on the other. (Sending one stored response twice is private. Keeping it by reward, and giving it out for every
round in which that reward recurs, tells which rounds were alike, and with whom.)

A curator that remembers the last few rewards gives itself away only when a reward comes again at once. One that
remembers all of them may do so only later, if many users share it. So half of the pairs are asked in either way.
"""

import os
import select
import warnings
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from math import exp, lgamma
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.evidence import Claim, Evidence
from ldpbandits.audit.guess import best_rule, count_cells, try_rule
from ldpbandits.audit.result import Finding, Reals
from ldpbandits.audit.subject import Ask, Unanswered

LENGTH = 256
LAGS = (0, *(sign * lag for lag in (1, 2, 3, 4) for sign in (1, -1)))
"""By how many responses one stream may be behind the other."""
USERS = 16
"""Among 16 users a seed of 4 bits is repeated all but once in a million times, one of 6 bits 6 times in 7."""
RUNS = 4
"""Users of a program: each is a run, and takes its time."""
PATIENCE = 60.0
"""Seconds that a forked child may take."""
PAIRS = 8_000
"""The rule is tried on 4,000 of them. Where one pair in 16 gives the coin away, those are 250 guesses, and if all of
them are right, epsilon is at least 3 at 99.9 %."""
CASES = 4
"""Neither first response came again, the one, the other, both."""


def chance_of_repeat(rewards: Sequence[float], responses: Reals) -> float:
    """Return how likely a second stream is to repeat the first, at most, if its noise is fresh."""
    log_orders = 0.0
    for reward in set(rewards):
        values = responses[np.asarray(rewards) == reward]
        counts = Counter(map(repr, values.tolist()))  # repr: NaN is the same as NaN here
        log_orders += lgamma(len(values) + 1) - sum(lgamma(count + 1) for count in counts.values())
    return exp(-log_orders)


def judge(rewards: Sequence[float], streams: dict[str, Reals], alpha: float) -> Finding:
    """Compare streams pairwise, at every lag; the pair whose likeness is the least likely decides."""
    asked = np.asarray(rewards)
    pairs = list(combinations(streams.items(), 2))
    alike = []
    for (one, first), (other, second) in pairs:
        for lag in LAGS:
            here, there = slice(max(lag, 0), len(asked) + min(lag, 0)), slice(max(-lag, 0), len(asked) - max(lag, 0))
            same = asked[here] == asked[there]
            if np.array_equal(first[here][same], second[there][same], equal_nan=True):
                chance = chance_of_repeat(asked[here][same].tolist(), first[here][same])
                behind = f", {abs(lag)} apart," if lag else ""
                alike.append((chance, f"{one} and {other}{behind} give the same {np.count_nonzero(same)} responses"))
    if not alike:
        who = ", ".join(streams) if len(streams) <= RUNS else f"{len(streams)} users"
        return Finding("consistent", f"{who} draw different noise, over {len(rewards)} responses")
    chance, text = min(alike)
    if chance < alpha / (len(pairs) * len(LAGS)):
        by_chance = f"by chance: {max(chance, 1e-99):.0e} at most"
        return Finding("violated", f"{text}; {by_chance}. Whoever knows one reward knows both")
    return Finding("reported", f"{text}, which may be chance: they hardly vary")


def _rewards_to_ask(claim: Claim) -> list[float]:
    """Return the same reward for a while, then another: so that streams can be compared at a lag."""
    return [claim.low] * (LENGTH // 2) + [claim.high] * (LENGTH // 2)


def repeated_seed(evidence: Evidence, alpha: float) -> Finding:
    """Ask the curators of many users, each made from scratch."""
    subject = evidence.subject
    if subject.another_user is None:
        return Finding("not applicable", "give another_user, a function that makes the curator of another user")
    rewards, users = _rewards_to_ask(evidence.claim), RUNS if subject.respond is None else USERS
    return judge(rewards, {f"user {i + 1}": subject.another_user()(rewards) for i in range(users)}, alpha)


def fork(evidence: Evidence, alpha: float) -> Finding:
    """Fork twice, and ask parent and children."""
    subject = evidence.subject
    if subject.respond is None:
        return Finding("not applicable", "a program is started anew for each user; see repeated seed")
    if not hasattr(os, "fork"):
        return Finding("not applicable", "this system has no fork")
    rewards = _rewards_to_ask(evidence.claim)
    subject.ask(rewards[:8])  # so that what is made at the first response is there to be copied
    children = {f"child {i}": _ask_in_child(subject.ask, rewards) for i in (1, 2)}
    if any(responses is None for responses in children.values()):
        return Finding("not applicable", "the curator does not respond in a forked process")
    answers = {who: responses for who, responses in children.items() if responses is not None}
    return judge(rewards, {"parent": subject.ask(rewards), **answers}, alpha)


def _ask_in_child(ask: Ask, rewards: Sequence[float]) -> Reals | None:
    """Ask in a forked child; None if it fails or takes too long."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads are about, but the child needs none of them
        child = os.fork()
    if child == 0:
        try:
            os.write(write, ask(rewards).tobytes())
        finally:
            os._exit(0)  # whatever happened: this process is a copy, and must not go on as one
    os.close(write)
    data, until = b"", monotonic() + PATIENCE
    try:
        while select.select([read], [], [], max(0.0, until - monotonic()))[0]:
            part = os.read(read, 1 << 16)
            if not part:
                break
            data += part
    finally:
        os.close(read)
        os.kill(child, 9)
        os.waitpid(child, 0)
    return np.frombuffer(data) if len(data) == 8 * len(rewards) else None


def memory(evidence: Evidence, alpha: float) -> Finding:
    """Ask for pairs of rewards, and for one of each pair again: at once for half of them, at the end for the others."""
    claim, subject = evidence.claim, evidence.subject
    rng = np.random.default_rng(claim.seed)
    pairs = _pairs_between(claim, rng) if evidence.spec is not None else _pairs_of_claim(claim, rng)
    coins = rng.integers(2, size=PAIRS)
    again, half = pairs[np.arange(PAIRS), coins], PAIRS // 2
    at_once = np.column_stack([pairs[:half], again[:half]]).ravel()
    try:
        responses = subject.ask([*at_once.tolist(), *pairs[half:].ravel().tolist(), *again[half:].tolist()])
    except Unanswered:
        return Finding("not applicable", "rewards between those given are refused")
    soon, later = responses[: 3 * half].reshape(half, 3), responses[3 * half :]
    first = np.concatenate([soon[:, :2], later[: 2 * half].reshape(half, 2)])
    second = np.concatenate([soon[:, 2], later[2 * half :]])
    cells = _case(first, second) + CASES * (np.arange(PAIRS) >= half)
    counts = [count_cells(cells[part::4], coins[part::4], (0, 1), 2 * CASES) for part in range(4)]
    rule, _ = best_rule(counts[0], counts[1], alpha)
    guesses = try_rule(rule, counts[2] + counts[3], alpha)
    return guesses.finding(claim.epsilon, "which reward came again")


def _pairs_between(claim: Claim, rng: np.random.Generator) -> Reals:
    """Return pairs of rewards between the lowest and the highest, all different: the promise of a spec covers them."""
    rewards = claim.low + (claim.high - claim.low) * np.linspace(0, 1, 2 * PAIRS + 2)[1:-1]
    return rng.permutation(rewards).reshape(PAIRS, 2)


def _pairs_of_claim(claim: Claim, rng: np.random.Generator) -> Reals:
    """Return pairs of different rewards among those of the claim: nothing is claimed of others."""
    count = len(claim.rewards)
    one = rng.integers(count, size=PAIRS)
    other = (one + rng.integers(1, count, size=PAIRS)) % count
    return np.asarray(claim.rewards)[np.column_stack([one, other])]


def _case(first: Reals, second: Reals) -> NDArray[np.int64]:
    """Tell which of two first responses the second repeats."""
    same = ((first == second[:, None]) | (np.isnan(first) & np.isnan(second)[:, None])).astype(np.int64)
    case: NDArray[np.int64] = same[:, 0] + 2 * same[:, 1]
    return case
