"""Opens the store that a database address or path names."""

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
"""Addresses that are no paths: of other databases, SQLite URIs, and PostgreSQL's key=value form."""


def is_shared(database: str) -> bool:
    """Tell whether several workers may use this database at once."""
    return database.startswith(SCHEMES)


def open_store(database: str) -> Store:
    """Open the PostgreSQL database at this address, or the SQLite file at this path, which is created if missing."""
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
    """Return the path of a SQLite database; refuse an address, which would become the name of a new file.

    The error does not quote it: it may hold a password.
    """
    found = _NO_PATH.match(database)
    if found:
        raise ParameterError(f"a database is the path of a SQLite file or postgresql://..., got {found[1]}...")
    return Path(database)


def open_dump(database: str) -> "AbstractContextManager[Dump]":
    """Open a database for the integrity check, while its server runs or not."""
    if is_shared(database):
        with needs("postgres"):
            from ldpbandits.server.store.postgres.integrity import open_postgres_dump  # noqa: PLC0415 - as above
        return open_postgres_dump(database)
    from ldpbandits.server.store.sqlite.integrity import open_sqlite_dump  # noqa: PLC0415 - as above

    return open_sqlite_dump(sqlite_file(database))
