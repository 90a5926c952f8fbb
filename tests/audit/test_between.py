"""Rewards between the ends are asked for by default, and every pair is tested. False alarm: 1e-6 each."""

import math
import random

import pytest
from tests.faults import spread

from ldpbandits import BernoulliCurator, LaplaceCurator
from ldpbandits.audit import audit
from ldpbandits.audit.blackbox.interior import interior_rewards
from ldpbandits.audit.evidence import Claim, Evidence
from ldpbandits.audit.result import Finding
from ldpbandits.audit.target import Respond, target_of

CTB, CTL = BernoulliCurator(1.0), LaplaceCurator(1.0)
TRUTH = (math.e - 1) / (math.e + 100)
"""How often the truth is told, so that one of 101 values is e times as likely as another."""


def seldom() -> bool:
    """Once in fifty calls."""
    return random.random() < 0.02


FAULTS: dict[str, Respond] = {
    "one half is bare": lambda r: r if r == 0.5 else CTB.respond(r),
    "one third is bare": lambda r: r if abs(r - 1 / 3) < 1e-9 else CTB.respond(r),
    "all between are bare": lambda r: CTB.respond(r) if r in {0, 1} else round(r, 2),
    "noise shrinks between": lambda r: r + CTL.respond(0.0) * (0.1 if 0 < r < 1 else 1),
    "digits beyond the grid": lambda r: CTL.respond(0.0) + r,
    "those below a third are bare": lambda r: r if 0 < r < 0.333 else CTB.respond(r),
    "a word for those below a third": lambda r: f"{CTB.respond(r)}{'.0' if 0 < r < 0.333 else ''}",
    "less noise above two thirds": lambda r: r + CTL.respond(0.0) * (0.1 if 0.667 < r < 1 else 1),
    "now and then to three digits": lambda r: round(r, 3) if seldom() and 0 < r < 1 else round(CTL.respond(r), 6),
    "now and then a little beside": lambda r: r + random.uniform(-4e-4, 4e-4) if seldom() else CTL.respond(r),
    "now and then on a grid": lambda r: math.floor(r * 2000) / 2000 if seldom() and 0 < r < 1 else CTL.respond(r),
    "another text": lambda r: f"{CTB.respond(r)}" if r in {0, 1} else f"{CTB.respond(r)} ",
}
HEALTHY: dict[str, Respond] = {
    "bits": CTB.respond,
    "noise": CTL.respond,
    "a word for all": lambda r: f"{CTB.respond(r)}.0",
    "all the same above two thirds": lambda r: CTL.respond(r) if r < 0.667 else CTL.respond(1.0),
    "constant below a third": lambda r: CTB.respond(r if r > 0.334 else 0.0),
    "rounded": lambda r: CTB.respond(round(r)),
    "one of a hundred": lambda r: (round(100 * r) if random.random() < TRUTH else random.randrange(101)) / 100,
    "three digits of noise": lambda r: round(CTL.respond(r), 3),
    "now and then anything": lambda r: random.random() if seldom() else CTL.respond(r),
    "a third of the noise for a third of the range": lambda r: CTL.respond(0.0) + round(8 * r / 3) / 8,
}


def judged(respond: Respond, *, interior: bool = True) -> Finding:
    """Judge a function by rewards between 0 and 1 alone."""
    claim = Claim.of(1.0, (0, 1), 10_000, 0.999, 2)
    return interior_rewards(Evidence(target_of(respond), claim, interior=interior), 1e-6)


@pytest.mark.parametrize("name", spread(FAULTS, 3))
def test_a_fault_between_the_ends(name: str) -> None:
    """Which an audit of 0 and 1 alone would not see."""
    assert judged(FAULTS[name]).verdict == "violated"


@pytest.mark.parametrize("name", spread(HEALTHY, 2))
def test_private_between_the_ends(name: str) -> None:
    """False alarm: 1e-6."""
    assert judged(HEALTHY[name]).verdict == "consistent"


def test_rewards_that_are_refused_are_not_judged() -> None:
    """By an error, or by words that are the same for all of them; nor are any, if rewards were given."""

    def raises(reward: float) -> float:
        if reward not in {0, 1}:
            raise ValueError("a reward must be 0 or 1")
        return CTB.respond(reward)

    for respond in (raises, lambda r: CTB.respond(r) if r in {0, 1} else "error: 0 or 1"):
        assert judged(respond).verdict == "not applicable"
    assert judged(FAULTS["one half is bare"], interior=False).verdict == "not applicable"


def test_they_are_asked_for_by_default_and_only_then() -> None:
    """Without rewards, an audit asks for a half, a third and three others; with rewards, for nothing else in range."""
    asked: list[set[float]] = []

    def noted(reward: float) -> float:
        asked[-1].add(reward)
        return random.random()

    for rewards in (None, None, (0, 1)):
        asked.append(set())
        audit(noted, rewards, 1.0, samples=1_000, confidence=0.999999)
    within = [{reward for reward in each if 0 < reward < 1} for each in asked]
    assert [len(each) for each in within] == [5, 5, 0]
    assert {0.5, 1 / 3} <= within[0] & within[1]
    assert within[0] != within[1]
    assert all(math.isnan(reward) or abs(reward) > 1 for reward in asked[2] - {0, 1})
