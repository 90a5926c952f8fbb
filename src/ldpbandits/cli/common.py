"""Functions that the commands share: options, numbers and arms, and printing.

Commands print with `show` and `say`, never with `print`: only these handle a closed pipe.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from shutil import get_terminal_size
from typing import Any, NoReturn

from ldpbandits.checks import LARGEST_EPSILON, SMALLEST_EPSILON, check_count
from ldpbandits.errors import LDPBanditsError, OutputError, ParameterError
from ldpbandits.output.columns import ASCII

OK, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
EPSILON_HELP = f"epsilon of each response, from {SMALLEST_EPSILON:g} to {LARGEST_EPSILON:g}"
MIX_HELP = "users who pick their own epsilon, such as 0.2:0.2,1:0.5,4:0.3 (epsilon:share of the users)"
ARM_HELP = (
    "an arm by its law: bernoulli(p), beta(a,b), uniform(low,high), choice(v1,v2,...), gaussian(mean,sd), "
    "drift(level,amplitude,period), or empirical(FILE.csv), a table of your own with the columns arm and reward, "
    "for all its arms; 5*beta(4,1) is five alike; give the option once for each"
)
_HOME, _CLEAR_LINE = "\x1b[H\x1b[J", "\x1b[K"
"""To the upper left corner, and clear all that follows; clear the rest of the line."""


@dataclass(frozen=True)
class Command:
    """A command: a module of this folder has one, and the table in `ldpbandits.cli` lists it."""

    name: str
    help: str
    """One line about the command, for `ldpbandits --help`."""
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int | None]
    """Does the work; returns the exit code, or None for 0."""
    about: str = ""
    """The description for `ldpbandits COMMAND --help`, printed as it is; the default is the help line."""
    has_json: bool = True
    """Whether the command takes --json."""
    failed: int = FAILED
    """The exit code when something fails that is no fault of the input."""


class Parser(argparse.ArgumentParser):
    """argparse, with its error on one line."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the input, and end."""
        self.exit(BAD_INPUT, f"{self.prog}: {message} (try {self.prog} --help)\n")


def add_parser(parsers: Any, name: str, line: str, about: str = "") -> argparse.ArgumentParser:  # noqa: ANN401 - argparse
    """Add a subcommand with its help line, and the text that describes it, printed as it is."""
    description = about or f"{line[0].upper()}{line[1:]}."
    form = argparse.RawDescriptionHelpFormatter if about else argparse.HelpFormatter
    parser: argparse.ArgumentParser = parsers.add_parser(
        name, help=line, description=description, allow_abbrev=False, formatter_class=form
    )
    return parser


def number(text: str) -> float:
    """Read a number, whole ones without loss."""
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"must be a number, got {text!r}") from None


def named_number(name: str, text: str) -> float:
    """Read a number after the options are parsed; an error begins with its name."""
    try:
        return number(text)
    except argparse.ArgumentTypeError as error:
        raise ParameterError(f"{name} {error}") from None


def name_or_json(option: str, text: str | None) -> Any:  # noqa: ANN401 - JSON
    """Return a name as it is, and an object that is written as JSON as data."""
    if text is None or not text.startswith("{"):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"{option} is not JSON: {error}") from None


def add_load(parser: argparse.ArgumentParser) -> None:
    """Add the option that makes kinds of one's own known."""
    told = "import this module first: rules, mechanisms and transforms of your own that it registers; repeatable"
    parser.add_argument("--load", action="append", default=[], metavar="MODULE", help=told)


def load(names: Sequence[str]) -> None:
    """Import modules, which are looked for in the current folder too, after all other places."""
    sys.path.append(str(Path.cwd()))
    for name in names:
        try:
            import_module(name)
        except LDPBanditsError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a module may fail in any way while it is imported
            raise ParameterError(f"{name} cannot be loaded: {type(error).__name__}: {error}") from None


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where trials are played."""
    parser.add_argument(
        "--jobs", type=number, metavar="N", help="threads (default: one per core); numbers stay the same"
    )
    parser.add_argument("--cluster", metavar="ADDRESS", help="play on a Dask cluster, such as tcp://10.0.0.1:8786")


def read_jobs(options: argparse.Namespace) -> int | None:
    """Return the number of threads, or None for one per core."""
    return None if options.jobs is None else check_count("jobs", options.jobs)


def show(*lines: str) -> None:
    """Print the results, all of them at once. A reader who has seen enough is no error: the exit code still tells."""
    if sys.stdout is None:  # closed before we began: nobody reads
        return
    try:
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
    except (OSError, ValueError) as error:  # a ValueError: closed, or a character that cannot be encoded
        raise _unwritable(error) from None


def show_over(text: str) -> None:
    """Print in the place of all that a terminal shows."""
    if sys.stdout is None or not sys.stdout.isatty():
        raise ParameterError("--watch needs a terminal, and this is not one")
    show(f"{_HOME}{text}")


class Stdout:
    """Writes bytes to stdout at once. A reader that closes the pipe ends the command without an error."""

    def write(self, content: bytes) -> None:
        """Write some bytes to stdout, and flush."""
        if sys.stdout is None:
            raise BrokenPipeError
        try:
            sys.stdout.buffer.write(content)
            sys.stdout.flush()
        except BrokenPipeError:
            _drop_output()
            raise
        except (OSError, ValueError) as error:
            raise _unwritable(error) from None


def legible(text: str) -> str:
    """Return a text in characters that stdout can encode."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(ASCII).encode(encoding, "replace").decode(encoding)
    return text


def width() -> int:
    """Return the number of columns of the terminal; 80 when there is none."""
    return get_terminal_size().columns


def show_json(data: object) -> None:
    """Print the results as JSON."""
    show(json.dumps(data, indent=2, allow_nan=False))


def show_result(options: argparse.Namespace, data: Callable[[], object], lines: Callable[[], Iterable[str]]) -> None:
    """Print the results: as JSON with --json, else as lines."""
    if options.json:
        show_json(data())
    else:
        show(*lines())


def say(text: str) -> None:
    """Write a line to stderr, and flush."""
    if sys.stderr is not None:  # it was closed before the start
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def note(text: str) -> None:
    """Write a passing line on stderr, where somebody watches; the next one takes its place."""
    if sys.stderr is not None and sys.stderr.isatty():
        sys.stderr.write(f"{text}{_CLEAR_LINE}\r")
        sys.stderr.flush()


def agrees(question: Callable[[], str], *, yes: bool) -> bool:
    """Tell whether what cannot be undone is meant: by --yes, or by an answer in a terminal."""
    if yes:
        return True
    if sys.stdin is None or sys.stderr is None or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ParameterError("--yes is needed without a terminal: nobody can confirm")
    sys.stderr.write(f"{legible(question())} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() in {"y", "yes"}:
        return True
    say("nothing was changed")
    return False


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows in columns, numbers to the right."""
    columns = []
    for title, *cells in zip(header, *rows, strict=True):
        width = max(map(len, (title, *cells)))
        is_numeric = all(cell[0].isdigit() for cell in cells if cell)
        columns.append([cell.rjust(width) if is_numeric else cell.ljust(width) for cell in (title, *cells)])
    return "\n".join("  ".join(row).rstrip() for row in zip(*columns, strict=True))


def _unwritable(error: Exception) -> OutputError:
    """Return the error of an output that cannot be written: no fault of the input."""
    _drop_output()
    reason = getattr(error, "strerror", None) or type(error).__name__
    return OutputError(f"cannot write the output: {reason}", is_full=True)


def _drop_output() -> None:
    """Let what is left in the buffer go nowhere, or Python would fail on it once more at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
