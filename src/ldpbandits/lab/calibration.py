"""The search for a threshold, played: users of a simulated bandit answer, one arm after the other."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ldpbandits.agent.bisection import Bisection
from ldpbandits.checks import check_count
from ldpbandits.errors import ParameterError
from ldpbandits.lab.engine.sums import mean_value
from ldpbandits.lab.rewards import Law, arm_text, gaps, read_arms

BLOCK = 1 << 16
LONGEST_STEP = 10**9
"""Responses of a step, at the most: below epsilon = 6.4e-4 a step may take more."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """A finished search, and its cost."""

    arms: tuple[Law, ...]
    low: float
    high: float
    seed: int
    search: Bisection
    """Its final state: theta, the remaining interval, the responses spent."""

    @property
    def above(self) -> float:
        """P(reward > theta) over all arms alike, by their laws: 1/2 is best."""
        return sum(arm.above(self.search.theta) for arm in self.arms) / len(self.arms)

    @property
    def regret(self) -> float:
        """The regret of the search, in the units of the rewards."""
        rounds, rest = divmod(self.search.spent, len(self.arms))
        return rounds * sum(gaps(self.arms)) + sum(gaps(self.arms)[:rest])

    def to_json(self) -> dict[str, Any]:
        """Return what `ldpbandits calibrate --json` prints."""
        search = self.search
        return {
            "theta": search.theta,
            "above": self.above,
            "halved": search.is_halved,
            "epsilon": search.epsilon,
            "responses": search.spent,
            "steps": search.step + search.is_halved,
            "interval": [search.low, search.high],
            "searched": [self.low, self.high],
            "regret": self.regret,
            "arms": [arm_text(arm) for arm in self.arms],
            "seed": self.seed,
        }


def calibrate(arms: object, low: float, high: float, *, epsilon: float, seed: int = 0) -> Calibration:
    """Find a threshold for these arms in [low, high] by private bits, as `Bisection` does; same seed, same numbers.

    Arms are pulled in turn. Each bit is drawn by its exact chance, and the search checks the sum after each.

    >>> found = calibrate(["gaussian(0.9,1)", "gaussian(0.1,1)"], -100, 100, epsilon=0.5, seed=1)
    >>> found.search.theta, round(found.above, 2), found.search.spent
    (0.78125, 0.4, 5933)
    """
    laws, search = read_arms(arms), Bisection(low, high, epsilon)
    if not laws:
        raise ParameterError("a bandit needs at least one arm")
    if search.longest > LONGEST_STEP:
        told = f"at epsilon = {search.epsilon:g} a step of the search may take {search.longest:.2g} responses"
        raise ParameterError(f"{told}; more than {LONGEST_STEP:.0e} are not simulated")
    rng = np.random.default_rng(check_count("seed", seed, least=0))
    while not search.done:
        spec = search.curator
        chances = np.array([spec.mechanism.response_mean(mean_value(law, spec.transform)) for law in laws])
        count = min(BLOCK, search.longest - search.pulls)
        bits = rng.random(count) < chances[(search.spent + np.arange(count)) % len(laws)]
        leads = search.lead + np.cumsum(np.where(bits, 1, -1))
        left = np.flatnonzero(np.abs(leads) > search.edge)
        count = int(left[0]) + 1 if len(left) else count
        search = search.count(count, int(np.count_nonzero(bits[:count])))
    return Calibration(laws, float(low), float(high), int(seed), search)
