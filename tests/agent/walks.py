"""Random walks of an agent through all that can happen to it, with every decision checked by a full scan."""

import random
from dataclasses import replace

from ldpbandits import Agent, Arm, Response, Rule
from ldpbandits.agent.bounded_argmax import BoundedArgmax
from ldpbandits.agent.kernels import select
from ldpbandits.agent.tally import ArmTally, LevelTally, Tally
from ldpbandits.spec.menu import Menu


def full_scan(agent: Agent) -> Arm:
    """Return the arm to pull next by a look at every arm, on rows that are laid out anew."""
    rule = agent.bound_rule
    tally = Tally((replace(arm, cells=arm.cells.copy()) for arm in agent.tally.arms), rule.levels)
    tally.spread_mean()
    rows = tally.means, tally.pulls, tally.counts, tally.cells
    return tally.in_use[select(rule.index, rule.parameters, rule.floor, *rows, tally.t, agent._random, tally.indexes)]


class Walk:
    """An agent, and the pulls that are out. Responses are bits, or multiples of 1/64 whose sums are exact too."""

    def __init__(
        self, rule: Rule, arms: int, seed: int, *, bits: bool = True, played: int = 0, menu: Menu | None = None
    ) -> None:
        """Start with so many arms, each pulled up to so many times; all have nearly the same mean, or some 0 or 1."""
        self.rng, self.bits = random.Random(seed), bits
        self.agent = Agent(rule, arms, curator=menu, random=self.rng)
        self.levels = 1 if menu is None else len(menu)
        self.means = [self.rng.choice((0.0, 0.5, 0.52, 0.55, 0.6, 1.0)) for _ in range(arms)]
        self.out: list[Arm] = []
        tallies = []
        for mean in self.means:
            pulls = self.rng.randint(0, played)
            total = float(round(pulls * mean))
            cells = [] if menu is None else [LevelTally(pulls, total), *[LevelTally()] * (self.levels - 1)]
            tallies.append(ArmTally(pulls, total, cells=cells))
        self.agent.tally = Tally(tallies, self.agent.bound_rule.levels)

    def response(self, arm: Arm) -> Response:
        """Draw a response."""
        if self.bits:
            return Response(float(self.rng.random() < self.means[arm]))
        return Response(round(64 * self.rng.gauss(self.means[arm], 2)) / 64)

    def look(self) -> Arm:
        """Return the choice of the bounded argmax, however few arms there are."""
        choice = self.agent._bounded_choice()
        assert isinstance(choice, BoundedArgmax)
        return self.agent.tally.in_use[choice.select()]

    def step(self) -> None:
        """Let something happen."""
        agent, rng, tally = self.agent, self.rng, self.agent.tally
        arm, event = self.look(), rng.random()
        if event < 0.35:
            tally.hand_out(arm)
            self.out.append(arm)
        elif event < 0.6:
            tally.add(arm, 1, self.response(arm), level=rng.randrange(self.levels))
        elif event < 0.9 and self.out:
            late = self.out.pop(rng.randrange(len(self.out)))
            tally.take_back(late)
            if event < 0.85:
                tally.add(late, 1, self.response(late), level=rng.randrange(self.levels))
        elif event < 0.97:
            some, pulls = Arm(rng.randrange(len(agent.names))), rng.choice((0, 1, 1, 2, 10, 500))
            tally.replace(some, pulls, float(rng.randint(0, pulls)), level=rng.randrange(self.levels))
        elif event < 0.985:
            agent.add_arm()
            self.means.append(rng.random())
        elif len(tally.in_use) > 1:
            agent.retire(rng.choice(tally.in_use))

    def agrees(self, steps: int) -> bool:
        """Walk; say whether the bounded argmax chose as the full scan did in each step."""
        for _ in range(steps):
            if self.look() != full_scan(self.agent):
                return False
            self.step()
        return True
