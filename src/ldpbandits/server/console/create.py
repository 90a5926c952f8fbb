"""The form for a new experiment: it says what epsilon means while it is typed, and comes back with what is wrong."""

from collections.abc import Mapping
from inspect import signature
from typing import Any

import msgspec
from starlette.responses import Response

from ldpbandits.agent.rules import RULES
from ldpbandits.errors import ParameterError
from ldpbandits.server.api.messages import NewExperiment
from ldpbandits.server.api.refusals import Refusal
from ldpbandits.server.console.forms import as_message
from ldpbandits.server.console.replies import page, redirect
from ldpbandits.server.console.visits import Visit
from ldpbandits.server.console.words import effort_of, odds_of
from ldpbandits.server.experiments.limits import menu_from_json
from ldpbandits.server.experiments.settings import STICKY_S
from ldpbandits.spec.mechanisms import MECHANISMS
from ldpbandits.spec.protocol import Code

LABELS = {
    "bernoulli": "one random bit (Bernoulli, CTB)",
    "laplace": "a number with noise (Laplace, CTL)",
}
"""The names of mechanisms; one that another package registered goes by its kind."""
FOLDED = {
    "ticket_lifetime": "3600",
    "sticky": f"{STICKY_S}",
    "rule": "",
    "minimum_share": "",
    "warm_up": "",
    "ramp_share": "",
    "ramp_responses": "",
    "stop_when_decided": "",
    "stop_after": "24",
    "responses_per_hour": "10000",
    "allowance_required": "",
    "forged": "",
    "one_look": "",
    "worth": "",
    "harm": "",
    "may_add_arms": "",
    "accept_drift_risk": "",
    "retain": "",
    "about_page": "",
    "warm_start": "",
}
DESCRIBED = ("title", "hypothesis", "owner", "planned_end")
"""The fields of the metadata that the form has; the page of the experiment changes all."""

FIRST = {
    "name": "",
    "arms": "",
    "goal": "decide",
    "mechanism": "bernoulli",
    "epsilon": "1",
    "expect_baseline": "",
    "expect_gain": "",
    "transform": "range",
    "low": "0",
    "high": "1",
    "theta": "0.5",
    "default_reward": "",
    "report_after": "",
    **dict.fromkeys(DESCRIBED, ""),
    **FOLDED,
}
"""The fields of the form and their initial values; rarely used ones are folded away."""


async def show(visit: Visit) -> Response:
    """Show the form of a new experiment."""
    return _form(visit, FIRST)


async def submit(visit: Visit) -> Response:
    """Create the experiment, or show the form with its fault."""
    fields = {name: visit.form.get(name, "").strip() for name in FIRST}
    try:
        new = as_message(NewExperiment, message(fields))
        report = await visit.service.change(lambda: visit.commands.create(new))
    except Refusal as refusal:
        return _form(visit, fields, refusal)
    return redirect(f"experiments/{report.name}?done=create")


async def epsilon(visit: Visit) -> Response:
    """Explain an epsilon: a part of the form, which the page replaces during typing."""
    fields = {**FIRST, **visit.request.query_params}
    return page(visit, "_epsilon.html", **_epsilon(fields))


