"""The reference of the command line, from the parser that reads it."""

import argparse
from collections.abc import Iterator

from ldpbandits.cli import parser
from pieces import cell, code, fence, table

USAGE_WIDTH_COLUMNS = 88
"""Columns of a usage line: as many as fit on a page of the site."""


def command_page() -> str:
    """Return a section for every command and every verb, with all options, in the order of `--help`."""
    return "\n\n".join(_sections(parser(), depth=1))


def _sections(one: argparse.ArgumentParser, depth: int) -> Iterator[str]:
    if depth > 1:
        yield f"{'#' * depth} {one.prog}"
        yield _description(one.description or "")
        yield fence(_usage(one))
        rows = [_row(action) for action in one._actions if not _is_hidden(action)]  # noqa: SLF001 - no other way in
        if rows:
            yield table(("option", "meaning"), rows)
    for action in one._actions:  # noqa: SLF001 - as above
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            for each in action.choices.values():
                yield from _sections(each, depth + 1)


def _usage(one: argparse.ArgumentParser) -> str:
    """Return the usage as `--help` has it, whatever the width of this terminal."""
    formatter = argparse.HelpFormatter(one.prog, width=USAGE_WIDTH_COLUMNS)
    formatter.add_usage(one.usage, one._actions, one._mutually_exclusive_groups, prefix="")  # noqa: SLF001 - as above
    return formatter.format_help().strip()


def _description(text: str) -> str:
    """Return a description as Markdown: an indented line is a command to type."""
    return "\n".join(f"  {line}" if line.startswith("  ") else cell(line) for line in text.splitlines())


def _is_hidden(action: argparse.Action) -> bool:
    is_listed = isinstance(action, argparse._SubParsersAction | argparse._HelpAction)  # noqa: SLF001 - as above
    return is_listed or action.help == argparse.SUPPRESS


def _row(action: argparse.Action) -> tuple[str, str]:
    value = action.metavar if isinstance(action.metavar, str) else (action.dest.upper() if action.nargs != 0 else "")
    if action.choices is not None:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    name = f"{', '.join(action.option_strings)} {value}" if action.option_strings else value
    needed = "; required" if action.option_strings and action.required else ""
    return code(name.strip()), cell((action.help or "") % {"default": action.default, "prog": "ldpbandits"}) + needed
