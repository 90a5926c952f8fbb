"""Run a program on some lines and collect what it writes: at once, within a time, and no more than makes sense.

Writing, reading and reading errors each have a thread, so that no full pipe makes both sides wait. A program runs in a
session and a process group of its own. However it ends, all that is left in that group is ended with it; what has left
the group, by a setsid of its own, is let go, and is not waited for beyond the time.
"""

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread
from time import monotonic
from typing import IO

KEPT = 1 << 16
"""How much is kept of what a program writes to its errors."""


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
        Thread(target=_give, args=(process.stdin, lines.encode()), daemon=True),
        Thread(target=_take, args=(process, process.stdout, output, most), daemon=True),
        Thread(target=_keep, args=(process.stderr, errors), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        code: int | None = process.wait(timeout)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        end(process)
    for thread in threads:
        thread.join(max(0.1, until - monotonic()))
    if any(thread.is_alive() for thread in threads[1:]):
        code = None
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    read = bytes(output[:most]).decode(errors="replace")
    return Exchange(code, read, bytes(errors).decode(errors="replace"), is_too_long=len(output) > most)


def end(process: "subprocess.Popen[bytes]") -> None:
    """End a program and whatever it started that is still in its process group."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def _give(pipe: IO[bytes] | None, data: bytes) -> None:
    with suppress(OSError):  # a program need not read all
        if pipe is not None:
            with pipe:
                pipe.write(data)


def _take(process: "subprocess.Popen[bytes]", pipe: IO[bytes] | None, into: bytearray, most: int) -> None:
    with suppress(OSError, ValueError):
        while pipe is not None and (part := os.read(pipe.fileno(), KEPT)):
            into += part
            if len(into) > most:
                end(process)
                return


def _keep(pipe: IO[bytes] | None, into: bytearray) -> None:
    with suppress(OSError, ValueError):
        while pipe is not None and (part := os.read(pipe.fileno(), KEPT)):
            into += part[: max(0, KEPT - len(into))]
