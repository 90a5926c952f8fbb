"""Fixed events: bets that are named before any response is seen. A few dozen leaks are enough to find them.

A rule that is chosen on some responses and tried on others needs some hundreds of leaks. An event that is named
beforehand needs a few dozen, since no response is set aside to choose a rule: betting.py bets on all coins.

    equals a reward         the response is the number that a reward is
    shows a reward          the digits of one reward are in the response, those of the other are not
    text                    a response that came again and again, and hardly ever to the other reward
    the same text again     whatever comes more or less often than most, and each time to the same reward
    beyond the other        largest and smallest responses: noise that ends somewhere ends elsewhere for another
                            and each of them to the same reward as the next further out
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.betting import Again, Bet, Cells, Event, Extremes, judge_bets
from ldpbandits.audit.evidence import Evidence
from ldpbandits.audit.guess import count_cells
from ldpbandits.audit.result import Finding
from ldpbandits.audit.sample import Sample

LEAST_DIGITS = 4
"""The digits of a shorter reward occur in responses by chance."""
SHOWN_DIGITS = 6
WEIGHTS: dict[type[Bet], float] = {Event: 3, Extremes: 3, Again: 3, Cells: 1}
"""Relative weights of bets by their type."""


def sharp_events(evidence: Evidence, alpha: float) -> Finding:
    """Bet on all fixed events, for each pair of rewards."""
    sample = evidence.sample
    bets = [bet for pair in sample.pairs for bet in bets_of(sample, pair) if not _is_void(bet)]
    return judge_bets(bets, evidence.claim.epsilon, alpha, [WEIGHTS[type(bet)] for bet in bets])


def _is_void(bet: Bet) -> bool:
    """Tell whether an event never happened; that depends on responses alone, so the bet may be dropped."""
    return isinstance(bet, Event) and bet.right + bet.wrong == 0


def bets_of(sample: Sample, pair: tuple[int, int], what: str = "") -> list[Bet]:
    """Return the bets on fixed events, for one pair of rewards."""
    mine = np.isin(sample.chosen, pair)
    coins = (sample.chosen == pair[1])[mine].astype(np.int64)
    codes = sample.said.codes[mine]
    rewards = sample.rewards[pair[0]], sample.rewards[pair[1]]
    names = f"{what}{rewards[0]:g} or {rewards[1]:g} by"
    counts = count_cells(codes, coins, (0, 1), int(codes.max(initial=0)) + 1)
    extremes = Extremes.of(sample.responses[mine], coins)
    return [
        Event(f"{names} equality with a reward", *_equal(sample, pair)),
        Cells(f"{names} a text that the other hardly ever gives", counts[:, counts.sum(axis=0) > 1]),
        Again.of(f"{names} the same text again", codes, coins),
        Extremes(f"{names} {extremes.name}", extremes.top, extremes.bottom),
        *_shown(sample, mine, coins, rewards, names),
    ]


def _equal(sample: Sample, pair: tuple[int, int]) -> tuple[int, int]:
    """Count the responses that are equal to their own reward, and to the other one of the pair."""
    right = wrong = 0
    for chosen, responses in sample.everything():
        for own, other in (pair, pair[::-1]):
            given = responses[chosen == own]
            right += int(np.count_nonzero(given == sample.rewards[own]))
            wrong += int(np.count_nonzero(given == sample.rewards[other]))
    return right, wrong


def _digits(reward: float) -> bytes | None:
    """Return the first digits of a reward, from the first that is not 0 on; None if it has too few."""
    digits = f"{abs(reward):.17f}".replace(".", "").strip("0")
    return digits[:SHOWN_DIGITS].encode() if len(digits) >= LEAST_DIGITS else None


def _shown(
    sample: Sample, mine: NDArray[np.bool_], coins: NDArray[np.int64], rewards: Sequence[float], names: str
) -> list[Bet]:
    """Look for the digits of either reward in all responses."""
    digits = [_digits(reward) for reward in rewards]
    if digits[0] == digits[1]:
        return [Event(f"{names} its digits", 0, 0)]
    said = sample.said
    texts = [said[number] for number in np.flatnonzero(mine).tolist()]
    shows = np.array([[each is not None and each in text for text in texts] for each in digits], np.bool_)
    own, other = shows[coins, np.arange(len(coins))], shows[1 - coins, np.arange(len(coins))]
    right, wrong = int(np.count_nonzero(own & ~other)), int(np.count_nonzero(other & ~own))
    return [Event(f"{names} its digits", right, wrong)]
