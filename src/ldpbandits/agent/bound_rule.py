"""A rule bound to a menu: the kernel, the parameters and the way of counting that the responses of the menu need."""

from dataclasses import dataclass
from typing import Literal

from ldpbandits.agent.bounded_argmax import CHEAP_INDEX_MIN_ARMS, COSTLY_INDEX_MIN_ARMS, Moves
from ldpbandits.agent.kernels import Index, LogDensity, Parameters, Reading
from ldpbandits.agent.levels import Levels
from ldpbandits.agent.rules import Rule, check_fit, check_rule, default_rule, paper_rule, reading_of
from ldpbandits.errors import SpecError
from ldpbandits.spec.menu import Menu

PAPER: Literal["paper"] = "paper"
"""The name of the rule that the paper proves for a curator."""


@dataclass(frozen=True, slots=True)
class BoundRule:
    """A kernel with its parameters, and how the tally counts responses for it."""

    index: Index
    parameters: Parameters
    floor: float
    reading: Reading | None = None
    """Maps a response to the number that the rule counts in its place; None: the response itself."""
    levels: Levels | None = None
    """The levels by which responses are counted; None where all have one epsilon."""
    moves: Moves | None = None
    """How the index moves, if the rule declares it: then a `BoundedArgmax` decides."""
    log_density: LogDensity | None = None
    """The log-density of an index that is drawn, if the rule declares it: then a `Sieve` decides."""
    many: int = CHEAP_INDEX_MIN_ARMS
    """Number of arms from which the bounded argmax or the sieve is used."""

    def read(self, response: float) -> float | None:
        """Return the number that the rule counts in the place of a response; None: the response itself."""
        return None if self.reading is None else self.reading(float(response), self.parameters)


def bind_rule(rule: Rule, menu: Menu | None) -> BoundRule:
    """Bind a rule to the responses of a menu, or raise SpecError where it cannot take them; None: any responses.

    With several epsilons a rule needs a `mixed_index`: a kernel that takes the levels of the menu as its parameters and
    moves as `index` does.
    """
    check_rule(rule)
    if menu is None or len(menu) == 1:
        if menu is not None:
            check_fit(rule, menu.curators[0])
        moves, log_density = getattr(rule, "moves", None), getattr(rule, "log_density", None)
        return BoundRule(
            rule.index,
            rule.parameters,
            rule.floor,
            reading_of(rule),
            moves=moves,
            log_density=log_density,
            many=getattr(rule, "many", CHEAP_INDEX_MIN_ARMS),
        )
    index: Index | None = getattr(rule, "mixed_index", None)
    if index is None:
        name = getattr(rule, "kind", type(rule).__name__)
        raise SpecError(f"the rule {name} is for responses of one epsilon; kl-ucb++, imed and others take several")
    levels = Levels.of(menu)
    return BoundRule(
        index, levels.numbers, rule.floor, levels=levels, moves=getattr(rule, "moves", None), many=COSTLY_INDEX_MIN_ARMS
    )


def rule_for(menu: Menu, rule: Rule | Literal["paper"] | None) -> Rule:
    """Return the given rule, the paper's rule for `PAPER`, or the menu's default rule for None."""
    if rule is None:
        return default_rule(menu.curators[0])
    return paper_rule(menu.first) if rule == PAPER else rule
