"""The SQL that SQLite and PostgreSQL share: experiments, arms, keys, secrets, exports, and checks of a schema.

Placeholders are question marks; `rows` and `execute` of a PostgreSQL store translate them.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

from ldpbandits.errors import DatabaseError
from ldpbandits.server.store import (
    ACCEPTANCES,
    DELETED,
    CellTotal,
    Definition,
    Event,
    Status,
    StoredArm,
    StoredExperiment,
    StoredHolder,
    StoredKey,
    StoredResponse,
    StoredSecret,
)
from ldpbandits.spec.messages import Change

Migrations: TypeAlias = Sequence[tuple[str, Sequence[str]]]
"""Names of migrations and their statements, in order. A released migration is never edited."""

NONCE_COUNTS = (
    "SELECT experiment, count(*) - count(commitment), count(commitment) FROM nonces WHERE experiment NOT IN"  # noqa: S608 - ours
    f" (SELECT id FROM experiments WHERE name LIKE '{DELETED}%') GROUP BY experiment"
)
"""Used tickets by experiment: those that wait for a response, and those answered."""

NUMBERING_GAPS = (
    "SELECT experiment FROM arms GROUP BY experiment HAVING min(number) <> 0 OR max(number) <> count(*) - 1"
)
"""Experiments whose arms are not numbered from 0 on."""

_DEFINITION = "name, curator, rule, settings, ticket_lifetime, default_reward, created_at"
_SHORTEN = "valid_until = CASE WHEN valid_until < ? THEN valid_until ELSE ? END"
"""The earlier of two expiries; a row without one gets the new one."""
SET_STATUS = (
    "UPDATE experiments SET status = ?, shipped = ?,"
    " stopped_at = CASE WHEN ? = 'running' THEN NULL ELSE coalesce(stopped_at, ?) END WHERE id = ?"
)
"""Writes a status; the first stop after it ran is kept."""

_NOTE_USE = (
    "INSERT INTO key_uses (name, day) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET day = excluded.day"
    " WHERE excluded.day > key_uses.day"
)


class Rows(Protocol):
    """A function that returns all rows of a query."""

    def __call__(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        """Run the query and return its rows."""


Execute: TypeAlias = Callable[[str, Sequence[object]], Any]
"""Runs a statement of a transaction."""


class SqlStore(ABC):
    """The methods of a `Store` that are the same for SQLite and PostgreSQL."""

    @abstractmethod
    def _rows(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        """Return all rows of a query."""

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[Execute]:
        """Commit the whole block or nothing."""

    @abstractmethod
    def _change(self, experiment: int | None, log: Change | None) -> AbstractContextManager[Execute]:
        """Make and log an experimenter's change, of this experiment or of keys, in one transaction."""

    def add_arm(self, experiment: int, name: str, *, log: Change | None = None) -> None:
        """Insert an arm under the next number."""
        with self._change(experiment, log) as execute:
            insert = "INSERT INTO arms (experiment, number, name) SELECT {}, count(*), ? FROM arms WHERE experiment = ?"
            execute(insert.format(int(experiment)), (name, experiment))

    def retire_arm(self, experiment: int, arm: int, *, log: Change | None = None) -> None:
        """Mark the arm as retired."""
        with self._change(experiment, log) as execute:
            execute("UPDATE arms SET retired = true WHERE experiment = ? AND number = ?", (experiment, arm))

    def describe(self, experiment: int, metadata: str, *, log: Change | None = None) -> None:
        """Write title, owner and the like."""
        with self._change(experiment, log) as execute:
            execute("UPDATE experiments SET metadata = ? WHERE id = ?", (metadata, experiment))

    def events(self) -> list[Event]:
        """Add up the events of all workers."""
        sums = "SELECT experiment, arm, kind, CAST(sum(count) AS bigint) FROM events GROUP BY experiment, arm, kind"
        return [Event(*row) for row in self._rows(f"{sums} HAVING sum(count) <> 0")]

    def keys(self) -> list[StoredKey]:
        """Read the hashes of all keys."""
        return [StoredKey(*row) for row in self._rows("SELECT hash, role, valid_until FROM keys")]

    def rotate_key(self, role: str, hashed: bytes, now: int, grace: int, *, log: Change | None = None) -> None:
        """Shorten the validity of the role's keys, delete expired keys, and insert the new one."""
        with self._change(None, log) as execute:
            execute(f"UPDATE keys SET {_SHORTEN} WHERE role = ?", (now + grace, now + grace, role))  # noqa: S608 - ours
            execute("DELETE FROM keys WHERE valid_until <= ?", (now,))
            execute("INSERT INTO keys VALUES (?, ?, NULL)", (hashed, role))

    def holders(self) -> list[StoredHolder]:
        """Read all holders; names of experiments have no space."""
        rows = self._rows("SELECT name, role, experiments, added_at FROM holders")
        return [StoredHolder(name, role, tuple(listed.split()), added_at) for name, role, listed, added_at in rows]

    def put_holder(self, holder: StoredHolder, hashed: bytes | None = None, *, log: Change | None = None) -> None:
        """Write the holder, and insert its key."""
        with self._change(None, log) as execute:
            execute("DELETE FROM holders WHERE name = ?", (holder.name,))
            row = (holder.name, holder.role, " ".join(holder.experiments), holder.added_at)
            execute("INSERT INTO holders (name, role, experiments, added_at) VALUES (?, ?, ?, ?)", row)
            if hashed is not None:
                execute("INSERT INTO keys VALUES (?, ?, NULL)", (hashed, holder.name))

    def remove_holder(self, name: str, *, log: Change | None = None) -> None:
        """Delete the holder, its keys and its last use."""
        with self._change(None, log) as execute:
            for table, column in (("holders", "name"), ("keys", "role"), ("key_uses", "name")):
                execute(f"DELETE FROM {table} WHERE {column} = ?", (name,))  # noqa: S608 - ours

    def note_uses(self, names: Collection[str], day: int) -> None:
        """Write the day, unless a later one is known."""
        with self._transaction() as execute:
            for name in sorted(names):
                execute(_NOTE_USE, (name, day))

    def key_uses(self) -> dict[str, int]:
        """Read the days of the last uses."""
        return dict(self._rows("SELECT name, day FROM key_uses"))

    def secrets(self) -> list[StoredSecret]:
        """Read all secrets that sign tickets."""
        return [StoredSecret(*row) for row in self._rows("SELECT id, secret, valid_until FROM secrets")]

    def rotate_secret(self, secret: bytes, now: int, grace: int, *, log: Change | None = None) -> None:
        """Shorten the validity of the secrets, delete expired ones, and insert the new one."""
        with self._change(None, log) as execute:
            execute(f"UPDATE secrets SET {_SHORTEN}", (now + grace, now + grace))  # noqa: S608 - ours
            execute("DELETE FROM secrets WHERE valid_until <= ?", (now,))
            execute("INSERT INTO secrets (secret) VALUES (?)", (secret,))

    def changes(self, experiment: str | None, before: int | None, most: int) -> list[Change]:
        """Read lines of the change log, the newest first."""
        wanted = {"experiment = ?": experiment, "id < ?": before}
        given = {condition: value for condition, value in wanted.items() if value is not None}
        where = f" WHERE {' AND '.join(given)}" if given else ""
        sql = f"SELECT at, who, what, experiment, detail, id FROM change_log{where} ORDER BY id DESC LIMIT ?"  # noqa: S608 - ours
        return [Change(*row) for row in self._rows(sql, (*given.values(), most))]

    def note(self, *, log: Change) -> None:
        """Write a line of the change log alone."""
        with self._change(None, log):
            pass

    def changes_after(self, number: int, most: int) -> list[Change]:
        """Read lines of the change log, the oldest first."""
        sql = "SELECT at, who, what, experiment, detail, id FROM change_log WHERE id > ? ORDER BY id LIMIT ?"
        return [Change(*row) for row in self._rows(sql, (number, most))]

    def lease_webhook(self, receiver: str, now: int, until: int) -> int | None:
        """Take the lease in the row of the receiver, which a new receiver replaces."""
        with self._transaction() as execute:
            newest = "SELECT coalesce(max(id), 0) FROM change_log"
            execute(
                f"UPDATE webhook SET receiver = ?, sent = ({newest}), lease = 0 WHERE receiver <> ?",  # noqa: S608 - ours
                (receiver, receiver),
            )
            rows = execute("UPDATE webhook SET lease = ? WHERE lease <= ? RETURNING sent", (until, now)).fetchall()
        return rows[0][0] if rows else None

    def move_webhook(self, number: int, until: int) -> None:
        """Update the row of the receiver."""
        with self._transaction() as execute:
            execute("UPDATE webhook SET sent = ?, lease = ?", (number, until))

    def prune(self, now: int) -> None:
        """Delete the expired keys and secrets; a worker that still has them knows when they expire."""
        with self._transaction() as execute:
            execute("DELETE FROM keys WHERE valid_until <= ?", (now,))
            execute("DELETE FROM secrets WHERE valid_until <= ?", (now,))


