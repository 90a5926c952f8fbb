"""Options as data: each is a field of a dataclass, and may come from a flag, the environment, a file or its default.

The first of these that says anything wins, in this order. The three forms have one name: the field `unix_socket` is
`unix_socket` in the file, `--unix-socket` as a flag and `LDPBANDITS_UNIX_SOCKET` in the environment.
"""

import argparse
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args

from ldpbandits.checks import brief, is_number, is_whole
from ldpbandits.errors import ParameterError
from ldpbandits.net import has_controls

PREFIX = "LDPBANDITS_"
CONFIG = f"{PREFIX}CONFIG"
Table = TypeVar("Table")


def option(default: Any, text: str, **more: Any) -> Any:  # noqa: ANN401 - as dataclasses.field itself
    """Return a field that is an option. `more` may have: least, most, choices, metavar, has_file."""
    return field(default=default, metadata={"help": text, **more})


@dataclass(frozen=True)
class Option:
    """One option: its name, the type of its values, its default, and what is said of it."""

    name: str
    kind: Any
    default: Any
    help: str
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    metavar: str | None = None
    has_file: bool = False
    """Its value may hold a password, and so may also be in a file of its own, named by the variable with _FILE."""

    @property
    def flag(self) -> str:
        """Its form on the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """Its form in the environment."""
        return PREFIX + self.name.upper()

    def read(self, text: str, where: str) -> Any:  # noqa: ANN401 - a value of its type
        """Read it from a flag or a variable."""
        value: Any = text
        try:
            if self.kind is bool:
                value = {"true": True, "false": False}.get(text, text)
            elif self.kind in {int, float}:
                value = self.kind(text)
            elif self.kind == tuple[str, ...]:
                value = text.replace(",", " ").split()
        except ValueError:
            pass  # `check` says what is wrong
        return self.check(value, where)

    def check(self, value: Any, where: str) -> Any:  # noqa: ANN401 - as it comes out of a file
        """Return a value as its type has it, or say which rule it breaks."""
        if self.kind is int:
            fits = is_whole(value) and self._is_within(value)
        elif self.kind is float:
            fits = is_number(value) and self._is_within(value)
        elif self.kind is bool:
            fits = isinstance(value, bool)
        elif self.kind == tuple[str, ...]:
            fits = isinstance(value, list) and all(isinstance(each, str) for each in value)
        else:
            fits = isinstance(value, str) and value in (self.choices or {value}) and not has_controls(value)
        if not fits:
            shown = "another" if self.has_file else brief(value)  # it may hold a password
            raise ParameterError(f"{where} must be {self.rule}, got {shown}")
        if value == "" and self.default != "":  # an empty path is that of this folder
            raise ParameterError(f"{where} must not be empty")
        return tuple(value) if self.kind == tuple[str, ...] else self.kind(value)

    def _is_within(self, value: float) -> bool:
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    @property
    def rule(self) -> str:
        """The values that the option takes, in words."""
        if self.choices:
            return " or ".join(self.choices)
        if self.kind in {int, float}:
            kind = "a whole number" if self.kind is int else "a number"
            if self.least is not None and self.most is not None:
                return f"{kind} from {self.least:g} to {self.most:g}"
            return kind if self.least is None else f"{kind} >= {self.least:g}"
        return {bool: "true or false", tuple[str, ...]: "a list of texts"}.get(self.kind, "a text")


def options_of(*tables: type) -> tuple[Option, ...]:
    """Return the options that the fields of these dataclasses are."""
    return tuple(_options_of(tables))


def _options_of(tables: Iterable[type]) -> Iterator[Option]:
    for table in tables:
        for each in fields(table):
            kinds = [kind for kind in get_args(each.type) if kind is not NoneType]
            kind = kinds[0] if NoneType in get_args(each.type) else each.type
            yield Option(each.name, kind, each.default, each.metadata["help"], **_more(each.metadata))


def _more(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if name != "help"}


def add_options(parser: argparse.ArgumentParser, groups: Mapping[str, type]) -> None:
    """Add the flags of these tables under their titles, and --config; each says its variable."""
    told = f"a TOML file of options; flags and the environment override it ({CONFIG})"
    parser.add_argument("--config", metavar="FILE", help=told)
    for title, table in groups.items():
        group = parser.add_argument_group(title)
        for each in options_of(table):
            also = f" or {each.variable}_FILE" if each.has_file else ""
            shown = f"{each.default:g}" if each.kind is float else each.default
            default = "" if each.default in {None, "", ()} else f"default {shown}; "
            group.add_argument(
                each.flag,
                dest=each.name,
                metavar=each.metavar or "|".join(each.choices) or each.name.rpartition("_")[2].upper(),
                action="append" if each.kind == tuple[str, ...] else "store",
                help=f"{each.help} ({default}{each.variable}{also})".replace("%", "%%"),
            )


def settle(
    options: Iterable[Option], flags: argparse.Namespace, environment: Mapping[str, str], secrets: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the value of every option. `secrets` are the variables whose values are in no file of options."""
    known = {each.name: each for each in options}
    path = flags.config or environment.get(CONFIG)
    told = {} if not path else _from_file(Path(path), known, secrets)
    values = {each.name: told.get(each.name, each.default) for each in known.values()}
    for each in known.values():
        text, where = variable(each.variable, environment, has_file=each.has_file)
        if text:
            values[each.name] = each.read(text, where)
        given = getattr(flags, each.name, None)  # a command may have some of the flags only
        if isinstance(given, list):
            values[each.name] = each.check(given, each.flag)
        elif given is not None:
            values[each.name] = each.read(given, each.flag)
    return values


