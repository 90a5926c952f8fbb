"""Rewards between the ends: a half, a third, three that are drawn anew for each audit, and those that stand out.

A curator may keep its promise at 0 and 1 and break it between: by a grid, by a rounding, by noise that is scaled with
the reward; or in a part of the range alone. So five rewards between the ends are asked for, one drawn in each third,
and two more that stood out among many (screen.py), in a run of their own, with the ends. Every pair of them is tested.
Half of the level is for bets (betting.py), on all pairs together. Each pair has its part of the other half, for a rule
that is chosen on disclosed coins (guess.py).

A curator need not take such rewards. One that says the same words to all of them, no number, has refused them.
"""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from ldpbandits.audit.betting import Bet, Cells, Event, judge_bets
from ldpbandits.audit.blackbox.events import LOW_BITS, Sorted, by_size_and_value, judge_sorted
from ldpbandits.audit.blackbox.fixed_events import bets_of
from ldpbandits.audit.blackbox.screen import parts_to_screen, responses_each, stand_out
from ldpbandits.audit.blackbox.text import ways_apart
from ldpbandits.audit.evidence import Evidence
from ldpbandits.audit.guess import count_cells
from ldpbandits.audit.result import Finding
from ldpbandits.audit.sample import Sample, draw_sample, judging_seconds
from ldpbandits.audit.target import Late, Unanswered

PART = 7
"""Each reward has a seventh of the responses that each end has elsewhere."""
DRAWN = 3
"""Rewards that are drawn, each from its own part of the range."""
LEAST = 400
TIME_PART, SCREEN_TIME_PART = 0.9, 0.1
TEXT_CALLS = 1 << 15
ATOMS = 4096
NEAR = (5e-2, 5e-3, 5e-4, 5e-5, 5e-7, 1e-9)
"""How near a response is to a reward that it may show, as parts of the range: half a unit of the last digit."""
REFUSED = Finding("not applicable", "rewards between those of the claim are refused")


def interior_rewards(evidence: Evidence, alpha: float) -> Finding:
    """Ask for rewards between the ends, and test every pair."""
    if not evidence.interior:
        return Finding("not applicable", "rewards were given, and the verdict is on these")
    claim, rng = evidence.claim, evidence.rng(4)
    drawn = (np.arange(DRAWN) + rng.uniform(0.05, 0.95, size=DRAWN)) / DRAWN
    between = [_between(claim.low, claim.high, part) for part in (0.5, 1 / 3, *drawn.tolist())]
    rewards = tuple(dict.fromkeys((claim.low, claim.high, *between, *_that_stand_out(evidence))))
    if len(rewards) < 3:  # noqa: PLR2004 - the ends, and something between
        return Finding("not applicable", "there is nothing between the rewards of the claim")
    calls = len(rewards) * max(LEAST, claim.samples // PART)
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
    if sample.trouble is None and sample.calls < min(calls, LEAST * len(rewards)):
        raise Late(f"{sample.calls:,} of {calls:,} responses in the time given (--time allows more)")
    pairs = _answered(sample)
    if not pairs:
        return REFUSED
    return judge_pairs(sample, pairs, alpha, claim.epsilon)


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
    """Return all pairs of rewards that are answered, but for that of the ends."""
    refused = set()
    for number in range(2, len(sample.rewards)):
        mine = np.flatnonzero(sample.chosen == number)
        codes = sample.said.codes[mine]
        if not len(mine) or (np.isnan(sample.responses[mine]).all() and (codes == codes[0]).all()):
            is_shown = len(mine) > 0 and f"{sample.rewards[number]:.4g}".encode() in sample.said[int(mine[0])]
            refused |= set() if is_shown else {number}
    if len(refused) == len(sample.rewards) - 2:
        return []
    return [pair for pair in sample.pairs if pair != (0, 1) and not refused & {*pair}]


def _near(sample: Sample) -> Iterator[Bet]:
    """Guess, among all rewards at once, the one that a response is near: rewards may be written down, if roughly.

    Two rewards show little of it. Of seven each is rarer, and so is to guess it by chance.
    """
    rewards = np.array(sample.rewards)
    apart = np.abs(sample.responses[:, None] - rewards)
    nearest, size = apart.argmin(axis=1), rewards.max() - rewards.min()
    for part in NEAR:
        mine = apart.min(axis=1) <= part * size  # not so where the response is no number
        right = int(np.count_nonzero(nearest[mine] == sample.chosen[mine]))
        yield Event(f"a reward within {part:g} of the range", right, int(mine.sum()) - right, len(rewards))


def judge_pairs(sample: Sample, pairs: list[tuple[int, int]], alpha: float, epsilon: float) -> Finding:
    """Judge each pair of rewards."""
    part = sample.first(min(TEXT_CALLS, len(sample.chosen)))
    bets = [bet for pair in pairs for bet in bets_of(sample, pair)]
    if len(pairs) == len(sample.pairs) - 1:  # none is refused
        bets += _near(sample)
    for calls in ways_apart(part.said, part.responses):
        if (calls.at != calls.at[0]).any():
            for pair in pairs:
                names = f"{sample.rewards[pair[0]]:g} or {sample.rewards[pair[1]]:g} by {calls.name}"
                bets.append(Cells(names, count_cells(calls.at, part.chosen, pair, calls.size)))
    # Which rewards are refused is seen by their coins, so the level is divided by all pairs, refused ones too.
    staked = judge_bets(bets, epsilon, alpha / 2 * len(pairs) / len(sample.pairs))
    if staked.verdict == "violated":
        return staked
    features = [each.sorted(sample) for each in (*by_size_and_value(sample), *LOW_BITS)]
    features.append(Sorted("text", np.minimum(sample.said.codes, ATOMS), ATOMS + 1))
    found = [judge_sorted(features, sample, [pair], alpha / 2 / len(sample.pairs), epsilon) for pair in pairs]
    worst = max(found, key=lambda finding: finding.epsilon_lower)
    told = f"{len(pairs)} pairs; of these {worst.detail}"
    return Finding(worst.verdict, told, worst.epsilon_lower)
