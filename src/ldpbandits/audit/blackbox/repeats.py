"""Repeated noise: noise that fork copies, and responses that a curator remembers.

FORK. Parent and children get rewards that coins choose, each coins of its own. If a child has the noise of its parent,
or of another child, then its rewards, once known, betray the other's: where two responses are the same, guess the same
coin, else the other one. All coins of the one are disclosed, those of the other are guessed, so that each guess is
right with probability e^epsilon / (1 + e^epsilon) at most, whatever the law of the responses, and betting.py applies.
One may be a few responses behind the other.

MEMORY. A response that is remembered: the same reward, the same answer again.

Two rewards get a first response each. A fair coin chooses one of them, and that reward gets a second response. An
observer of all three responses knows which of the first two came again: the one, the other, both or neither. If noise
is fresh, the coin shows in the second response only, and guess.py applies with epsilon itself, whatever is guessed from
those four cases. If responses are kept by reward, the guesses are right. So a rule is chosen on one half of the pairs,
and tried on the other. (Sending one stored response twice is private. Keeping it by reward, and giving it out for every
round in which that reward recurs, tells which rounds were alike, and with whom.)

A curator that remembers the last few rewards gives itself away only when a reward comes again at once. One that
remembers all of them may do so only later, if many users share it. So half of the pairs are asked in either way.
"""

import os
import select
import warnings
from collections.abc import Sequence
from math import ceil, exp
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.betting import Event, judge_bets
from ldpbandits.audit.evidence import Claim, Evidence
from ldpbandits.audit.guess import best_rule, count_cells, try_rule
from ldpbandits.audit.result import Finding, Reals
from ldpbandits.audit.target import Late, Target, Unanswered
from ldpbandits.audit.texts import hash_texts

Hashes = NDArray[np.uint64]
LENGTH, LONGEST = 1024, 1 << 14
"""Responses of parent and child: more if epsilon is large, since bits that hardly vary say little."""
BEGINNINGS = (4, 2)
"""A copied buffer may last for a while only: so the first quarter, and the first half, are looked at too."""
LAGS = (0, *(sign * lag for lag in (1, 2, 3, 4) for sign in (1, -1)))
"""By how many responses one stream may be behind the other."""
FORKED_CHILD_TIMEOUT_S = 60.0
"""Timeout for the responses of a forked child."""
PAIRS = 8_000
"""The rule is tried on half of them. Where one pair in 16 gives the coin away, those are 250 guesses, and if all of
them are right, epsilon is at least 3 at 99.9 %."""
TIME_PART = 0.3
"""Share of the remaining time."""
CASES = 4
"""Neither first response came again, the one, the other, both."""