def message(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the API message of these fields, without the empty ones."""
    new: dict[str, Any] = {
        "name": fields["name"],
        "arms": [line.strip() for line in fields["arms"].splitlines() if line.strip()],
        "curator": _curator(fields),
        **_metadata(fields),
        **_verdict_fields(fields),
    }
    for name in ("default_reward", "report_after", "ticket_lifetime", "sticky", "warm_up", "responses_per_hour"):
        if fields[name]:
            new[name] = _number(name, fields[name])
    if fields["minimum_share"]:
        new["minimum_share"] = _number("minimum_share", fields["minimum_share"]) / 100
    if fields["ramp_share"] or fields["ramp_responses"]:
        share = _number("ramp_share", fields["ramp_share"]) / 100
        new["ramp"] = {"share": share, "responses": _number("ramp_responses", fields["ramp_responses"])}
    if fields["rule"]:
        new["rule"] = "paper" if fields["rule"] == "paper" else {"kind": fields["rule"]}
    if fields["stop_after"]:
        new["stop_after"] = _number("stop_after", fields["stop_after"]) * 3600
    new |= {name: True for name in ("allowance_required", "about_page") if fields[name]}
    if fields["retain"]:
        new["retain"] = fields["retain"]
    if fields["warm_start"]:
        new["warm_start"] = _json("warm_start", fields["warm_start"])
    return new


def _metadata(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the part of the message on title, owner and the like."""
    given = {name: fields[name] for name in DESCRIBED if fields[name]}
    return {"metadata": given} if given else {}


def _verdict_fields(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the part of the message on the goal, and on when the experiment is decided."""
    new: dict[str, Any] = {}
    if fields["goal"] and not fields["rule"]:
        new["goal"] = fields["goal"]
    if fields["stop_when_decided"]:
        new["stop_when_decided"] = fields["stop_when_decided"]
    if fields["expect_baseline"] or fields["expect_gain"]:
        new["expect"] = {name: _number(f"expect_{name}", fields[f"expect_{name}"]) for name in ("baseline", "gain")}
    for name in ("worth", "harm", "one_look"):
        if fields[name]:
            new[name] = _number(name, fields[name])
    if fields["forged"]:
        new["forged"] = _number("forged", fields["forged"]) / 100
    for name in ("may_add_arms", "accept_drift_risk"):
        if fields[name]:
            new[name] = True
    return new


def _curator(fields: Mapping[str, str]) -> dict[str, Any]:
    match fields["transform"]:
        case "range":
            ends = {name: _number(name, fields[name]) for name in ("low", "high")}
            transform = {"kind": "range", **ends}
        case "threshold":
            transform = {"kind": "threshold", "theta": _number("theta", fields["theta"])}
        case kind:
            transform = {"kind": kind}
    listed = [_number("epsilon", text) for text in fields["epsilon"].replace(",", " ").split()]
    if not listed:
        raise Refusal(422, Code.INVALID, "epsilon is needed: the limit on the privacy loss of a response")
    return {
        "mechanism": fields["mechanism"],
        "epsilon": listed[0] if len(listed) == 1 else sorted(listed),
        "transform": transform,
    }


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Refusal(422, Code.INVALID, f"{name} must be a number, got {text!r}") from None


def _json(name: str, text: str) -> Any:  # noqa: ANN401 - JSON
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        sentence = f"{name} must be the JSON that an experiment exports as its tallies"
        raise Refusal(422, Code.INVALID, sentence) from None


def _epsilon(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the numbers of the explanation of epsilon; an invalid epsilon has a reason instead."""
    try:
        menu = menu_from_json(_curator(fields))
    except (ParameterError, Refusal) as error:
        try:
            menu = menu_from_json(_curator({**fields, "transform": "sigmoid"}))
        except (ParameterError, Refusal):
            return {"epsilons": [], "epsilon_error": str(error)}
    arms, plan = sum(bool(line.strip()) for line in fields["arms"].splitlines()), _plan(fields)
    means = [(odds_of(curator.mechanism), effort_of(curator, arms, plan)) for curator in menu.curators]
    return {"epsilons": means, "epsilon_error": None}


def _plan(fields: Mapping[str, str]) -> tuple[float, float] | None:
    """Return the mean reward and the gain that are typed; None while they are not, or are no numbers."""
    try:
        return float(fields["expect_baseline"]), float(fields["expect_gain"])
    except ValueError:
        return None


def _form(visit: Visit, fields: Mapping[str, str], refusal: Refusal | None = None) -> Response:
    status, error = (200, None) if refusal is None else (refusal.status, refusal.message)
    rules = [kind.kind for kind in RULES if _is_plain(kind)]
    content = {
        "fields": fields,
        "error": error,
        "rules": rules,
        "mechanisms": _mechanisms(),
        "is_unfolded": any(fields[name] != first for name, first in FOLDED.items()),
    }
    return page(visit, "new.html", status, **content, **_epsilon(fields))


def _mechanisms() -> dict[str, str]:
    """Return the mechanisms that need no parameter but epsilon."""
    plain = [kind.kind for kind in MECHANISMS if [*signature(kind).parameters] == ["epsilon"]]
    return {kind: LABELS.get(kind, kind) for kind in plain}


def _is_plain(rule: Any) -> bool:  # noqa: ANN401 - a class of the registry
    """Tell whether a rule needs no numbers."""
    try:
        rule()
    except TypeError:
        return False
    return True
