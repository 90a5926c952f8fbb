"""The responses of an experiment as CSV (RFC 4180), for programs and for spreadsheets.

    response_number,arm,arm_name,response[,epsilon]

Responses are numbered from 1 in the order in which they were counted. The epsilon is there where the curator leaves a
choice of several. A spreadsheet takes a cell that starts with =, +, - or @ for a formula and works it out, whoever has
written it. So a name that starts with one of them, with spaces before it or not, gets an apostrophe in front, and so
does one that starts with an apostrophe: what was put there can be taken away again without a doubt.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from ldpbandits.server.store import StoredResponse
from ldpbandits.spec.menu import Menu

_FORMULA = re.compile(r"\s*['=+\-@\uff1d\uff0b\uff0d\uff20]")
"""Also in the width of Chinese and Japanese letters, which some spreadsheets take for the same."""

_NEEDS_QUOTES = re.compile(r'[",;\r\n]|^\s|\s$')


def harmless(name: str) -> str:
    """Write a name so that no spreadsheet takes it for a formula, and no reader of CSV for two cells.

    >>> harmless("green"), harmless("=1+1"), harmless('the "big" one, red')
    ('green', "'=1+1", '"the ""big"" one, red"')
    """
    name = f"'{name}" if _FORMULA.match(name) else name
    return '"' + name.replace('"', '""') + '"' if _NEEDS_QUOTES.search(name) else name


def csv(pieces: Iterable[Sequence[StoredResponse]], menu: Menu, name_of: Callable[[int], str]) -> Iterator[str]:
    """Write responses, a piece at a time; `name_of` says how an arm is called."""
    unit, is_choice = menu.unit, len(menu) > 1
    yield "response_number,arm,arm_name,response" + (",epsilon\n" if is_choice else "\n")
    tails = [f",{epsilon!r}\n" for epsilon in menu.epsilons] if is_choice else None
    names: dict[int, str] = {}
    number = 0
    for piece in pieces:
        for arm in {response.arm for response in piece} - names.keys():
            names[arm] = harmless(name_of(arm))
        yield "".join(
            f"{place},{arm},{names[arm]},{value * unit!r}" + (tails[cell] if tails else "\n")
            for place, (_, arm, value, cell) in enumerate(piece, number + 1)
        )
        number += len(piece)