def log_change(execute: Execute, log: Change | None) -> None:
    """Write a line of the change log in the transaction of its change."""
    if log is not None:
        insert = "INSERT INTO change_log (at, who, what, experiment, detail) VALUES (?, ?, ?, ?, ?)"
        execute(insert, (log.at, log.who, log.what, log.experiment, log.detail))


def status_row(experiment: int, status: Status, shipped: int | None, log: Change | None) -> tuple[object, ...]:
    """Return the values of `SET_STATUS`."""
    return status, shipped, status, None if log is None else log.at, experiment


def read_experiments(
    rows: Rows, totals: Iterable[CellTotal], which: str = "true", values: Sequence[object] = ()
) -> list[StoredExperiment]:
    """Read experiments with their arms and these totals, which are ordered by cell, in the order of their creation.

    `which` is a condition on the number of an experiment, which it names `{}`; its placeholders get `values`.
    """
    cells: dict[tuple[int, int], list[CellTotal]] = defaultdict(list)
    accepted: dict[tuple[int, int], CellTotal] = {}
    dropped: set[tuple[int, int]] = set()
    for total in totals:
        if total.cell == ACCEPTANCES:
            accepted[total[:2]] = total
        elif total.cell < ACCEPTANCES:
            dropped.add(total[:2])
        else:
            cells[total[:2]].append(total)
    arms: dict[int, list[StoredArm]] = defaultdict(list)
    listed = f"SELECT experiment, number, name, retired FROM arms WHERE {which.format('experiment')} ORDER BY number"  # noqa: S608 - ours
    for experiment, number, name, retired in rows(listed, values):
        place = experiment, number
        totals_of_arm = tuple(cells[place]), accepted.get(place), place in dropped
        arms[experiment].append(StoredArm(name, bool(retired), *totals_of_arm))
    found = rows(
        f"SELECT id, status, shipped, metadata, stopped_at, {_DEFINITION} FROM experiments"  # noqa: S608 - ours
        f" WHERE {which.format('id')} AND name NOT LIKE ? ORDER BY id",
        (*values, f"{DELETED}%"),
    )
    return [
        StoredExperiment(number, Definition(*definition), status, tuple(arms[number]), shipped, metadata, stopped_at)
        for number, status, shipped, metadata, stopped_at, *definition in found
    ]


