"""Decodes a server's JSON as frozen dataclasses.

Unknown fields are ignored, as a newer server may send them. A missing field is an error unless it has a default.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from ldpbandits.checks import is_number, is_whole
from ldpbandits.errors import ServerError
from ldpbandits.net import UNREADABLE

Message = TypeVar("Message")


def read(kind: type[Message], data: object) -> Message:
    """Decode a message, or name the field that is missing or of another type.

    >>> from ldpbandits.spec.messages import Best
    >>> read(Best, {"arm": 1, "name": "green", "separated": False, "since": "a newer version"})
    Best(arm=1, name='green', separated=False)
    >>> read(Best, {"arm": 1, "name": "green"})
    Traceback (most recent call last):
    ldpbandits.errors.ServerError: the server's reply has no Best.separated: its version differs from this package's
    """
    message: Message = _value(kind, data, kind.__name__)
    return message


def _value(kind: Any, data: object, place: str) -> Any:  # noqa: ANN401 - any type
    origin, inner = get_origin(kind), get_args(kind)
    if is_dataclass(kind) and isinstance(data, Mapping):
        return _message(kind, data, place)
    if origin in (Union, UnionType):  # of a type and null
        (something,) = (each for each in inner if each is not NoneType)
        return None if data is None else _value(something, data, place)
    if origin in (tuple, Sequence) and isinstance(data, list):
        return tuple(_value(inner[0], each, f"{place}[{number}]") for number, each in enumerate(data))
    if kind is float and is_number(data):
        return float(data)  # JSON may write 1.0 as 1
    if _is_plain(kind, data):
        return data
    raise ServerError(f"the server's reply has an unexpected value in {place}", code=UNREADABLE)


def _is_plain(kind: Any, data: object) -> bool:  # noqa: ANN401 - any type
    """Tell whether this JSON value is of this type without conversion."""
    if kind is int:
        return is_whole(data)
    if get_origin(kind) is Literal:
        return data in get_args(kind)
    return kind is not float and isinstance(data, get_origin(kind) or kind)


def _message(kind: Any, data: Mapping[str, Any], place: str) -> Any:  # noqa: ANN401 - any dataclass
    given = {}
    for name, (inner, is_needed) in _fields(kind).items():
        if name in data:
            given[name] = _value(inner, data[name], f"{place}.{name}")
        elif is_needed:
            version = "its version differs from this package's"
            raise ServerError(f"the server's reply has no {place}.{name}: {version}", code=UNREADABLE)
    return kind(**given)


@cache
def _fields(kind: Any) -> dict[str, tuple[Any, bool]]:  # noqa: ANN401 - any dataclass
    """Return the type of each field, and whether it is required."""
    hints = get_type_hints(kind)
    return {
        each.name: (hints[each.name], each.default is MISSING and each.default_factory is MISSING)
        for each in fields(kind)
    }
