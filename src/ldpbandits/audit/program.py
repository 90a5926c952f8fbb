"""A program as a suspect: it reads one reward a line and writes one response a line. Every run is another user.

What goes wrong is said in one line.

Writing, reading and reading errors each have a thread, so that no full pipe makes both sides wait. A program runs in a
session and a process group of its own. However it ends, all that is left in that group is ended with it. A process that
has left the group, by a setsid of its own, is let go, and is not waited for beyond the time.
"""

import os
import shlex
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import nan
from threading import Thread
from time import monotonic
from typing import IO

import numpy as np

from ldpbandits.audit.result import Reals
from ldpbandits.audit.subject import Probe, Subject, Unanswered
from ldpbandits.checks import brief
from ldpbandits.errors import ParameterError
from ldpbandits.spec.curator import CuratorSpec

TIMEOUT = 300.0
"""Seconds that one run may take, unless said otherwise."""
LINE = 64
"""Bytes that a response may take on average: more than any number."""
LEAST_OUTPUT = 1 << 16
"""Bytes that a program may write however few the rewards: a refusal takes more than a number."""
MOST_ERRORS = 1 << 16
"""Bytes that are kept of what a program writes to its errors."""
PART = 1 << 16
"""Bytes that are read at once."""


def program(command: str, *, spec: CuratorSpec | None = None, timeout: float = TIMEOUT) -> Subject:
    """Return the subject behind a command line, such as 'node my-curator.js'."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ParameterError(f"the command cannot be read: {error}") from None
    if not words:
        raise ParameterError("the command is empty")

    def ask(rewards: Sequence[float]) -> Reals:
        outcome = _run(words, rewards, timeout)
        if outcome.is_too_long:
            raise Unanswered(f"{words[0]} must write one response a line, and wrote far more")
        if outcome.code != 0:
            raise Unanswered(f"{words[0]} ended with code {outcome.code}{_last_line(outcome.errors)}")
        return _read(words[0], outcome.output, len(rewards))

    def probe(reward: float) -> Probe:
        outcome = _run(words, [reward], timeout)
        response = _number(outcome.output)
        said = f"{outcome.errors}\n{'' if response is not None else outcome.output}"
        return Probe(None if outcome.code or response is None else response, said)

    return Subject(command, ask, probe, another_user=lambda: ask, spec=spec, batch=1 << 62)


def _run(words: Sequence[str], rewards: Sequence[float], timeout: float) -> "Exchange":
    lines = "".join(f"{reward:.17g}\n" for reward in rewards)
    try:
        outcome = exchange(words, lines, timeout, most=max(LEAST_OUTPUT, LINE * len(rewards)))
    except OSError as error:
        raise ParameterError(f"{words[0]} cannot be run: {error.strerror}") from None
    if outcome.code is None:
        raise ParameterError(f"{words[0]} did not finish within {timeout:g} s (--timeout allows more)")
    return outcome


def _read(name: str, text: str, count: int) -> Reals:
    lines = text.strip().splitlines()
    if len(lines) != count:
        raise Unanswered(f"{name} must write one response a line: {count:,} rewards, {len(lines):,} responses")
    try:
        return np.array(lines, np.float64)
    except ValueError:
        bad = next((line for line in lines if _number(line) is None), "something else")
        raise Unanswered(f"{name} must write numbers, got {brief(bad)}") from None


def _number(text: str) -> float | None:
    """Return the number that a text is, NaN for 'NaN', or None."""
    if text.strip().lower() == "nan":
        return nan
    try:
        return float(text)
    except ValueError:
        return None


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return f": {lines[-1][:200]}" if lines else ""


@dataclass(frozen=True, slots=True)
class Exchange:
    """How a run of a program ended."""

    code: int | None
    """None where the program, or whoever it left its pipes to, took too long."""
    output: str
    errors: str
    is_too_long: bool
    """Whether it wrote more than was allowed."""


def exchange(words: Sequence[str], lines: str, timeout: float, most: int) -> Exchange:
    """Give a program these lines; take at most `most` bytes of output; return within `timeout` seconds."""
    until = monotonic() + timeout
    process = subprocess.Popen(  # noqa: S603 - the caller's own program
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    output, errors = bytearray(), bytearray()
    threads = [
        Thread(target=_write, args=(process.stdin, lines.encode()), daemon=True),
        Thread(target=_read_output, args=(process, process.stdout, output, most), daemon=True),
        Thread(target=_read_errors, args=(process.stderr, errors), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        code: int | None = process.wait(timeout)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        _end(process)
    for thread in threads:
        thread.join(max(0.1, until - monotonic()))
    if any(thread.is_alive() for thread in threads[1:]):
        code = None
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    text = bytes(output[:most]).decode(errors="replace")
    return Exchange(code, text, bytes(errors).decode(errors="replace"), is_too_long=len(output) > most)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a program and whatever it started that is still in its process group."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def _write(pipe: IO[bytes] | None, data: bytes) -> None:
    with suppress(OSError):  # a program need not read all
        if pipe is not None:
            with pipe:
                pipe.write(data)


def _read_output(process: "subprocess.Popen[bytes]", pipe: IO[bytes] | None, into: bytearray, most: int) -> None:
    with suppress(OSError, ValueError):
        while pipe is not None and (part := os.read(pipe.fileno(), PART)):
            into += part
            if len(into) > most:
                _end(process)
                return


def _read_errors(pipe: IO[bytes] | None, into: bytearray) -> None:
    with suppress(OSError, ValueError):
        while pipe is not None and (part := os.read(pipe.fileno(), PART)):
            into += part[: max(0, MOST_ERRORS - len(into))]
