"""Explains an invalid message in one line: which field, what it must be, and what it is.

msgspec finds the fault and names its place, such as `$.arms[1]`. This module looks up the type and the value at that
place, and puts them into words. A type that people would not understand, such as a pattern, declares in
`Meta(extra=...)` what a value must be (`WORDS`), or that values of it are not repeated (`HIDDEN`).
"""

import re
from typing import Any

from msgspec.inspect import (
    BoolType,
    FloatType,
    IntType,
    ListType,
    LiteralType,
    Metadata,
    NoneType,
    StrType,
    StructType,
    Type,
    UnionType,
)

from ldpbandits.checks import brief

WORDS, HIDDEN = "words", "hidden"

_PLACE = re.compile(r" - at `\$(.*)`$")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
_UNKNOWN_FIELD = re.compile(r"^Object contains unknown field `(.*)`$", re.DOTALL)
_MISSING_FIELD = re.compile(r"^Object missing required field `(.*)`$")


def explain(fault: str, kind: Type, value: Any) -> str:  # noqa: ANN401 - JSON
    """Return the sentence for msgspec's message about a body that should be of this kind."""
    found = _PLACE.search(fault)
    place = found[1] if found else ""
    for field, item in _STEP.findall(place):
        inner = _inner(kind, StructType if field else ListType)
        if field:
            kind = next(each.type for each in inner.fields if each.encode_name == field)
            value = value[field]
        else:
            kind, value = inner.item_type, value[int(item)]
    name, reason = place.removeprefix("."), _PLACE.sub("", fault)
    if unknown := _UNKNOWN_FIELD.match(reason):
        known = [each.encode_name for each in _inner(kind, StructType).fields]
        return (
            f"{f'{name} has' if name else 'there is'} no field {brief(unknown[1])}; known: {', '.join(known) or 'none'}"
        )
    if missing := _MISSING_FIELD.match(reason):
        required = [each.encode_name for each in _inner(kind, StructType).fields if each.required]
        return f"{f'{name}.' if name else ''}{missing[1]} is missing; needed: {', '.join(required)}"
    if not name:
        return f"the body must be {words(kind)}"
    return f"{name} must be {words(kind)}" + ("" if _extra(kind, HIDDEN) else f", got {shown(value)}")


def words(kind: Type) -> str:
    """Return what a value of this kind must be."""
    *others, last = dict.fromkeys(_sorts(kind))
    return f"{', '.join(others)} or {last}" if others else last


def shown(value: object) -> str:
    """Format a value as in JSON; a text stands in quotes, and a long value is not repeated."""
    match value:
        case None | bool():
            return "null" if value is None else str(value).lower()
        case dict():
            return "an object"
        case list():
            return f"a list of {len(value)}" if value else "an empty list"
    return brief(value)


def _sorts(kind: Type) -> list[str]:  # noqa: PLR0911 - one for each kind
    """Name the alternatives of this kind."""
    if said := _extra(kind, WORDS):
        return [str(said)]
    match _plain(kind):
        case UnionType(types=types):
            return [each for alternative in types for each in _sorts(alternative)]
        case NoneType():
            return ["null"]
        case BoolType():
            return ["true", "false"]
        case LiteralType(values=values):
            return list(map(str, values))
        case StrType() as text:
            return [f"a text{_length(text, ' characters')}"]
        case ListType() as items:
            return [f"a list{_length(items)}"]
        case IntType() | FloatType() as number:
            is_whole = isinstance(number, IntType) or number.multiple_of == 1
            return [f"a {'whole ' if is_whole else ''}number{_limits(number)}"]
    return ["an object"]


def _limits(kind: IntType | FloatType) -> str:
    if kind.ge is not None and kind.le is not None:
        return f" from {kind.ge:.10g} to {kind.le:.10g}"
    limits = ((" > ", kind.gt), (" >= ", kind.ge), (" <= ", kind.le))
    return " and".join(f"{sign}{limit:.10g}" for sign, limit in limits if limit is not None)


def _length(kind: StrType | ListType, of: str = "") -> str:
    least, most = kind.min_length, kind.max_length
    if most is None:
        return "" if least is None else f" of at least {least}{of}"
    return f" of {'at most' if least is None else f'{least} to'} {most}{of}"


def _inner(kind: Type, sort: type[Type]) -> Any:  # noqa: ANN401 - a type of that sort
    """Return the struct or the list among the alternatives of a kind."""
    plain = _plain(kind)
    types = plain.types if isinstance(plain, UnionType) else (plain,)
    return next(each for each in map(_plain, types) if isinstance(each, sort))


def _plain(kind: Type) -> Type:
    while isinstance(kind, Metadata):
        kind = kind.type
    return kind


def _extra(kind: Type, key: str) -> object:
    """Return the annotation of a kind beside its type, or None."""
    while isinstance(kind, Metadata):
        if kind.extra and key in kind.extra:
            return kind.extra[key]
        kind = kind.type
    return None
