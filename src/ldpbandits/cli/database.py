"""What the commands share that look after a server's database: which one it is, by the options of `serve`."""

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldpbandits.cli.config import add_options, option, settle
from ldpbandits.cli.serve_options import OPTIONS, SECRETS
from ldpbandits.errors import ParameterError
from ldpbandits.server.store.opening import is_shared, sqlite_file


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Where a server keeps what it counts."""

    database: str = option("agent.db", "the database, as `ldpbandits serve` has it", metavar="FILE", has_file=True)


@dataclass(frozen=True, kw_only=True)
class Loaded(Kept):
    """And what one must know to read it."""

    load: tuple[str, ...] = option(
        (), "import this module first, as `ldpbandits serve` does; repeatable", metavar="MODULE"
    )


def add_database(parser: argparse.ArgumentParser, table: type = Kept) -> None:
    """Add the options that say which database it is."""
    add_options(parser, {"which database": table})


def settled(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the server whose database it is."""
    return settle(OPTIONS, options, os.environ, SECRETS)


def sqlite_path(options: argparse.Namespace, instead: str) -> Path:
    """Return the path of a SQLite database; what to do `instead` is said to whoever has another one."""
    database: str = settled(options)["database"]
    if is_shared(database):
        raise ParameterError(f"this is for SQLite; a PostgreSQL database has its own tools: {instead}")
    return sqlite_file(database)
