"""Pages of HTML that stand by themselves: one stylesheet, tables, and pictures inside the page."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a; background: #fff }
h1 { font-size: 1.5rem; overflow-wrap: anywhere } h2 { font-size: 1.15rem; margin-top: 2.2rem }
table { border-collapse: collapse; margin: .8rem 0; font-variant-numeric: tabular-nums }
th, td { padding: .2rem .8rem; text-align: right; border-bottom: 1px solid #ddd }
th:first-child, td:first-child, td.left, th.left { text-align: left }
table.text td { text-align: left; vertical-align: top } table.text td:nth-child(2) { white-space: nowrap }
table.prose td, table.prose th { text-align: left; vertical-align: top }
table.lead { font-size: 1.1rem } td.note { font-size: .87rem; white-space: nowrap }
table.close { font-size: .87rem } table.close th, table.close td { padding: .2rem .5rem; white-space: nowrap }
figure { margin: 0; border: 1px solid #e4e4e4; padding: .4rem } figure img { width: 100%; display: block }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: .8rem } .wide { grid-column: 1 / -1; max-width: 54rem }
.note { color: #555 }
@media (max-width: 62rem) { table { display: block; overflow-x: auto } }
@media (max-width: 40rem) {
  th, td { padding: .2rem .3rem } table.prose td, table.prose th { text-align: left; vertical-align: top }
table.lead { font-size: .87rem }
  figure { overflow-x: auto } figure img { width: 44rem } .panels figure:not(.wide) img { width: 100% }
  figure::after { content: "Move the picture sideways to see all of it."; position: sticky; left: 0; font-size: .87rem; color: #555 }
  .panels figure:not(.wide)::after { content: none }
}
.verdict { font-size: 1.2rem; padding: .6rem 1rem; border-left: .4rem solid; background: #f6f6f6 }
.consistent { color: #00664b } .violated { color: #a33b00 } td.violated { font-weight: bold }
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table, with the class that the stylesheet knows it by."""

    text: str
    look: str = ""


def document(title: str, body: str) -> str:
    """Return a whole page. The body is HTML: the caller has escaped its texts."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>\n{body}\n</body></html>\n'
    )


def table(rows: Iterable[Sequence[str | Cell]], head: Sequence[str | Cell] = (), *, look: str = "") -> str:
    """Return a table; every text in it is escaped."""
    lines = [_row(head, "th")] if head else []
    lines += [_row(row, "td") for row in rows]
    return f"<table{_class(look)}>{''.join(lines)}</table>"


def picture(svg: bytes, alt: str, *, look: str = "") -> str:
    """Return a figure that is part of the page."""
    image = b64encode(svg).decode()
    return f'<figure{_class(look)}><img alt="{escape(alt)}" src="data:image/svg+xml;base64,{image}"></figure>'


def _row(cells: Sequence[str | Cell], tag: str) -> str:
    full = (cell if isinstance(cell, Cell) else Cell(cell) for cell in cells)
    return "<tr>" + "".join(f"<{tag}{_class(cell.look)}>{escape(cell.text)}</{tag}>" for cell in full) + "</tr>"


def _class(look: str) -> str:
    return f' class="{escape(look)}"' if look else ""
