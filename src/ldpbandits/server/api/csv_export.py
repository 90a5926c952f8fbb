"""The responses of an experiment as CSV (RFC 4180), for programs and for spreadsheets.

    response_number,arm,arm_name,response[,epsilon][,rival]

Responses are shuffled, so that their places tell nothing of their times, unless the order in which they were counted is
asked for. They are numbered from 1 as they stand in the file. The epsilon is there where the curator leaves a choice of
several. The rival is there under a rule with a fair coin: the number of the arm against which the coin chose,
empty where no coin has.

A spreadsheet evaluates a cell that starts with =, +, - or @ as a formula, so a name that starts with one of them, with
spaces before it or not, gets an apostrophe in front. A name that starts with an apostrophe gets one, too: removing
one apostrophe restores every name.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from random import Random
from secrets import token_bytes

from ldpbandits.server.experiments.cells import split_cell
from ldpbandits.server.store import StoredResponse
from ldpbandits.spec.menu import Menu

_FORMULA = re.compile(r"\s*['=+\-@\uff1d\uff0b\uff0d\uff20]")
"""The first characters of formulas, also in full width, which some spreadsheets treat alike."""

SHUFFLED_ROWS = 200_000
"""Responses that are shuffled in memory at a time, some 30 MB; more are read several times."""

_NEEDS_QUOTES = re.compile(r'[",;\r\n]|^\s|\s$')


def harmless(name: str) -> str:
    """Quote a name so that no spreadsheet evaluates it, and no CSV parser splits it.

    >>> harmless("green"), harmless("=1+1"), harmless('the "big" one, red')
    ('green', "'=1+1", '"the ""big"" one, red"')
    """
    name = f"'{name}" if _FORMULA.match(name) else name
    return '"' + name.replace('"', '""') + '"' if _NEEDS_QUOTES.search(name) else name


def shuffled(
    read: Callable[[], Iterable[Sequence[StoredResponse]]], count: int, rows: int = SHUFFLED_ROWS
) -> Iterator[Sequence[StoredResponse]]:
    """Yield all responses in a random order, all orders equally likely, with about `rows` of them in memory.

    Each response belongs to a random group, by a hash of its number with a random key; `read` is called once for each
    group. `count` is the number of responses.
    """
    groups, key, random = count // rows + 1, token_bytes(16), Random()  # noqa: S311 - seeded by the system

    def group_of(response: StoredResponse) -> int:
        return int.from_bytes(blake2b(b"%d" % response.number, key=key, digest_size=8).digest()) % groups

    for group in range(groups):
        chosen = [each for piece in read() for each in piece if groups == 1 or group_of(each) == group]
        random.shuffle(chosen)
        yield chosen


def csv(
    pieces: Iterable[Sequence[StoredResponse]], menu: Menu, name_of: Callable[[int], str], *, has_rivals: bool = False
) -> Iterator[str]:
    """Yield responses as chunks of CSV; `name_of` returns the name of an arm."""
    unit, is_choice = menu.unit, len(menu) > 1
    yield "response_number,arm,arm_name,response" + ",epsilon" * is_choice + ",rival" * has_rivals + "\n"
    tails: dict[int, str] = {}
    names: dict[int, str] = {}
    number = 0
    for piece in pieces:
        for arm in {response.arm for response in piece} - names.keys():
            names[arm] = harmless(name_of(arm))
        for cell in {response.cell for response in piece} - tails.keys():
            level, rival = split_cell(cell, len(menu))
            against = f",{'' if rival is None else rival}" if has_rivals else ""
            tails[cell] = (f",{menu.epsilons[level]!r}" if is_choice else "") + against + "\n"
        yield "".join(
            f"{place},{arm},{names[arm]},{value * unit!r}{tails[cell]}"
            for place, (_, arm, value, cell) in enumerate(piece, number + 1)
        )
        number += len(piece)
