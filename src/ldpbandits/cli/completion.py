"""`ldpbandits completion SHELL`: a script for tab completion, which shtab generates from the parser."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from ldpbandits.cli.common import Command, show
from ldpbandits.extras import needs

SHELLS = ("bash", "zsh", "fish")
FILE_METAVARS = ("FILE", "DIR", "BACKUP")
ABOUT = """\
Print a script that completes ldpbandits in a shell: commands, options, files, and values that can be listed.

  bash  ldpbandits completion bash > ~/.local/share/bash-completion/completions/ldpbandits
  zsh   ldpbandits completion zsh > ~/.zfunc/_ldpbandits    (a folder of your fpath, before compinit)
  fish  ldpbandits completion fish > ~/.config/fish/completions/ldpbandits.fish

Or for this shell alone: eval "$(ldpbandits completion bash)", or the same with zsh. Repeat it after an update."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names the shell."""
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads the script")


def run(options: argparse.Namespace) -> None:
    """Print the completion script of the shell."""
    from ldpbandits.cli import parser  # it lists all commands, including this one

    with needs("completion"):
        import shtab
    whole = parser()
    for action in actions(whole):
        if _is_file(action):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif _is_list(action):
            action.choices = str(action.metavar).split("|")
    show(shtab.complete(whole, shell=options.shell).rstrip("\n"))


def actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the options and arguments of all commands, except those that help does not show."""
    for action in parser._actions:  # noqa: SLF001 - argparse lists them nowhere else
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            for command in action.choices.values():
                yield from actions(command)
        elif action.help != argparse.SUPPRESS:
            yield action


def _is_file(action: argparse.Action) -> bool:
    return action.type is Path or str(action.metavar).startswith(FILE_METAVARS)


def _is_list(action: argparse.Action) -> bool:
    """Tell whether the metavar lists the values, as text|json does."""
    return action.choices is None and "|" in str(action.metavar) and str(action.metavar).islower()


COMMAND = Command(
    "completion",
    "print a script that completes this command in a shell",
    add_arguments,
    run,
    about=ABOUT,
    has_json=False,
)
