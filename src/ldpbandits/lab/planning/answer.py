"""The answer to a question: a row for each epsilon and allocation, a verdict for each epsilon, and the odds."""

from dataclasses import dataclass
from typing import Any

from ldpbandits.lab.planning.case import Allocation
from ldpbandits.lab.planning.question import Question
from ldpbandits.lab.planning.rows import Row
from ldpbandits.lab.planning.verdict import reverse, verdict
from ldpbandits.spec.curator import Guarantee


@dataclass(frozen=True, repr=False)
class Plan:
    """What each epsilon costs.

    >>> from ldpbandits.lab import plan
    >>> made = plan(baseline=0.3, lift=1.0, epsilon=4, trials=10, seed=1)
    >>> made.row(4.0, "equal").needed, made.row(4.0, "equal").textbook
    (538, 86)
    """

    question: Question
    rows: tuple[Row, ...]
    smallest_epsilon: dict[Allocation, float | None] | None
    """With users, the smallest epsilon that is feasible, by allocation; None in it: none is."""
    seconds: float

    def row(self, epsilon: float | None, allocation: Allocation = "rule") -> Row:
        """Return the row of an epsilon; without one, that of no privacy."""
        return next(row for row in self.rows if (row.epsilon, row.allocation) == (epsilon, allocation))

    @property
    def verdicts(self) -> tuple[str, ...]:
        """A sentence for each epsilon."""
        epsilons = self.question.epsilons
        return tuple(verdict(self.question, self.row(each), self.row(each, "equal")) for each in epsilons)

    @property
    def reverse(self) -> str | None:
        """The other way round, with users: which epsilon they are enough for."""
        rule = self.row(self.question.epsilons[0]).rule
        return None if self.smallest_epsilon is None else reverse(self.question, self.smallest_epsilon, rule)

    @property
    def odds(self) -> tuple[Guarantee, ...]:
        """What is promised at each epsilon: how much likelier a response may be, and how often a guess is right."""
        return tuple(Guarantee(epsilon, 1.0, "any two rewards") for epsilon in self.question.epsilons)

    def to_json(self) -> dict[str, Any]:
        """Return what `ldpbandits plan --json` prints."""
        asked, least = self.question, self.smallest_epsilon
        return {
            "baseline": asked.baseline,
            "lift": asked.lift,
            "best": asked.best,
            "range": [asked.declared.low, asked.declared.high],
            "arms": asked.arms,
            "curator": asked.curator,
            "users": asked.users,
            "missing": asked.missing,
            "power": asked.power,
            "confidence": asked.confidence,
            "seed": asked.seed,
            "seconds": self.seconds,
            "rows": [row.to_json() for row in self.rows],
            "verdicts": dict(zip(map(str, asked.epsilons), self.verdicts, strict=True)),
            "smallest_epsilon": None if least is None else {str(name): epsilon for name, epsilon in least.items()},
            "reverse": self.reverse,
            "odds": [
                {"epsilon": each.epsilon, "likelier_by": each.factor, "right_at_most": each.right_at_most}
                for each in self.odds
            ],
        }

    def __repr__(self) -> str:
        """Show the question and the verdicts."""
        asked = self.question
        told = "; ".join(self.verdicts)
        return f"<Plan of {asked.arms} arms, {asked.baseline:g} against {asked.best:g}: {told}>"
