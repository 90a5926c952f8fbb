"""A program as a suspect: it reads one reward per line and writes one response per line. Every run is another user.

A response is a line, whatever is on it and however long it is. What goes wrong is said in one line.

Rewards are written and errors are read by threads, so that no full pipe makes both sides wait. A program runs in a
session and a process group of its own. However it ends, all that is left in that group is ended with it. A process that
has left the group, by a setsid of its own, is let go, and is not waited for.
"""

import os
import select
import shlex
import shutil
import signal
import subprocess
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Thread
from time import monotonic
from typing import IO

from ldpbandits.audit.interactive import ask_one_by_one
from ldpbandits.audit.target import FOREVER, Late, RunOutput, Target, Turn, Unanswered
from ldpbandits.checks import brief, without_controls
from ldpbandits.errors import ParameterError
from ldpbandits.spec.curator import CuratorSpec

TIME = 300.0
"""Seconds that an audit of a program may take, unless said otherwise."""
MOST_LINE = 1 << 26
"""Bytes of the longest line: beyond, it is a flood and no response."""
MOST_ERRORS = 1 << 16
"""Bytes of standard error that are kept."""
READ_BYTES = 1 << 18
"""Bytes per read of a pipe."""
MOST_HEARD = 1_000
"""Lines of output that are kept of a short run."""
CONTAINED = ("unshare", "--user", "--map-current-user", "--pid", "--fork", "--kill-child", "--")
"""Runs a program as a container does, with the process id 1."""
LIVENESS_POLL_INTERVAL_S = 0.2
"""Interval between checks of whether a silent program is alive."""


