"""Registries: each sort of data (mechanisms, transforms, rules) has one registry of its kinds.

A kind is a frozen dataclass with a name, `kind`; its fields are its JSON. A registered kind can be read from JSON,
announced by a server and written into a file, without a change to any other module of the library.
"""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from ldpbandits.checks import brief
from ldpbandits.errors import ParameterError, SpecError


class Kind(Protocol):
    """Data that names its class in JSON by its `kind`."""

    kind: ClassVar[str]


T = TypeVar("T", bound=Kind)


class Registry(Generic[T]):
    """The kinds of one sort of data, by name."""

    def __init__(self, sort: str, protocol: type, key: str = "kind") -> None:
        """Start empty; `sort` names the data in errors, `key` is the JSON key that holds the kind's name."""
        self.sort, self.key = sort, key
        parts = (vars(base) for base in protocol.__mro__ if base not in Protocol.__mro__)
        self._needs = {name for part in parts for name in (*part, *part.get("__annotations__", ())) if name[0] != "_"}
        self._types: dict[str, type[T]] = {}

    def register(self, data: type[T]) -> type[T]:
        """Add a kind; usable as a decorator. A name stands for one class only."""
        if not is_dataclass(data) or not data.__dataclass_params__.frozen:
            raise SpecError(f"a {self.sort} is a frozen dataclass, got {brief(data)}")
        missing = self._needs - {*dir(data), *(field.name for field in fields(data))}
        if missing:
            raise SpecError(f"a {self.sort} needs {', '.join(sorted(missing))}, which {data.__name__} has not")
        known = self._types.get(data.kind)
        if known is not None and (known.__module__, known.__qualname__) != (data.__module__, data.__qualname__):
            raise SpecError(
                f"there is already a {self.sort} of kind {data.kind!r}: {known.__module__}.{known.__name__}"
            )
        self._types[data.kind] = data
        return data

    def __iter__(self) -> Iterator[type[T]]:
        return iter(self._types.values())

    def __contains__(self, data: object) -> bool:
        return type(data) in self._types.values()

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of all kinds."""
        return tuple(self._types)

    def find(self, kind: object) -> type[T]:
        """Return the class of a kind; raise SpecError with the known kinds if it is unknown."""
        if not isinstance(kind, str) or kind not in self._types:
            what = self.sort if self.key == self.sort else f"a {self.sort}'s {self.key}"
            raise SpecError(f"{what} must be one of {', '.join(self._types)}, got {brief(kind)}")
        return self._types[kind]

    def to_json(self, data: T) -> dict[str, Any]:
        """Return the data as its kind and its fields."""
        return {self.key: data.kind, **field_values(data)}

    def from_json(self, data: object) -> T:
        """Read data of any kind; raise SpecError if it is invalid. An unknown key is refused, not ignored."""
        if not isinstance(data, Mapping) or self.key not in data:
            raise SpecError(f"a {self.sort} must be an object with the key {self.key}, got {brief(data)}")
        return build(self.find(data[self.key]), data, self.sort, ignore=self.key)


def field_values(data: object) -> dict[str, Any]:
    """Return the fields of a dataclass by name, without conversion."""
    return {field.name: getattr(data, field.name) for field in fields(data)}  # type: ignore[arg-type]


def build(data: type[T], values: Mapping[Any, Any], sort: str, ignore: str = "kind") -> T:
    """Make an object of this class from JSON; raise SpecError for a missing or an unknown key."""
    listed: dict[str, Field[Any]] = {field.name: field for field in fields(data)}  # type: ignore[arg-type]
    required = {n for n, f in listed.items() if f.default is MISSING and f.default_factory is MISSING}
    kind = getattr(data, "kind", data.__name__)
    arguments = check_keys(f"a {sort} of kind {kind!r}", values, required, set(listed), ignore=ignore)
    # JSON has lists where frozen data have tuples.
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in arguments.items()}
    try:
        return data(**values)
    except SpecError:
        raise
    except ParameterError as error:  # of a check that is not specific to specs
        raise SpecError(str(error)) from None


def check_keys(
    what: str, data: object, required: set[str], known: set[str], *, ignore: str | None = None
) -> dict[str, Any]:
    """Return a JSON object without the key `ignore`; raise SpecError for a missing or an unknown key."""
    if not isinstance(data, Mapping):
        raise SpecError(f"{what} must be an object with the keys {', '.join(sorted(required))}, got {brief(data)}")
    values = {key: value for key, value in data.items() if key != ignore}
    missing, unknown = required - values.keys(), values.keys() - known
    if missing or unknown:
        problem = f"lacks {', '.join(sorted(missing))}" if missing else f"has no {', '.join(sorted(map(str, unknown)))}"
        keys = f"its keys are {', '.join(sorted(known))}" if known else "it has no keys but its kind"
        raise SpecError(f"{what} {problem}; {keys}")
    return values
