"""A supervisor whose workers tell their process numbers, as a program: tests of `workers` kill what they like."""

import argparse
import os
import signal
import socket
import sys
import threading
from functools import partial
from pathlib import Path

from ldpbandits.errors import DatabaseError
from ldpbandits.server.process import logs
from ldpbandits.server.process import supervisor as workers
from ldpbandits.server.process.sockets import open_listeners
from ldpbandits.server.process.supervisor import Tie, Workers

PATIENCE = 1.0


def work(folder: Path, listener: socket.socket, tie: Tie) -> None:
    """Answer each connection with this process's number, until told to stop. Files in the folder say how to fail."""
    logs.set_up("text")
    if (folder / "no-start").exists():
        raise DatabaseError("the database is gone")
    stop = threading.Event()
    is_deaf = (folder / "deaf").exists()
    signal.signal(signal.SIGTERM, signal.SIG_IGN if is_deaf else lambda *_: stop.set())
    tie.watch_parent(lambda: None if is_deaf else stop.set(), PATIENCE)
    listener.listen()
    tie.ready()
    listener.settimeout(0.05)
    held = []
    while not stop.is_set():
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            continue
        connection.sendall(f"{os.getpid()}\n".encode())
        held.append(connection)
    for connection in held:
        connection.close()


def main() -> None:
    """Supervise, and say at which port."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    logs.set_up("text")
    workers.FIRST_RESTART_DELAY_S, workers.LONGEST_RESTART_DELAY_S, workers.CONNECTION_WAIT_S = 0.05, 0.2, 0.05
    listeners = open_listeners("127.0.0.1", 0, options.workers)
    made = Workers(partial(work, options.folder), listeners, PATIENCE)
    made.on_ready = lambda: print("all are ready", file=sys.stderr, flush=True)  # noqa: T201 - to the test
    made.run(lambda: print("port", listeners[0].getsockname()[1], file=sys.stderr, flush=True))  # noqa: T201 - as above
    listeners.close()


if __name__ == "__main__":
    main()
