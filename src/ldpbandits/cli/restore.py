"""`ldpbandits restore`: make a database of a backup."""

import argparse
from pathlib import Path

from ldpbandits.cli.common import Command, say, show_json
from ldpbandits.cli.database import add_database, sqlite_path
from ldpbandits.extras import needs

ABOUT = """\
Make a new database from a BACKUP. It is not the database that was backed up: it has a new identity and a new signing
secret, so that it refuses older tickets. Since the backup the old database may have counted them, or issued them for
experiments that the backup does not know. Keys are those of the backup: keys that were rotated since are valid again,
so rotate them again."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ldpbandits restore`."""
    parser.add_argument("backup", type=Path, metavar="BACKUP", help="a file that `ldpbandits backup` has written")
    add_database(parser)


def run(options: argparse.Namespace) -> None:
    """Restore, and say what there is now."""
    database = sqlite_path(options, "pg_restore, or the archive of pg_basebackup")
    with needs("server"):
        from ldpbandits.server.store.sqlite.copy import restore
    restore(options.backup, database)
    if options.json:
        show_json({"database": str(database), "backup": str(options.backup)})
    else:
        say(f"{database}: made of {options.backup}; tickets from before are refused, keys are those of the backup")


COMMAND = Command("restore", "make a database from a backup", add_arguments, run, about=ABOUT)
