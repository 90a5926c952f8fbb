"""Confusable names of arms: people would take them for the same, though their characters differ.

The skeleton of a name normalises spelling variants of Unicode (NFKC), invisible joiners, kinds of spaces, dashes and
quotes, and letters of other scripts that are drawn as Latin ones. A reader cannot distinguish two names with the same
skeleton. This is a part of Unicode's confusables (UTS 39), whose table Python lacks.
"""
# ruff: noqa: RUF001 - confusable letters are the subject of this module

import unicodedata
from collections.abc import Iterable

_DRAWN_ALIKE = {
    "АВЕЗКМНОРСТУХЅІЈӀ": "ABE3KMHOPCTYXSIJI",  # Cyrillic
    "аеорсухѕіјԁԛԝһӏ": "aeopcyxsijdqwhl",
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ": "ABEZHIKMNOPTYX",  # Greek
    "ονϲϳ": "ovcj",
    "\N{HYPHEN}\N{FIGURE DASH}\N{EN DASH}\N{EM DASH}\N{HORIZONTAL BAR}\N{MINUS SIGN}": "------",
    "\N{LEFT SINGLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}\N{MODIFIER LETTER APOSTROPHE}": "'''",
    "\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}": '""',
}
_LATIN = str.maketrans({one: to for many, drawn in _DRAWN_ALIKE.items() for one, to in zip(many, drawn, strict=True)})
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
_VARIATION_SELECTORS = range(0xFE00, 0xFE10)


def skeleton(name: str) -> str:
    r"""Return the skeleton of a name, which two confusable names share.

    >>> skeleton("blue\u200d ") == skeleton("blue") == skeleton("b\u217cue")
    True
    """
    if not name.isascii():
        spelt = unicodedata.normalize("NFKC", name).translate(_LATIN)
        name = "".join(one for one in spelt if not _is_unseen(one))
    return " ".join(name.split())


def look_alike(names: Iterable[str], known: Iterable[str] = ()) -> tuple[str, str] | None:
    """Return the first name that is confusable with an earlier or a known one, and that other name."""
    seen = {skeleton(name): name for name in known}
    for name in names:
        other = seen.setdefault(skeleton(name), name)
        if other is not name:
            return name, other
    return None


def _is_unseen(character: str) -> bool:
    is_format = unicodedata.category(character) == "Cf"
    return is_format or character in _UNSEEN or ord(character) in _VARIATION_SELECTORS
