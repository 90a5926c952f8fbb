"""A response that is remembered: the same reward, the same answer again.

Two rewards get a first response each. A fair coin chooses one of them, and that reward gets a second response. Whoever
has seen the three responses knows which of the first two came again: the one, the other, both or neither. If noise is
fresh, the coin shows in the second response only, and guess.py applies with epsilon itself, whatever is guessed from
those four cases. If responses are kept by reward, the guesses are right. So a rule is chosen on one half of the pairs,
and tried on the other. (Sending one stored response twice is private. Keeping it by reward, and giving it out for every
round in which that reward recurs, tells which rounds were alike, and with whom.)

A curator that remembers the last few rewards gives itself away only when a reward comes again at once. One that
remembers all of them may do so only later, if many users share it. So half of the pairs are asked in either way.
"""

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.claim import Claim
from ldpbandits.audit.evidence import Evidence
from ldpbandits.audit.guess import best_rule, count_cells, try_rule
from ldpbandits.audit.result import Finding, Reals
from ldpbandits.audit.subject import Unanswered

PAIRS = 8_000
"""The rule is tried on 4,000 of them. Where one pair in 16 gives the coin away, those are 250 guesses, and if all of
them are right, epsilon is at least 3 at 99.9 %."""
CASES = 4
"""Neither first response came again, the one, the other, both."""


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
