"""Rewards between the ends: a half, a third, three that are drawn anew for each audit, and those that stand out.

A curator may keep its promise at 0 and 1 and break it between: by a grid, by a rounding, by noise that is scaled with
the reward; or in a part of the range alone. The check asks for five rewards between the ends, three of them drawn, and
for two more that stood out in the screen, in a run of their own, with the ends. Every pair of them is tested. Half of
the level is for bets (betting.py), on all pairs together. Each pair has its part of the other half, for a rule that is
chosen on disclosed coins (guess.py). A curator that says the same words to all such rewards, no number, has refused
them.

The screen finds narrow parts of the range: few rewards with many responses each miss them. Some rewards near either
end, at distances of all magnitudes, some on grids of tenths, eighths and thirds, and one in each of 32 equal parts of
the range get a few responses each. The two rewards at which a response is most different from what another reward gets
are chosen. They get new coins, and only these are judged. The choice costs no part of the level, however it is made,
since the coins do not depend on it.
"""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.betting import Bet, Event
from ldpbandits.audit.blackbox.neighbours import BINS, coarse
from ldpbandits.audit.blackbox.single import judge_single
from ldpbandits.audit.evidence import Evidence
from ldpbandits.audit.guess import ALONE, epsilon_lower
from ldpbandits.audit.result import Counts, Finding, Reals
from ldpbandits.audit.sample import TEST, Sample, draw_sample, judging_seconds
from ldpbandits.audit.target import Late, Unanswered
from ldpbandits.audit.texts import MOST_CODES

SAMPLE_DIVISOR = 7
"""Each reward has a seventh of the responses that each end has elsewhere."""
DRAWN = 3
"""Rewards that are drawn, each from its own part of the range."""
MIN_RESPONSES = 400
TIME_PART, SCREEN_TIME_PART = 0.9, 0.1
NEAR = (5e-2, 5e-3, 5e-4, 5e-5, 5e-7, 1e-9)
"""How near a response is to a reward that it may show, as parts of the range: half a unit of the last digit."""
REFUSED = Finding("not applicable", "rewards between those of the claim are refused")
SCREEN_PARTS = 32
NEAR_ENDS = 8
"""Number of rewards near each end."""
NEAREST, FARTHEST = 1e-9, 0.05
"""How near to an end these are, as parts of the range."""
GRID = (*(tenth / 10 for tenth in range(1, 10)), 1 / 4, 3 / 4, 1 / 8, 7 / 8, 2 / 3)
LEAST_EACH = 100
"""With fewer responses to each of them nothing stands out."""
SCREEN_DIVISOR = 5
"""All of them together have a fifth of the responses that an end has elsewhere."""
CHOSEN = 2


