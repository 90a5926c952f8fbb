"""`ldpbandits check`: do the books of a server agree? Exit code 0: yes, 1: something is damaged."""

import argparse
from typing import TYPE_CHECKING

from ldpbandits.cli.common import FAILED, OK, Command, load, show, show_json
from ldpbandits.cli.database import Loaded, add_database
from ldpbandits.cli.serve_options import settled
from ldpbandits.extras import needs
from ldpbandits.output.numbers import plural

if TYPE_CHECKING:
    from ldpbandits.server.store.integrity import Findings

ABOUT = """\
Check the integrity of a server's database, which may be running, or of a copy: compare each tally with its responses,
each nonce with its response, each response with the possible responses of its curator, and run SQLite's own integrity
check (for the pages of a PostgreSQL database there is pg_amcheck). Each damaged row is one line. The database does not
change. Exit code 0: all agree, 1: a row is damaged, 2: a wrong call."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ldpbandits check`."""
    add_database(parser, Loaded)


def run(options: argparse.Namespace) -> int:
    """Compare, and print what was found."""
    asked = settled(options)
    database: str = asked["database"]
    load(asked["load"])
    with needs("server"):
        from ldpbandits.server.store.integrity import verify
        from ldpbandits.server.store.opening import is_shared, open_dump
    with open_dump(database) as books:
        found = verify(books)
    if options.json:
        more = {"damage": found.damage, "unsaid": found.unsaid}
        counts = {"experiments": found.experiments, "responses": found.responses, "nonces": found.nonces}
        show_json({**counts, **more})
    else:
        show(*_lines("the database" if is_shared(database) else database, found))
    return FAILED if found.damage else OK


def _lines(database: str, found: "Findings") -> list[str]:
    what = ", ".join(
        (
            plural(found.experiments, "experiment"),
            plural(found.responses, "response"),
            plural(found.nonces, "nonce"),
        )
    )
    if not found.damage:
        return [f"{database}: {what}; all agree"]
    more = [f"and {found.unsaid:,} more"] if found.unsaid else []
    return [*found.damage, *more, f"{database}: {what}; damaged: {len(found.damage) + found.unsaid:,}"]


COMMAND = Command(
    "check", "check that the tallies, responses and nonces of a server agree", add_arguments, run, about=ABOUT
)
