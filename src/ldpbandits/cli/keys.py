"""`ldpbandits keys`: give people and machines keys of their own, change what a key may do, and remove it."""

import argparse
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from ldpbandits.admin.admin import Admin
from ldpbandits.admin.text import keys
from ldpbandits.cli.common import Command, add_parser, legible, say, show, show_json, show_result, width
from ldpbandits.cli.experiments.server import add_server, admin
from ldpbandits.cli.first_keys import keys_file
from ldpbandits.spec.messages import KeyReport

ROLES = ("admin", "editor", "viewer")

ABOUT = """\
Give people and machines keys of their own: the change log shows their names, and each can be removed alone.

  ldpbandits keys add anna --role admin --out anna-key
  ldpbandits keys add ben --role editor --experiment headline --experiment price
  ldpbandits keys add dashboard --role viewer
  ldpbandits keys change ben --role editor --experiment price
  ldpbandits keys remove ben
  ldpbandits rotate anna                 # a new key for the same name

An editor reads everything, and creates, changes and deletes the experiments of these names. A new key is shown once."""


@dataclass(frozen=True)
class Verb:
    """A subcommand: its name, help and function."""

    name: str
    help: str
    run: Callable[[Admin, argparse.Namespace], None]
    add_arguments: Callable[[argparse.ArgumentParser], None]


def _list(admin: Admin, options: argparse.Namespace) -> None:
    found = admin.keys()
    show_result(options, lambda: [asdict(each) for each in found], lambda: [legible(keys(found, width()))])


def _add(admin: Admin, options: argparse.Namespace) -> None:
    if options.out is not None:
        with keys_file(options.out) as file:  # before there is a key: it can be had only once
            made = admin.add_key(options.name, options.role, options.experiment)
            file.write(f"{made}\n")
        say(f"the key of {options.name} is in {options.out}, and nowhere else")
        if not options.json:
            return
    else:
        made = admin.add_key(options.name, options.role, options.experiment)
    if options.json:
        show_json({"name": options.name, "role": options.role, "key": made if options.out is None else None})
    else:
        show(made)


def _change(admin: Admin, options: argparse.Namespace) -> None:
    _tell(admin.change_key(options.name, options.role, options.experiment), options)


def _remove(admin: Admin, options: argparse.Namespace) -> None:
    gone = admin.remove_key(options.name)
    show_result(options, lambda: asdict(gone), lambda: [f"{gone.name} has no key any more"])


def _tell(changed: KeyReport, options: argparse.Namespace) -> None:
    show_result(options, lambda: asdict(changed), lambda: [legible(keys([changed], width()))])


def _nothing(_: argparse.ArgumentParser) -> None:
    """Add no options: for subcommands without any."""


def _name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the name of the person or machine")


def _rights(parser: argparse.ArgumentParser) -> None:
    _name(parser)
    parser.add_argument("--role", choices=ROLES, required=True, help="what the key may do")
    told = "an experiment that an editor may change, also one that is to be created; repeatable"
    parser.add_argument("--experiment", action="append", default=[], metavar="NAME", help=told)


def _new(parser: argparse.ArgumentParser) -> None:
    _rights(parser)
    told = "write the key into this new file, readable only by its owner, instead of printing it"
    parser.add_argument("--out", type=Path, metavar="FILE", help=told)


VERBS = (
    Verb("list", "list the keys: name, role, experiments, and the day of the last use", _list, _nothing),
    Verb("add", "make a key for a person or a machine, and show it once", _add, _new),
    Verb("change", "change the role and the experiments of a key", _change, _rights),
    Verb("remove", "remove a key: it opens nothing any more, at once", _remove, _name),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands, each with its options."""
    parsers = parser.add_subparsers(required=True, metavar="VERB")
    for verb in VERBS:
        one = add_parser(parsers, verb.name, verb.help)
        one.set_defaults(verb=verb)
        verb.add_arguments(one)
        one.add_argument("--json", action="store_true", help="print JSON instead of a table")
        add_server(one)


def run(options: argparse.Namespace) -> None:
    """Do what the verb says."""
    options.verb.run(admin(options, is_change=True), options)


COMMAND = Command("keys", "give people and machines keys of their own", add_arguments, run, about=ABOUT, has_json=False)