def fill(table: type[Table], values: Mapping[str, Any]) -> Table:
    """Return a table with those of the values that are its fields."""
    return table(**{each.name: values[each.name] for each in options_of(table)})


def variable(name: str, environment: Mapping[str, str], *, has_file: bool = True) -> tuple[str, str]:
    """Return the value of a variable, or of the file that NAME_FILE names, and where it was; '' where neither is set.

    Files are how Docker and systemd hand over what others must not see: a process's environment is seen by its children
    and by who may look into it.
    """
    text, path = environment.get(name, ""), environment.get(f"{name}_FILE", "") if has_file else ""
    if not path:
        return text, name
    if text:
        raise ParameterError(f"{name} and {name}_FILE are both set: one of them is enough")
    try:
        text = Path(path).read_text(encoding="utf-8-sig").strip()  # some editors put a mark before it
    except UnicodeDecodeError:
        raise ParameterError(f"{name}_FILE: {path} holds no text") from None
    except OSError as error:
        raise ParameterError(f"{name}_FILE: {path} cannot be read: {error.strerror}") from None
    if not text:
        raise ParameterError(f"{name}_FILE: {path} is empty")
    return text, f"{name}_FILE"


def misspelt(environment: Mapping[str, str], options: Iterable[Option], secrets: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each variable of ours that is no option, and looks as if it were meant to be one.

    No more is said of others: the environment is everybody's, and other commands have variables too.
    """
    known = [name for each in options for name in (each.variable, *([f"{each.variable}_FILE"] * each.has_file))]
    known += [CONFIG, *secrets, *(f"{name}_FILE" for name in secrets)]
    words = {name.removeprefix(PREFIX): name for name in known}
    for name in environment:
        nearest = get_close_matches(name.removeprefix(PREFIX), words, 1, 0.8) if name.startswith(PREFIX) else []
        if nearest and name not in known:
            yield f"{name} is no option: did you mean {words[nearest[0]]}?"


def read_secrets(names: Iterable[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets that are set, by the names of their variables. An empty one is kept, to be refused."""
    found = {name: variable(name, environment)[0] for name in names}
    return {name: text for name, text in found.items() if text or name in environment}


def _from_file(path: Path, known: Mapping[str, Option], secrets: Iterable[str]) -> dict[str, Any]:
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8-sig"))  # some editors put a mark before it
    except OSError as error:
        raise ParameterError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError and TOMLDecodeError are some
        raise ParameterError(f"{path}: is not TOML: {error}") from None
    for name, value in told.items():
        if isinstance(value, dict):
            raise ParameterError(f"{path}: options belong in no table, got [{name}]")
        if name in known:
            continue
        secret = PREFIX + name.upper()
        if secret in secrets:
            raise ParameterError(f"{path}: {name} is a secret, and does not belong here: set {secret} or {secret}_FILE")
        nearest = get_close_matches(name, known, 1)
        hint = f"did you mean {nearest[0]}?" if nearest else f"there are {', '.join(known)}"
        raise ParameterError(f"{path}: there is no option {brief(name)}; {hint}")
    return {name: known[name].check(value, f"{path}: {name}") for name, value in told.items()}
