"""Planted faults and their healthy twins (audit_programs.py): how many of them an audit finds, misses and accuses.

    python benchmarks/audit_faults.py               all programs, in this process, and a matrix of faults by checks
    python benchmarks/audit_faults.py --command     behind a pipe, as a user would, but for what a pipe cannot show
    python benchmarks/audit_faults.py --few         with 50,000 responses to each reward
    python benchmarks/audit_faults.py WORD ...      those whose cause or name has one of the words
    python benchmarks/audit_faults.py --logs A B    the counts and the matrix of what such calls printed, in parts
    python benchmarks/audit_faults.py --level       how many of 200 audits of healthy programs accuse, at 90 and 50 %

Programs are audited with the default of 200,000 responses to each reward, at 99.9 %. In this process they are also sent
one reward at a time. The matrix is in docs/audit-faults.md. The level is that of audits with 1,000 responses to each
reward and 60 short runs, with all checks of others. Beside each count is how large the chance of a false alarm may
still be, by Clopper and Pearson at 95 %.
"""

import itertools
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr
from dataclasses import replace
from io import StringIO
from pathlib import Path
from time import perf_counter
from typing import Any

from audit_programs import FAULTS, HEALTHY, MAIN, ONLY_IN_PROCESS, PREAMBLE
from scipy.special import betaincinv

from ldpbandits import LDPBanditsError
from ldpbandits.audit import Audit, audit
from ldpbandits.audit.blackbox import runs
from ldpbandits.audit.checks import CHECKS
from ldpbandits.audit.program import PROGRAM_AUDIT_S, program
from ldpbandits.audit.target import MISSING, RunOutput, Target, Turn, run_function, target_of
from ldpbandits.audit.texts import text_of

LEVEL_AUDITS, LEVEL_SAMPLES, LEVEL_USERS, LEVEL_COLOURED = 200, 1_000, 60, 32
LEVEL_CONFIDENCES = (0.9, 0.5)
FEW_SAMPLES = 50_000


def curator(body: str, **words: object) -> Callable[[float], object]:
    """Make a curator of its body, from scratch; `words` replace those of PREAMBLE."""
    names: dict[str, Any] = {}
    exec(compile(PREAMBLE, "a preamble", "exec"), names)  # noqa: S102 - our own table
    names |= words
    exec(compile(body, "a planted program", "exec"), names)  # noqa: S102 - our own table
    made: Callable[[float], object] = names["respond"]
    return made


def target(body: str) -> Target:
    """Return a curator as a target in this process, which also gets one reward at a time and knows it."""

    def run_once(rewards: Sequence[float], seconds: float) -> RunOutput:
        return run_function(curator(body, COUNT=len(rewards)))(rewards, seconds)

    def take_turns(rewards: Sequence[float], _seconds: float) -> list[Turn]:
        respond, taken = curator(body, ALONE=True), list[Turn]()
        with redirect_stderr(StringIO()) as beside:
            for reward in rewards:
                try:
                    response = respond(reward)
                except (Exception, SystemExit):  # noqa: BLE001 - planted
                    response = None
                taken.append(Turn(MISSING if response is None else text_of(response), beside.getvalue().encode(), 1e-5))
                beside.seek(0)
                beside.truncate()
        return taken

    return replace(target_of(curator(body)), another_user=lambda: run_once, turns=take_turns)


def audited(body: str, *, by_command: bool = False, **options: Any) -> Audit | str:  # noqa: ANN401 - those of an audit
    """Audit a curator, as a function or behind a pipe; return why it cannot be audited, if so."""
    try:
        if not by_command:
            return audit(target(body), epsilon=1.0, **options)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "curator.py"
            path.write_text(f"{PREAMBLE}\n{body}\n{MAIN}", encoding="utf-8")
            return audit(program(shlex.join([sys.executable, str(path)])), epsilon=1.0, time=PROGRAM_AUDIT_S, **options)
    except LDPBanditsError as error:
        return str(error)


def level() -> None:
    """Print how many audits of healthy programs accuse one; fail where they are too many by chance once in 30,000."""
    runs.USERS, runs.COLOURED = LEVEL_USERS, LEVEL_COLOURED
    alarms, judged = dict.fromkeys(LEVEL_CONFIDENCES, 0), 0
    bodies = itertools.cycle(
        (f"{cause}: {name}", body) for cause, table in HEALTHY.items() for name, body in table.items()
    )
    for number in range(1, LEVEL_AUDITS + 1):
        name, body = next(bodies)
        for confidence in LEVEL_CONFIDENCES:
            with redirect_stderr(StringIO()):
                found = audited(body, samples=LEVEL_SAMPLES, confidence=confidence, seed=number)
            if isinstance(found, str):
                raise SystemExit(f"{name} cannot be audited: {found}")
            alarms[confidence] += bool(found.violated)
            if found.violated:
                print(f"  {number}, at {100 * confidence:g} %: {name}, by {told(found)}", flush=True)
        judged = number
        if number % 20 == 0:
            print(f"{number} audits at each confidence: {list(alarms.values())} accuse", flush=True)
    for confidence, count in alarms.items():
        limit = float(betaincinv(count + 1, judged - count, 0.95))
        print(
            f"{count} of {judged} audits of healthy programs accuse at {100 * confidence:g} %: the chance is below "
            f"{100 * limit:.1f} %, where {100 * (1 - confidence):g} % is allowed"
        )
        mean = judged * (1 - confidence)
        if count > mean + 4 * (mean * confidence) ** 0.5:
            raise SystemExit(f"missed: {count} alarms at {100 * confidence:g} %")


