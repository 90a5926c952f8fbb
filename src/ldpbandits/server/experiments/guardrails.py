"""What holds of an experiment's traffic, whatever its rule says: a warm-up, a least share for each arm, a ramp.

A decision starts with one draw u, all of [0, 1) equally likely. Let K arms be in use, R of them new (under the ramp)
and S settled; m is the minimum share, and r the ramp's, or 0 where no arm is new. New arms get at least n = min(R m, r)
together.

| u in                   | what is done                                  |
|------------------------|-----------------------------------------------|
| [0, n)                 | one of the new arms, all equally likely       |
| [n, n + S m)           | one of the settled arms, all equally likely   |
| [n + S m, r + S m)     | the rule chooses among all arms in use        |
| [r + S m, 1)           | the rule chooses among the settled arms       |

So a settled arm gets at least m of the traffic, new arms get at most r together, and each of them at least m, or r / R
where that is less: the ramp comes before the minimum share. During the warm-up m is 1 / K, and what the ramp keeps from
new arms goes to the settled ones in equal parts. Each decision is drawn by itself: nothing is kept, and an arm that had
bad luck is not made up for.
"""

from collections.abc import Sequence
from random import Random, SystemRandom

from ldpbandits.agent.tally import Tally
from ldpbandits.errors import ParameterError
from ldpbandits.server.experiments.settings import Settings
from ldpbandits.types import Arm

ROUNDING = 1e-9
"""Ten shares of 0.1 are a whole, whatever their sum is in binary."""


class Guardrails:
    """Says, decision by decision, among which arms the rule is to choose."""

    def __init__(self, settings: Settings, random: Random | None = None) -> None:
        """Take them from the settings of an experiment; `random` is for tests."""
        self._minimum = settings.minimum_share or 0.0
        self._warm_up = settings.warm_up or 0
        self._most = 0.0 if settings.ramp is None else settings.ramp.share
        self._until = 0.0 if settings.ramp is None else settings.ramp.responses
        self._first_arms = settings.first_arms
        self._warmed = 0 if self._warm_up else self._first_arms
        """The first arms up to this one have their responses."""
        self._random = SystemRandom() if random is None else random

    @classmethod
    def of(cls, settings: Settings) -> "Guardrails | None":
        """Return those of an experiment; None when all are off."""
        is_on = settings.minimum_share or settings.warm_up or settings.ramp
        return cls(settings) if is_on else None

    def among(self, tally: Tally) -> Sequence[Arm] | None:
        """Return the arms that may be handed out now: one that was drawn, or those the rule is to choose from.

        None stands for all that are in use.
        """
        in_use = tally.in_use
        new = self._new_arms(tally)
        settled = [arm for arm in in_use if arm not in new] if new else in_use
        if not settled:  # where all are new there is nobody to spare
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
        """Tell whether one of the first arms still lacks responses; once none does, that stays so."""
        arms = tally.arms
        while self._warmed < self._first_arms:  # an arm that has its responses keeps them, and is passed once
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
