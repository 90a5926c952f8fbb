"""The options that select a server's database, for the commands that maintain it."""

import argparse
from dataclasses import dataclass
from pathlib import Path

from ldpbandits.cli.config import add_options, option
from ldpbandits.cli.serve_options import settled
from ldpbandits.errors import ParameterError
from ldpbandits.server.store.opening import is_shared, sqlite_file


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The option that selects the database of a server."""

    database: str = option("agent.db", "the database, as `ldpbandits serve` has it", metavar="FILE", has_file=True)


@dataclass(frozen=True, kw_only=True)
class Loaded(Kept):
    """The same, with the modules that are needed to read it."""

    load: tuple[str, ...] = option(
        (), "import this module first, as `ldpbandits serve` does; repeatable", metavar="MODULE"
    )


def add_database(parser: argparse.ArgumentParser, table: type = Kept) -> None:
    """Add the options that select the database."""
    add_options(parser, {"which database": table})


def sqlite_path(options: argparse.Namespace, instead: str) -> Path:
    """Return the path of a SQLite database; for PostgreSQL raise ParameterError, which names what to do `instead`."""
    database: str = settled(options)["database"]
    if is_shared(database):
        raise ParameterError(f"this command is for SQLite; a PostgreSQL database has its own tools: {instead}")
    return sqlite_file(database)
