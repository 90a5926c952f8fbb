"""The command line, thin: parse, call, print. Bad input is one line on stderr and exit code 2.

A command is one module of this folder with a `Command`, and one entry in COMMANDS.
"""

import argparse
import sys
from collections.abc import Sequence
from contextlib import suppress

import ldpbandits
from ldpbandits.cli import (
    account,
    allow,
    audit,
    backup,
    bounds,
    calibrate,
    check,
    completion,
    demo,
    experiments,
    health,
    keys,
    papers,
    plan,
    reproduce,
    restore,
    rotate,
    serve,
    simulate,
)
from ldpbandits.cli.common import BAD_INPUT, INTERRUPTED, OK, Command, Parser, add_parser, say
from ldpbandits.errors import LDPBanditsError, OutputError, ParameterError

COMMANDS = (
    plan.COMMAND,
    simulate.COMMAND,
    reproduce.COMMAND,
    bounds.COMMAND,
    account.COMMAND,
    calibrate.COMMAND,
    serve.COMMAND,
    health.COMMAND,
    keys.COMMAND,
    rotate.COMMAND,
    allow.COMMAND,
    backup.COMMAND,
    check.COMMAND,
    restore.COMMAND,
    experiments.COMMAND,
    papers.COMMAND,
    demo.COMMAND,
    audit.COMMAND,
    completion.COMMAND,
)


def main(arguments: Sequence[str] | None = None, commands: Sequence[Command] = COMMANDS) -> int:
    """Run the command line; return the exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    options, unknown = parser(commands, words[0] if words else "").parse_known_args(words)
    command: Command = options.chosen
    options.words = words
    try:
        if unknown:
            see = f"try ldpbandits {command.name} --help"
            raise ParameterError(f"unrecognized arguments: {' '.join(unknown)} ({see})")
        return command.run(options) or OK
    except BrokenPipeError:  # the reader of the output closed the pipe
        return OK
    except (LDPBanditsError, MemoryError, OSError, KeyboardInterrupt) as error:
        code, reason = _explain(error, command)
    with suppress(OSError):  # stderr itself may be what fails: the exit code still tells
        say(f"ldpbandits {command.name}: {reason}")
    return code


def _explain(error: BaseException, command: Command) -> tuple[int, str]:
    """Return the exit code and the message for an error."""
    match error:
        case KeyboardInterrupt():
            return INTERRUPTED, "interrupted"
        case MemoryError():
            return command.failed, "not enough memory for this number of trials and arms"
        case OutputError(is_full=True):
            return command.failed, str(error)
        case LDPBanditsError():
            return BAD_INPUT, str(error)
        case OSError(strerror=str(reason)):
            return command.failed, reason
        case _:
            return command.failed, str(error)


def parser(commands: Sequence[Command] = COMMANDS, chosen: str = "") -> argparse.ArgumentParser:
    """Return the parser: it knows all commands by name, and the options of the chosen one, or of all of them."""
    is_known = chosen in {command.name for command in commands}
    whole = Parser(prog="ldpbandits", description=(ldpbandits.__doc__ or "").partition("\n")[0], allow_abbrev=False)
    whole.add_argument("--version", action="version", version=f"ldpbandits {ldpbandits.__version__}")
    parsers = whole.add_subparsers(required=True, metavar="COMMAND")
    for command in commands:
        one = add_parser(parsers, command.name, command.help, command.about)
        one.set_defaults(chosen=command)
        if is_known and command.name != chosen:
            continue
        if command.has_json:
            one.add_argument("--json", action="store_true", help="print JSON instead of tables")
        command.add_arguments(one)
    return whole
