"""What a server takes on: limits of an experiment, beyond what the types themselves allow."""

import json

from ldpbandits.agent.bound_rule import PAPER, bind_rule, rule_for
from ldpbandits.agent.rules import Rule, rule_from_json
from ldpbandits.errors import SpecError
from ldpbandits.spec.menu import Menu

SMALLEST_EPSILON = 0.01
"""The least that a server asks for. Below it an experiment would never end, and totals, of 64 bits, might be full:
at 0.01 a response of CTL is at most 2^31.5 steps, so that it takes 3 billion of the largest."""

LARGEST_RESPONSE = 1 << 32
"""In units: totals have 64 bits."""

LARGEST = 1e100
"""Far beyond any reward, far below the largest float: differences and multiples stay finite."""

LARGEST_PARAMETER = 1e6
"""Of a rule: a width or a floor beyond it is a mistake."""

LARGEST_BODY_BYTES = 64 * 1024
"""Of a request, in bytes."""

LARGEST_EXPERIMENT_BYTES = 8 * 1024 * 1024
"""Of the one that creates an experiment: 10,000 arms with long names, and all that is known of them."""

LARGEST_BATCH = 100
"""Of decisions or responses in one request."""

LONGEST_JSON = 2000
LONGEST_LIFETIME_S = 30 * 24 * 3600

MOST_ARMS = 10_000
"""Of an experiment whose rule declares how its index moves: a decision looks at a few of them, in a tenth of a
millisecond."""

MOST_DRAWN = 1_000
"""Where the rule draws, and its law is known. With more, the first decisions after a start would take a tenth of a
second each."""

MOST_SCANNED = 256
"""Where every decision looks at every arm."""


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
    """Read the curator that an experiment asks for, of one epsilon or several, or say why no server asks for it."""
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
    """Refuse what nobody needs: it would be kept, and told to every device."""
    try:
        length = len(json.dumps(data))
    except RecursionError:
        raise SpecError(f"the JSON of a {sort} is nested without end") from None
    if length > LONGEST_JSON:
        raise SpecError(f"the JSON of a {sort} has at most {LONGEST_JSON} characters")


def rule_of(data: object, menu: Menu) -> Rule:
    """Read the rule that an experiment asks for; without one it gets the default, and by "paper" the paper's."""
    if data is None or data == PAPER:
        rule = rule_for(menu, data)
    else:
        _check_size("rule", data)
        rule = rule_from_json(data)
    bind_rule(rule, menu)
    if not all(abs(number) <= LARGEST_PARAMETER for number in (*rule.parameters, rule.floor)):
        raise SpecError(f"the numbers of a rule must be of size <= {LARGEST_PARAMETER:g}")
    return rule
