"""Cells: the numbers under which a store counts the responses of an arm, by epsilon and by rival.

No store interprets a cell. With L epsilons in the menu, the responses of level l that no fair coin chose are in the
cell l, and those between which and a rival r a fair coin chose are in the cell l + L (r + 1).
"""

from collections.abc import Iterable
from typing import NamedTuple

from ldpbandits.server.store import CellTotal
from ldpbandits.types import Arm


class CellKey(NamedTuple):
    """The level of a response in the menu, and the rival of its pull; None where no fair coin has chosen."""

    level: int
    rival: Arm | None


def cell_of(level: int, rival: Arm | None, levels: int) -> int:
    """Return the cell of a response.

    >>> cell_of(1, None, levels=2), cell_of(1, Arm(0), levels=2), cell_of(0, Arm(3), levels=1)
    (1, 3, 4)
    """
    return level if rival is None else level + levels * (rival + 1)


def split_cell(cell: int, levels: int) -> CellKey:
    """Return the level and the rival of a cell.

    >>> split_cell(3, levels=2)
    CellKey(level=1, rival=0)
    >>> split_cell(1, levels=2)
    CellKey(level=1, rival=None)
    """
    above, level = divmod(cell, levels)
    return CellKey(level, Arm(above - 1) if above else None)


def by_level(cells: Iterable[CellTotal], levels: int) -> tuple[CellTotal, ...]:
    """Return the totals of one arm by level, whatever the rivals, without the empty ones."""
    found: dict[int, CellTotal] = {}
    for cell in cells:
        level = cell.cell % levels
        known = found.get(level)
        if known is None:
            found[level] = cell if cell.cell == level else cell._replace(cell=level)
        else:
            found[level] = known._replace(
                pulls=known.pulls + cell.pulls, total=known.total + cell.total, read=known.read + cell.read
            )
    return tuple(found[level] for level in sorted(found))