def fork(evidence: Evidence, alpha: float) -> Finding:
    """Fork twice, and ask parent and children."""
    target, claim = evidence.target, evidence.claim
    if target.respond is None:
        return Finding("not applicable", "a program is started anew for each user; see shared noise")
    if not hasattr(os, "fork"):
        return Finding("not applicable", "this system has no fork")
    evidence.check_time()
    length = min(LONGEST, max(LENGTH, ceil(64 * exp(claim.epsilon))))
    chosen = evidence.rng(1).integers(2, size=(3, length))
    rewards = [[(claim.low, claim.high)[each] for each in row.tolist()] for row in chosen]
    target.ask(rewards[0][:8])  # so that what is made at the first response is there to be copied
    one, two = (_ask_in_child(target, rewards[child], evidence.seconds(1.0)) for child in (1, 2))
    if one is None or two is None:
        evidence.check_time()
        return Finding("not applicable", "the curator does not respond in a forked process")
    parent = hash_texts(target.ask(rewards[0], evidence.seconds(1.0)))
    pairs = [
        ("child and parent", (parent, chosen[0]), (one, chosen[1])),
        ("two children", (one, chosen[1]), (two, chosen[2])),
    ]
    bets = [bet for pair in pairs for bet in _stderr_bets(*pair, LAGS)]
    for who, (said, coins), (known, disclosed) in pairs:
        for part in (length // each for each in BEGINNINGS):
            bets += _stderr_bets(f"{who} at first", (said[:part], coins[:part]), (known[:part], disclosed[:part]), (0,))
    finding = judge_bets(bets, claim.epsilon, alpha)
    told = "share their noise" if finding.verdict == "violated" else "draw different noise"
    return Finding(finding.verdict, f"parent and children {told}: {finding.detail}", finding.epsilon_lower)


def _stderr_bets(
    who: str,
    guessed: tuple[Hashes, NDArray[np.int64]],
    known: tuple[Hashes, NDArray[np.int64]],
    lags: Sequence[int],
) -> list[Event]:
    """Guess the coins of one from those of the other, at these lags: the same one where responses are the same."""
    bets = []
    length = len(guessed[0])
    for lag in lags:
        here, there = slice(max(lag, 0), length + min(lag, 0)), slice(max(-lag, 0), length - max(lag, 0))
        said_same, chose_same = guessed[0][here] == known[0][there], guessed[1][here] == known[1][there]
        for is_same in (True, False):
            right = int(np.count_nonzero((said_same == is_same) & (chose_same == is_same)))
            wrong = int(np.count_nonzero((said_same == is_same) & (chose_same != is_same)))
            name = f"{who}, {'the same' if is_same else 'another'} response" + (f", {abs(lag)} apart" if lag else "")
            bets.append(Event(name, right, wrong))
    return bets


def _ask_in_child(target: Target, rewards: Sequence[float], seconds: float) -> Hashes | None:
    """Ask in a forked child for hashes of its responses; None if it fails or takes too long."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads are about, but the child needs none of them
        child = os.fork()
    if child == 0:
        try:
            data, sent = hash_texts(target.ask(rewards)).tobytes(), 0
            while sent < len(data):
                sent += os.write(write, data[sent:])
        finally:
            os._exit(0)  # whatever happened: this process is a copy, and must not go on as one
    os.close(write)
    data, until = b"", monotonic() + min(FORKED_CHILD_TIMEOUT_S, seconds)
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
    return np.frombuffer(data, np.uint64) if len(data) == 8 * len(rewards) else None


def memory(evidence: Evidence, alpha: float) -> Finding:
    """Ask for pairs of rewards, and for one of each pair again: at once for half of them, at the end for the others."""
    claim, target = evidence.claim, evidence.target
    rng = evidence.rng(2)
    pairs = _pairs_between(claim, rng) if evidence.spec is not None else _pairs_of_claim(claim, rng)
    coins = rng.integers(2, size=PAIRS)
    again, half = pairs[np.arange(PAIRS), coins], PAIRS // 2
    at_once = np.column_stack([pairs[:half], again[:half]]).ravel()
    asked = [*at_once.tolist(), *pairs[half:].ravel().tolist(), *again[half:].tolist()]
    if claim.calls_per_run is not None and claim.calls_per_run < len(asked):
        return Finding("not applicable", f"needs {len(asked):,} calls in a run")
    try:
        responses = hash_texts(target.ask(asked, evidence.seconds(TIME_PART)))
    except Late:
        raise
    except Unanswered:
        return Finding("not applicable", "the curator refuses this number of rewards, or rewards between those given")
    soon, later = responses[: 3 * half].reshape(half, 3), responses[3 * half :]
    first = np.concatenate([soon[:, :2], later[: 2 * half].reshape(half, 2)])
    second = np.concatenate([soon[:, 2], later[2 * half :]])
    cells = _case(first, second) + CASES * (np.arange(PAIRS) >= half)
    roles = rng.integers(4, size=PAIRS)
    counts = [count_cells(cells[roles == role], coins[roles == role], (0, 1), 2 * CASES) for role in range(4)]
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


def _case(first: Hashes, second: Hashes) -> NDArray[np.int64]:
    """Tell which of two first responses the second repeats."""
    same = (first == second[:, None]).astype(np.int64)
    case: NDArray[np.int64] = same[:, 0] + 2 * same[:, 1]
    return case
