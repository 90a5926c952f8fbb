"""A rule bound to a menu: the kernel, the parameters and the way of counting that the responses of the menu need."""

from dataclasses import dataclass
from typing import Literal

from ldpbandits.agent.bounded_argmax import CHEAP_INDEX_MIN_ARMS, COSTLY_INDEX_MIN_ARMS, Moves
from ldpbandits.agent.duels import Design, UnitScale
from ldpbandits.agent.kernels import Index, Parameters, Reading, Sharing
from ldpbandits.agent.laplace_kernels import clipped
from ldpbandits.agent.levels import Levels
from ldpbandits.agent.rules import Rule, check_fit, check_rule, default_rule, is_unit, name_of, paper_rule
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
    design: Design = Design.ADAPTIVE
    unit: UnitScale | None = None
    """How sums of what is counted become sums of numbers in [0, 1], for verdicts; None where there is no such way."""
    sharing: Sharing | None = None
    """Computes a number for each arm from N of all arms, which the index gets."""
    many: int = CHEAP_INDEX_MIN_ARMS
    """Number of arms from which the bounded argmax is used."""

    def read(self, response: float) -> float | None:
        """Return the number that the rule counts in the place of a response; None: the response itself."""
        return None if self.reading is None else self.reading(float(response), self.parameters)


def bind_rule(rule: Rule, menu: Menu | None) -> BoundRule:
    """Bind a rule to the responses of a menu, or raise SpecError where it cannot take them; None: any responses.

    With several epsilons a rule needs a `mixed_index`.
    """
    check_rule(rule)
    if menu is None or len(menu) == 1:
        if menu is not None:
            check_fit(rule, menu.curators[0])
        kernel, levels, unit, many = (rule.index, rule.parameters), None, unit_scale(rule, menu), rule.many
    else:
        if rule.mixed_index is None:
            taken = "kl-ucb++, imed and others take several"
            raise SpecError(f"the rule {name_of(rule)} is for responses of one epsilon; {taken}")
        levels = Levels.of(menu)
        kernel, unit, many = (rule.mixed_index, levels.numbers), UnitScale(levels.numbers), COSTLY_INDEX_MIN_ARMS
    reading, sharing = (None, None) if levels else (rule.reading, rule.sharing)
    return BoundRule(*kernel, rule.floor, reading, levels, rule.moves, rule.design, unit, sharing, many)


def unit_scale(rule: Rule, menu: Menu | None) -> UnitScale | None:
    """Return how sums of what a rule counts become sums of numbers in [0, 1]; None where there is no such way."""
    if rule.reading is clipped:
        excess = rule.parameters[0]
        width = 1 + 2 * excess
        return UnitScale((excess / width, 1 / width), excess, width)
    if rule.reading is not None or (menu is not None and not is_unit(menu.curators[0])):
        return None
    return UnitScale((0.0, 1.0) if menu is None else Levels.of(menu).numbers)


def rule_for(menu: Menu, rule: Rule | Literal["paper"] | None) -> Rule:
    """Return the given rule, the paper's rule for `PAPER`, or the menu's default rule for None."""
    if rule is None:
        return default_rule(menu.curators[0])
    return paper_rule(menu.first) if rule == PAPER else rule
