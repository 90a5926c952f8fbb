"""Jobs of the report process of `worker.py`: it reads jobs and writes replies.

A message is its length in four bytes, then its bytes of MessagePack. The first byte of a reply tells whether the job
succeeded; if not, a sentence follows.
"""

import os
import signal
import sys
from queue import SimpleQueue
from struct import Struct as Layout
from threading import Thread
from typing import IO, TypeAlias

import msgspec

from ldpbandits.server.api.messages import Best, History, Report, Tallies
from ldpbandits.server.experiments.history import Moment
from ldpbandits.server.experiments.live import LiveExperiment
from ldpbandits.server.reports import conclusions, report
from ldpbandits.server.reports.snapshot import Snapshot

DONE, FAILED = b"\x01", b"\x00"
COMMAND = (sys.executable, "-P", "-m", "ldpbandits.server.reports.jobs")  # -P: not whatever is called so in this folder
NICENESS = 5
"""The niceness of the process relative to the server."""

_LENGTH = Layout(">I")


class ReportJob(msgspec.Struct, frozen=True, tag="report", array_like=True):
    """The report of an experiment; `before` is its moment at half of the responses."""

    of: Snapshot
    before: Moment
    forged: int


class HistoryJob(msgspec.Struct, frozen=True, tag="history", array_like=True):
    """The estimates at each of these moments."""

    of: Snapshot
    moments: list[Moment]


class TalliesJob(msgspec.Struct, frozen=True, tag="tallies", array_like=True):
    """The totals that the agent learns from."""

    of: Snapshot


class BestJob(msgspec.Struct, frozen=True, tag="best", array_like=True):
    """The best arm so far, and whether it is separated."""

    of: Snapshot


Job: TypeAlias = ReportJob | HistoryJob | TalliesJob | BestJob
Reply: TypeAlias = Report | History | Tallies | Best | None
_decoder = msgspec.msgpack.Decoder(Job)


def best(experiment: LiveExperiment) -> Best | None:
    """Return the best arm, once there is any response."""
    return conclusions.best_arm(conclusions.facts(experiment))


def do(job: bytes) -> bytes:
    """Run a job and return its reply."""
    asked = _decoder.decode(job)
    experiment = asked.of.experiment()
    reply: Reply
    match asked:
        case ReportJob():
            reply = report.make_report(experiment, asked.before, asked.forged)
        case HistoryJob():
            reply = report.make_history(experiment, asked.moments)
        case TalliesJob():
            reply = report.make_tallies(experiment)
        case BestJob():
            reply = best(experiment)
    return msgspec.msgpack.encode(reply)


def write(pipe: IO[bytes], message: bytes) -> None:
    """Write a message with its length."""
    pipe.write(_LENGTH.pack(len(message)) + message)
    pipe.flush()


def read(pipe: IO[bytes]) -> bytes:
    """Return the next message; raise EOFError at the end of the stream."""
    head = pipe.read(_LENGTH.size)
    message = pipe.read(_LENGTH.unpack(head)[0]) if len(head) == _LENGTH.size else None
    if not message:
        raise EOFError
    return message


def serve(jobs: IO[bytes], replies: IO[bytes]) -> None:
    """Run jobs until the input ends; its end cancels the running job."""
    waiting: SimpleQueue[bytes] = SimpleQueue()

    def receive() -> None:
        try:
            while True:
                waiting.put(read(jobs))
        except (EOFError, OSError):
            os._exit(0)

    Thread(target=receive, daemon=True).start()
    while True:
        try:
            reply = DONE + do(waiting.get())
        except Exception as error:  # noqa: BLE001 - the server will do it itself, and find out
            reply = FAILED + f"{type(error).__name__}: {error}".encode()
        write(replies, reply)


def main() -> None:
    """Run jobs from stdin to stdout, which nothing else may use."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # a signal is meant for the server, which ends this process
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    with os.fdopen(os.dup(sys.stdin.fileno()), "rb") as jobs, os.fdopen(os.dup(sys.stdout.fileno()), "wb") as replies:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        serve(jobs, replies)


if __name__ == "__main__":
    main()
