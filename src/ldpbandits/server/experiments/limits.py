"""Limits of an experiment on a server, beyond those of the types themselves."""

import json
from contextlib import suppress

from ldpbandits.agent.bound_rule import PAPER, bind_rule, rule_for
from ldpbandits.agent.duels import Design
from ldpbandits.agent.laplace_rules import DuelsLaplace
from ldpbandits.agent.rules import Duels, EqualShares, Rule, name_of, rule_from_json
from ldpbandits.errors import SpecError
from ldpbandits.server.experiments.settings import Goal
from ldpbandits.spec.mechanisms import is_bits
from ldpbandits.spec.menu import Menu

SMALLEST_EPSILON = 0.01
"""The smallest epsilon of an experiment. Below it an experiment would never end, and totals of 64 bits might overflow:
at 0.01 a response of CTL is at most 2^31.5 steps, so that 3 billion of the largest overflow."""

LARGEST_RESPONSE = 1 << 32
"""The largest response in units: totals have 64 bits."""

LARGEST = 1e100
"""The largest parameter of a transform: far beyond any reward, and differences and multiples stay finite."""

LARGEST_PARAMETER = 1e6
"""The largest parameter of a rule: a larger width or floor is a mistake."""

LARGEST_BODY_BYTES = 64 * 1024
"""The largest body of a request."""

LARGEST_EXPERIMENT_BYTES = 1024 * 1024
"""The largest body of a request that creates an experiment: all arms with long names, and a warm start."""

LARGEST_BATCH = 100
"""Decisions or responses in one request."""

LONGEST_JSON = 2000
LONGEST_LIFETIME_S = 30 * 24 * 3600

MOST_ARMS = 256
"""Arms of a new experiment, retired ones included: at epsilon 1 even 100 arms need billions of responses, and every
rule decides among this many within a millisecond. Experiments that were created with more keep working."""


def check_arms(arms: int) -> None:
    """Refuse more arms than an experiment may have, retired ones included."""
    if arms > MOST_ARMS:
        raise SpecError(f"an experiment has at most {MOST_ARMS} arms, retired ones included")


def menu_from_json(data: object) -> Menu:
    """Parse the curator of an experiment, of one epsilon or several; raise SpecError when a server refuses it."""
    _check_size("curator", data)
    menu = Menu.from_json(data)
    least, transform = menu.epsilons[0], menu.transform
    if least < SMALLEST_EPSILON:
        raise SpecError(f"a server asks for an epsilon of at least {SMALLEST_EPSILON:g}, got {least:g}")
    if not transform.bounded:
        ways = "in a range, or behind a sigmoid or a threshold"
        raise SpecError(f"a server asks for rewards {ways}, not for a {transform.kind}")
    if not all(abs(number) <= LARGEST for number in (*transform.ends, *transform.parameters)):
        raise SpecError(f"the numbers of a transform must be of size <= {LARGEST:g}")
    if max(map(abs, menu.first.limits)) >= LARGEST_RESPONSE:
        raise SpecError("responses of this curator are too large to be summed in 64 bits")
    return menu


def _check_size(sort: str, data: object) -> None:
    """Refuse a JSON value that is too long: it would be stored, and sent to every device."""
    try:
        length = len(json.dumps(data))
    except RecursionError:
        raise SpecError(f"the JSON of a {sort} is nested too deeply") from None
    if length > LONGEST_JSON:
        raise SpecError(f"the JSON of a {sort} has at most {LONGEST_JSON} characters")


def goal_and_rule(goal: Goal | None, data: object, menu: Menu, *, has_one_look: bool = False) -> tuple[Goal, Rule]:
    """Return the goal and the rule of a new experiment.

    Without either, it decides by duels, or earns where no rule with a fair coin takes the responses. A named rule says
    the goal. An experiment with one look decides in equal shares.
    """
    if data is None and has_one_look and goal != "earn" and is_bits(menu.first):
        return "decide", EqualShares()
    if data is None and goal != "earn":
        rule = deciding_rule(menu)
        if rule is not None:
            return "decide", rule
        if goal == "decide":
            kind = menu.first.kind
            raise SpecError(f"no rule with a fair coin takes the responses of this {kind} curator: use goal earn")
    rule = rule_of(data, menu)
    has_coin = bind_rule(rule, menu).design is not Design.ADAPTIVE
    if goal == "decide" and not has_coin:
        raise SpecError(f"goal decide needs a rule with a fair coin, such as duels; {name_of(rule)} is for goal earn")
    return goal or ("decide" if has_coin else "earn"), rule


def deciding_rule(menu: Menu) -> Rule | None:
    """Return the duels that take the responses of a menu; None where none do."""
    for rule in (Duels(), DuelsLaplace(menu.epsilons[0])):
        with suppress(SpecError):
            bind_rule(rule, menu)
            return rule
    return None


def rule_of(data: object, menu: Menu) -> Rule:
    """Parse the rule of an experiment; None is the default rule, "paper" the paper's."""
    if data is None or data == PAPER:
        rule = rule_for(menu, data)
    else:
        _check_size("rule", data)
        rule = rule_from_json(data)
    bind_rule(rule, menu)
    if not all(abs(number) <= LARGEST_PARAMETER for number in (*rule.parameters, rule.floor)):
        raise SpecError(f"the numbers of a rule must be of size <= {LARGEST_PARAMETER:g}")
    return rule
