"""Pages stand by themselves, and show no markup of others."""

import re
from base64 import b64decode, b64encode
from pathlib import Path

from ldpbandits.output.dark import dark
from ldpbandits.output.page import STYLE, Cell, document, light_picture, picture, table


def test_what_is_not_markup_is_escaped() -> None:
    """Title, cells, heads, looks and the words for a picture are text, whatever is in them."""
    evil = '<script>alert("1")</script>'
    text = document(evil, table([[evil, Cell(evil, evil)]], [evil], look=evil) + picture(b"<svg/>", evil, look=evil))
    assert "<script>" not in text
    assert text.count("&lt;script&gt;") == 8
    assert "<script>" not in light_picture(b"<svg/>", evil)


def test_a_table_has_the_looks_it_was_given() -> None:
    """A cell is a text, or a text with a class; without a head there is no row for it."""
    assert table([["a", Cell("1", "left")]]) == '<table tabindex="0"><tr><td>a</td><td class="left">1</td></tr></table>'
    assert table([], [Cell("T", "left")], look="text") == (
        '<table class="text" tabindex="0"><tr><th class="left">T</th></tr></table>'
    )


def test_a_page_fits_a_phone() -> None:
    """A title of one long word breaks, and tables are narrower there: nothing is beyond the edge of the page.

    A large picture keeps a size at which its words can be read, and is moved sideways in its frame.
    """
    text = document("title", "<h1>Curator(epsilon=0.2,transform=Range(low=0.0,high=1.0))</h1>")
    assert "h1 { font-size: 1.5rem; overflow-wrap: anywhere }" in text
    phone = text.partition("@media (max-width: 40rem) {")[2]
    assert phone.lstrip().startswith("th, td { padding: .2rem .3rem }")
    assert "figure { overflow-x: auto } figure img { width: 44rem }" in phone


def test_pages_have_the_colours_of_the_console(root: Path) -> None:
    """Each colour, light and dark, is that of the same name in the console's stylesheet."""
    console = (root / "src" / "ldpbandits" / "server" / "console" / "static" / "console.css").read_text("utf-8")
    of_page, of_console = (re.findall(r"(--[a-z-]+): (#[0-9a-f]{6})", style) for style in (STYLE, console))
    assert len(of_page) == 24
    for name in {name for name, _ in of_page}:
        light, dark = (value for each, value in of_page if each == name)
        assert [light, dark] == [value for each, value in of_console if each == name][:2]  # print has its own


def test_a_page_loads_nothing() -> None:
    """Its style and its pictures are in it."""
    text = document("title", picture(b"<svg/>", "a picture"))
    assert text.startswith("<!doctype html>")
    assert 'src="data:image/svg+xml;base64,' in text
    assert "http" not in text


def test_a_picture_is_drawn_for_both_schemes() -> None:
    """A dark screen shows the dark drawing; any other, and paper, the one that was given."""
    svg = b'<svg><path style="fill: #ffffff"/></svg>'
    text = picture(svg, "a picture")
    addresses = [b64decode(each) for each in re.findall(r'="data:image/svg\+xml;base64,([^"]*)"', text)]
    assert addresses == [dark(svg), svg]
    assert text.startswith(
        '<figure tabindex="0"><picture><source media="screen and (prefers-color-scheme: dark)" srcset="data:'
    )
    assert "background: var(--card) } figure img" in STYLE
    assert re.findall(r'="data:image/svg\+xml;base64,([^"]*)"', light_picture(svg, "a picture")) == [
        b64encode(svg).decode()
    ]
