"""Names of arms that people would take for the same, though they differ in their characters.

A skeleton is what is left of a name when spelling variants of Unicode (NFKC), invisible joiners, kinds of spaces,
dashes and quotes, and letters of other scripts that are drawn as Latin ones are made alike. Of two names with one
skeleton a reader cannot tell which is which. This is a part of what Unicode calls confusable (UTS 39), whose table
Python lacks.
"""
# ruff: noqa: RUF001 - letters that are taken for others are what this is about

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
    r"""Return what a reader sees of a name.

    >>> skeleton("blue\u200d ") == skeleton("blue") == skeleton("b\u217cue")
    True
    """
    if not name.isascii():
        spelt = unicodedata.normalize("NFKC", name).translate(_LATIN)
        name = "".join(one for one in spelt if not _is_unseen(one))
    return " ".join(name.split())


def look_alike(names: Iterable[str], known: Iterable[str] = ()) -> tuple[str, str] | None:
    """Return the first of these names that looks like one before it, or like one that is known, and that one."""
    seen = {skeleton(name): name for name in known}
    for name in names:
        other = seen.setdefault(skeleton(name), name)
        if other is not name:
            return name, other
    return None


def _is_unseen(character: str) -> bool:
    is_format = unicodedata.category(character) == "Cf"
    return is_format or character in _UNSEEN or ord(character) in _VARIATION_SELECTORS
