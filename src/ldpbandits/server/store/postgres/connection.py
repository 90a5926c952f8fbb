"""Connections to PostgreSQL: opened when needed, reopened when lost, with the errors of a `Store`."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import psycopg
from psycopg import Connection, Cursor, conninfo
from psycopg.errors import Diagnostic, ReadOnlySqlTransaction
from psycopg.rows import TupleRow

from ldpbandits.errors import DatabaseError
from ldpbandits.server.store import Behind, Exists, Unavailable
from ldpbandits.server.store.sql import Rows

_log = logging.getLogger(__name__)

LOST = (psycopg.OperationalError, psycopg.InterfaceError, ReadOnlySqlTransaction)
"""The connection is lost, or leads to a standby; or the server cancelled a statement (deadlock): retry."""

DEFAULTS: dict[str, str | int] = {
    "application_name": "ldpbandits",
    "connect_timeout": 5,
    # A machine that has vanished is noticed within 15 seconds, not after two hours.
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
NOT_REPLICATED = "01000"
"""The warning when the wait for a synchronous standby is cancelled: the commit is perhaps on the primary only."""

IDLE_TRANSACTION_TIMEOUT_S = 10
"""Seconds after which the database ends an idle transaction: the locks of a machine that has vanished would block all
others for hours."""

DURABLE = (
    "SELECT set_config('synchronous_commit', 'on', {is_local}) WHERE current_setting('synchronous_commit') = 'off'"
)
"""Acknowledged means on disk, whatever the role or database is set to; they may ask for more, such as a standby."""

_SESSION = (
    f"SET idle_in_transaction_session_timeout = '{IDLE_TRANSACTION_TIMEOUT_S}s';"
    " SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 3; SET tcp_keepalives_count = 3;"
    " SET client_encoding = 'UTF8';"
    # The role may have other defaults, and we rely on these: a statement that waited for a lock sees what was committed
    # under it; the warning about a cancelled wait for a standby arrives; slow statements are not cancelled each time.
    " SET default_transaction_isolation = 'read committed'; SET client_min_messages = 'warning';"
    " SET statement_timeout = 0; SET lock_timeout = 0; SET idle_session_timeout = 0;"
    f" {DURABLE.format(is_local='false')}"
)
OLDEST_VERSION = 15
"""The oldest PostgreSQL that this is tested with."""

_SHAPE = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with %XX for special characters of the password"


def display_name(url: str) -> str:
    """Return the name of a database for messages, without user and password; raise DatabaseError for a bad address."""
    try:
        parts = conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        # The part that libpq quotes may be the password.
        raise _no_address(first_line(error).partition('"')[0].rstrip(" :")) from None
    name, host, port = (str(parts.get(part) or "") for part in ("dbname", "host", "port"))
    # A password that contains a slash or an at sign is parsed as one of these.
    if "@" in name or "@" in host[1:] or not all(one.isdigit() for one in port.split(",") if one):
        raise _no_address("it is ambiguous")
    return f"{name} at {host or 'this machine'}"


def _no_address(reason: str) -> DatabaseError:
    return DatabaseError(f"this is not the address of a PostgreSQL database: {reason} ({_SHAPE})")


class Link:
    """One connection, used by one thread at a time. `prepare` runs on each new connection."""

    def __init__(self, url: str, prepare: Callable[[Connection[TupleRow]], None] = lambda _: None) -> None:
        """Store the address; the first use connects."""
        given = conninfo.conninfo_to_dict(url)
        missing: dict[str, Any] = {key: value for key, value in DEFAULTS.items() if key not in given}
        self._conninfo = conninfo.make_conninfo(url, **missing)
        self._prepare = prepare
        self._connection: Connection[TupleRow] | None = None
        self.is_doubtful = False
        """A commit was acknowledged before it was replicated: whether it lasts is unknown."""

    def connection(self) -> Connection[TupleRow]:
        """Return the connection, or open a new one. Each statement outside `transaction` commits by itself."""
        if self._connection is None or self._connection.closed:
            self._connection = None
            made = psycopg.connect(self._conninfo, autocommit=True)
            try:
                made.add_notice_handler(self._notice)
                made.execute(_SESSION)
                self._prepare(made)
            except BaseException:
                made.close()
                raise
            self._connection = made
        return self._connection

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def _notice(self, told: Diagnostic) -> None:
        if told.severity_nonlocalized == "WARNING" and told.sqlstate == NOT_REPLICATED:
            self.is_doubtful = True

    @contextmanager
    def transaction(self) -> Iterator[Connection[TupleRow]]:
        """Commit the whole block durably, or nothing; raise `Unavailable` when the outcome is unknown.

        A connection that was lost since its last use is reopened: nothing has been done yet.
        """
        with translate_errors():
            try:
                with ExitStack() as stack:
                    connection = self._begin(stack)
                    self.is_doubtful = False
                    yield connection
            except ReadOnlySqlTransaction:
                self.close()  # it leads to a standby; the next one may not
                raise
            if self.is_doubtful:
                raise psycopg.OperationalError("the standby has not confirmed a commit")

    def _begin(self, stack: ExitStack) -> Connection[TupleRow]:
        try:
            connection = self.connection()
            stack.enter_context(connection.transaction())
        except LOST:
            self.close()
            connection = self.connection()
            stack.enter_context(connection.transaction())
        return connection

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        """Return all rows of a query, which is a transaction of its own and idempotent.

        A connection that was lost since its last use is reopened.
        """
        with translate_errors():
            try:
                return self.connection().execute(sql, values).fetchall()
            except LOST:
                self.close()
                return self.connection().execute(sql, values).fetchall()


def execute(connection: Connection[TupleRow], sql: str, values: Sequence[object] = ()) -> Cursor[TupleRow]:
    """Run a statement whose placeholders are question marks, as those of `store/sql.py` are."""
    return connection.execute(sql.replace("?", "%s"), values)


def rows_of(connection: Connection[TupleRow]) -> Rows:
    """Return a function that runs a query of `store/sql.py` on this connection, and returns its rows."""
    return lambda sql, values=(): execute(connection, sql, values).fetchall()


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate psycopg's errors into those of a `Store`."""
    try:
        yield
    except psycopg.errors.UniqueViolation as error:
        kinds = {"behind": Behind, "name_taken": Exists, "arm_taken": Exists}
        raise kinds.get(error.diag.constraint_name or "", Unavailable)(first_line(error)) from error
    except psycopg.Error as error:
        raise Unavailable(first_line(error)) from error


