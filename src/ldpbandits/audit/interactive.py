"""Interactive audit of a program: each reward is sent only after the response to the one before.

This assigns standard error and response times to single responses instead of whole runs; a host that runs the program
for a user observes both. A program that buffers its responses until its input ends cannot be audited interactively.
"""

import os
import select
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, perf_counter_ns
from typing import TYPE_CHECKING

from ldpbandits.audit.target import Turn

if TYPE_CHECKING:
    import subprocess

READ_BYTES = 1 << 16
"""Bytes per read of a pipe."""
FIRST_RESPONSE_TIMEOUT_S = 5.0
"""Timeout for the first response: a program that buffers its output never sends one."""
MAX_STDERR_BYTES = 1 << 11
"""Bytes of standard error that are kept for each response."""


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
    """Send lines one at a time until all are answered, the time is up, or the program does not answer."""
    if process.stdin is None or process.stdout is None or process.stderr is None:
        return
    until = monotonic() + seconds
    pipes = _Pipes(process.stdout.fileno(), process.stderr.fileno(), bytearray(), bytearray())
    patient = min(until, monotonic() + FIRST_RESPONSE_TIMEOUT_S)
    with suppress(OSError):  # the program may exit at any time
        for line in lines:
            begun = perf_counter_ns()
            os.write(process.stdin.fileno(), line)
            text = pipes.line(patient)
            if text is None:
                return
            yield Turn(text, pipes.take_stderr(), (perf_counter_ns() - begun) / 1e9)
            patient = until
