"""The definition of an experiment: made of what an experimenter asks for, stored once, and parsed by every worker."""

import json
from collections.abc import Sequence

from ldpbandits.agent.bound_rule import BoundRule, bind_rule
from ldpbandits.agent.duels import Design
from ldpbandits.agent.rules import Rule, rule_from_json, rule_to_json
from ldpbandits.checks import brief
from ldpbandits.errors import DatabaseError, ParameterError
from ldpbandits.server.api.messages import NewExperiment
from ldpbandits.server.experiments.guardrails import check_room
from ldpbandits.server.experiments.settings import Goal, Settings, report_delay
from ldpbandits.server.store import CellTotal, Definition
from ldpbandits.spec.mechanisms import is_bits
from ldpbandits.spec.menu import Menu


def define(  # noqa: PLR0913 - what an experiment is made of
    new: NewExperiment, menu: Menu, rule: Rule, now: int, known: Sequence[CellTotal] = (), *, goal: Goal = "earn"
) -> Definition:
    """Return the stored definition of a new experiment of this goal, which starts from these known totals."""
    if new.one_look is not None:
        check_one_look(new, menu, rule)
    asked = new.stop_when_decided or new.stop_when_separated or ("pause" if goal == "decide" else "never")
    if rule.design is not Design.ADAPTIVE and (new.minimum_share is not None or new.warm_up is not None):
        told = "minimum_share and warm_up are for goal earn: under goal decide a fair coin divides the traffic"
        raise ParameterError(told)
    brought = [0] * len(new.arms)
    for cell in known:
        brought[cell.arm] += cell.pulls
    settings = Settings(
        report_after=report_delay(new.report_after, int(new.ticket_lifetime)),
        sticky=new.sticky,
        minimum_share=new.minimum_share,
        warm_up=None if new.warm_up is None else int(new.warm_up),
        ramp=new.ramp,
        stop_when_decided=None if asked == "never" else asked,
        stop_after=new.stop_after,
        responses_per_hour=int(new.responses_per_hour) or None,
        allowance_required=new.allowance_required,
        first_arms=len(new.arms),
        warm_pulls=tuple(brought) if any(brought) else (),
        goal=goal,
        expect=new.expect,
        forged=new.forged,
        worth=new.worth,
        harm=new.harm,
        control=_control(new),
        may_add_arms=goal == "earn" if new.may_add_arms is None else new.may_add_arms,
        accept_drift_risk=new.accept_drift_risk,
        missing=new.missing,
        one_look=None if new.one_look is None else int(new.one_look),
        retain=new.retain,
        about_page=new.about_page,
    )
    check_room(settings, len(new.arms))
    default = menu.transform.default_reward if new.default_reward is None else float(new.default_reward)
    return Definition(
        name=new.name,
        curator=json.dumps(menu.to_json()),
        rule=json.dumps(rule_to_json(rule)),
        settings=settings.to_json(),
        ticket_lifetime=int(new.ticket_lifetime),
        default_reward=default,
        created_at=now,
    )


def check_one_look(new: NewExperiment, menu: Menu, rule: Rule) -> None:
    """Refuse one look with settings that it excludes: they look earlier, or its test does not allow for them."""
    if not is_bits(menu.first):
        raise ParameterError("one_look needs bits, as of the mechanism bernoulli: its exact test counts ones")
    if bind_rule(rule, menu).design is not Design.EQUAL:
        raise ParameterError("one_look needs equal shares, the rule equal: other rules look at every response")
    if len(new.arms) == 1:
        raise ParameterError("one_look compares arms: an experiment with one look has two or more")
    is_excluded = {
        "warm_start": new.warm_start is not None,
        "may_add_arms": bool(new.may_add_arms),
        "ramp": new.ramp is not None,
        "expect": new.expect is not None,
        "worth": new.worth is not None,
        "harm": new.harm is not None,
        "missing = worst": new.missing == "worst",
    }
    told = [name for name, is_set in is_excluded.items() if is_set]
    if told:
        raise ParameterError(f"one_look excludes {told[0]}: its test compares the first responses of all arms, once")


def _control(new: NewExperiment) -> int:
    """Return the number of the control."""
    number = new.control if isinstance(new.control, int) else [*new.arms, new.control].index(new.control)
    if not 0 <= number < len(new.arms):
        raise ParameterError(f"control must be an arm, by its number or name, got {brief(new.control)}")
    return number


def played_by(definition: Definition) -> tuple[Menu, Rule, BoundRule]:
    """Parse the menu and the rule of an experiment, and fit the rule; raise DatabaseError when one is unknown."""
    try:
        menu = Menu.from_json(json.loads(definition.curator))
        rule = rule_from_json(json.loads(definition.rule))
        return menu, rule, bind_rule(rule, menu)
    except ValueError as error:
        needs = "if it has a mechanism, a transform or a rule of your own, load the module that registers it"
        raise DatabaseError(f"the experiment {definition.name} cannot be loaded: {error} ({needs})") from None