def first_line(error: Exception) -> str:
    """Return the first line of an error."""
    return str(error).partition("\n")[0]


def check_server(connection: Connection[TupleRow]) -> None:
    """Raise DatabaseError when the server is too old, cannot hold all names, or keeps the time of each response."""
    version = connection.info.server_version // 10_000
    if version < OLDEST_VERSION:
        raise DatabaseError(f"PostgreSQL must be {OLDEST_VERSION} or newer, got {version}")
    ((encoding,),) = connection.execute("SHOW server_encoding").fetchall()
    if encoding != "UTF8":
        raise DatabaseError(f"the encoding of the database must be UTF8, got {encoding}")
    ((is_timed,),) = connection.execute("SHOW track_commit_timestamp").fetchall()
    if is_timed != "off":
        raise DatabaseError("track_commit_timestamp of PostgreSQL must be off: it keeps the time of each response")


def check_sessions(one: Connection[TupleRow], other: Connection[TupleRow]) -> None:
    """Raise DatabaseError when two connections share one session, because of a pooler in transaction mode.

    Settings of one connection would then apply to the other, so that an acknowledged commit might not be on disk; and
    session locks would pass to another client. A pooler with many sessions may pass this check: it is no proof.
    """
    first, second = (link.execute("SELECT pg_backend_pid()").fetchall() for link in (one, other))
    if first == second:
        raise DatabaseError(
            "the pooler in front of the database must be in session mode: two connections are one session"
        )
