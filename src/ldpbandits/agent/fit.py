"""What a rule plays by, given whose responses it sees: the bridge from data to kernels."""

from dataclasses import dataclass

from ldpbandits.agent.kernels import Index, Parameters
from ldpbandits.agent.readings import ByEpsilon, Reading
from ldpbandits.agent.rules import Rule, check_fit, check_rule
from ldpbandits.errors import SpecError
from ldpbandits.spec.menu import Menu


@dataclass(frozen=True, slots=True)
class Fitted:
    """A kernel with its numbers, and how responses are read for it."""

    index: Index
    parameters: Parameters
    floor: float
    reading: Reading | None


def fitted(rule: Rule, menu: Menu | None) -> Fitted:
    """Return what a rule plays by on the responses to a menu, or say why it cannot; None: on any responses.

    With several epsilons a rule needs a `mixed_index`, a kernel that takes the levels of the menu as its parameters.
    """
    check_rule(rule)
    if menu is None or len(menu) == 1:
        check_fit(rule, None if menu is None else menu.first)
        return Fitted(rule.index, rule.parameters, rule.floor, None)
    index: Index | None = getattr(rule, "mixed_index", None)
    if index is None:
        name = getattr(rule, "kind", type(rule).__name__)
        raise SpecError(f"the rule {name} is for responses of one epsilon; kl-ucb++, imed and others take several")
    reading = ByEpsilon.of(menu)
    return Fitted(index, reading.levels, rule.floor, reading)