def short(name: str) -> str:
    """Return the name of a check without its layer."""
    return name.rsplit(": ", maxsplit=1)[-1]


def told(found: Audit) -> str:
    """Return the names of all checks that say no."""
    return ", ".join(short(layer.name) for layer in found.violated)


def matrix(found_by: dict[str, dict[str, list[str]]]) -> None:
    """Print which checks found each fault, how many each found, and how many it found alone."""
    rows = [names for faults in found_by.values() for names in faults.values()]
    checks = [check.name for check in CHECKS if any(check.name in names for names in rows)]
    print(f"\n| fault | {' | '.join(map(short, checks))} |\n|---|{'---|' * len(checks)}")
    for cause, faults in found_by.items():
        print(f"| **{cause}** |{' |' * len(checks)}")
        for fault, names in faults.items():
            marks = [("alone" if len(names) == 1 else "yes") if check in names else "" for check in checks]
            print(f"| {fault}{'' if names else ' (missed)'} | {' | '.join(marks)} |")
    print(f"| **found** | {' | '.join(str(sum(check in names for names in rows)) for check in checks)} |")
    print(f"| **found alone** | {' | '.join(str(sum(names == [check] for names in rows)) for check in checks)} |")


def chosen(table: dict[str, dict[str, str]], *, by_command: bool) -> Iterator[tuple[str, str, str]]:
    """Yield cause, name and body of the programs that the command line asks for."""
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    for cause, bodies in table.items():
        for name, body in bodies.items():
            is_shown = not by_command or (cause != ONLY_IN_PROCESS and "os.environ" not in body)
            if is_shown and (not words or any(word in f"{cause} {name}" for word in words)):
                yield cause, name, body


def from_logs(files: Sequence[str]) -> None:
    """Print the counts and the matrix of what several calls printed; the first line of a program counts."""
    lines = [line for file in files for line in Path(file).read_text(encoding="utf-8").splitlines()]
    found_by: dict[str, dict[str, list[str]]] = {}
    counts: dict[str, int] = {}
    full = {short(check.name): check.name for check in CHECKS}
    for table, outcomes in ((FAULTS, "found|missed"), (HEALTHY, "accused|passed")):
        for cause, bodies in table.items():
            for name in bodies:
                wanted = re.compile(rf"({outcomes}) +[\d.]+ s  {re.escape(f'{cause}: {name}')}: (.*)")
                for outcome, why in [match.groups() for line in lines if (match := wanted.fullmatch(line))][:1]:
                    counts[outcome] = counts.get(outcome, 0) + 1
                    if table is FAULTS:
                        found_by.setdefault(cause, {})[name] = [full[each] for each in why.split(", ") if each]
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    matrix(found_by)


def main() -> None:
    """Print a line for each program, the counts and the matrix."""
    if "--level" in sys.argv:
        return level()
    if "--logs" in sys.argv:
        return from_logs(sys.argv[sys.argv.index("--logs") + 1 :])
    by_command, few = "--command" in sys.argv, {"samples": FEW_SAMPLES} if "--few" in sys.argv else {}
    counts = dict.fromkeys(("found", "missed", "accused", "passed", "cannot be audited"), 0)
    found_by: dict[str, dict[str, list[str]]] = {}
    for table, outcomes in ((FAULTS, ("found", "missed")), (HEALTHY, ("accused", "passed"))):
        for cause, name, body in chosen(table, by_command=by_command):
            started = perf_counter()
            with redirect_stderr(StringIO()):
                found = audited(body, by_command=by_command, **few)
            if isinstance(found, str):
                outcome, why = "cannot be audited", found
            else:
                outcome, why = outcomes[not found.violated], told(found)
            if isinstance(found, Audit) and table is FAULTS:
                found_by.setdefault(cause, {})[name] = [layer.name for layer in found.violated]
            counts[outcome] += 1
            print(f"{outcome:8} {perf_counter() - started:5.1f} s  {cause}: {name}: {why}", flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return matrix(found_by)


if __name__ == "__main__":
    main()
