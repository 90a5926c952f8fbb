"""What a server takes on: limits of an experiment, beyond what the types themselves allow."""

import json

from ldpbandits.agent.rules import Rule, check_fit, paper_rule, rule_from_json
from ldpbandits.errors import SpecError
from ldpbandits.spec.curator import CuratorSpec

SMALLEST_EPSILON = 0.01
"""The least that a server asks for. Below it an experiment would never end, and totals, of 64 bits, might be full:
at 0.01 a response of CTL is at most 2^31.5 steps, so that it takes 3 billion of the largest."""

LARGEST_RESPONSE = 1 << 32
"""In units: totals have 64 bits."""

LARGEST = 1e100
"""Far beyond any reward, far below the largest float: differences and multiples stay finite."""

LARGEST_PARAMETER = 1e6
"""Of a rule: a width or a floor beyond it is a mistake."""

LONGEST_JSON = 2000
LONGEST_LIFETIME = 30 * 24 * 3600
MOST_ARMS = 256


def curator_from_json(data: object) -> CuratorSpec:
    """Read the curator that an experiment asks for, or say why no server asks for it."""
    _check_size("curator", data)
    spec = CuratorSpec.from_json(data)
    if spec.epsilon < SMALLEST_EPSILON:
        raise SpecError(f"a server asks for an epsilon of at least {SMALLEST_EPSILON:g}, got {spec.epsilon:g}")
    if not spec.transform.bounded:
        raise SpecError(
            f"a server asks for rewards in a range, or behind a sigmoid or a threshold, not for a {spec.transform.kind}"
        )
    if not all(abs(number) <= LARGEST for number in (*spec.transform.ends, *spec.transform.parameters)):
        raise SpecError(f"the numbers of a transform must be of size <= {LARGEST:g}")
    if max(map(abs, spec.mechanism.limits)) >= LARGEST_RESPONSE:
        raise SpecError("responses of this curator are too large to be summed in 64 bits")
    return spec


def _check_size(sort: str, data: object) -> None:
    """Refuse what nobody needs: it would be kept, and told to every device."""
    try:
        length = len(json.dumps(data))
    except RecursionError:
        raise SpecError(f"the JSON of a {sort} is nested without end") from None
    if length > LONGEST_JSON:
        raise SpecError(f"the JSON of a {sort} has at most {LONGEST_JSON} characters")


def rule_of(data: object, spec: CuratorSpec) -> Rule:
    """Read the rule that an experiment asks for; without one it gets the paper's for its curator."""
    if data is None:
        return paper_rule(spec.mechanism)
    _check_size("rule", data)
    rule = rule_from_json(data)
    check_fit(rule, spec.mechanism)
    if not all(abs(number) <= LARGEST_PARAMETER for number in (*rule.parameters, rule.floor)):
        raise SpecError(f"the numbers of a rule must be of size <= {LARGEST_PARAMETER:g}")
    return rule
