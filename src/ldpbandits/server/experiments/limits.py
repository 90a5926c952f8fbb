"""Limits of an experiment on a server, beyond those of the types themselves."""

import json

from ldpbandits.agent.bound_rule import PAPER, bind_rule, rule_for
from ldpbandits.agent.rules import Rule, rule_from_json
from ldpbandits.errors import SpecError
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

LARGEST_EXPERIMENT_BYTES = 8 * 1024 * 1024
"""The largest body of a request that creates an experiment: 10,000 arms with long names and a warm start."""

LARGEST_BATCH = 100
"""Decisions or responses in one request."""

LONGEST_JSON = 2000
LONGEST_LIFETIME_S = 30 * 24 * 3600

MOST_ARMS = 10_000
"""Arms of an experiment whose rule declares how its index moves: a decision visits a few of them, in a tenth of a
millisecond."""

MOST_DRAWN = 1_000
"""Arms of an experiment whose rule draws from a known distribution. With more, the first decisions after a start would
take a tenth of a second each."""

MOST_SCANNED = 256
"""Arms of an experiment whose every decision visits every arm."""


def check_arms(arms: int, rule: Rule, menu: Menu, *, has_ramp: bool) -> None:
    """Refuse more arms than the rule can choose among within a millisecond, retired ones included."""
    plays_by = bind_rule(rule, menu)
    if has_ramp:
        most, why = MOST_SCANNED, " with a ramp, which looks at each in every decision"
    elif plays_by.moves is not None:
        most, why = MOST_ARMS, ""
    elif plays_by.log_density is not None:
        most, why = MOST_DRAWN, " with a rule that draws"
    else:
        most, why = MOST_SCANNED, " with a rule that looks at each in every decision"
    if arms > most:
        raise SpecError(f"an experiment has at most {most} arms{why}, retired ones included")


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
        raise SpecError(f"the JSON of a {sort} is nested without end") from None
    if length > LONGEST_JSON:
        raise SpecError(f"the JSON of a {sort} has at most {LONGEST_JSON} characters")


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