def program(command: str, *, spec: CuratorSpec | None = None, timeout: float = FOREVER) -> Target:
    """Return the target behind a command line, such as 'node my-curator.js'; a run takes `timeout` s at the most."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ParameterError(f"the command cannot be read: {error}") from None
    if not words:
        raise ParameterError("the command is empty")
    name = without_controls(words[0])

    def ask_many(rewards: Iterable[Sequence[float]], seconds: float) -> Iterator[list[bytes]]:
        count, ending = 0, Ending()
        asked = Asked()
        for lines in _converse(words, asked.lines(rewards), min(seconds, timeout), ending):
            room = asked.count - count
            if any(map(bytes.strip, lines[room:])):  # blank lines at the end are no responses
                raise Unanswered(_too_many(name))
            count += len(lines[:room])
            yield lines[:room]
        _check(name, asked.count, count, ending, min(seconds, timeout))

    def run_once(rewards: Sequence[float], seconds: float) -> RunOutput:
        return _hear(words, rewards, min(seconds, timeout))

    def hear_contained(rewards: Sequence[float], seconds: float) -> RunOutput:
        return _hear([*CONTAINED, *words], rewards, min(seconds, timeout))

    return Target(
        without_controls(command),
        ask_many,
        run_once,
        another_user=lambda: run_once,
        contained=hear_contained if shutil.which(CONTAINED[0]) else None,
        spec=spec,
        workers=os.cpu_count() or 1,
        turns=lambda rewards, seconds: _turns(words, rewards, min(seconds, timeout)),
    )


def _hear(words: Sequence[str], rewards: Sequence[float], seconds: float) -> RunOutput:
    """Run a program on a few rewards, and note all that it says."""
    ending = Ending()
    lines: list[bytes] = []
    for part in _converse(words, Asked().lines([rewards]), seconds, ending):
        lines += part
        if len(lines) > MOST_HEARD + len(rewards):
            break
    extra = any(map(bytes.strip, lines[len(rewards) :]))
    is_whole = ending.code == 0 and len(lines) >= len(rewards) and not extra and not ending.is_flood
    return RunOutput(lines[: len(rewards)] if is_whole else lines, bytes(ending.errors), is_whole, code=ending.code)


def _turns(words: Sequence[str], rewards: Sequence[float], seconds: float) -> list[Turn]:
    """Run a program, and give it one reward at a time."""
    # Python holds back what it prints into a pipe, unless it is told not to.
    process = _start(words, {**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        return list(ask_one_by_one(process, list(Asked().lines([each] for each in rewards)), seconds))
    finally:
        _end(process)
        if process.stdin is not None:
            process.stdin.close()
        _close(process)


class Asked:
    """Encodes the rewards for a program, and counts them."""

    def __init__(self) -> None:
        """Start with no rewards sent."""
        self.count = 0
        self._words: dict[float, bytes] = {}

    def lines(self, rewards: Iterable[Sequence[float]]) -> Iterator[bytes]:
        """Write rewards one a line."""
        words = self._words
        for part in rewards:
            self.count += len(part)
            for reward in set(part) - words.keys():
                if len(words) > READ_BYTES:
                    words.clear()
                words[reward] = f"{reward:.17g}\n".encode()
            yield b"".join([words.get(reward) or f"{reward:.17g}\n".encode() for reward in part])


@dataclass(slots=True)
class Ending:
    """How a run of a program ended."""

    code: int | None = None
    """None where it took too long."""
    errors: bytearray = field(default_factory=bytearray)
    is_flood: bool = False
    """Whether it wrote a line without end."""


def _too_many(name: str) -> str:
    return f"{name} must write one response per line, and wrote more than there were rewards"


def _check(name: str, asked: int, got: int, ending: Ending, seconds: float) -> None:
    """Say what is wrong with how a run ended, if anything is; a run whose time was up is not to blame."""
    if ending.is_flood:
        raise Unanswered(_too_many(name))
    if ending.code is None:
        if not got:
            raise Late(f"{name} gave no response within {seconds:.3g} s (--time allows more)")
        return
    if ending.code != 0 and got < asked:  # how a program ends that has answered all is judged with its first calls
        told = f" after {got:,} responses (see --calls-per-run)" if got else ""
        raise Unanswered(f"{name} ended with code {ending.code}{told}{_last_line(bytes(ending.errors))}")
    if got < asked:
        raise Unanswered(f"{name} must write one response per line: {asked:,} rewards, {got:,} responses")


def _last_line(errors: bytes) -> str:
    lines = errors.decode(errors="replace").strip().split("\n")
    return f": {brief(without_controls(lines[-1]))[1:-1]}" if lines[-1] else ""


def _converse(
    words: Sequence[str], lines: Iterable[bytes], seconds: float, ending: Ending
) -> Generator[list[bytes], None, None]:
    """Run a program on these lines, and yield its own as they come; `ending` tells how it ended."""
    until = monotonic() + seconds
    process = _start(words)
    threads = [
        Thread(target=_write, args=(process.stdin, lines), daemon=True),
        Thread(target=_read_errors, args=(process.stderr, ending.errors), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        yield from _lines(process, until, ending)
        ending.code = None if ending.is_flood or monotonic() >= until else _code(process, until)
    finally:
        _end(process)
        threads[1].join(1.0)
        _close(process)


def _start(words: Sequence[str], environment: dict[str, str] | None = None) -> "subprocess.Popen[bytes]":
    """Start a program in a session of its own."""
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(  # noqa: S603 - the caller's own program
            words, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, env=environment
        )
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "its name cannot be one"
        raise ParameterError(f"{without_controls(words[0])} cannot be run: {why}") from None


def _close(process: "subprocess.Popen[bytes]") -> None:
    """Close what can be read of a program that has ended."""
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _code(process: "subprocess.Popen[bytes]", until: float) -> int | None:
    try:
        return process.wait(max(0.0, until - monotonic()))
    except subprocess.TimeoutExpired:
        return None


def _lines(process: "subprocess.Popen[bytes]", until: float, ending: Ending) -> Iterator[list[bytes]]:
    """Yield whole lines until the program closes its output, ends, floods, or the time is up."""
    rest = b""
    for part in _parts(process, until):
        if b"\n" not in part:
            rest += part
            if len(rest) > MOST_LINE:
                ending.is_flood = True
                return
            continue
        *lines, rest = (rest + part).split(b"\n")
        yield lines
    if rest:
        yield [rest]


def _parts(process: "subprocess.Popen[bytes]", until: float) -> Iterator[bytes]:
    """Yield what a program writes. Once it has ended, what is left in its pipe is all that is read."""
    if process.stdout is None:
        return
    pipe = process.stdout.fileno()
    while (left := until - monotonic()) > 0:
        has_ended = process.poll() is not None
        if select.select([pipe], [], [], 0 if has_ended else min(LIVENESS_POLL_INTERVAL_S, left))[0]:
            part = os.read(pipe, READ_BYTES)
            if not part:
                return
            yield part
        elif has_ended:
            return


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a program and whatever it started that is still in its process group."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def _write(pipe: IO[bytes] | None, lines: Iterable[bytes]) -> None:
    with suppress(OSError, ValueError):  # a program need not read all
        if pipe is not None:
            with pipe:
                for line in lines:
                    pipe.write(line)


def _read_errors(pipe: IO[bytes] | None, into: bytearray) -> None:
    with suppress(OSError, ValueError):
        while pipe is not None and (part := os.read(pipe.fileno(), READ_BYTES)):
            into += part[: max(0, MOST_ERRORS - len(into))]