def interior_rewards(evidence: Evidence, alpha: float) -> Finding:
    """Ask for rewards between the ends, and test every pair."""
    if not evidence.interior:
        return Finding("not applicable", "rewards were given, and the verdict is on these")
    claim, rng = evidence.claim, evidence.rng(4)
    drawn = (np.arange(DRAWN) + rng.uniform(0.05, 0.95, size=DRAWN)) / DRAWN
    between = [_between(claim.low, claim.high, part) for part in (0.5, 1 / 3, *drawn.tolist())]
    rewards = tuple(dict.fromkeys((claim.low, claim.high, *between, *_that_stand_out(evidence))))
    if len(rewards) < 3:  # noqa: PLR2004 - the ends, and something between
        return Finding("not applicable", "no reward lies between the rewards of the claim")
    calls = len(rewards) * max(MIN_RESPONSES, claim.samples // SAMPLE_DIVISOR)
    try:
        sample = draw_sample(
            evidence.target,
            rewards,
            calls,
            rng,
            evidence.seconds(TIME_PART),
            lambda count: evidence.progress(claim.calls + count),
            claim.calls_per_run,
            leave=judging_seconds,
        )
    except Late:
        raise
    except Unanswered:
        return REFUSED
    if sample.trouble is None and sample.calls < min(calls, MIN_RESPONSES * len(rewards)):
        raise Late(f"{sample.calls:,} of {calls:,} responses in the time given (--time allows more)")
    pairs = _answered(sample)
    if not pairs:
        return REFUSED
    # Bets use all coins, and which rewards are refused is seen by some of them: their level is divided by all pairs.
    level = alpha * len(pairs) / len(sample.pairs)
    near = list(_near(sample, is_used=len(pairs) == len(sample.pairs) - 1))
    found = judge_single(sample, pairs, level, claim.epsilon, near, is_thorough=False)
    return replace(found, detail=f"{len(pairs)} pairs; of these {found.detail}", guesses=0)


def _that_stand_out(evidence: Evidence) -> list[float]:
    """Ask for many rewards, a few times each, and return those to ask for again; none if some are refused."""
    claim, rng = evidence.claim, evidence.rng(8)
    parts = [_between(claim.low, claim.high, part) for part in parts_to_screen(rng)]
    rewards = tuple(dict.fromkeys((claim.low, claim.high, *parts)))
    each = responses_each(claim.samples, len(rewards))
    if not each:
        return []
    seconds = evidence.seconds(SCREEN_TIME_PART)
    try:
        sample = draw_sample(
            evidence.target, rewards, each * len(rewards), rng, seconds, calls_per_run=claim.calls_per_run
        )
    except Unanswered:
        return []
    return [rewards[number] for number in stand_out(sample)]


def _between(low: float, high: float, part: float) -> float:
    """Return the double nearest to low + part (high - low); it does not overflow."""
    return float(Fraction(low) + Fraction(part) * (Fraction(high) - Fraction(low)))


def _answered(sample: Sample) -> list[tuple[int, int]]:
    """Return all pairs of rewards that are answered, as disclosed coins have it, but for that of the ends."""
    refused = set()
    for number in range(2, len(sample.rewards)):
        mine = np.flatnonzero((sample.chosen == number) & (sample.roles != TEST))
        codes = sample.said.codes[mine]
        if not len(mine) or (np.isnan(sample.responses[mine]).all() and (codes == codes[0]).all()):
            is_shown = len(mine) > 0 and f"{sample.rewards[number]:.4g}".encode() in sample.said[int(mine[0])]
            refused |= set() if is_shown else {number}
    if len(refused) == len(sample.rewards) - 2:
        return []
    return [pair for pair in sample.pairs if pair != (0, 1) and not refused & {*pair}]


def _near(sample: Sample, *, is_used: bool) -> Iterator[Bet]:
    """Guess, among all rewards at once, the one that a response is near: rewards may be written down, if roughly.

    Two rewards show little of it. Among seven, a guess is right by chance less often. Where some reward is refused, no
    guess is made; disclosed coins tell, so the others are guessed.
    """
    rewards = np.array(sample.rewards)
    apart = np.abs(sample.responses[:, None] - rewards)
    nearest, size = apart.argmin(axis=1), rewards.max() - rewards.min()
    for part in NEAR:
        mine = is_used & (sample.roles == TEST) & (apart.min(axis=1) <= part * size)  # not so if it is no number
        right = int(np.count_nonzero(nearest[mine] == sample.chosen[mine]))
        yield Event(f"a reward within {part:g} of the range", right, int(mine.sum()) - right, len(rewards))


def parts_to_screen(rng: np.random.Generator) -> list[float]:
    """Return rewards between 0 and 1, as parts of the range."""
    strata = (np.arange(NEAR_ENDS) + rng.random((2, NEAR_ENDS))) / NEAR_ENDS
    near_low, near_high = NEAREST * (FARTHEST / NEAREST) ** strata
    near = [*near_low.tolist(), *(1 - near_high).tolist()]
    each = ((np.arange(SCREEN_PARTS) + rng.random(SCREEN_PARTS)) / SCREEN_PARTS).tolist()
    return list(dict.fromkeys(part for part in (*near, *GRID, *each) if 0 < part < 1))


def responses_each(samples: int, rewards: int) -> int:
    """Return the number of responses for each of `rewards` rewards; 0 if there are too few for all of them."""
    each = samples // SCREEN_DIVISOR // rewards
    return each if each >= LEAST_EACH else 0


def stand_out(sample: Sample) -> list[int]:
    """Return the numbers of the rewards, but for the two ends, at which responses differ most from another's."""
    scores: dict[int, float] = {}
    for at, size in _takes(sample):
        counts = np.bincount(sample.chosen * size + at, minlength=len(sample.rewards) * size)
        for score, pair in _most_apart(counts.reshape(len(sample.rewards), size)):
            for reward in pair:
                scores[reward] = max(score, scores.get(reward, 0.0))
    between = [reward for reward in scores if reward > 1]
    return sorted(between, key=scores.__getitem__, reverse=True)[:CHOSEN]


def _takes(sample: Sample) -> Iterator[tuple[NDArray[np.int64], int]]:
    """Sort calls into a few cells, in a few ways."""
    said = sample.said
    yield said.few_codes, MOST_CODES + 1
    yield coarse(sample), BINS
    yield np.minimum(said.lengths, MOST_CODES), MOST_CODES + 1
    for column in said.columns(2, from_end=True).T:
        yield column.astype(np.int64), 256


def _most_apart(counts: Counts) -> Iterator[tuple[float, tuple[int, int]]]:
    """Yield, for each cell, the two rewards that it is most and least likely for, and how far apart these are."""
    totals = np.maximum(counts.sum(axis=1, keepdims=True), 1)
    rates: Reals = counts / totals
    most, least = rates.argmax(axis=0), rates.argmin(axis=0)
    cells = np.arange(counts.shape[1])
    high, low = counts[most, cells], counts[least, cells]
    bounds = epsilon_lower(high, np.maximum(high + low, 1), ALONE)
    for cell in np.flatnonzero(high).tolist():
        yield float(bounds[cell]), (int(most[cell]), int(least[cell]))
