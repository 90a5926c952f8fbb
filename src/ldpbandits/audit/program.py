"""A program as a suspect: it reads one reward per line and writes one response per line. Every run is another user.

A response is a line, whatever is on it and however long it is. Errors are one line.

Rewards are written and errors are read by threads, so that no full pipe makes both sides wait. A program runs in a
session and a process group of its own. However it ends, all that is left in that group is ended with it. A process that
has left the group, by a setsid of its own, is let go, and is not waited for.

A program may also be asked interactively: each reward is sent only after the response to the one before. This assigns
standard error and response times to single responses instead of whole runs; a host that runs the program for a user
observes both. A program that buffers its responses until its input ends cannot be asked so.
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
from hashlib import sha256
from pathlib import Path
from threading import Thread
from time import monotonic, perf_counter_ns
from typing import IO

from ldpbandits.audit.target import FOREVER_S, MISSING, Died, Late, RunOutput, Target, Turn, Unanswered
from ldpbandits.checks import brief
from ldpbandits.errors import ParameterError
from ldpbandits.net import without_controls
from ldpbandits.spec.curator import CuratorSpec

SHELL_WORDS = frozenset({"|", "||", "&&", "&", ";", ">", ">>", "<", "2>", "2>&1"})
"""Words that mean something to a shell only."""
PROGRAM_AUDIT_S = 300.0
"""Seconds that an audit of a program may take, unless said otherwise."""
MAX_LINE_BYTES = 1 << 26
"""Bytes of the longest line: beyond, it is a flood and no response."""
KEPT_STDERR_BYTES = 1 << 16
"""Bytes of standard error that are kept."""
READ_BYTES = 1 << 18
"""Bytes per read of a pipe."""
MOST_HEARD = 1_000
"""Lines of output that are kept of a short run."""
CONTAINED = ("unshare", "--user", "--map-current-user", "--pid", "--fork", "--kill-child", "--")
"""Runs a program as a container does, with the process id 1."""
LIVENESS_POLL_INTERVAL_S = 0.2
"""Interval between checks of whether a silent program is alive."""
FIRST_RESPONSE_TIMEOUT_S = 5.0
"""Timeout for the first response: a program that buffers its output never sends one."""
SILENCE_S, SILENT_TURNS = 0.2, 4
"""A program is silent after the first plus the second times its slowest response; its input is closed then."""
MAX_STDERR_BYTES = 1 << 11
"""Bytes of standard error that are kept for each response."""


def program(command: str, *, spec: CuratorSpec | None = None, timeout: float = FOREVER_S) -> Target:
    """Return the target behind a command line, such as 'node my-curator.js'; a run takes `timeout` s at the most."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ParameterError(f"the command cannot be read: {error}") from None
    if not words:
        raise ParameterError("the command is empty")
    name = without_controls(words[0])
    shell = [word for word in words if word in SHELL_WORDS]
    if shell:
        raise ParameterError(f"there is no shell, so {shell[0]} is no operator: use sh -c '...', or a script")

    def ask_many(rewards: Iterable[Sequence[float]], seconds: float) -> Iterator[list[bytes]]:
        count, ending, first = 0, Ending(), b""
        asked = Asked()
        for lines in _converse(words, asked.lines(rewards), min(seconds, timeout), ending):
            room = asked.count - count
            first = first or b"".join(lines[:1]).strip()
            if any(map(bytes.strip, lines[room:])):  # blank lines at the end are no responses
                raise Unanswered(f"{_too_many(name)}{_hint(first)}")
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
        digest=_digest(words),
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


def _hint(first: bytes) -> str:
    """Say what the first line of a program that writes too many may be."""
    if first in {b"{", b"["}:
        return "; JSON that is printed over many lines must be on one"
    return "; a banner, or anything else that is no response, goes to standard error"


def _digest(words: Sequence[str]) -> str | None:
    """Return the SHA-256 of the files among these words, the program itself included; None if none can be read."""
    found, total = False, sha256()
    for word in words:
        with suppress(OSError, ValueError):
            content = Path(shutil.which(word) or word).read_bytes()
            found = True
            total.update(sha256(content).digest())
    return total.hexdigest() if found else None


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
        raise Died(f"{name} ended with code {ending.code}{told}{_last_line(bytes(ending.errors))}", got)
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
            if len(rest) > MAX_LINE_BYTES:
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
            into += part[: max(0, KEPT_STDERR_BYTES - len(into))]


@dataclass(slots=True)
class _Pipes:
    """Output and standard error of a program that were received but not consumed yet."""

    out: int
    aside: int
    said: bytearray
    beside: bytearray

    def read(self, seconds: float) -> bool:
        """Wait up to `seconds` for data and buffer it; False if none came, or the program has closed its output."""
        ready, _, _ = select.select([self.out, self.aside], [], [], max(0.0, seconds))
        is_open = bool(ready)
        for pipe, into in ((self.out, self.said), (self.aside, self.beside)):
            if pipe in ready:
                part = os.read(pipe, READ_BYTES)
                into.extend(part)
                is_open = is_open and (bool(part) or pipe == self.aside)
        return is_open

    def line(self, until: float) -> bytes | None:
        """Return the next line of output; None if it does not come before `until`."""
        while b"\n" not in self.said:
            left = until - monotonic()
            if left <= 0 or not self.read(left):
                return None
        text, _, rest = bytes(self.said).partition(b"\n")
        self.said[:] = rest
        return text

    def take_stderr(self) -> bytes:
        """Return the standard error since the last call."""
        while select.select([self.aside], [], [], 0)[0] and (part := os.read(self.aside, READ_BYTES)):
            self.beside += part
        told = bytes(self.beside[:MAX_STDERR_BYTES])
        self.beside.clear()
        return told


def ask_one_by_one(process: "subprocess.Popen[bytes]", lines: Sequence[bytes], seconds: float) -> Iterator[Turn]:
    """Send lines one at a time until all are answered, the time is up, or the program does not answer.

    A silent program may be slow. Its response is missing if it ends without one.
    """
    if process.stdin is None or process.stdout is None or process.stderr is None:
        return
    until, slowest = monotonic() + seconds, 0.0
    pipes = _Pipes(process.stdout.fileno(), process.stderr.fileno(), bytearray(), bytearray())
    patient = min(until, monotonic() + FIRST_RESPONSE_TIMEOUT_S)
    with suppress(OSError):  # the program may exit at any time
        for line in lines:
            begun = perf_counter_ns()
            os.write(process.stdin.fileno(), line)
            text = pipes.line(patient)
            is_last = text is None
            if text is None:
                has_ended = _has_ended(process, pipes, until)
                text = pipes.line(until) if has_ended else None
                if not has_ended or (text is not None and not slowest):  # then it waits for the end of its input
                    return
            took = (perf_counter_ns() - begun) / 1e9
            yield Turn(MISSING if text is None else text, pipes.take_stderr(), took)
            if is_last:
                return
            slowest = max(slowest, took)
            patient = min(until, monotonic() + SILENCE_S + SILENT_TURNS * slowest)


def _has_ended(process: "subprocess.Popen[bytes]", pipes: _Pipes, until: float) -> bool:
    """Close the input of a silent program, read on, and tell whether it ends: only then a response is missing."""
    if process.stdin is not None:
        process.stdin.close()
    until = min(until, monotonic() + FIRST_RESPONSE_TIMEOUT_S)
    while monotonic() < until and pipes.read(until - monotonic()):
        pass
    with suppress(subprocess.TimeoutExpired):
        process.wait(max(0.0, until - monotonic()))
    return process.returncode is not None
