"""`ldpbandits audit`: is a curator really epsilon-LDP? Exit code 0: consistent, 1: violated, 2: incomplete, or a fault.

1 accuses a curator. Any other failure, such as a full disk, too little memory or a bug of the audit, exits with 2.
"""

import argparse
import shlex
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ldpbandits.checks import LARGEST_EPSILON, SMALLEST_EPSILON, brief, check_count
from ldpbandits.cli.common import BAD_INPUT, Command, add_load, load, name_or_json, named_number, show_result
from ldpbandits.device.curators import Curator, curator_from_json
from ldpbandits.errors import LDPBanditsError, ParameterError
from ldpbandits.extras import needs
from ldpbandits.output.files import check_file, write
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.spec.names import CURATOR_NAMES, find_curator

if TYPE_CHECKING:
    from ldpbandits.audit.result import Audit
    from ldpbandits.audit.target import Target

CONSISTENT, VIOLATED = 0, 1
RECORDED = (
    *("curator", "program", "epsilon", "samples", "confidence", "rewards"),
    *("time", "timeout", "calls_per_run", "seed", "out"),
)
"""Options that the record of an audit quotes."""
ABOUT = """\
Check that a curator keeps its epsilon: one of ours, or any program that reads one reward per line and writes one
response per line. Exit code 0: consistent, 1: violated, 2: incomplete, a wrong call, or an audit that failed.

  ldpbandits audit --curator ctl --epsilon 1
  ldpbandits audit --curator 'ctb-t(0.9)' --epsilon 1
  ldpbandits audit --command 'node my-curator.js' --epsilon 1 --out audit.html

From Python, any function: ldpbandits.audit.audit(respond, rewards=(0, 1), epsilon=1.0)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ldpbandits audit`."""
    parser.add_argument(
        "--curator",
        metavar="C",
        help=f"one of ours: {', '.join(CURATOR_NAMES)}, or JSON; "
        "with --command: the one it claims to be, whose mean, variance and refusals it must have",
    )
    parser.add_argument(
        "--command",
        dest="program",
        metavar="'PROGRAM ARG ...'",
        help="a program to audit; there is no shell: no pipes, no variables, no *",
    )
    limits = f"from {SMALLEST_EPSILON:g} to {LARGEST_EPSILON:g}"
    parser.add_argument("--epsilon", required=True, metavar="E", help=f"the epsilon that is claimed, {limits}")
    parser.add_argument("--samples", metavar="N", help="responses to each reward (default 1e7; with --command 2e5)")
    parser.add_argument(
        "--confidence", default="0.999", metavar="C", help="1 - chance of a false alarm (default 0.999)"
    )
    parser.add_argument(
        "--rewards", metavar="R,R,...", help="the rewards to tell apart (default: those hardest to hide)"
    )
    parser.add_argument("--time", metavar="S", help="seconds that the whole audit of a program may take (default 300)")
    parser.add_argument("--timeout", metavar="S", help="seconds that one run of the program may take (default: --time)")
    parser.add_argument("--calls-per-run", metavar="N", help="rewards that one run gets (default: all of them)")
    add_load(parser)
    parser.add_argument("--seed", metavar="N", help="choose rewards, and draw in bulk, by this seed")
    parser.add_argument(
        "--out", type=Path, metavar="FILE.html", help="write a page, with the privacy loss over outputs"
    )


def run(options: argparse.Namespace) -> int:
    """Audit, print the verdict, and return the exit code: 1 for a violation, and for nothing else."""
    try:
        result = _audit(options)
        show_result(
            options, result.to_json, lambda: [str(result), *(["", f"The page: {options.out}"] if options.out else [])]
        )
    except LDPBanditsError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, it is no violation
        _fail(error)
    return {"consistent": CONSISTENT, "violated": VIOLATED, "incomplete": BAD_INPUT}[result.verdict]


