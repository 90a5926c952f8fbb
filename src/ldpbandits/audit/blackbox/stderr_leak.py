"""Leaks by standard error: bets on what a program writes to it, call by call.

An observer of standard error sees the responses too, so both count as output. When a program gets its rewards one at a
time (interactive.py), its words between two responses belong to one of two calls: the one that was just asked, or the
one before, if it writes after it has responded. The check bets on either, and on words and response together. It need
not know to which call they belong: guesses depend on all output, and coins are fair (betting.py), so the level holds
whenever words come.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.betting import Bet, Cells, judge_bets
from ldpbandits.audit.blackbox.fixed_events import bets_of
from ldpbandits.audit.blackbox.text import ways_apart
from ldpbandits.audit.evidence import Evidence
from ldpbandits.audit.guess import count_cells
from ldpbandits.audit.interactive import FIRST_RESPONSE_TIMEOUT_S
from ldpbandits.audit.result import Finding, Reals
from ldpbandits.audit.sample import Sample
from ldpbandits.audit.target import Late, Turn
from ldpbandits.audit.texts import Texts, numbers

TURNS = 20_000
"""Number of rewards that are sent one at a time: each takes some hundred microseconds."""
LEAST_TURNS = 100
TIME_PART = 0.15
"""Share of the remaining time."""
HELD_BACK = "no response before the input ended: a program that sends each response at once is asked one by one"


@dataclass(frozen=True, slots=True)
class Turns:
    """Rewards that were sent one at a time, and the turn of each."""

    rewards: tuple[float, float]
    chosen: NDArray[np.int64]
    taken: list[Turn]

    @property
    def seconds(self) -> Reals:
        """How long each response took."""
        return np.array([turn.seconds for turn in self.taken])


def turns_of(evidence: Evidence) -> Turns | None:
    """Return the turns that the checks of one audit share; None for a function, or a program that buffers responses."""
    if "turns" not in evidence.shared:
        try:
            evidence.shared["turns"] = _draw(evidence)
        except Late as error:
            evidence.shared["turns"] = error
    turns: Turns | Late | None = evidence.shared["turns"]
    if isinstance(turns, Late):
        raise turns
    return turns


def _draw(evidence: Evidence) -> Turns | None:
    claim, take = evidence.claim, evidence.target.turns
    if take is None:
        return None
    evidence.check_time()
    count = min(TURNS, claim.samples, claim.calls_per_run or TURNS)
    chosen = evidence.rng(6).integers(2, size=count)
    seconds = evidence.seconds(TIME_PART)
    taken = take([(claim.low, claim.high)[each] for each in chosen.tolist()], seconds)
    if not taken and min(seconds, FIRST_RESPONSE_TIMEOUT_S) > 2 * evidence.seconds_to_respond():
        return None
    if len(taken) < min(LEAST_TURNS, count):
        raise Late(f"{len(taken):,} rewards, one at a time, in the time given (--time allows more)")
    return Turns((claim.low, claim.high), chosen[: len(taken)], taken)


def beside_responses(evidence: Evidence, alpha: float) -> Finding:
    """Bet on what is written to standard error between two responses."""
    if evidence.target.turns is None:
        return Finding("not applicable", "a function is heard out with bad rewards, and by its first calls")
    turns = turns_of(evidence)
    if turns is None:
        return Finding("not applicable", HELD_BACK)
    told = f"{len(turns.taken):,} rewards, one at a time"
    if not any(turn.beside for turn in turns.taken):
        return Finding("consistent", f"{told}: nothing is said beside responses")
    plain, bets = list(_whether_bets(turns)), list(_stderr_bets(turns))
    weights = [1 / (2 * len(plain))] * len(plain) + [1 / (2 * len(bets))] * len(bets)
    finding = judge_bets([*plain, *bets], evidence.claim.epsilon, alpha, weights)
    return Finding(finding.verdict, f"{told}: {finding.detail}", finding.epsilon_lower)


def _whether_bets(turns: Turns) -> Iterator[Bet]:
    """Bet half of the fortune on whether anything is written before a response, or after it."""
    is_said = np.array([bool(turn.beside) for turn in turns.taken]).astype(np.int64)
    for name, at in (("before", is_said), ("after", np.append(is_said[1:], 0))):
        yield Cells(f"whether anything is said {name} a response", count_cells(at, turns.chosen, (0, 1), 2))


def _stderr_bets(turns: Turns) -> Iterator[Bet]:
    """Bet on words before a response, on those after it, and on words with the response."""
    before = [turn.beside for turn in turns.taken]
    after = [*before[1:], b""]
    both = [turn.text + b"\n" + words for turn, words in zip(turns.taken, before, strict=True)]
    for name, texts in (("before", before), ("after", after), ("with", both)):
        yield from bets_with(turns.rewards, turns.chosen, texts, f"standard error {name} a response")


def bets_with(rewards: Sequence[float], chosen: NDArray[np.int64], texts: list[bytes], name: str) -> Iterator[Bet]:
    """Bet on these texts as on any responses."""
    sample = Sample(tuple(rewards), chosen, numbers(texts), Texts.of(texts))
    yield from bets_of(sample, (0, 1), f"{name}, ")
    for calls in ways_apart(sample.said, sample.responses):
        if (calls.at != calls.at[0]).any():
            yield Cells(f"{name}, {calls.name}", count_cells(calls.at, chosen, (0, 1), calls.size))
