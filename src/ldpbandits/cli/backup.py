"""`ldpbandits backup`: copy the database of a server, while it runs."""

import argparse
from pathlib import Path
from time import perf_counter

from ldpbandits.cli.common import Command, say, show_json
from ldpbandits.cli.database import add_database, sqlite_path
from ldpbandits.extras import needs

ABOUT = """\
Copy the SQLite database of a server, which may be running, into FILE. The copy is a snapshot. It gets its name once it
is complete, and only its owner can read it: it holds private responses, hashes of keys and the signing secret. No file
is replaced. Verify it with `ldpbandits check --database FILE`, and make a database of it with `ldpbandits restore`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ldpbandits backup`."""
    parser.add_argument("file", type=Path, metavar="FILE", help="the copy; this file must not exist yet")
    add_database(parser)


def run(options: argparse.Namespace) -> None:
    """Copy, and say what there is now."""
    database = sqlite_path(options, "pg_dump, or pg_basebackup with an archive of the log")
    with needs("server"):
        from ldpbandits.server.store.sqlite.copy import back_up
    start = perf_counter()
    back_up(database, options.file)
    seconds, size = perf_counter() - start, options.file.stat().st_size
    if options.json:
        show_json({"file": str(options.file), "bytes": size, "seconds": round(seconds, 3)})
    else:
        say(f"{options.file}: a copy of {database}, {size / 1e6:,.1f} MB in {seconds:.1f} s")


COMMAND = Command("backup", "copy the database of a server, while it runs", add_arguments, run, about=ABOUT)
