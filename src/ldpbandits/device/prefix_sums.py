"""Prefix sums of charges: the sum of a window of any length is the difference of two of them.

`sums` has a row for each date at which a charge was accepted, and for each at which its response left: the sum of all
epsilons up to there, in the order of the dates. The sum of a window therefore takes two lookups, whatever the number of
its charges. Only a charge that is dated before others changes their rows, as after a clock was set back. Triggers
update the rows, also when a program with an older version of this package, which ignores `sums`, writes charges to the
same file.

A sum is exact. An epsilon is at least 1e-6, and so a whole multiple of 2^-72. It is stored in three parts, multiples of
2^-20, 2^-46 and 2^-72; sums of 2^36 such parts fit into SQLite's integers.
"""

import sqlite3
from collections.abc import Iterator
from fractions import Fraction
from math import inf
from typing import Literal, TypeAlias

Date: TypeAlias = Literal["accepted_at", "left_at"]
"""The dates of a charge, by the names of their columns."""

Sums: TypeAlias = tuple[Fraction, Fraction]
"""The epsilons that were ever accepted, and those that have ever left, summed."""

UNIT = Fraction(1, 1 << 72)
"""Each sum is a whole multiple of this."""

_KINDS: dict[Date, int] = {"accepted_at": 0, "left_at": 1}
_TABLE = """
CREATE TABLE sums (
    kind INTEGER NOT NULL,
    at REAL NOT NULL,
    number INTEGER NOT NULL,
    high INTEGER NOT NULL,
    middle INTEGER NOT NULL,
    low INTEGER NOT NULL,
    PRIMARY KEY (kind, at, number)
) WITHOUT ROWID
"""
_AHEAD = "CREATE INDEX seen_ahead ON spent (number) WHERE seen_ahead_at IS NOT NULL"
"""The index of charges dated ahead: empty, unless a clock was set back."""

DATED_AHEAD = "SELECT number FROM sums WHERE kind IN (0, 1) AND at > :now"
"""SQL for the numbers of the charges with a date ahead of now."""


def spent_until(transaction: sqlite3.Connection, date: Date, moment: float) -> Fraction:
    """Return the exact sum of the epsilons whose date is at or before this moment."""
    row = transaction.execute(
        "SELECT high, middle, low FROM sums WHERE kind = ? AND at <= ? ORDER BY at DESC, number DESC LIMIT 1",
        (_KINDS[date], moment),
    ).fetchone()
    return Fraction(0) if row is None else _whole(*row)


def dated_within(
    transaction: sqlite3.Connection, date: Date, start: float, end: float
) -> Iterator[tuple[float, Fraction]]:
    """Yield the date and the epsilon of each charge that is dated after the start, up to the end, the oldest first."""
    for at, epsilon in transaction.execute(
        "SELECT at, epsilon FROM sums CROSS JOIN spent USING (number)"
        " WHERE kind = ? AND at > ? AND at <= ? ORDER BY at, number",
        (_KINDS[date], start, end),
    ):
        yield at, Fraction(epsilon)


def add_prefix_sums(connection: sqlite3.Connection) -> None:
    """Add the sums to a file that has charges and no sums, within the caller's transaction."""
    connection.execute(_TABLE)
    connection.execute(_AHEAD)
    parts = ", ".join(_parts("epsilon").values())
    for date, kind in _KINDS.items():
        high = middle = low = 0
        for at, number, *more in connection.execute(
            f"SELECT {date}, number, {parts} FROM spent WHERE {date} IS NOT NULL ORDER BY 1, 2"  # noqa: S608 - our names
        ):
            high, middle, low = high + more[0], middle + more[1], low + more[2]
            connection.execute("INSERT INTO sums VALUES (?, ?, ?, ?, ?, ?)", (kind, at, number, high, middle, low))
        connection.execute(
            f"CREATE TRIGGER change_{date} AFTER UPDATE OF {date}, epsilon ON spent BEGIN"
            f" {_removed(date)} {_added(date)} END"
        )
    connection.execute(
        f"CREATE TRIGGER charge AFTER INSERT ON spent BEGIN {_added('accepted_at')} {_added('left_at')} END"
    )
    connection.execute(
        f"CREATE TRIGGER discharge AFTER DELETE ON spent BEGIN {_removed('accepted_at')} {_removed('left_at')} END"
    )


def total_sums(transaction: sqlite3.Connection) -> Sums:
    """Return the exact sums of all accepted epsilons, and of all epsilons that have left."""
    return spent_until(transaction, "accepted_at", inf), spent_until(transaction, "left_at", inf)


def _whole(high: int, middle: int, low: int) -> Fraction:
    return ((high << 52) + (middle << 26) + low) * UNIT


def _parts(epsilon: str) -> dict[str, str]:
    """Return SQL for the parts of an epsilon. It is exact: it scales by powers of two and subtracts leading parts."""
    scaled = f"({epsilon} * 1048576.0)"
    high = f"CAST({scaled} AS INTEGER)"
    rest = f"(({scaled} - {high}) * 67108864.0)"
    middle = f"CAST({rest} AS INTEGER)"
    return {"high": high, "middle": middle, "low": f"CAST(({rest} - {middle}) * 67108864.0 AS INTEGER)"}


def _added(date: Date) -> str:
    """Return SQL that adds a new charge to the sums, if it has this date."""
    kind = _KINDS[date]
    before = (
        f"FROM sums WHERE kind = {kind} AND (at, number) < (NEW.{date}, NEW.number)"
        " ORDER BY at DESC, number DESC LIMIT 1"
    )
    sums = ", ".join(f"{part} + coalesce((SELECT {name} {before}), 0)" for name, part in _parts("NEW.epsilon").items())
    add = f"INSERT INTO sums SELECT {kind}, NEW.{date}, NEW.number, {sums} WHERE NEW.{date} IS NOT NULL;"
    return f"{_shifted('+', 'NEW', date)} {add}"


def _removed(date: Date) -> str:
    """Return SQL that removes an old charge from the sums, if it had this date."""
    place = f"({_KINDS[date]}, OLD.{date}, OLD.number)"
    remove = f"DELETE FROM sums WHERE (kind, at, number) = {place};"  # noqa: S608 - our names
    return f"{_shifted('-', 'OLD', date)} {remove}"


def _shifted(sign: str, row: str, date: Date) -> str:
    """Return SQL that changes the sums of all later dates by the epsilon of this row."""
    changes = ", ".join(f"{name} = {name} {sign} {part}" for name, part in _parts(f"{row}.epsilon").items())
    later = f"kind = {_KINDS[date]} AND (at, number) > ({row}.{date}, {row}.number)"
    return f"UPDATE sums SET {changes} WHERE {later};"  # noqa: S608 - our names
