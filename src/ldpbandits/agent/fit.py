"""What a rule plays by, given whose responses it sees: the bridge from data to kernels."""

from dataclasses import dataclass
from typing import Literal

from ldpbandits.agent.kernels import Index, LogDensity, Parameters, Reading
from ldpbandits.agent.levels import Levels
from ldpbandits.agent.lookout import FEW, MANY, Moves
from ldpbandits.agent.rules import Rule, check_fit, check_rule, default_rule, paper_rule, reading_of
from ldpbandits.errors import SpecError
from ldpbandits.spec.menu import Menu

PAPER: Literal["paper"] = "paper"
"""Names the paper's rule for a curator, whichever that is."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A kernel with its numbers, and how responses are counted for it."""

    index: Index
    parameters: Parameters
    floor: float
    reading: Reading | None = None
    """What is counted in the place of a response, beside it."""
    levels: Levels | None = None
    """By which epsilons responses are told apart."""
    moves: Moves | None = None
    """How the index moves, if that is known: then a `Lookout` is enough for a decision."""
    log_density: LogDensity | None = None
    """The law of an index that is drawn, if that is known: then a `Sieve` is enough."""
    many: int = MANY
    """From so many arms on it is worth it."""

    def read(self, response: float) -> float | None:
        """Return what the rule counts in the place of a response, if it is something else."""
        return None if self.reading is None else self.reading(float(response), self.parameters)


def fitted(rule: Rule, menu: Menu | None) -> Fitted:
    """Return what a rule plays by on the responses to a menu, or say why it cannot; None: on any responses.

    With several epsilons a rule needs a `mixed_index`: a kernel that takes the levels of the menu as its parameters and
    moves as `index` does.
    """
    check_rule(rule)
    if menu is None or len(menu) == 1:
        if menu is not None:
            check_fit(rule, menu.curators[0])
        moves, log_density = getattr(rule, "moves", None), getattr(rule, "log_density", None)
        return Fitted(
            rule.index,
            rule.parameters,
            rule.floor,
            reading_of(rule),
            moves=moves,
            log_density=log_density,
            many=getattr(rule, "many", MANY),
        )
    index: Index | None = getattr(rule, "mixed_index", None)
    if index is None:
        name = getattr(rule, "kind", type(rule).__name__)
        raise SpecError(f"the rule {name} is for responses of one epsilon; kl-ucb++, imed and others take several")
    levels = Levels.of(menu)
    return Fitted(index, levels.numbers, rule.floor, levels=levels, moves=getattr(rule, "moves", None), many=FEW)


def rule_for(menu: Menu, rule: Rule | Literal["paper"] | None) -> Rule:
    """Return the rule that is asked for: one that is given, the paper's by name, or without either the default."""
    if rule is None:
        return default_rule(menu.curators[0])
    return paper_rule(menu.first) if rule == PAPER else rule
