"""A response that is remembered: the same reward, the same answer again.

Two rewards get a first response each; a fair coin chooses one of them for a second response. Whoever has seen the
three responses guesses the reward whose first response came again, and abstains if both did or neither. If noise is
fresh, the coin shows in the second response only, and guess.py applies with epsilon itself; if responses are kept by
reward, every guess is right. (Sending one stored response twice is private. Keeping it by reward, and giving it out for
every round in which that reward recurs, tells which rounds were alike, and with whom.)
"""

import numpy as np

from ldpbandits.audit.claim import Claim
from ldpbandits.audit.guess import Guesses, bound_layer
from ldpbandits.audit.result import Layer
from ldpbandits.audit.subject import Subject, Unanswered

PAIRS = 4_000
"""If half of so many guesses are made and all are right, epsilon is shown to be at least 5 at 99.9 %."""


def memory_layer(subject: Subject, claim: Claim) -> Layer:
    """Ask for rewards between the lowest and the highest, all different, and for half of them again."""
    name = "known attacks: memoised responses"
    rng = np.random.default_rng(claim.seed)
    rewards = claim.low + (claim.high - claim.low) * np.linspace(0, 1, 2 * PAIRS + 2)[1:-1]
    pairs = rng.permutation(rewards).reshape(PAIRS, 2)
    coins = rng.integers(2, size=PAIRS)
    again = pairs[np.arange(PAIRS), coins]
    try:
        responses = subject.ask([*pairs.ravel().tolist(), *again.tolist()])
    except Unanswered:
        return Layer(name, "not applicable", "rewards between those given are refused")
    first, second = responses[: 2 * PAIRS].reshape(PAIRS, 2), responses[2 * PAIRS :]
    same = first == second[:, None]
    guess = same[:, 0] != same[:, 1]
    right = int(np.count_nonzero(same[np.arange(PAIRS), coins] & guess))
    guesses = Guesses(right, int(guess.sum()), claim.alpha("memory"))
    return bound_layer(name, guesses, claim.epsilon, "which reward came again")
