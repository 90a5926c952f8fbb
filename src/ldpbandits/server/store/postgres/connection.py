"""Connections to PostgreSQL: made when they are needed, made again when they were lost, with errors of a `Store`."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import psycopg
from psycopg import Connection, conninfo
from psycopg.errors import Diagnostic, ReadOnlySqlTransaction
from psycopg.rows import TupleRow

from ldpbandits.errors import DatabaseError
from ldpbandits.server.store import Behind, Exists, Unavailable

_log = logging.getLogger(__name__)

LOST = (psycopg.OperationalError, psycopg.InterfaceError, ReadOnlySqlTransaction)
"""The connection is gone, or leads to a standby; or a statement was given up by the server (deadlock): try again."""

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
"""The warning when the wait for a synchronous standby is cancelled: the commit is here, perhaps nowhere else."""

IDLE_TRANSACTION_TIMEOUT_S = 10
"""Seconds. Whoever holds locks and says nothing for so long, as a machine that has vanished, is cut off by the
database: else all others would wait for hours for its locks."""

DURABLE = (
    "SELECT set_config('synchronous_commit', 'on', {is_local}) WHERE current_setting('synchronous_commit') = 'off'"
)
"""Acknowledged is on disk, whatever a role or database is set to; how much further, at a standby, is theirs to say."""

_SESSION = (
    f"SET idle_in_transaction_session_timeout = '{IDLE_TRANSACTION_TIMEOUT_S}s';"
    " SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 3; SET tcp_keepalives_count = 3;"
    " SET client_encoding = 'UTF8';"
    # What a role may be set to, and we rely on: whoever waits for a lock sees what was done under it; the warning that
    # a standby was not waited for is told; and what takes its time is not given up each time.
    " SET default_transaction_isolation = 'read committed'; SET client_min_messages = 'warning';"
    " SET statement_timeout = 0; SET lock_timeout = 0; SET idle_session_timeout = 0;"
    f" {DURABLE.format(is_local='false')}"
)
OLDEST_VERSION = 15
"""The oldest PostgreSQL that this is tested with."""

_SHAPE = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with %XX for special characters of the password"


def named(url: str) -> str:
    """Return what a database is called in messages: without password and user. Raise DatabaseError for no address."""
    try:
        parts = conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        # What libpq quotes may be the password.
        raise _no_address(first_line(error).partition('"')[0].rstrip(" :")) from None
    name, host, port = (str(parts.get(part) or "") for part in ("dbname", "host", "port"))
    # A password with a stroke or an at sign in it is taken for these.
    if "@" in name or "@" in host[1:] or not all(one.isdigit() for one in port.split(",") if one):
        raise _no_address("its parts cannot be told apart")
    return f"{name} at {host or 'this machine'}"


def _no_address(reason: str) -> DatabaseError:
    return DatabaseError(f"this is not the address of a PostgreSQL database: {reason} ({_SHAPE})")


class Link:
    """One connection, used by one thread at a time. What is done on each new connection is given by `prepare`."""

    def __init__(self, url: str, prepare: Callable[[Connection[TupleRow]], None] = lambda _: None) -> None:
        """Connect when there is something to do."""
        given = conninfo.conninfo_to_dict(url)
        missing: dict[str, Any] = {key: value for key, value in DEFAULTS.items() if key not in given}
        self._conninfo = conninfo.make_conninfo(url, **missing)
        self._prepare = prepare
        self._connection: Connection[TupleRow] | None = None
        self.is_doubtful = False
        """A commit was told of before it was replicated: whether it lasts is not known."""

    def connection(self) -> Connection[TupleRow]:
        """Return the connection, a new one if need be. Each statement is a transaction, unless it says otherwise."""
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
        """Let go of the connection; the next call makes another."""
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def _notice(self, told: Diagnostic) -> None:
        if told.severity_nonlocalized == "WARNING" and told.sqlstate == NOT_REPLICATED:
            self.is_doubtful = True

    @contextmanager
    def transaction(self) -> Iterator[Connection[TupleRow]]:
        """Change everything in the block or nothing, durably; when that is not known, it is Unavailable.

        A connection that died since it was last used is no reason to fail: nothing has been done yet.
        """
        with errors_of_a_store():
            try:
                with ExitStack() as stack:
                    connection = self._begin(stack)
                    self.is_doubtful = False
                    yield connection
            except ReadOnlySqlTransaction:
                self.close()  # it leads to a standby; the next one may not
                raise
            if self.is_doubtful:
                raise psycopg.OperationalError("a commit was not seen to reach the standby")

    def _begin(self, stack: ExitStack) -> Connection[TupleRow]:
        try:
            connection = self.connection()
            stack.enter_context(connection.transaction())
        except LOST:
            self.close()
            connection = self.connection()
            stack.enter_context(connection.transaction())
        return connection

    def rows(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """Return all rows of a query, which is a transaction of its own, and harmless when it is done twice.

        A connection that died since it was last used is no reason to fail.
        """
        with errors_of_a_store():
            try:
                return self.connection().execute(sql, values).fetchall()
            except LOST:
                self.close()
                return self.connection().execute(sql, values).fetchall()


@contextmanager
def errors_of_a_store() -> Iterator[None]:
    """Turn what psycopg raises into what a `Store` raises."""
    try:
        yield
    except psycopg.errors.UniqueViolation as error:
        kinds = {"behind": Behind, "name_taken": Exists, "arm_taken": Exists}
        raise kinds.get(error.diag.constraint_name or "", Unavailable)(first_line(error)) from error
    except psycopg.Error as error:
        raise Unavailable(first_line(error)) from error


def first_line(error: Exception) -> str:
    """Return what an error says, in one line."""
    return str(error).partition("\n")[0]


def check_server(connection: Connection[TupleRow]) -> None:
    """Raise DatabaseError when this server is too old, or the database cannot hold all names."""
    version = connection.info.server_version // 10_000
    if version < OLDEST_VERSION:
        raise DatabaseError(f"PostgreSQL must be {OLDEST_VERSION} or newer, got {version}")
    ((encoding,),) = connection.execute("SHOW server_encoding").fetchall()
    if encoding != "UTF8":
        raise DatabaseError(f"the encoding of the database must be UTF8, got {encoding}")


def check_apart(one: Connection[TupleRow], other: Connection[TupleRow]) -> None:
    """Raise DatabaseError when two connections are one session: a pooler in front hands sessions round.

    What is set for one then holds for the other, which is how a commit that is acknowledged would not be on disk; and
    locks of a session are whosever it is next. A pooler that has many to choose from may pass: this is no proof.
    """
    first, second = (link.execute("SELECT pg_backend_pid()").fetchall() for link in (one, other))
    if first == second:
        raise DatabaseError(
            "the pooler in front of the database must be in session mode: two connections are one session"
        )
