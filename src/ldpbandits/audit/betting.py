"""Test by betting: evidence against a claim from all responses at once, with no responses set aside to choose a rule.

A gambler starts with a fortune of 1 and stakes part of it on each guess of a coin. If the claim holds, each guess is
right with probability at most p = e^epsilon / (1 + e^epsilon), given everything that was seen before (guess.py). A
wrong guess divides the fortune by rho, a right one multiplies it by q / p with q = 1 - (1 - p) / rho. That is fair at
p, and a loss below it, since p (q / p) + (1 - p) / rho = 1. The fortune is a supermartingale of mean at most 1, and

    P(the fortune ever reaches 1/alpha) <= alpha                            (Markov, Ville)

for every bet that may depend on all responses but on no coin before it is guessed. A weighted average of such fortunes,
with weights that add up to 1, is one again: many bets run at once, and a bet of weight w costs log(1/w). The product of
fortunes is one, too, if they guess different coins. No rule has to be chosen, and no response is set aside: an event
that always betrays its reward is found by log(1 / (w alpha)) / log(1/p) of them.

q / p = (1 - 1/rho) / p + 1/rho falls as p grows. A fortune therefore falls as epsilon grows, and the largest epsilon at
which it is still 1/alpha is a lower bound of the truth at confidence 1 - alpha.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf, log
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from ldpbandits.audit.result import Counts, Finding, Reals
from ldpbandits.checks import LARGEST_EPSILON

RHO = np.array([1.04, 1.12, 1.5, 4.0, inf])
LOG_RHO_WEIGHTS = np.log([0.05, 0.1, 0.15, 0.2, 0.5])
"""Half of each stake is for events that never fail to betray the reward; chosen by benchmarks/audit_stakes.py."""
MIN_CELL_RESPONSES = 4
"""Cells of fewer responses get no stake."""
TOPS = np.array([16, 24, 32, 40, 50, 64, 96, 160, 320, 1024])
"""Numbers of largest, and of smallest, responses on which `Extremes` bets."""
REPEAT_STAKE = 0.45
"""Share of the fortune that is staked on each class of repeated texts."""
BOUND_BETS = 8
"""Number of bets, those that gained most, from which the lower bound is computed."""
BOUND_BISECTIONS = 16
"""Bisection steps of the search for the lower bound."""


def log_fortune(right: Counts, wrong: Counts, epsilon: float, among: int = 2) -> Reals:
    """Return the log-fortune, averaged over rho, for each count of right and wrong guesses.

    A coin of `among` sides is guessed with probability 1 / (1 + (among - 1) e^-epsilon) at most: given all
    responses, no side is more than e^epsilon times as likely as another.
    """
    p = 1 / (1 + (among - 1) * np.exp(-epsilon))
    gains = np.log((1 - 1 / RHO) / p + 1 / RHO)
    with np.errstate(invalid="ignore"):
        losses = np.where(wrong[..., None] > 0, wrong[..., None] * np.log(RHO), 0.0)
    each = LOG_RHO_WEIGHTS + right[..., None] * gains - losses
    most = each.max(axis=-1, keepdims=True)  # finite, since not every rho is
    return np.asarray(most[..., 0] + np.log(np.exp(each - most).sum(axis=-1)), np.float64)


class Bet(Protocol):
    """A betting strategy: its name, and its log-fortune if epsilon is claimed."""

    @property
    def name(self) -> str:
        """Describes in words what the guesses depend on."""

    def log_value(self, epsilon: float) -> float:
        """Return the log-fortune of this bet at this epsilon."""


@dataclass(frozen=True)
class Event:
    """Guess, at each of these events, the reward that was fixed in advance."""

    name: str
    right: int
    wrong: int
    among: int = 2
    """Number of rewards that the coin chose from."""

    def log_value(self, epsilon: float) -> float:
        """Return the log-fortune over all of these events."""
        return float(log_fortune(np.array(self.right), np.array(self.wrong), epsilon, self.among))


def bets_on_likeness(
    of: str, said_same: NDArray[np.bool_], chose_same: NDArray[np.bool_], *, lag: int = 0
) -> Iterator[Event]:
    """Bet that two calls have the same coin where they have the same response, and another where they have another.

    The coins of the one are disclosed, those of the other are guessed. They may be some responses apart.
    """
    behind = f", {abs(lag)} apart" if lag else ""
    for response, mine in (("any", np.ones_like(said_same)), ("the same", said_same), ("another", ~said_same)):
        right = int(np.count_nonzero(mine & (said_same == chose_same)))
        yield Event(f"{response} response of {of}{behind}", right, int(np.count_nonzero(mine)) - right)


@dataclass(frozen=True)
class Cells:
    """Guess one reward at all responses of a cell; each of the two gets half of the stake.

    Each cell gets a part of the stake that falls with its rank by size, so that few large ones among many small ones
    are not held back by these. The rest of the fortune is kept; the fortunes of all cells multiply.
    """

    name: str
    counts: Counts

    def log_value(self, epsilon: float) -> float:
        """Return the log-fortune, multiplied over all cells."""
        total = self.counts.sum(axis=0)
        order = np.argsort(-total, kind="stable")
        order = order[total[order] >= MIN_CELL_RESPONSES]
        if not len(order):
            return 0.0
        zeros, ones = self.counts[:, order]
        won = np.logaddexp(log_fortune(zeros, ones, epsilon), log_fortune(ones, zeros, epsilon)) - log(2)
        stake = 0.35 / np.arange(1, len(order) + 1) ** 1.5 + 0.25 / len(order)
        return float(np.logaddexp(np.log1p(-stake), np.log(stake) + won).sum())


@dataclass(frozen=True)
class Again:
    """Guess that a text which comes again came to the same reward as the last time that it was said.

    Texts are put into classes by how often they occur in all, since a leak is said more or less often than what is
    private. Each class has a stake of its own, and their fortunes multiply. Which coin is guessed depends on an earlier
    coin only.
    """

    name: str
    right: Counts
    wrong: Counts

    @classmethod
    def of(cls, name: str, codes: Counts, coins: Counts) -> "Again":
        """Count right and wrong guesses for texts that occur 2 or 3 times, 4 to 7 times, and so on."""
        often = np.bincount(codes)
        order = np.argsort(codes, kind="stable")
        again = codes[order][1:] == codes[order][:-1]
        same = (coins[order][1:] == coins[order][:-1])[again]
        classes = np.log2(often[codes[order][1:][again]]).astype(np.int64)
        return cls(name, np.bincount(classes[same], minlength=64), np.bincount(classes[~same], minlength=64))

    def log_value(self, epsilon: float) -> float:
        """Return the log-fortune, multiplied over all classes."""
        won = log_fortune(self.right, self.wrong, epsilon)
        each = np.logaddexp(log(1 - REPEAT_STAKE), log(REPEAT_STAKE) + won)
        return float(each[self.right + self.wrong > 0].sum())


@dataclass(frozen=True)
class Extremes:
    """Guess one reward at the largest responses, and the other at the smallest, for some numbers of them.

    Or guess, from the outermost inwards, that the reward is that of the response before: far away from all others there
    may be more than one place to which a leak goes. That coin is an earlier one.
    """

    name: str
    top: Counts
    """Coins in the order of their responses, from the largest on."""
    bottom: Counts
    """Coins in the order of their responses, from the smallest on."""

    @classmethod
    def of(cls, responses: Reals, coins: Counts, name: str = "size") -> "Extremes":
        """Sort responses by size, without those that are not numbers."""
        order = np.argsort(np.where(np.isnan(responses), -np.inf, responses), kind="stable")
        order = order[np.count_nonzero(np.isnan(responses)) :]
        most = min(int(TOPS[-1]), len(order) // 2)
        return cls(name, coins[order[::-1][:most]], coins[order[:most]])

    def log_value(self, epsilon: float) -> float:
        """Average over sizes and sides; both sides at once, with the larger reward above, have the largest weight."""
        sizes = TOPS[len(self.top) >= TOPS]
        if not len(sizes):
            return 0.0
        above, below = np.cumsum(self.top)[sizes - 1], sizes - np.cumsum(self.bottom)[sizes - 1]
        sides = [above + below, above, below, 2 * sizes - above - below, sizes - above, sizes - below]
        outof = [2 * sizes, sizes, sizes, 2 * sizes, sizes, sizes]
        for coins in (self.top, self.bottom):
            sides.append(np.cumsum(coins[1:] == coins[:-1])[sizes - 2])
            outof.append(sizes - 1)
        weights = np.array([0.35, 0.15, 0.15, 0.1, 0.05, 0.05, 0.075, 0.075])[:, None] / len(sizes)
        won = [log_fortune(right, of - right, epsilon) for right, of in zip(sides, outof, strict=True)]
        return float(logsumexp(np.stack(won) + np.log(weights)))


def lower_bound(log_value: Callable[[float], float], alpha: float, least: float) -> float:
    """Return the largest epsilon >= `least` at which the fortune still reaches 1/alpha; 0 if it does not at `least`."""
    enough = -log(alpha)
    if log_value(least) < enough:
        return 0.0
    low, high = least, LARGEST_EPSILON
    if log_value(high) >= enough:
        return inf
    for _ in range(BOUND_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if log_value(middle) >= enough else (low, middle)
    return low


def judge_bets(
    groups: Sequence[Sequence[Bet]], epsilon: float, alpha: float, weights: Sequence[float] | None = None
) -> Finding:
    """Combine all bets; the claim is violated if their fortune reaches 1/alpha.

    Each group has a part of the stake, an equal one by default, and so has each bet of a group; groups without a bet
    have none.
    """
    filled = [(weight, group) for weight, group in zip(weights or [1.0] * len(groups), groups, strict=True) if group]
    if not filled:
        return Finding("not applicable", "no guess is possible")
    bets = [bet for _, group in filled for bet in group]
    parts = np.array([weight / len(group) for weight, group in filled for _ in group])
    parts /= parts.sum()
    values = np.array([bet.log_value(epsilon) for bet in bets])
    value, best = float(logsumexp(values, b=parts)), bets[int(np.argmax(values + np.log(parts)))]
    if value < -log(alpha):
        count_said = f"{len(bets):,} ways of guessing; the best" if len(bets) > 1 else "one way of guessing"
        return Finding("consistent", f"{count_said}, by {best.name}, gained too little")
    keen = np.argsort(-values - np.log(parts))[:BOUND_BETS]  # leaving out the others is conservative

    def log_value(at: float) -> float:
        return float(logsumexp([bets[number].log_value(at) for number in keen.tolist()], b=parts[keen]))

    lower = lower_bound(log_value, alpha, epsilon)
    lower = max(lower, epsilon)  # all bets together refute epsilon, even where these few do not
    chance = f"by chance: {max(np.exp(-min(value, 700.0)), 1e-99):.0e} at most"
    return Finding("violated", f"{best.name}; {chance}; epsilon is at least {lower:.4f}", lower)
