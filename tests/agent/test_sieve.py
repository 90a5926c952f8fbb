"""A sieve chooses each arm as often as draws for every arm do, and a fault in it would be noticed."""

import math
import random

import pytest

from ldpbandits import Agent, Arm, Response
from ldpbandits.agent.bounded_argmax import CHEAP_INDEX_MIN_ARMS
from ldpbandits.agent.kernels import ArmView
from ldpbandits.agent.rules import Thompson
from ldpbandits.agent.sieve import Pieces, Sieve
from ldpbandits.agent.tally import ArmTally, Tally

DRAWS, GRID = 4_000, 1_000
ARMS = {
    "alike": [(1.0, 1)] * 30 + [(0.0, 0)] * 30,
    "a leader": [(0.6, 500)] + [(0.5, 20 + arm) for arm in range(40)],
    "wide and narrow": [(0.55, 2_000)] * 3 + [(0.5, 300)] * 50,
}
"""Mean and pulls of each arm."""


def chances(arms: list[tuple[float, int]]) -> list[float]:
    """Return how likely each arm has the largest draw: the integral of its density and the others' distributions."""
    densities, below = [], []
    for mean, pulls in arms:
        view = ArmView(mean, pulls, 0, pulls, 1, 1, 1)
        mass = [math.exp(Thompson().log_density(view, (cell + 0.5) / GRID)[0]) / GRID for cell in range(GRID)]
        sums, total = [], 0.0
        for part in mass:
            sums.append(max(total + part / 2, 1e-300))
            total += part
        assert total == pytest.approx(1, abs=1e-3)
        densities.append(mass)
        below.append(sums)
    logs = [sum(math.log(sums[cell]) for sums in below) for cell in range(GRID)]
    return [
        sum(part * math.exp(log - math.log(under)) for part, log, under in zip(mass, logs, sums, strict=True))
        for mass, sums in zip(densities, below, strict=True)
    ]


def chi_square(arms: list[tuple[float, int]], seed: int) -> float:
    """Return chi-square of the choices against the chances, in standard deviations from its mean."""
    agent = Agent(Thompson(), len(arms), random=random.Random(seed))
    agent.tally = Tally(ArmTally(pulls, mean * pulls, out=int(not pulls)) for mean, pulls in arms)
    found = [0] * len(arms)
    for _ in range(DRAWS):
        found[agent.select()] += 1
    assert isinstance(agent._choice, Sieve)
    expected = [DRAWS * chance for chance in chances(arms)]
    seen = [(count, mean) for count, mean in zip(found, expected, strict=True) if mean >= 5]
    value = sum((count - mean) ** 2 / mean for count, mean in seen)
    return (value - len(seen)) / math.sqrt(2 * len(seen))


@pytest.mark.parametrize("arms", ARMS.values(), ids=ARMS)
def test_each_arm_is_chosen_as_often_as_by_draws_for_all(arms: list[tuple[float, int]]) -> None:
    """Chi-square of 4,000 choices is within 7 standard deviations of its mean. False alarm: below 1e-6 each; seeded."""
    assert chi_square(arms, seed=1) < 7


@pytest.mark.parametrize("fault", ["every draw beyond is kept", "nobody is hit"])
def test_a_fault_would_be_noticed(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An acceptance that is left out, and arms that never draw beyond their levels, are 7 standard deviations off."""
    if fault == "nobody is hit":
        monkeypatch.setattr(Pieces, "set", lambda *_: None)
    else:
        beyond = Sieve._beyond

        def kept(self: Sieve, place: int) -> float:
            while (draw := beyond(self, place)) < 0:
                pass
            return draw

        monkeypatch.setattr(Sieve, "_beyond", kept)
    assert max(chi_square(arms, seed=1) for arms in ARMS.values()) > 7


def test_it_follows_the_tally() -> None:
    """From nothing, with late responses, the best of many arms gets most pulls, and each arm its first."""
    rng = random.Random(2)
    agent, arms = Agent(Thompson(), CHEAP_INDEX_MIN_ARMS + 6, random=rng), CHEAP_INDEX_MIN_ARMS + 6
    assert [agent.issue() for _ in range(arms)] == list(range(arms))
    for arm in range(arms):
        agent.update(Arm(arm), Response(float(rng.random() < 0.3)))
    for _ in range(3_000):
        arm = agent.issue()
        agent.update(arm, Response(float(rng.random() < (0.8 if arm == 3 else 0.3))))
    assert agent.pulls[3] > 2_000
    agent.retire(Arm(3))
    assert 3 not in {agent.issue() for _ in range(100)}


def test_pieces_are_found_by_their_points() -> None:
    """A point is on the piece whose part of the line it is in; pieces of length 0 are never found."""
    rng, pieces, lengths = random.Random(3), Pieces(11), [0.0] * 11
    for _ in range(300):
        place = rng.randrange(11)
        lengths[place] = rng.choice((0.0, 0.5, 2.0))
        pieces.set(place, lengths[place])
        assert pieces.sums[1] == sum(lengths)
        if sum(lengths):
            point = rng.random() * sum(lengths)
            ends = [sum(lengths[: number + 1]) for number in range(11)]
            assert pieces.at(point) == next(number for number, end in enumerate(ends) if point < end)
