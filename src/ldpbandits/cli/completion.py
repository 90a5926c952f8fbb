"""`ldpbandits completion`: a script that completes this command in bash, zsh or fish.

It is written from the parser itself, so that it knows every option, and needs no other package. What it prints is
static: to press the tab key starts no Python.
"""

import argparse
from collections.abc import Callable

from ldpbandits.cli.common import Command, show
from ldpbandits.cli.shells import bash, fish, zsh
from ldpbandits.cli.words import Place, places

SHELLS: dict[str, Callable[[list[Place]], str]] = {"bash": bash.script, "zsh": zsh.script, "fish": fish.script}
ABOUT = """\
Print a script that completes ldpbandits in a shell: commands, options, and the values of those that have a few.

  bash  ldpbandits completion bash > ~/.local/share/bash-completion/completions/ldpbandits
  zsh   ldpbandits completion zsh > ~/.zfunc/_ldpbandits    (a folder of your fpath, before compinit)
  fish  ldpbandits completion fish > ~/.config/fish/completions/ldpbandits.fish

Or for this shell alone: source <(ldpbandits completion bash), or the same with zsh. Make it again after an update."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names the shell."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = ABOUT
    parser.add_argument("shell", choices=tuple(SHELLS), help="for which shell")


def run(options: argparse.Namespace) -> None:
    """Print the completion script of the shell."""
    from ldpbandits.cli import parser  # which knows all commands, and this one too

    show(SHELLS[options.shell](places(parser())).rstrip("\n"))


COMMAND = Command(
    "completion", "print a script that completes this command in a shell", add_arguments, run, has_json=False
)
