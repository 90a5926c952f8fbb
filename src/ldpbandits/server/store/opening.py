"""Which store a server uses, by the name of its database."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from ldpbandits.errors import MissingExtra, ParameterError
from ldpbandits.extras import needs
from ldpbandits.server.store import Store

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from ldpbandits.server.store.integrity import Dump

SCHEMES = ("postgresql://", "postgres://")
_NO_PATH = re.compile(r"([^/]*://|file:|\s*(?:host|hostaddr|port|dbname|user|password|service)\s*=)", re.IGNORECASE)
"""The addresses of other databases, of SQLite's own kind, and PostgreSQL's other way to write its own."""


def is_shared(database: str) -> bool:
    """Tell whether several workers may use this database at once."""
    return database.startswith(SCHEMES)


def open_store(database: str) -> Store:
    """Open the PostgreSQL database at this address, or the SQLite file at this path, which is made if need be."""
    if is_shared(database):
        with needs("postgres"):
            try:
                from ldpbandits.server.store.postgres.store import PostgresStore  # noqa: PLC0415 - it needs an extra
            except ModuleNotFoundError:
                raise
            except ImportError:  # psycopg is there, and PostgreSQL's own library is not
                raise MissingExtra("psycopg needs a library: pip install '.[postgres]' in the source folder") from None
        return PostgresStore(database)
    from ldpbandits.server.store.sqlite.store import SqliteStore  # noqa: PLC0415 - as above

    return SqliteStore(sqlite_file(database))


def sqlite_file(database: str) -> Path:
    """Return the path of a SQLite database; refuse what is none, and would become the name of a new file.

    No error shows it: it may hold a password.
    """
    found = _NO_PATH.match(database)
    if found:
        raise ParameterError(f"a database is the path of a SQLite file or postgresql://..., got {found[1]}...")
    return Path(database)


def books_of(database: str) -> "AbstractContextManager[Dump]":
    """Open the books of a database to be read, while its server runs or not."""
    if is_shared(database):
        with needs("postgres"):
            from ldpbandits.server.store.postgres.integrity import postgres_books  # noqa: PLC0415 - as above
        return postgres_books(database)
    from ldpbandits.server.store.sqlite.integrity import sqlite_books  # noqa: PLC0415 - as above

    return sqlite_books(sqlite_file(database))
