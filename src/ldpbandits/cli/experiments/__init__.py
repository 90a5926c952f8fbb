"""`ldpbandits experiments`: steer the experiments of a server. Each verb of `Admin` is a verb here."""

import argparse

from ldpbandits.cli.common import Command, add_parser
from ldpbandits.cli.experiments.server import add_server, admin
from ldpbandits.cli.experiments.verbs import VERBS

ABOUT = """\
Steer the experiments of a server (ldpbandits serve).

  export LDPBANDITS_ADMIN_KEY=admin-...
  ldpbandits experiments create headline --arm 'Blue skies ahead' --arm 'Rain at last' --epsilon 1
  ldpbandits experiments show headline --watch
  ldpbandits experiments ship headline 'Rain at last'

The server is at --url, or LDPBANDITS_URL, or http://127.0.0.1:8000. The key is in LDPBANDITS_ADMIN_KEY or in a file
(--key-file); to read only, LDPBANDITS_VIEWER_KEY is enough. There is no --key: everybody on this machine can
read the command lines of all processes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands, each with its options."""
    parsers = parser.add_subparsers(required=True, metavar="VERB")
    for verb in VERBS:
        one = add_parser(parsers, verb.name, verb.help)
        one.set_defaults(verb=verb)
        verb.add_arguments(one)
        if verb.has_json:
            one.add_argument("--json", action="store_true", help="print JSON instead of a table")
        add_server(one)


def run(options: argparse.Namespace) -> int | None:
    """Do what the verb says."""
    code: int | None = options.verb.run(admin(options, is_change=options.verb.is_change), options)
    return code


COMMAND = Command("experiments", "steer the experiments of a server", add_arguments, run, about=ABOUT, has_json=False)
