"""Actions on an experiment: each has a page that describes the consequences and asks for confirmation."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeAlias

from starlette.responses import Response

from ldpbandits.output.numbers import plural
from ldpbandits.server.api.messages import NewArm, ShippedArm
from ldpbandits.server.api.refusals import Refusal
from ldpbandits.server.console.forms import as_message
from ldpbandits.server.console.replies import page, redirect
from ldpbandits.server.console.visits import Visit
from ldpbandits.server.console.words import MOST_SHOWN
from ldpbandits.server.experiments.commands import Commands
from ldpbandits.spec.messages import Report
from ldpbandits.spec.protocol import Code

Fields: TypeAlias = dict[str, str]


@dataclass(frozen=True)
class Action:
    """An action: its name, when it applies, its consequences, and the function that runs it."""

    word: str
    """The name in the URL."""
    label: str
    """The label of the buttons that open the page and confirm it."""
    title: Callable[[Report], str]
    consequences: Callable[[Report], list[str]]
    fits: Callable[[Report], bool]
    run: Callable[[Commands, str, Fields], Coroutine[Any, Any, object]]
    done: str
    """The message after the action."""
    is_grave: bool = False
    """Whether the action cannot be undone."""
    is_listed: bool = True
    """Whether it has a button beside the others; retiring and forgiving have theirs at the table of the arms."""


def _is_open(report: Report) -> bool:
    return report.status != "closed"


def _is_hidden(report: Report) -> bool:
    """Tell whether an open experiment waits for its one look."""
    return report.settings.one_look is not None and report.best is None


def _missing(report: Report) -> int:
    return sum(arm.missing for arm in report.arms)


def _out(report: Report) -> str:
    """Return a sentence on the open tickets."""
    out = sum(arm.pending for arm in report.arms)
    return f"{plural(out, 'pending response')} will still count." if out else "No responses are pending."


def _ship_consequences(report: Report) -> list[str]:
    best = report.best
    sure = "" if best is None or best.separated else [f"It is not sure yet that {best.name} is the best arm."]
    return [
        *sure,
        "Every device gets this arm from now on. The server asks for no responses, and devices spend no epsilon.",
        _out(report),
        "You can resume the experiment: it goes on where it was.",
    ]


async def _retire(commands: Commands, name: str, fields: Fields) -> None:
    await commands.retire_arm(name, _number(fields.get("arm", "")))


async def _delete(commands: Commands, name: str, fields: Fields) -> None:
    if fields.get("name", "").strip() != name:
        raise Refusal(422, Code.INVALID, f"to delete it, type its name: {name}")
    await commands.delete(name)


def _number(text: str) -> int:
    """Parse the number of an arm; return -1, which no arm has, when it is invalid."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else -1  # noqa: PLR2004 - 65535


ACTIONS = (
    Action(
        "pause",
        "Pause",
        lambda report: f"Pause {report.name}?",
        lambda report: [
            "The server assigns no more arms: devices go on without.",
            _out(report),
            "You can resume the experiment.",
        ],
        lambda report: report.status == "running",
        lambda commands, name, _: commands.set_status(name, "paused"),
        "The experiment is paused.",
    ),
    Action(
        "resume",
        "Resume",
        lambda report: f"Resume {report.name}?",
        lambda _: ["The server assigns arms again, by the rule, and asks for responses."],
        lambda report: report.status in {"paused", "shipped"},
        lambda commands, name, _: commands.set_status(name, "running"),
        "The experiment is running again.",
    ),
    Action(
        "ship",
        "Ship",
        lambda report: f"Ship an arm of {report.name} to everybody?",
        _ship_consequences,
        _is_open,
        lambda commands, name, fields: commands.ship(name, ShippedArm(_number(fields.get("arm", "")))),
        "The arm is shipped.",
    ),
    Action(
        "add-arm",
        "Add an arm",
        lambda report: f"Add an arm to {report.name}?",
        lambda _: ["The server assigns it from now on. Devices see its name, which cannot be used again."],
        lambda report: _is_open(report) and report.settings.may_add_arms,
        lambda commands, name, fields: commands.add_arm(
            name, as_message(NewArm, {"name": fields.get("arm", "").strip()})
        ),
        "The arm is added.",
    ),
    Action(
        "retire",
        "Retire",
        lambda report: f"Retire an arm of {report.name}?",
        lambda report: [
            "The server never assigns it again, and uses neither its name nor its number again.",
            "Its responses and estimates stay. " + _out(report),
        ],
        lambda report: _is_open(report) and not _is_hidden(report) and sum(not arm.retired for arm in report.arms) > 1,
        _retire,
        "The arm is retired.",
        is_grave=True,
        is_listed=False,
    ),
    Action(
        "forgive",
        "Forgive the missing answers",
        lambda report: f"Forgive the missing answers of {report.name}?",
        lambda report: [
            f"{plural(_missing(report), 'missing answer')} will count no more, nor change the verdict.",
            "Do this only after you have found and removed the reason: the verdict then trusts those who answered.",
            "Answers that go missing later count again. The report shows how many were forgiven.",
            "This cannot be undone.",
        ],
        lambda report: _missing(report) > 0,
        lambda commands, name, _: commands.forgive(name),
        "The missing answers are forgiven.",
        is_grave=True,
        is_listed=False,
    ),
    Action(
        "close",
        "Close",
        lambda report: f"Close {report.name} for good?",
        lambda report: [
            "The server assigns no more arms and counts no more responses. Reports and exports stay.",
            f"It will refuse pending responses ({sum(arm.pending for arm in report.arms):,}).",
            "A closed experiment never runs again; pause it if you may want to resume it.",
        ],
        _is_open,
        lambda commands, name, _: commands.set_status(name, "closed"),
        "The experiment is closed.",
        is_grave=True,
    ),
    Action(
        "delete",
        "Delete",
        lambda report: f"Delete {report.name} and all its responses?",
        lambda report: [
            f"{plural(report.responses, 'response')} and the estimates of all arms will be gone, for good.",
            "Export the responses first if anybody may still need them.",
        ],
        lambda _: True,
        _delete,
        "The experiment is deleted, with all its responses.",
        is_grave=True,
    ),
)

DONE = {action.word: action.done for action in ACTIONS} | {
    "create": "The experiment is created, and running.",
    "describe": "The description is changed.",
}


async def confirm(visit: Visit) -> Response:
    """Show the consequences, and ask for confirmation."""
    if not visit.may_change:
        raise Refusal(403, Code.FORBIDDEN, f"your key may not change {visit.name}")
    return await _ask(visit, _find(visit), dict(visit.request.query_params))


async def act(visit: Visit) -> Response:
    """Run a confirmed action, and show the experiment."""
    action = _find(visit)
    try:
        await visit.service.change(lambda: action.run(visit.commands, visit.name, dict(visit.form)))
    except Refusal as refusal:
        return await _ask(visit, action, visit.form, refusal)
    return redirect(("../../" if action.word == "delete" else f"../{visit.name}") + f"?done={action.word}")


def _find(visit: Visit) -> Action:
    found = next((action for action in ACTIONS if action.word == visit.request.path_params["action"]), None)
    if found is None:
        raise Refusal(404, Code.NOT_FOUND, "page not found")
    return found


async def _ask(visit: Visit, action: Action, fields: Any, refusal: Refusal | None = None) -> Response:  # noqa: ANN401
    report = (await visit.snapshot()).report
    status = 200 if refusal is None else refusal.status
    error = refusal and refusal.message
    content = {"action": action, "report": report, "fields": fields, "error": error, "most_shown": MOST_SHOWN}
    return page(visit, "confirm.html", status, **content)
