"""Custom guesser: a function of the caller, for leaks that need knowledge of a hash, a key or a code.

The guesser was fixed before any response was seen, so its guesses are tested on all responses (guess.py).
"""

import numpy as np

from ldpbandits.audit.evidence import Evidence
from ldpbandits.audit.guess import Guesses
from ldpbandits.audit.result import Finding
from ldpbandits.errors import ParameterError


def own_guesser(evidence: Evidence, alpha: float) -> Finding | None:
    """Count the right guesses of the caller's guesser; return None if there is no guesser."""
    if evidence.guesser is None:
        return None
    sample, claim = evidence.sample, evidence.claim
    numbers = {reward: number for number, reward in enumerate(sample.rewards)}
    guessed = np.full(len(sample.chosen), -1)
    for call in range(len(guessed)):
        guess = evidence.guesser(sample.said[call].decode(errors="replace"))
        if guess is not None:
            if guess not in numbers:
                raise ParameterError("a guesser must return one of the rewards of the claim, or None")
            guessed[call] = numbers[guess]
    findings = []
    for pair in sample.pairs:
        mine = np.isin(sample.chosen, pair) & np.isin(guessed, pair)
        right = int(np.count_nonzero(guessed[mine] == sample.chosen[mine]))
        guesses = Guesses(right, int(np.count_nonzero(mine)), alpha / len(sample.pairs))
        names = f"{sample.rewards[pair[0]]:g} or {sample.rewards[pair[1]]:g}"
        findings.append(guesses.finding(claim.epsilon, names))
    return max(findings, key=lambda finding: finding.epsilon_lower)
