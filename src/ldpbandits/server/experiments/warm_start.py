"""Warm start of an experiment: the tallies of another one, whose arms were answered by the same curator.

Arms are matched by name. An arm without known tallies starts from nothing, and unknown arms of the other experiment are
ignored. The numbers of each matched arm must be possible: the pulls of all epsilons add up to its pulls, and so do the
totals, and no total exceeds the largest sum of that many responses.
"""

import json
from collections.abc import Iterable, Sequence

from ldpbandits.agent.bound_rule import bind_rule
from ldpbandits.agent.rules import Rule
from ldpbandits.checks import brief
from ldpbandits.errors import SpecError
from ldpbandits.server.api.messages import KnownArm, WarmStart
from ldpbandits.server.experiments import limits
from ldpbandits.server.experiments.settings import MOST_RESPONSES
from ldpbandits.server.store import CellTotal
from ldpbandits.spec.menu import Menu

MOST_READ = 1 << 62
"""The largest absolute reading in units: sums have 64 bits, and grow."""


def known_totals(start: WarmStart, arms: Sequence[str], menu: Menu, rule: Rule) -> list[CellTotal]:
    """Return the totals that these arms start from, by arm and epsilon; raise SpecError when they are not possible."""
    other = limits.menu_from_json(start.curator)
    if other != menu:
        wanted, got = json.dumps(menu.to_json()), json.dumps(other.to_json())
        raise SpecError(f"warm_start must be of the experiment's own curator, {wanted}, got {got}")
    if start.unit not in {None, menu.unit}:
        raise SpecError(f"warm_start.unit must be that of the curator, {menu.unit!r}, got {start.unit!r}")
    known = {arm.name: arm for arm in start.arms}
    if len(known) < len(start.arms):
        raise SpecError("the arms of warm_start must have different names")
    if not known.keys() & set(arms):
        raise SpecError(f"warm_start must know an arm of the experiment, {_listed(arms)}; it has {_listed(known)}")
    is_read = _check_reading(start, menu, rule)
    taken = [(number, known[name]) for number, name in enumerate(arms) if name in known]
    return [cell for number, arm in taken for cell in _cells(number, arm, menu, is_read=is_read)]


def _check_reading(start: WarmStart, menu: Menu, rule: Rule) -> bool:
    """Tell whether the rule has a reading of its own; the warm start must have used the same reading."""
    wanted = bind_rule(rule, menu)
    if wanted.reading is None:
        return False
    kind = getattr(rule, "kind", "this rule")
    if start.rule is None:
        raise SpecError(f"{kind} has a reading of its own: warm_start needs the rule that has read the responses")
    before = bind_rule(limits.rule_of(start.rule, menu), menu)
    if (before.reading, before.parameters) != (wanted.reading, wanted.parameters):
        why = "its readings cannot be computed from totals"
        raise SpecError(f"{kind} cannot start from the readings of {start.rule.get('kind')}: {why}")
    return True


def _cells(number: int, arm: KnownArm, menu: Menu, *, is_read: bool) -> list[CellTotal]:
    """Return the totals of an arm by epsilon, without the empty ones."""
    name = f"warm_start's arm {brief(arm.name)}"
    levels = [(int(level.pulls), int(level.total)) for level in arm.by_epsilon]
    if not levels and len(menu) == 1:
        levels = [(int(arm.pulls), int(arm.total))]
    elif tuple(level.epsilon for level in arm.by_epsilon) != menu.epsilons:
        raise SpecError(f"{name} must have by_epsilon of {', '.join(f'{e:g}' for e in menu.epsilons)}, in this order")
    pulls, total = map(sum, zip(*levels, strict=True))
    if (arm.pulls, arm.total) != (pulls, total):
        told = f"{brief(pulls)} and {brief(total)}"
        raise SpecError(f"{name} must have the pulls and the total that its by_epsilon add up to, {told}")
    if pulls > MOST_RESPONSES:
        raise SpecError(f"{name} must have at most {MOST_RESPONSES} pulls, got {brief(pulls)}")
    for (count, sums), curator in zip(levels, menu.curators, strict=True):
        least, most = (count * limit for limit in curator.mechanism.limits)
        if not least <= sums <= most:
            raise SpecError(f"{name}: {count} responses sum to {least} at least and {most} at most, got {brief(sums)}")
    read = int(arm.read or 0) if is_read else 0
    if is_read and (arm.read is None or abs(read) > MOST_READ or (read and not pulls)):
        raise SpecError(f"{name} must have in read the sum of the rule's readings of its responses")
    return [CellTotal(0, number, cell, count, sums, read) for cell, (count, sums) in enumerate(levels) if count]


def _listed(names: Iterable[str]) -> str:
    return brief(", ".join(names))
