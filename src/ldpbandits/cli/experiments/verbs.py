"""The subcommands of `ldpbandits experiments`, as a table: each calls `Admin` and prints the result."""

import argparse
from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import sleep
from typing import Any

from ldpbandits.admin.admin import Admin
from ldpbandits.admin.messages import Report
from ldpbandits.admin.text import changes, report, summaries
from ldpbandits.cli.common import FAILED, agrees, legible, number, show_over, show_result, width
from ldpbandits.cli.experiments.create import METADATA, add_create, add_metadata, create
from ldpbandits.cli.experiments.export import add_export, export
from ldpbandits.errors import ParameterError
from ldpbandits.output.numbers import plural

WATCH_INTERVAL_S = 1.0
"""Interval between two redraws of --watch."""

MAX_ARM_DIGITS = 5
"""No number of an arm has more digits."""


@dataclass(frozen=True)
class Verb:
    """A subcommand: its name, help and function."""

    name: str
    help: str
    run: Callable[[Admin, argparse.Namespace], int | None]
    add_arguments: Callable[[argparse.ArgumentParser], None]
    is_change: bool = True
    """Whether it needs the admin key."""
    has_json: bool = True


def _tell(shown: Report, options: argparse.Namespace) -> None:
    """Print all about an experiment: as it is, or after a change."""
    show_result(options, shown.to_json, lambda: [legible(report(shown, width()))])


def _list(admin: Admin, options: argparse.Namespace) -> None:
    found = admin.list()
    show_result(options, lambda: [asdict(each) for each in found], lambda: [legible(summaries(found, width()))])


def _show(admin: Admin, options: argparse.Namespace) -> None:
    if not options.watch:
        _tell(admin.show(options.name), options)
        return
    if options.json:
        raise ParameterError("--watch draws for people: leave out --json")
    try:
        while True:
            show_over(legible(f"{report(admin.show(options.name), width())}\n\nCtrl-C ends this."))
            sleep(WATCH_INTERVAL_S)
    except KeyboardInterrupt:  # Ctrl-C is the documented end
        return


def _log(admin: Admin, options: argparse.Namespace) -> None:
    found = admin.log(options.name, most=options.most)
    show_result(options, lambda: [asdict(each) for each in found], lambda: [legible(changes(found, width()))])


def _ship(admin: Admin, options: argparse.Namespace) -> int | None:
    shown = admin.show(options.name)
    arm = _arm(shown, options.arm)
    is_best = shown.best is None or shown.best.arm == arm
    beside = "" if is_best else f" (the best so far is {shown.best.name})"  # type: ignore[union-attr]
    question = f"Show {shown.arms[arm].name}{beside} to everybody, and collect no more responses?"
    if not agrees(lambda: question, yes=options.yes):
        return FAILED
    _tell(admin.ship(options.name, arm), options)
    return None


def _close(admin: Admin, options: argparse.Namespace) -> int | None:
    def question() -> str:
        late = sum(arm.pending for arm in admin.show(options.name).arms)
        return f"Close {options.name} for good? The server would refuse {plural(late, 'pending response')}."

    if not agrees(question, yes=options.yes):
        return FAILED
    _tell(admin.close(options.name), options)
    return None


def _delete(admin: Admin, options: argparse.Namespace) -> int | None:
    def question() -> str:
        return f"Delete {options.name} and its {plural(admin.show(options.name).responses, 'response')} for good?"

    if not agrees(question, yes=options.yes):
        return FAILED
    gone = admin.delete(options.name)
    show_result(
        options, lambda: asdict(gone), lambda: [f"{gone.name} is deleted, with {plural(gone.responses, 'response')}"]
    )
    return None


def _retire_arm(admin: Admin, options: argparse.Namespace) -> None:
    _tell(admin.retire_arm(options.name, _arm(admin.show(options.name), options.arm)), options)


def _arm(shown: Report, text: str) -> int:
    """Return the number of an arm that is called by its name or, where none has this name, by its number."""
    is_number = text.isascii() and text.isdigit() and len(text) <= MAX_ARM_DIGITS
    return shown.arm(int(text) if is_number and text not in {arm.name for arm in shown.arms} else text).arm


def _telling(change: Callable[[Admin, Any], Report]) -> Callable[[Admin, argparse.Namespace], None]:
    """Return a function that makes a change and prints the changed experiment."""
    return lambda admin, options: _tell(change(admin, options), options)


def _nothing(_: argparse.ArgumentParser) -> None:
    """Add no options: for subcommands without any."""


def _name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the experiment")


def _describe(admin: Admin, options: argparse.Namespace) -> None:
    given = {key: getattr(options, key) for key in METADATA}
    if not any(text is not None for text in given.values()):
        raise ParameterError("say what changes: --title, --description, --hypothesis, --owner, --link or --planned-end")
    _tell(admin.describe(options.name, **given), options)


def _create_options(parser: argparse.ArgumentParser) -> None:
    add_create(parser)
    add_metadata(parser)


def _describe_options(parser: argparse.ArgumentParser) -> None:
    _name(parser)
    add_metadata(parser)


def _log_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="the experiment, also a deleted one (default: all)")
    parser.add_argument(
        "--most", type=number, default=100, metavar="N", help="print the newest N changes (default 100)"
    )


def _watch(parser: argparse.ArgumentParser) -> None:
    _name(parser)
    parser.add_argument("--watch", action="store_true", help="redraw every second, until Ctrl-C")


def _name_and_arm(parser: argparse.ArgumentParser) -> None:
    _name(parser)
    parser.add_argument("arm", metavar="ARM", help="an arm, by its name or its number")


def _new_arm(parser: argparse.ArgumentParser) -> None:
    _name(parser)
    parser.add_argument("arm", metavar="ARM", help="the name of the new arm")


def _with_yes(add_arguments: Callable[[argparse.ArgumentParser], None]) -> Callable[[argparse.ArgumentParser], None]:
    def add(parser: argparse.ArgumentParser) -> None:
        add_arguments(parser)
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")

    return add


VERBS = (
    Verb("list", "list the experiments", _list, _nothing, is_change=False),
    Verb("show", "show the estimate of each arm, and the best arm", _show, _watch, is_change=False),
    Verb("create", "create an experiment and start it", _telling(create), _create_options),
    Verb(
        "pause",
        "stop assigning arms; responses still outstanding count",
        _telling(lambda admin, options: admin.pause(options.name)),
        _name,
    ),
    Verb("resume", "assign arms again", _telling(lambda admin, options: admin.resume(options.name)), _name),
    Verb("ship", "assign one arm to everybody, and collect no more responses", _ship, _with_yes(_name_and_arm)),
    Verb("close", "end an experiment for good", _close, _with_yes(_name)),
    Verb("delete", "remove an experiment and all its responses", _delete, _with_yes(_name)),
    Verb("add-arm", "add an arm", _telling(lambda admin, options: admin.add_arm(options.name, options.arm)), _new_arm),
    Verb("retire-arm", "stop assigning an arm", _retire_arm, _name_and_arm),
    Verb(
        "forgive",
        "forgive the missing answers so far: missing counts start anew",
        _telling(lambda admin, options: admin.forgive(options.name)),
        _name,
    ),
    Verb("describe", "change title, owner, planned end and the like", _describe, _describe_options),
    Verb("log", "show who changed an experiment, or any, and the keys", _log, _log_options, is_change=False),
    Verb(
        "export",
        "write the responses as CSV, or the tallies as JSON",
        export,
        add_export,
        is_change=False,
        has_json=False,
    ),
)
