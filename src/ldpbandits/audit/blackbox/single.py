"""Single responses: a rule that is chosen on disclosed coins, and bets on events that are named beforehand.

A RULE sorts responses into cells: by size, value, text and low-order bits, by two places of a text, by a parity of its
characters, or by a guesser that is learned from all that a text shows (text.py). Only the way of sorting, the pair of
rewards and the rule that promise most on disclosed coins are tried on the others (events.py), so that ways cost
nothing. The rule gives the lower bound.

BETS find a few dozen leaks among hundreds of thousands of responses, since no response is set aside to choose a rule
(betting.py). Most of the fortune is for events:

    equals a reward         the response is the number that a reward is
    shows a reward          the digits of one reward are in the response, those of the other are not
    text                    a response that came again and again, and hardly ever to the other reward
    the same text again     whatever comes more or less often than most, and each time to the same reward
    beyond the other        largest and smallest responses: noise that ends somewhere ends elsewhere for another
                            and each of them to the same reward as the next further out
    finer than 2^-53        noise on doubles makes it possible under one reward only (Mironov 2012)

The rest is for the cells of every way in which text.py takes a text apart.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.betting import Again, Bet, Cells, Event, Extremes, judge_bets
from ldpbandits.audit.blackbox.events import FINEST, LOWEST, Sorted, Way, judge_ways, lowest_bit, sorts
from ldpbandits.audit.blackbox.parity import sort_by_characters
from ldpbandits.audit.blackbox.text import learn, packed, some_texts, ways_apart
from ldpbandits.audit.evidence import Evidence
from ldpbandits.audit.guess import count_cells
from ldpbandits.audit.result import Finding
from ldpbandits.audit.sample import Sample

BETS_PART = 0.4
"""Part of the level for bets; the rest is for the rule, and so for the lower bound."""
GROUP_WEIGHTS = (3, 1)
"""Relative stakes on named events and on the cells of texts, of which there are hundreds."""
TEXT_CALLS, FEW_TEXT_CALLS, PLACES_CALLS = 1 << 18, 1 << 15, 1 << 16
"""Calls whose texts are taken apart, of a thorough judge and of another, and whose places are looked at in pairs."""
FEWEST_DIGITS, SHOWN_DIGITS = 4, 6
"""The digits of a reward that has fewer occur in responses by chance; only the first ones are looked for."""


def single_responses(evidence: Evidence, alpha: float) -> Finding:
    """Judge the responses of the main sample one by one."""
    sample = evidence.sample
    return judge_single(sample, sample.pairs, alpha, evidence.claim.epsilon, is_thorough=not evidence.is_known)


def judge_single(  # noqa: PLR0913 - a sample, between which rewards, how sure to be, and what more to bet on
    sample: Sample,
    pairs: Sequence[tuple[int, int]],
    alpha: float,
    epsilon: float,
    more: Sequence[Bet] = (),
    *,
    is_thorough: bool,
) -> Finding:
    """Return the stronger of two findings: by bets over all coins, and by a rule that is chosen on some of them.

    A thorough judge learns a guesser from texts, and looks at their places in pairs.
    """
    part = some_texts(sample, TEXT_CALLS if is_thorough else FEW_TEXT_CALLS)
    takes = [] if sample.are_bits else [packed(each) for each in ways_apart(part)]
    events = [bet for pair in pairs for bet in events_of(sample, pair, _names(sample, pair))]
    cells = [bet for pair in pairs for bet in _cells_of(takes, part, pair, _names(sample, pair))]
    staked = judge_bets([[*events, *more], cells], epsilon, alpha * BETS_PART, GROUP_WEIGHTS)
    ways: list[Way] = [(each, sample, pairs) for each in sorts(sample)]
    if takes and is_thorough:
        few = part.first(min(PLACES_CALLS, len(part.chosen)))
        ways += [(learn(takes, part, pair), part, [pair]) for pair in pairs]
        ways += [(each, few, [pair]) for pair in pairs for each in sort_by_characters(few, pair)]
    ruled = judge_ways(ways, alpha * (1 - BETS_PART), epsilon)
    return staked if staked.epsilon_lower > ruled.epsilon_lower else ruled


def bets_on(sample: Sample, name: str) -> list[Bet]:
    """Return all bets on a small sample of two rewards, under this name."""
    events = events_of(sample, (0, 1), f"{name}, {_names(sample, (0, 1))}")
    return [*events, *_cells_of(ways_apart(sample), sample, (0, 1), f"{name}, ")]


def _names(sample: Sample, pair: tuple[int, int]) -> str:
    return f"{sample.rewards[pair[0]]:g} or {sample.rewards[pair[1]]:g} by "


def _cells_of(takes: Iterable[Sorted], of: Sample, pair: tuple[int, int], name: str) -> list[Bet]:
    """Return a bet on the cells of each way of sorting."""
    return [Cells(f"{name}{each.name}", count_cells(each.at, of.chosen, pair, each.size)) for each in takes]


def events_of(sample: Sample, pair: tuple[int, int], name: str) -> list[Bet]:
    """Return the bets on named events, but for those that never happen: that depends on responses alone."""
    mine = np.isin(sample.chosen, pair)
    coins = (sample.chosen == pair[1])[mine].astype(np.int64)
    codes = sample.said.codes[mine]
    counts = count_cells(codes, coins, (0, 1), int(codes.max(initial=0)) + 1)
    bets: list[Bet] = [
        Cells(f"{name}a text that the other hardly ever gives", counts[:, counts.sum(axis=0) > 1]),
        Again.of(f"{name}the same text again", codes, coins),
        Extremes.of(sample.responses[mine], coins, f"{name}size beyond all that the other reward gave"),
    ]
    if any(np.isin(responses, sample.rewards).any() for _, responses in sample.everything()):
        bets.append(_equal(sample, pair, f"{name}equality with a reward"))
    if any((lowest_bit(responses) - LOWEST < FINEST).any() for _, responses in sample.everything()):
        bets.append(_finer(sample, pair, f"{name}a response finer than 2^{FINEST}"))
    digits = [_digits(sample.rewards[each]) for each in pair]
    return bets if digits[0] == digits[1] else [*bets, _shown(sample, digits, mine, coins, f"{name}its digits")]


def _equal(sample: Sample, pair: tuple[int, int], name: str) -> Event:
    """Count the responses that are equal to their own reward, and to the other one of the pair."""
    right = wrong = 0
    for chosen, responses in sample.everything():
        for own, other in (pair, pair[::-1]):
            given = responses[chosen == own]
            right += int(np.count_nonzero(given == sample.rewards[own]))
            wrong += int(np.count_nonzero(given == sample.rewards[other]))
    return Event(name, right, wrong)


def _finer(sample: Sample, pair: tuple[int, int], name: str) -> Cells:
    """Count the responses that are finer than noise on doubles gives to a reward of 1."""
    finer = np.zeros((2, 1), np.int64)
    for chosen, responses in sample.everything():
        is_finer = lowest_bit(responses) - LOWEST < FINEST
        finer[:, 0] += [np.count_nonzero(is_finer & (chosen == reward)) for reward in pair]
    return Cells(name, finer)


def _digits(reward: float) -> bytes | None:
    """Return the first digits of a reward, from the first that is not 0 on; None if it has too few."""
    digits = f"{abs(reward):.17f}".replace(".", "").strip("0")
    return digits[:SHOWN_DIGITS].encode() if len(digits) >= FEWEST_DIGITS else None


def _shown(
    sample: Sample, digits: Sequence[bytes | None], mine: NDArray[np.bool_], coins: NDArray[np.int64], name: str
) -> Event:
    """Look for the digits of either reward in all responses."""
    texts = [sample.said[number] for number in np.flatnonzero(mine).tolist()]
    shows = np.array([[each is not None and each in text for text in texts] for each in digits], np.bool_)
    own, other = shows[coins, np.arange(len(coins))], shows[1 - coins, np.arange(len(coins))]
    return Event(name, int(np.count_nonzero(own & ~other)), int(np.count_nonzero(other & ~own)))
