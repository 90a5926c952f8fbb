"""Explains an invalid message in one line: which field, what it must be, and what it is.

msgspec parses messages and refuses those of another type in its own words: paths, types and regular expressions. Only
after a refusal this module walks the message along the same types. A type is therefore written once, and additions to
it are explained too. A type that people would not understand, such as a pattern, declares in `Meta(extra=...)` what a
value must be (`WORDS`), or that values of it are not repeated (`HIDDEN`).
"""

import re
from collections.abc import Callable
from typing import Any

from msgspec.inspect import (
    AnyType,
    BoolType,
    DictType,
    FloatType,
    IntType,
    ListType,
    LiteralType,
    Metadata,
    NoneType,
    RawType,
    StrType,
    StructType,
    Type,
    UnionType,
)

from ldpbandits.checks import brief, is_number

WORDS, HIDDEN = "words", "hidden"


def complaint(kind: Type, value: object, name: str = "") -> str | None:
    """Return the fault of a value that should be of this kind, or None. The body has no name."""
    plain = _plain(kind)
    if isinstance(plain, UnionType):
        told = [complaint(each, value, name) for each in plain.types]
        if None in told:
            return None
        within = [said for said, each in zip(told, plain.types, strict=True) if _fits(_plain(each), value)]
        if len(within) == 1:  # the object or list itself fits one kind, so the fault is inside it
            return within[0]
    elif _fits(plain, value):
        return _complaint_within(plain, value, name)
    if not name:
        return f"the body must be {words(kind)}"
    got = "" if _extra(kind, HIDDEN) else f", got {shown(value)}"
    return f"{name} must be {words(kind)}{got}"


def _complaint_within(kind: Type, value: Any, name: str) -> str | None:  # noqa: ANN401 - JSON
    """Return the fault inside an object or a list."""
    match kind:
        case StructType():
            return _fields_complaint(kind, value, name)
        case ListType():
            told = (complaint(kind.item_type, item, f"{name}[{place}]") for place, item in enumerate(value))
            return next(filter(None, told), None)
    return None


def _fields_complaint(kind: StructType, value: dict[Any, Any], name: str) -> str | None:
    """Return the unknown, missing or wrong field of an object, in that order."""
    fields = {field.encode_name: field for field in kind.fields}
    unknown = next((key for key in value if key not in fields), None)
    if unknown is not None and kind.forbid_unknown_fields:
        has = f"{name} has" if name else "there is"
        return f"{has} no field {brief(unknown)}; known: {', '.join(fields) or 'none'}"
    required = [known for known, field in fields.items() if field.required]
    missing = next((known for known in required if known not in value), None)
    prefix = f"{name}." if name else ""
    if missing is not None:
        return f"{prefix}{missing} is missing; needed: {', '.join(required)}"
    told = (complaint(field.type, value[known], prefix + known) for known, field in fields.items() if known in value)
    return next(filter(None, told), None)


def words(kind: Type) -> str:
    """Return what a value of this kind must be."""
    *others, last = dict.fromkeys(_sorts(kind))
    return f"{', '.join(others)} or {last}" if others else last


def _sorts(kind: Type) -> list[str]:
    """Name what a value of this kind may be."""
    said, plain = _extra(kind, WORDS), _plain(kind)
    if said:
        return [str(said)]
    if isinstance(plain, UnionType):
        return [each for alternative in plain.types for each in _sorts(alternative)]
    return _KINDS[type(plain)][0](plain)


def _fits(kind: Type, value: object) -> bool:
    """Tell whether a value is of this sort, without a look inside."""
    return not isinstance(kind, UnionType) and _KINDS[type(kind)][1](kind, value)


def _range(above: float | None, least: float | None, most: float | None) -> str:
    """Return the limits of a number, if there are any."""
    if least is not None and most is not None:
        return f" from {_number(least)} to {_number(most)}"
    limits = ((" > ", above), (" >= ", least), (" <= ", most))
    return " and".join(sign + _number(limit) for sign, limit in limits if limit is not None)


def _length(kind: StrType | ListType, of: str = "") -> str:
    """Return the limits of a length, if there are any."""
    least, most = kind.min_length, kind.max_length
    if most is None:
        return "" if least is None else f" of at least {least}{of}"
    return f" of {'at most' if least is None else f'{least} to'} {most}{of}"


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


def _number_sort(kind: IntType | FloatType) -> list[str]:
    is_whole = isinstance(kind, IntType) or kind.multiple_of == 1
    return [f"a {'whole ' if is_whole else ''}number{_range(kind.gt, kind.ge, kind.le)}"]


def _is_number(kind: IntType | FloatType, value: object) -> bool:
    return (
        is_number(value)
        and (isinstance(value, int) or isinstance(kind, FloatType))
        and _is_between(value, kind.ge, kind.le)
        and (kind.gt is None or value > kind.gt)
        and (kind.multiple_of is None or value % kind.multiple_of == 0)
    )


def _is_text(kind: StrType, value: object) -> bool:
    return (
        isinstance(value, str)
        and _is_between(len(value), kind.min_length, kind.max_length)
        and (kind.pattern is None or re.search(kind.pattern, value) is not None)
    )


def _is_list(kind: ListType, value: object) -> bool:
    return isinstance(value, list) and _is_between(len(value), kind.min_length, kind.max_length)


_OBJECT = (lambda _: ["an object"], lambda _, value: isinstance(value, dict))
_ANYTHING = (lambda _: ["anything"], lambda _, __: True)

_KINDS: dict[type[Type], tuple[Callable[[Any], list[str]], Callable[[Any, object], bool]]] = {
    NoneType: (lambda _: ["null"], lambda _, value: value is None),
    BoolType: (lambda _: ["true", "false"], lambda _, value: isinstance(value, bool)),
    LiteralType: (lambda kind: list(map(str, kind.values)), lambda kind, value: value in kind.values),
    StrType: (lambda kind: [f"a text{_length(kind, ' characters')}"], _is_text),
    IntType: (_number_sort, _is_number),
    FloatType: (_number_sort, _is_number),
    ListType: (lambda kind: [f"a list{_length(kind)}"], _is_list),
    StructType: _OBJECT,
    DictType: _OBJECT,
    AnyType: _ANYTHING,
    RawType: _ANYTHING,
}
"""The kinds of message values: the name of each, and a test for it."""


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


def _is_between(value: float, least: float | None, most: float | None) -> bool:
    return (least is None or value >= least) and (most is None or value <= most)


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"