def _fail(error: Exception) -> NoReturn:
    """Say in one line what went wrong, without the message: it may hold anything."""
    if isinstance(error, MemoryError):
        raise LDPBanditsError("not enough memory for this number of responses: reduce --samples") from None
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}, line {frame.lineno}"
    raise LDPBanditsError(f"the audit failed and found nothing: {type(error).__name__} in {where}") from None


def _audit(options: argparse.Namespace) -> "Audit":
    """Run the audit, and write its page if one is asked for."""
    load(options.load)
    if options.curator is None and options.program is None:
        raise ParameterError("give --curator or --command: what is to be audited?")
    for name in ("time", "timeout", "calls_per_run"):
        if getattr(options, name) is not None and options.program is None:
            raise ParameterError(f"--{name.replace('_', '-')} goes with --command")
    curator = None if options.curator is None else _curator(options.curator, named_number("epsilon", options.epsilon))
    with needs("lab"):
        from ldpbandits.audit.evidence import check_confidence, check_samples
        from ldpbandits.audit.program import PROGRAM_AUDIT_S, program
        from ldpbandits.audit.run import OTHERS_SAMPLES, OUR_SAMPLES, audit
        from ldpbandits.audit.target import FOREVER_S
        from ldpbandits.output.progress import bar
    if curator is not None and options.program is None:
        target: Curator | Target = curator
    else:
        timeout = FOREVER_S if options.timeout is None else _positive("timeout", options.timeout)
        target = program(options.program, spec=None if curator is None else curator.spec, timeout=timeout)
    usual = OUR_SAMPLES if target is curator else OTHERS_SAMPLES
    wanted = usual if options.samples is None else named_number("samples", options.samples)
    samples, confidence = check_samples(wanted), check_confidence(named_number("confidence", options.confidence))
    rewards = (
        None if options.rewards is None else [named_number("rewards", each) for each in options.rewards.split(",")]
    )
    if options.out is not None:
        check_file(options.out)
        with needs("lab"):
            from ldpbandits.audit.page import page
    calls = samples * (2 if rewards is None else len(rewards))
    with bar("responses", calls if target is curator or rewards is not None else calls + samples) as progress:
        result = audit(
            target,
            rewards,
            named_number("epsilon", options.epsilon),
            samples=samples,
            confidence=confidence,
            calls_per_run=_whole("calls per run", options.calls_per_run, least=1),
            time=FOREVER_S if target is curator else _positive("time", options.time or f"{PROGRAM_AUDIT_S}"),
            seed=_whole("seed", options.seed, least=0),
            progress=progress,
            command=_command_line(options),
        )
    if options.out is not None:
        write(options.out, page(result).encode())
    return result


def _command_line(options: argparse.Namespace) -> str:
    """Return the command line of this audit, with the options that were given."""
    named = {"command" if name == "program" else name: getattr(options, name) for name in RECORDED}
    words = [[f"--{name.replace('_', '-')}", str(value)] for name, value in named.items() if value is not None]
    return shlex.join(["ldpbandits", "audit", *(word for pair in words for word in pair)])


def _curator(text: str, epsilon: float) -> Curator:
    """Make a curator of its name or its JSON; one that has no epsilon of its own has the one that is claimed."""
    named = name_or_json("--curator", text)
    if not isinstance(named, str):
        return curator_from_json({"epsilon": epsilon, **named})
    found = find_curator(named)
    if found is None:
        raise ParameterError(f"--curator must be one of {', '.join(CURATOR_NAMES)}, or JSON, got {brief(named)}")
    mechanism, transform = found
    return curator_from_json(CuratorSpec(mechanism(epsilon), transform))


def _whole(name: str, text: str | None, least: int) -> int | None:
    return None if text is None else check_count(name, named_number(name, text), least=least)


def _positive(name: str, text: str) -> float:
    number = named_number(name, text)
    if not 0 < number < float("inf"):
        raise ParameterError(f"{name} must be finite and > 0, got {text}")
    return number


COMMAND = Command(
    "audit",
    "check that a curator, ours or anyone's, keeps its epsilon",
    add_arguments,
    run,
    about=ABOUT,
    failed=BAD_INPUT,  # 1 is the verdict
)
