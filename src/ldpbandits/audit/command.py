"""`ldpbandits audit`: its options, what it prints, and its exit code: 0 consistent, 1 violated, 2 anything else.

1 accuses a curator. So whatever else goes wrong, a full disk, too little memory, a fault of our own, ends with 2.
"""

import argparse
import json
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ldpbandits.audit.claim import LEAST_SAMPLES
from ldpbandits.checks import LARGEST_EPSILON, SMALLEST_EPSILON, check_count
from ldpbandits.device.curators import BernoulliCurator, Curator, LaplaceCurator
from ldpbandits.errors import LDPBanditsError, MissingExtra, OutputError, ParameterError
from ldpbandits.wire import Range, Sigmoid, Transform

if TYPE_CHECKING:
    from ldpbandits.audit.result import Audit
    from ldpbandits.audit.subject import Subject

CURATORS: dict[str, tuple[type[Curator], Transform]] = {
    "ctb": (BernoulliCurator, Range()),
    "ctl": (LaplaceCurator, Range()),
    "ctb-s": (BernoulliCurator, Sigmoid()),
    "ctl-s": (LaplaceCurator, Sigmoid()),
}
CONSISTENT, VIOLATED = 0, 1
ABOUT = """\
Check that a curator keeps its epsilon: one of ours, or any program that reads one reward a line and writes one response
a line. Exit code 0: consistent, 1: violated, 2: a bad call, or an audit that could not be finished.

  ldpbandits audit --curator ctl --epsilon 1
  ldpbandits audit --command 'node my-curator.js' --epsilon 1 --out audit.html

From Python, any function: ldpbandits.audit.audit(respond, rewards=(0, 1), epsilon=1.0)."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say which options there are."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = ABOUT
    parser.add_argument(
        "--curator",
        choices=list(CURATORS),
        help="one of ours; with --command: the one it claims to be, whose mean, variance and refusals it must have",
    )
    parser.add_argument("--command", dest="program", metavar="'PROGRAM ARG ...'", help="a program to audit")
    limits = f"from {SMALLEST_EPSILON:g} to {LARGEST_EPSILON:g}"
    parser.add_argument("--epsilon", required=True, metavar="E", help=f"the epsilon that is claimed, {limits}")
    parser.add_argument("--samples", metavar="N", help="responses to each reward (default 1e7; with --command 2e5)")
    parser.add_argument(
        "--confidence", default="0.999", metavar="C", help="1 - chance of a false alarm (default 0.999)"
    )
    parser.add_argument(
        "--rewards", metavar="R,R,...", help="the rewards to tell apart (default: those hardest to hide)"
    )
    parser.add_argument("--timeout", metavar="S", help="seconds that a run of the program may take (default 300)")
    parser.add_argument(
        "--out", type=Path, metavar="FILE.html", help="write a page, with the privacy loss over outputs"
    )


def run(options: argparse.Namespace) -> int:
    """Audit, print what was found, and return the exit code: 1 for a violation, and for nothing else."""
    try:
        found = _audited(options)
        if options.out is not None:
            _write_page(options.out, found)
    except OutputError as error:
        raise OutputError(str(error)) from None  # a full disk would be exit code 1
    except LDPBanditsError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, it is no violation
        _fail(error)
    _print(found, options)
    return CONSISTENT if found.verdict == "consistent" else VIOLATED


def _fail(error: Exception) -> NoReturn:
    """Say in one line what went wrong, without the message: it may hold anything."""
    if isinstance(error, MemoryError):
        raise LDPBanditsError("not enough memory for so many responses: ask for fewer with --samples") from None
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}, line {frame.lineno}"
    raise LDPBanditsError(f"the audit failed and found nothing: {type(error).__name__} in {where}") from None


def _audited(options: argparse.Namespace) -> "Audit":
    if options.curator is None and options.program is None:
        raise ParameterError("give --curator or --command: what is to be audited?")
    if options.timeout is not None and options.program is None:
        raise ParameterError("--timeout goes with --command")
    curator = None if options.curator is None else _curator(options.curator, _number("epsilon", options.epsilon))
    try:
        from ldpbandits.audit.program import TIMEOUT, program  # noqa: PLC0415 - numpy, only for those who audit
        from ldpbandits.audit.run import OTHERS_SAMPLES, OUR_SAMPLES, audit  # noqa: PLC0415
        from ldpbandits.output.progress import bar  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise MissingExtra(f"needs {error.name}: pip install 'ldpbandits[lab]'") from None
    if curator is not None and options.program is None:
        subject: Curator | Subject = curator
    else:
        timeout = TIMEOUT if options.timeout is None else _positive("timeout", options.timeout)
        subject = program(options.program, spec=None if curator is None else curator.spec, timeout=timeout)
    usual = OUR_SAMPLES if subject is curator else OTHERS_SAMPLES
    given = usual if options.samples is None else _number("samples", options.samples)
    samples = check_count("samples", given, least=LEAST_SAMPLES)
    rewards = None if options.rewards is None else [_number("rewards", each) for each in options.rewards.split(",")]
    _check_writable(options.out)
    with bar("responses", samples * (2 if rewards is None else len(rewards))) as progress:
        return audit(
            subject,
            rewards,
            _number("epsilon", options.epsilon),
            samples=samples,
            confidence=_number("confidence", options.confidence),
            progress=progress,
        )


def _print(found: "Audit", options: argparse.Namespace) -> None:
    try:
        if options.json:
            sys.stdout.write(json.dumps(found.to_json(), indent=2, allow_nan=False) + "\n")
        else:
            sys.stdout.write(f"{found}\n" + (f"\nThe page: {options.out}\n" if options.out else ""))
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has seen enough; the exit code still tells the verdict
        _drop_output()
    except (OSError, ValueError) as error:  # a ValueError: closed, or a name that cannot be encoded
        _drop_output()
        told = getattr(error, "strerror", None) or type(error).__name__
        raise OutputError(f"cannot write the output: {told}") from None


def _drop_output() -> None:
    """Let what is left in the buffer go nowhere, or Python would fail on it once more at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _curator(name: str, epsilon: float) -> Curator:
    kind, transform = CURATORS[name]
    return kind(epsilon, transform)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ParameterError(f"{name} must be a number, got {text!r}") from None


def _positive(name: str, text: str) -> float:
    number = _number(name, text)
    if not 0 < number < float("inf"):
        raise ParameterError(f"{name} must be finite and > 0, got {text}")
    return number


def _check_writable(path: Path | None) -> None:
    """Say at once, not after the audit, that the page has no place to go."""
    if path is None:
        return
    if path.is_dir():
        told = "it is a folder"
    elif not path.absolute().parent.is_dir():
        told = "no such folder"
    elif path.is_symlink() or (path.exists() and not path.is_file()):
        told = "it is a link or a device, and a page would take its place"
    else:
        return
    raise OutputError(f"{path} cannot be written: {told}")


def _write_page(path: Path, found: "Audit") -> None:
    from ldpbandits.audit.page import page  # noqa: PLC0415 - matplotlib, only for those who want a picture
    from ldpbandits.output.files import write  # noqa: PLC0415

    write(path, page(found).encode())
