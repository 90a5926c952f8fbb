"""A program that is asked one reward at a time: the next one is sent when the last one has its response.

So what is written to standard error, and how long it took, belongs to a response, and not to a run. Whoever runs the
program for a user hears these too. A program that holds its responses back until its input ends cannot be asked so.
"""

import os
import select
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, perf_counter_ns
from typing import TYPE_CHECKING

from ldpbandits.audit.subject import Turn

if TYPE_CHECKING:
    import subprocess

PART = 1 << 16
"""Bytes that are read at once."""
PATIENCE = 5.0
"""Seconds within which a program must have begun to respond."""
MOST_BESIDE = 1 << 11
"""Bytes beside a response that are kept."""


@dataclass(slots=True)
class _Pipes:
    """What a program has written and nobody has read yet."""

    out: int
    aside: int
    said: bytearray
    beside: bytearray

    def read(self, seconds: float) -> bool:
        """Wait so long for anything, and take it in; False if nothing came, or the program has closed its output."""
        ready, _, _ = select.select([self.out, self.aside], [], [], max(0.0, seconds))
        is_open = bool(ready)
        for pipe, into in ((self.out, self.said), (self.aside, self.beside)):
            if pipe in ready:
                part = os.read(pipe, PART)
                into.extend(part)
                is_open = is_open and (bool(part) or pipe == self.aside)
        return is_open

    def line(self, until: float) -> bytes | None:
        """Return the next line; None if none comes in time."""
        while b"\n" not in self.said:
            left = until - monotonic()
            if left <= 0 or not self.read(left):
                return None
        text, _, rest = bytes(self.said).partition(b"\n")
        self.said[:] = rest
        return text

    def aloud(self) -> bytes:
        """Return what was written to standard error since the last time."""
        while select.select([self.aside], [], [], 0)[0] and (part := os.read(self.aside, PART)):
            self.beside += part
        told = bytes(self.beside[:MOST_BESIDE])
        self.beside.clear()
        return told


def take_turns(process: "subprocess.Popen[bytes]", lines: Sequence[bytes], seconds: float) -> Iterator[Turn]:
    """Ask a program line by line, until all are answered, the time is up, or it does not answer."""
    if process.stdin is None or process.stdout is None or process.stderr is None:
        return
    until = monotonic() + seconds
    pipes = _Pipes(process.stdout.fileno(), process.stderr.fileno(), bytearray(), bytearray())
    patient = min(until, monotonic() + PATIENCE)
    with suppress(OSError):  # a program may end when it likes
        for line in lines:
            begun = perf_counter_ns()
            os.write(process.stdin.fileno(), line)
            text = pipes.line(patient)
            if text is None:
                return
            yield Turn(text, pipes.aloud(), (perf_counter_ns() - begun) / 1e9)
            patient = until
