"""Guardrails of an experiment's traffic, whatever its rule chooses: a warm-up, a minimum share, a ramp.

A decision starts with one draw u, all of [0, 1) equally likely. Let K arms be in use, R of them new (under the ramp)
and S settled; m is the minimum share, and r the ramp's, or 0 where no arm is new. New arms get at least n = min(R m, r)
together.

| u in                   | what is done                                  |
|------------------------|-----------------------------------------------|
| [0, n)                 | one of the new arms, all equally likely       |
| [n, n + S m)           | one of the settled arms, all equally likely   |
| [n + S m, r + S m)     | the rule chooses among all arms in use        |
| [r + S m, 1)           | the rule chooses among the settled arms       |

A settled arm therefore gets at least m of the traffic, new arms get at most r together, and each of them at least m, or
r / R where that is less: the ramp comes before the minimum share. During the warm-up m is 1 / K, and the traffic that
the ramp keeps from new arms goes to the settled ones in equal parts. Decisions are drawn independently: there is no
state, and no compensation for an arm that was drawn too rarely.
"""

from collections.abc import Sequence
from random import Random, SystemRandom

from ldpbandits.agent.tally import Tally
from ldpbandits.errors import ParameterError
from ldpbandits.server.experiments.settings import Settings
from ldpbandits.types import Arm

ROUNDING = 1e-9
"""Tolerance of a sum of shares: ten shares of 0.1 do not add up to 1 in binary."""


class Guardrails:
    """Restricts the arms among which the rule chooses, decision by decision."""

    def __init__(self, settings: Settings, random: Random | None = None) -> None:
        """Read the guardrails from the settings of an experiment; `random` is for tests."""
        self._minimum = settings.minimum_share or 0.0
        self._warm_up = settings.warm_up or 0
        self._most = 0.0 if settings.ramp is None else settings.ramp.share
        self._until = 0.0 if settings.ramp is None else settings.ramp.responses
        self._first_arms = settings.first_arms
        self._warmed = 0 if self._warm_up else self._first_arms
        """The number of first arms, from the front, that have their warm-up responses."""
        self._random = SystemRandom() if random is None else random

    @classmethod
    def of(cls, settings: Settings) -> "Guardrails | None":
        """Return the guardrails of an experiment; None when all are off."""
        is_on = settings.minimum_share or settings.warm_up or settings.ramp
        return cls(settings) if is_on else None

    def among(self, tally: Tally) -> Sequence[Arm] | None:
        """Return the arms that may be assigned now: one that was drawn, or those among which the rule chooses.

        None stands for all arms in use.
        """
        in_use = tally.in_use
        new = self._new_arms(tally)
        settled = [arm for arm in in_use if arm not in new] if new else in_use
        if not settled:  # when all arms are new, the ramp has no other arms to favour
            new, settled = set(), in_use
        is_warm_up = self._is_warming_up(tally)
        minimum = 1 / len(in_use) if is_warm_up else self._minimum
        if not minimum and not new:
            return None
        ramp = self._most if new else 0.0
        for_new, for_settled = min(len(new) * minimum, ramp), len(settled) * minimum
        draw = self._random.random()
        if draw < for_new:
            return (self._random.choice(sorted(new)),)
        if draw < for_new + for_settled or is_warm_up:
            return (self._random.choice(settled),)
        return settled if new and draw >= ramp + for_settled else None

    def _is_warming_up(self, tally: Tally) -> bool:
        """Tell whether one of the first arms still lacks responses; the warm-up does not start again."""
        arms = tally.arms
        while self._warmed < self._first_arms:  # each arm is passed once: its responses only grow
            arm = arms[self._warmed]
            if not arm.retired and arm.pulls < self._warm_up:
                return True
            self._warmed += 1
        return False

    def _new_arms(self, tally: Tally) -> set[Arm]:
        """Return the arms that were added later and still lack responses."""
        if not self._until:
            return set()
        later = enumerate(tally.arms[self._first_arms :], self._first_arms)
        return {Arm(number) for number, arm in later if not arm.retired and arm.pulls < self._until}


def check_room(settings: Settings, arms: int) -> None:
    """Refuse more arms in use than have room, each with its minimum share."""
    share = settings.minimum_share
    if share is not None and share * arms > 1 + ROUNDING:
        most = int((1 + ROUNDING) / share)
        plural = "arm" if most == 1 else "arms"
        raise ParameterError(f"minimum_share = {share:g} leaves room for {most} {plural} in use, got {arms}")
