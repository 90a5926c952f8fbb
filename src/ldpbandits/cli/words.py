"""The words that shell completion offers at each place of the command line, from the parser."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten

MAX_HELP_CHARACTERS = 90


@dataclass(frozen=True)
class Option:
    """An option or a command: its names, and the values it takes."""

    names: tuple[str, ...]
    help: str
    takes_value: bool = False
    values: tuple[str, ...] = ()
    """The values to choose from, where they can be listed."""
    is_file: bool = False
    """The value is a file or a folder."""


@dataclass(frozen=True)
class Place:
    """A place on the command line: after these commands."""

    path: tuple[str, ...]
    commands: tuple[Option, ...]
    options: tuple[Option, ...]
    values: tuple[str, ...]
    """Positional values that can be listed."""
    takes_file: bool
    """A positional argument is a file."""

    @property
    def words(self) -> list[str]:
        """All words to offer at this place."""
        return [*self.values, *(name for one in (*self.commands, *self.options) for name in one.names)]


def places(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> list[Place]:
    """Return every place, the outermost first."""
    options, values, inner, takes_file = list[Option](), list[str](), list[tuple[str, argparse.ArgumentParser]](), False
    commands: list[Option] = []
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to ask
        if action.help == argparse.SUPPRESS:
            continue
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            told = {choice.dest: choice.help or "" for choice in action._choices_actions}  # noqa: SLF001 - as above
            commands += [Option((name,), _short(told[name])) for name in action.choices]
            inner += action.choices.items()
        elif action.option_strings:
            options.append(_option(parser, action))
        else:
            values += _values(action)
            takes_file = takes_file or _is_file(action)
    here = Place(path, tuple(commands), tuple(options), tuple(values), takes_file)
    return [here, *(place for name, one in inner for place in places(one, (*path, name)))]


def _option(parser: argparse.ArgumentParser, action: argparse.Action) -> Option:
    told = parser._get_formatter()._expand_help(action) if action.help else ""  # noqa: SLF001 - as above
    names = tuple(action.option_strings)
    return Option(names, _short(told), action.nargs != 0, tuple(_values(action)), _is_file(action))


def _values(action: argparse.Action) -> Iterator[str]:
    """The values of which one must be: those of `choices`, or of a metavar such as text|json."""
    if action.choices is not None:
        yield from map(str, action.choices)
    elif isinstance(action.metavar, str) and "|" in action.metavar and action.metavar.islower():
        yield from action.metavar.split("|")


def _is_file(action: argparse.Action) -> bool:
    names = ("FILE", "DIR", "BACKUP")
    return action.type is Path or (isinstance(action.metavar, str) and action.metavar.startswith(names))


def _short(text: str) -> str:
    return shorten(text, MAX_HELP_CHARACTERS, placeholder=" ...")
