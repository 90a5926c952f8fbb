"""Pages of HTML that stand by themselves: one stylesheet, tables, and pictures inside the page."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from ldpbandits.output.dark import dark

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #faf9f7; --card: #ffffff; --ink: #1b1e23; --soft: #58616d; --line: #e3e1dc; --accent: #00598f;
  --good: #00664b; --bad: #a1330a; --warn-ground: #fdf3e1; --good-ground: #e8f4ef; --bad-ground: #fceee8; --ground: #ecebe7;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --paper: #131518; --card: #1a1d21; --ink: #e9e7e3; --soft: #a3abb5; --line: #2d3137; --accent: #79c0f0;
    --good: #5fcfa6; --bad: #ff9d76; --warn-ground: #2b2314; --good-ground: #152a23; --bad-ground: #33201a; --ground: #2a2e33;
  }
}
body { font: 400 15px/1.55 -apple-system, BlinkMacSystemFont, "Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", Arial, sans-serif;
  max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: var(--ink); background: var(--paper) }
h1 { font-size: 1.5rem; overflow-wrap: anywhere } h2 { font-size: 1.15rem; margin-top: 2.2rem }
a { color: var(--accent) } code { overflow-wrap: anywhere } mark { color: inherit; background: var(--warn-ground); border-bottom: 1px solid }
table { border-collapse: collapse; margin: .8rem 0; font-variant-numeric: tabular-nums }
th, td { padding: .2rem .8rem; text-align: right; border-bottom: 1px solid var(--line) }
th:first-child, td:first-child, td.left, th.left { text-align: left }
table.text td { text-align: left; vertical-align: top } table.text td:nth-child(2) { white-space: nowrap }
table.prose td, table.prose th { text-align: left; vertical-align: top } table.prose td { overflow-wrap: anywhere; min-width: 5rem }
pre { overflow-x: auto } .crowds { grid-template-columns: 1fr } table.lead { font-size: 1.1rem } td.note { font-size: .87rem; white-space: nowrap }
table.close { font-size: .87rem } table.close th, table.close td { padding: .2rem .5rem; white-space: nowrap }
figure { margin: 0; border: 1px solid var(--line); padding: .4rem; background: var(--card) } figure img { width: 100%; display: block }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: .8rem } .wide { max-width: 54rem } .panels .wide { grid-column: 1 / -1; max-width: none } .panels .wide img { max-height: 32rem; object-fit: contain }
.crowds { display: grid; grid-template-columns: 1fr 1fr; gap: 1.6rem } .crowds p { margin: .4rem 0 }
.crowds circle { fill: none; stroke: var(--soft); stroke-width: .5 } .crowds .one { fill: var(--accent); stroke: var(--accent) }
.note { color: var(--soft) }
@media (max-width: 62rem) { table { display: block; overflow-x: auto } }
@media (max-width: 40rem) {
  th, td { padding: .2rem .3rem } pre { overflow-x: auto } .crowds { grid-template-columns: 1fr } table.lead { font-size: .87rem }
  figure { overflow-x: auto } figure img { width: 44rem } .panels figure:not(.wide) img { width: 100% }
  figure::after { content: "Move the picture sideways to see all of it."; position: sticky; left: 0; font-size: .87rem; color: var(--soft) }
  .panels figure:not(.wide)::after { content: none }
}
@media print { body { max-width: none; margin: 0 } h2, tr, figure { break-inside: avoid } h2 { break-after: avoid } }
.verdict { font-size: 1.2rem; padding: .6rem 1rem; border-left: .4rem solid; background: var(--ground) }
.consistent { color: var(--good) } .violated { color: var(--bad) } td.violated { font-weight: bold }
"""
"""Style of every page that is saved: the colours are those of the console."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table, with the class that the stylesheet knows it by."""

    text: str
    look: str = ""


def document(title: str, body: str) -> str:
    """Return a whole page. The body is HTML: the caller has escaped its texts."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body><main>\n{body}\n</main></body></html>\n'
    )


def table(rows: Iterable[Sequence[str | Cell]], head: Sequence[str | Cell] = (), *, look: str = "") -> str:
    """Return a table; every text in it is escaped. On phones wide ones scroll sideways, also by the keyboard."""
    lines = [_row(head, "th")] if head else []
    lines += [_row(row, "td") for row in rows]
    return f'<table{_class(look)} tabindex="0">{"".join(lines)}</table>'


def picture(svg: bytes, alt: str, *, look: str = "") -> str:
    """Return a figure that is part of the page: on screens with a dark scheme the dark one, else, and on paper, this."""
    night = f'<source media="screen and (prefers-color-scheme: dark)" srcset="{_address(dark(svg))}">'
    return f'<figure{_class(look)} tabindex="0"><picture>{night}{_image(svg, alt)}</picture></figure>'


def light_picture(svg: bytes, alt: str) -> str:
    """Return a figure for pages that are not ours, such as notebooks: they need not follow the scheme of the screen."""
    return f"<figure>{_image(svg, alt)}</figure>"


def crowds(*groups: tuple[int, str]) -> str:
    """Return a hundred people for each group: the number of them that is filled, and the words below."""
    return f'<div class="crowds">{"".join(_crowd(filled, words) for filled, words in groups)}</div>'


def _crowd(filled: int, words: str) -> str:
    people = "".join(
        f'<circle{_class("one" if place < filled else "")} cx="{2.5 + 5 * (place // 5)}" cy="{2.5 + 5 * (place % 5)}" r="1.8"/>'
        for place in range(100)
    )
    drawn = f'<svg viewBox="0 0 100 25" role="img" aria-label="{filled} dots of 100 are filled">{people}</svg>'
    return f"<div>{drawn}<p>{escape(words)}</p></div>"


def _image(svg: bytes, alt: str) -> str:
    return f'<img alt="{escape(alt)}" src="{_address(svg)}">'


def _address(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{b64encode(svg).decode()}"


def _row(cells: Sequence[str | Cell], tag: str) -> str:
    full = (cell if isinstance(cell, Cell) else Cell(cell) for cell in cells)
    tagged = ((tag if cell.text else "td", cell) for cell in full)  # a head without a word is no head
    return "<tr>" + "".join(f"<{tag}{_class(cell.look)}>{escape(cell.text)}</{tag}>" for tag, cell in tagged) + "</tr>"


def _class(look: str) -> str:
    return f' class="{escape(look)}"' if look else ""