def read_pages(rows: Rows, experiment: int, size: int) -> Iterator[list[StoredResponse]]:
    """Yield the responses of an experiment in pages; a page has what was committed when it was requested."""
    sql = "SELECT id, arm, value, cell FROM responses WHERE experiment = ? AND id > ? ORDER BY id LIMIT ?"
    last = 0
    while page := rows(sql, (experiment, last, size)):
        last = page[-1][0]
        yield [StoredResponse(*row) for row in page]


def check_ours(tables: Iterable[str]) -> None:
    """Raise DatabaseError when a database has tables, and they are another program's."""
    found = set(tables)
    if found and "migrations" not in found:
        raise DatabaseError(f"the database is not an agent server's: it has a table '{min(found)}'")


def read_applied(rows: Rows, migrations: Migrations) -> set[str]:
    """Return the names of the applied migrations; raise DatabaseError when one of them is unknown."""
    applied = {name for (name,) in rows("SELECT name FROM migrations")}
    unknown = applied - {name for name, _ in migrations}
    if unknown:
        raise DatabaseError(f"the database is from a newer version: it has the migration '{min(unknown)}'")
    return applied


def check_all_applied(rows: Rows, migrations: Migrations) -> None:
    """Raise DatabaseError unless exactly the known migrations are applied."""
    if len(read_applied(rows, migrations)) < len(migrations):
        raise DatabaseError("the database is from an older version: start the server on it once, or restore it")


def unknown_schema(why: str) -> DatabaseError:
    """Return the error for a database whose tables no released version has made; a retry cannot succeed."""
    ways = "use the version that made it, or restore a backup of a released one"
    return DatabaseError(f"the database has a schema that this version does not know: {why} ({ways})")


def group_columns(rows: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Group pairs of a table and a column by table."""
    columns: dict[str, list[str]] = defaultdict(list)
    for table, column in rows:
        columns[table].append(column)
    return columns


def check_columns(found: Mapping[str, list[str]], due: Mapping[str, list[str]], *, may_have_more: bool) -> None:
    """Raise DatabaseError when a table has not the columns of the migrations."""
    for table, columns in due.items():
        has = found.get(table, [])
        if not (set(columns) <= set(has) if may_have_more else columns == has):
            has_columns = ", ".join(has) or "of no table"
            raise unknown_schema(f"table {table} has the columns {has_columns}, not {', '.join(columns)}")


def find_missing_rows(rows: Rows) -> Iterator[str]:
    """Yield a line for each table that should have one row and has another number of them."""
    for table in ("identity", "forgotten"):
        found = len(rows(f"SELECT 1 FROM {table}"))  # noqa: S608 - our names
        if found != 1:
            yield f"the table {table}: it has {found} rows, and should have one"
