"""Commands of experimenters on experiments, arms and keys. A command is checked, stored, then applied in memory.

The store writes a line of the change log in the transaction of each change.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ldpbandits.agent.bound_rule import bind_rule
from ldpbandits.agent.duels import Design
from ldpbandits.agent.rules import Rule, name_of
from ldpbandits.checks import brief
from ldpbandits.errors import ParameterError
from ldpbandits.server.api.key_messages import KeyRights, NewHolder
from ldpbandits.server.api.messages import (
    Key,
    NewArm,
    NewExperiment,
    NewKey,
    NewMetadata,
    ShippedArm,
)
from ldpbandits.server.api.refusals import Refusal
from ldpbandits.server.experiments import limits, metadata
from ldpbandits.server.experiments.definition import define
from ldpbandits.server.experiments.events import FORGIVEN
from ldpbandits.server.experiments.guardrails import check_room
from ldpbandits.server.experiments.live import LiveExperiment
from ldpbandits.server.experiments.look_alikes import look_alike
from ldpbandits.server.experiments.settings import Settings
from ldpbandits.server.experiments.warm_start import known_totals
from ldpbandits.server.keys import RESERVED_NAMES, SERVER, SHARED_ROLES, Holder, Role
from ldpbandits.server.reports.report import summarise
from ldpbandits.server.reports.verdicts import criteria_of
from ldpbandits.server.store import Event, Exists, Status, Store, StoredHolder, Unavailable
from ldpbandits.spec.menu import Menu
from ldpbandits.spec.messages import Change, KeyReport, Metadata, Report, Summary
from ldpbandits.spec.protocol import Code

if TYPE_CHECKING:
    from ldpbandits.server.service import Service

VERBS: dict[Status, str] = {"running": "resume", "paused": "pause", "shipped": "ship", "closed": "close"}
"""The verb of the change that leads to a status."""

MOST_NAMED = 5
"""Experiments of an editor that a refusal names."""

NEWEST_LINES = 100
"""Lines of the change log among which a note is looked for before it is written."""

LONGEST_DETAIL = 500
"""Characters of a detail in the change log: an experiment may have thousands of arms."""

_SCOPES = {"admin": "an admin may change all", "viewer": "a viewer changes nothing"}
T = TypeVar("T")
_log = logging.getLogger(__name__)


def _check_stopping(settings: Settings, rule: Rule, menu: Menu) -> None:
    """Refuse to stop by verdicts of an adaptive rule, unless their risk is accepted by name."""
    is_adaptive = bind_rule(rule, menu).design is Design.ADAPTIVE
    if settings.stop_when_decided is not None and is_adaptive and not settings.accept_drift_risk:
        why = f"a verdict under {name_of(rule)} holds only if the means stayed what they were"
        raise ParameterError(f"stop_when_decided needs accept_drift_risk, or a rule such as duels: {why}")


def _check_criteria(settings: Settings, rule: Rule, menu: Menu) -> None:
    """Refuse criteria that the test of this rule and menu would leave out."""
    bound = bind_rule(rule, menu)
    given = [name for name in ("expect", "forged", "worth", "harm") if getattr(settings, name)]
    is_adaptive, counts_worst = bound.design is Design.ADAPTIVE, len(menu) > 1 and settings.missing == "worst"
    if given and bound.unit is None:
        why = f"arms are compared by intervals under {name_of(rule)}, which have no such test"
        raise ParameterError(f"{given[0]} needs a rule such as duels or duels-laplace: {why}")
    if "expect" in given and is_adaptive:
        why = f"under {name_of(rule)} a plan would not make the verdict sooner"
        raise ParameterError(f"expect needs a rule with a fair coin, such as duels: {why}")
    left_out = [name for name in given if counts_worst and (is_adaptive or name in {"worth", "harm"})]
    if left_out:
        raise ParameterError(f"{left_out[0]} with missing = worst needs a single epsilon: its test has no worst case")


class Commands:
    """The part of a service that changes experiments. `Service.change` runs its methods one at a time."""

    def __init__(self, service: "Service", store: Store, caller: Holder = SERVER) -> None:
        """Change the experiments of this service, in its store first; the change log shows the name of the caller."""
        self._service, self._store, self._caller = service, store, caller

    def of(self, caller: Holder) -> "Commands":
        """Return the commands of the holder of a key."""
        return Commands(self._service, self._store, caller)

    async def create(self, new: NewExperiment) -> Report:
        """Check what the types of a new experiment cannot express, store it and start it."""
        self._check_may_change(new.name)
        try:
            menu = limits.menu_from_json(new.curator)
            shares = new.minimum_share is not None or new.warm_up is not None  # these are for adaptive rules
            goal, rule = limits.goal_and_rule(
                new.goal or ("earn" if shares and new.rule is None else None),
                new.rule,
                menu,
                has_one_look=new.one_look is not None,
            )
            limits.check_arms(len(new.arms))
            known = [] if new.warm_start is None else known_totals(new.warm_start, new.arms, menu, rule)
            definition = define(new, menu, rule, self._service.now, known, goal=goal)
            described = metadata.changed(Metadata(), new.metadata or NewMetadata())
            settings = Settings.from_json(definition.settings)
            criteria_of(settings, menu, len(new.arms))
            _check_stopping(settings, rule, menu)
            _check_criteria(settings, rule, menu)
        except ParameterError as error:
            raise Refusal(422, Code.INVALID, str(error)) from None
        refusal = menu.transform.refusal(definition.default_reward)
        if refusal is not None:
            raise Refusal(422, Code.INVALID, refusal.replace("a reward", "the default reward", 1))
        if new.allowance_required and not self._service.keys.hashes(Role.ALLOWANCE, self._service.now):
            raise Refusal(422, Code.INVALID, "allowance_required needs an allowance key: ldpbandits rotate allowance")
        if len(set(new.arms)) < len(new.arms):
            raise Refusal(422, Code.INVALID, "the arms of an experiment have different names")
        alike = look_alike(new.arms)
        if alike is not None:
            raise Refusal(422, Code.INVALID, f"the names of two arms look alike: {alike[0]!a} and {alike[1]!a}")
        try:
            texts = metadata.to_json(described)
            create = partial(self._store.create, definition, new.arms, known, metadata=texts)
            stored = await self._write(create, "create", new.name, f"arms: {', '.join(new.arms)}")
        except Exists:
            raise Refusal(409, Code.EXISTS, f"there is already an experiment {new.name}") from None
        if not self._is_overtaken:
            self._service.load(stored)
        return await self._service.report(new.name)

    async def set_status(self, name: str, status: Status, why: str = "") -> Report:
        """Pause: stop assigning arms; outstanding responses still count. Close: neither, permanently."""
        experiment = self._find(name)
        if experiment.status == "closed" and status != "closed":
            raise Refusal(409, Code.CLOSED, f"the experiment {name} is closed for good")
        await self._set_status(experiment, status, detail=why)
        return await self._service.report(name)

    async def ship(self, name: str, chosen: ShippedArm, why: str = "") -> Report:
        """Assign this arm to every user, without asking for responses; outstanding responses still count."""
        experiment = self._find(name)
        self._check_not_closed(experiment)
        arm = experiment.number_of(chosen.arm)
        if arm is None:
            raise self._no_arm(experiment)
        if experiment.arms[arm].retired:
            raise Refusal(409, Code.RETIRED, f"the arm {experiment.records[arm].name} is retired")
        detail = f"arm: {experiment.records[arm].name}" + (f"; {why}" if why else "")
        await self._set_status(experiment, "shipped", arm, detail=detail)
        return await self._service.report(name)

    async def delete(self, name: str) -> Summary:
        """Delete an experiment and all its responses permanently; its tickets become void."""
        experiment = self._find(name)
        number, summary = experiment.number, summarise(experiment)
        # Unload it first, so that nothing new is written behind its deletion.
        del self._service.experiments[name], self._service.numbered[number]
        events = self._service.committer.forget_events(number)
        try:
            told = f"{summary.arms} arms, {summary.responses} responses"
            is_left = await self._write(partial(self._store.delete, number), "delete", name, told)
        except BaseException:
            self._service.numbered[number] = experiment
            self._service.experiments.setdefault(name, experiment)
            self._service.committer.requeue_events(events)
            raise
        self._service.forget_events(number)
        with suppress(Unavailable):  # it is hidden; `forget` removes the remaining rows
            while is_left:
                is_left = await self._service.committer.run(self._store.delete, number)
        return summary

    async def _set_status(
        self, experiment: LiveExperiment, status: Status, shipped: int | None = None, *, detail: str = ""
    ) -> None:
        change = partial(self._store.set_status, experiment.number, status, shipped)
        now = self._service.now
        await self._write(change, VERBS[status], experiment.name, detail, now)
        if not self._is_overtaken:
            stopped_at = None if status == "running" else experiment.stopped_at or now
            experiment.set_status(status, shipped, stopped_at)
        with suppress(Unavailable):  # `forget` drops what is left
            await self._service.drop_responses(experiment)

    async def describe(self, name: str, new: NewMetadata) -> Report:
        """Change title, owner and the like, also of a closed experiment."""
        experiment = self._find(name)
        try:
            described = metadata.changed(experiment.metadata, new)
        except ParameterError as error:
            raise Refusal(422, Code.INVALID, str(error)) from None
        change = partial(self._store.describe, experiment.number, metadata.to_json(described))
        await self._write(change, "describe", name, metadata.difference(experiment.metadata, described))
        if not self._is_overtaken:
            experiment.metadata = described
        return await self._service.report(name)

    async def add_arm(self, name: str, new: NewArm) -> Report:
        """Add an arm under the next number."""
        experiment = self._find(name)
        self._check_not_closed(experiment)
        if not experiment.settings.may_add_arms:
            told = "was created without may_add_arms, which reserves a part of the error for later arms: create another"
            raise Refusal(409, Code.FULL, f"the experiment {name} {told}")
        try:
            limits.check_arms(len(experiment.records) + 1)
            check_room(experiment.settings, sum(not arm.retired for arm in experiment.arms) + 1)
        except ParameterError as error:
            raise Refusal(409, Code.FULL, str(error)) from None
        alike = look_alike([new.name], [record.name for record in experiment.records if record.name != new.name])
        if alike is not None:
            message = f"the experiment {name} has or had an arm whose name looks alike: {alike[1]!a}"
            raise Refusal(409, Code.EXISTS, message)
        try:
            change = partial(self._store.add_arm, experiment.number, new.name)
            await self._write(change, "add-arm", name, f"arm: {new.name}")
        except Exists:
            raise Refusal(409, Code.EXISTS, f"the experiment {name} has or had an arm of this name") from None
        if not self._is_overtaken:
            experiment.add_arm(new.name)
        return await self._service.report(name)

    async def forgive(self, name: str) -> Report:
        """Take the answers that are missing so far off the counts and the verdict, for good."""
        experiment = self._find(name)
        experiment.expire(self._service.now)
        records = enumerate(experiment.records)
        events = [Event(experiment.number, arm, FORGIVEN, record.missing) for arm, record in records if record.missing]
        told = f"missing answers: {sum(event.times for event in events)}"
        await self._write(partial(self._store.add_events, experiment.number, events), "forgive", name, told)
        if not self._is_overtaken:
            for event in events:
                experiment.records[event.arm].elsewhere[FORGIVEN] += event.times
        return await self._service.report(name)

    async def retire_arm(self, name: str, arm: int) -> Report:
        """Stop assigning this arm; its outstanding responses still count."""
        experiment = self._find(name)
        self._check_not_closed(experiment)
        arms = experiment.arms
        if not 0 <= arm < len(arms):
            raise self._no_arm(experiment)
        if experiment.is_hidden:
            raise Refusal(
                409,
                Code.HIDDEN,
                "one look compares all arms: no arm can be retired before; close the experiment instead",
            )
        if not arms[arm].retired:
            if experiment.shipped == arm:
                raise Refusal(409, Code.SHIPPED, "this arm is shipped: ship another one or resume first")
            if sum(not other.retired for other in arms) == 1:
                raise Refusal(409, Code.LAST, "the last arm cannot be retired: close the experiment instead")
            change = partial(self._store.retire_arm, experiment.number, arm)
            await self._write(change, "retire-arm", name, f"arm: {experiment.records[arm].name}")
            experiment.retire_arm(arm)
        return await self._service.report(name)

    async def rotate(self, what: str, new: NewKey) -> Key:
        """Create a new key, or a new secret that signs tickets."""
        keys, named = self._service.keys, self._service.keys.named(what)
        if what == "signing":
            return await self._rotate_secret(new)
        if named is None and what not in {role.value for role in SHARED_ROLES}:
            told = f"there is no key named {brief(what)}: it is admin, viewer, client, allowance, signing or a name"
            raise Refusal(404, Code.NOT_FOUND, told)
        role, grace = Role(what if named is None else named.role), int(new.grace or 0)
        if named is None and keys.is_fixed(role):
            raise Refusal(409, Code.ENVIRONMENT, f"the {what} key is set in the server's environment")
        change = partial(keys.rotate, role, self._service.now, grace, name=what)
        key = await self._write(change, "rotate-key", None, _rotation(what, grace))
        return Key(role.value, key, None if named is None else what)

    async def _rotate_secret(self, new: NewKey) -> Key:
        if self._service.keys.is_secret_fixed:
            raise Refusal(409, Code.ENVIRONMENT, "the signing secret is set in the server's environment")
        lifetimes = [experiment.ticket_lifetime for experiment in self._service.experiments.values()]
        grace = max(lifetimes, default=0) if new.grace is None else int(new.grace)
        rotate = partial(self._service.keys.rotate_secret, self._service.now, grace)
        await self._write(rotate, "rotate-secret", None, _rotation("signing", grace))
        return Key("signing", None)

    async def add_key(self, new: NewHolder) -> Key:
        """Create a key for a person or a machine."""
        keys = self._service.keys
        if new.name in RESERVED_NAMES:
            raise Refusal(409, Code.EXISTS, f"{new.name} is a name of the server's own: choose another")
        if keys.named(new.name) is not None:
            raise Refusal(409, Code.EXISTS, f"there is already a key named {new.name}: rotate or remove it")
        holder = _holder(new.name, new.role, new.experiments, self._service.now)
        key = await self._write(partial(keys.add, holder), "add-key", None, _rights(holder))
        return Key(new.role, key, new.name)

    async def change_key(self, name: str, rights: KeyRights) -> KeyReport:
        """Change what the key of this name may do, at once; the key stays the same."""
        holder = _holder(name, rights.role, rights.experiments, self._find_holder(name).added_at)
        await self._write(partial(self._service.keys.change, holder), "change-key", None, _rights(holder))
        return await self._key_report(name)

    async def remove_key(self, name: str) -> KeyReport:
        """Remove the key of this name: it opens nothing any more, and its sessions end."""
        self._find_holder(name)
        report = await self._key_report(name)
        await self._write(partial(self._service.keys.remove, name), "remove-key", None, name)
        return report

    def _find_holder(self, name: str) -> StoredHolder:
        found = self._service.keys.named(name)
        if found is None and name in RESERVED_NAMES:
            raise Refusal(
                409, Code.REFUSED, f"{brief(name)} is no key of a person or a machine: it can only be rotated"
            )
        if found is None:
            raise Refusal(404, Code.NOT_FOUND, f"there is no key named {brief(name)}")
        return found

    async def _key_report(self, name: str) -> KeyReport:
        return next(each for each in await self._service.key_reports() if each.name == name)

    def _find(self, name: str) -> LiveExperiment:
        """Return an experiment that the caller may change, or refuse."""
        self._check_may_change(name)
        return self._service.find(name)

    def _check_may_change(self, name: str) -> None:
        if not self._caller.may_change(name):
            self._service.reject(Code.FORBIDDEN)
            given = ", ".join(self._caller.experiments[:MOST_NAMED]) or "no experiment"
            more = ", ..." if len(self._caller.experiments) > MOST_NAMED else ""
            told = f"the key of {self._caller.name} may change {given}{more}, and not {brief(name)}"
            raise Refusal(403, Code.FORBIDDEN, told)

    async def new_link(self) -> str:
        """Return the token of a link that opens the console once for the caller."""
        return await self._service.links.new(self._caller.key)

    async def note(self, experiment: LiveExperiment, what: str, detail: str, since: int = 0) -> None:
        """Write what the server has noticed into the change log, once for all workers since this moment."""
        lines = await self._service.committer.run(self._store.changes, experiment.name, None, NEWEST_LINES)
        since = max(since, experiment.created_at)  # an earlier experiment may have had its name
        if not any((line.what, line.detail) == (what, detail) and line.at >= since for line in lines):
            await self._write(self._store.note, what, experiment.name, detail)

    async def _write(
        self, change: Callable[..., T], what: str, experiment: str | None, detail: str = "", now: int | None = None
    ) -> T:
        """Make a change in the store, which also writes its line of the change log; then log it."""
        told = detail if len(detail) <= LONGEST_DETAIL else f"{detail[:LONGEST_DETAIL]}..."
        line = Change(self._service.now if now is None else now, self._caller.name, what, experiment, told)
        result = await self._service.committer.run(partial(change, log=line))
        log_change(line)
        return result

    @property
    def _is_overtaken(self) -> bool:
        """Tell whether a poll has already applied the change that was just made, and perhaps later ones."""
        return self._service.peers is not None and self._service.peers.is_overtaken

    @staticmethod
    def _no_arm(experiment: LiveExperiment) -> Refusal:
        message = f"the experiment {experiment.name} has no such arm; it has {experiment.listed}"
        return Refusal(404, Code.NOT_FOUND, message)

    @staticmethod
    def _check_not_closed(experiment: LiveExperiment) -> None:
        if experiment.status == "closed":
            raise Refusal(409, Code.CLOSED, f"the experiment {experiment.name} is closed for good")


def log_change(line: Change) -> None:
    """Log a change that was made."""
    fields: dict[str, Any] = {"who": line.who, "what": line.what, "experiment": line.experiment, "detail": line.detail}
    told = " ".join(filter(None, (line.what, line.experiment)))
    message = f"{line.who}: {told}" + (f" ({line.detail})" if line.detail else "")
    _log.info("%s", message, extra={"event": "change", "fields": fields})


def _rotation(what: str, grace: int) -> str:
    return f"{what}, the earlier ones valid for {grace} s"


def _holder(name: str, role: str, experiments: Sequence[str], added_at: int) -> StoredHolder:
    """Return a holder of these rights, or refuse what does not fit together."""
    if experiments and role != Role.EDITOR.value:
        raise Refusal(422, Code.INVALID, f"experiments are for an editor: {_SCOPES[role]}")
    if not experiments and role == Role.EDITOR.value:
        raise Refusal(422, Code.INVALID, "an editor needs the names of the experiments that it may change")
    return StoredHolder(name, role, tuple(dict.fromkeys(experiments)), added_at)


def _rights(holder: StoredHolder) -> str:
    of = f" of {', '.join(holder.experiments)}" if holder.experiments else ""
    return f"{holder.name}, {holder.role}{of}"
