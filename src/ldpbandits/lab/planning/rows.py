"""A row of a plan: one epsilon, and who decides where pulls go."""

from dataclasses import asdict, dataclass, field
from typing import Any

from ldpbandits.lab.planning.case import Allocation
from ldpbandits.lab.planning.trials import Outcome

QUANTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class Standing:
    """How things stand at some moment, on average over the trials."""

    regret: float
    """What was lost until then, in rewards."""
    best_share: float
    """Which share of the users saw the best arm until then."""
    half_width: float
    """Half the width of the interval of an arm at the baseline, in rewards."""


@dataclass(frozen=True)
class WithUsers:
    """How things stand when all users have answered."""

    power: float
    """The share of trials in which the best arm is separated by then."""
    standing: Standing | None
    """None where nothing was played."""
    smallest_lift: float | None
    """The smallest lift that is found with the power that is asked for; None: none up to 1,000 % is."""


@dataclass(frozen=True)
class Row:
    """What trials of one case have shown. Without an epsilon there is no privacy.

    Where nothing was played the best arm is never separated, however many respond.
    """

    epsilon: float | None
    allocation: Allocation
    rule: str
    """Who decides where pulls go: the name of the rule, or `equal shares`."""
    trials: int = 0
    last: int = 0
    """How far they were played: a number of responses that is None is more than this."""
    closed_form: int | None = None
    """About how many responses it takes until the best arm is separated, by a forecast without trials."""
    textbook: int | None = None
    """In equal shares: how many a test of two arms would take that is looked at once, at the end."""
    quantiles: tuple[int | None, ...] = (None,) * len(QUANTILES)
    """After how many responses the best arm is separated in 10 %, 50 % and 90 % of the trials."""
    needed: int | None = None
    """The same for as many of the trials as the power that is asked for."""
    wrong: float | None = None
    """The share of trials in which another arm than the best was separated."""
    standing: Standing | None = None
    """How things stand then; in trials where the best arm was not separated, when they were played no further."""
    with_users: WithUsers | None = None
    outcome: Outcome | None = field(default=None, repr=False, compare=False)
    """The trials themselves."""

    @property
    def is_cut(self) -> bool:
        """Tell whether some trials were played no further before the best arm was separated."""
        return self.outcome is not None and self.outcome.power(self.last) < 1

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON-able data."""
        users = self.with_users
        return {
            "epsilon": self.epsilon,
            "allocation": self.allocation,
            "rule": self.rule if self.allocation == "rule" else None,
            "trials": self.trials,
            "played_to": self.last,
            "responses": {
                **{f"{100 * share:.0f}%": at for share, at in zip(QUANTILES, self.quantiles, strict=True)},
                "power": self.needed,
                "closed_form": self.closed_form,
                "textbook": self.textbook,
            },
            "wrong": self.wrong,
            "is_cut": self.is_cut,
            "then": None if self.standing is None else asdict(self.standing),
            "with_users": None if users is None else asdict(users),
        }
