"""How evenly connections fall on workers: one socket that all listen on, or a socket for each (SO_REUSEPORT).

Each worker is a process with uvloop that answers every byte with its own number. 128 connections are made at once, and
then 128 one after the other; then how many each worker has is counted, and how long a byte takes there and back while
all of them are asked without a pause.
"""

import asyncio
import os
import socket
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from typing import cast

import uvloop

CONNECTIONS = 128
REPEATS = 10


class Number(asyncio.Protocol):
    """Answers with the number of this process."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep where to answer."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, _: bytes) -> None:
        """Work for about 100 us, as for a request, and answer."""
        sum(range(5000))
        self._transport.write(b"%08d" % os.getpid())


def work(listener: socket.socket) -> None:
    """Be a worker, until killed."""

    async def serve() -> None:
        await (await asyncio.get_running_loop().create_server(Number, sock=listener)).serve_forever()

    uvloop.run(serve())


def listeners(count: int, *, is_shared: bool) -> list[socket.socket]:
    """Return a socket for each worker: all of them one, or each its own at one port."""
    if is_shared:
        return [socket.create_server(("127.0.0.1", 0), backlog=2048)] * count
    first = socket.create_server(("127.0.0.1", 0), backlog=2048, reuse_port=True)
    rest = [socket.create_server(first.getsockname(), backlog=2048, reuse_port=True) for _ in range(count - 1)]
    return [first, *rest]


def ask(connection: socket.socket) -> tuple[int, float]:
    """Return who answers, and after how long."""
    start = time.perf_counter()
    connection.sendall(b"?")
    return int(connection.recv(8)), time.perf_counter() - start


def connect(address: tuple[str, int], *, at_once: bool) -> list[socket.socket]:
    """Make the connections."""
    if not at_once:
        return [socket.create_connection(address) for _ in range(CONNECTIONS)]
    made = [socket.socket() for _ in range(CONNECTIONS)]
    for each in made:
        each.setblocking(False)  # noqa: FBT003 - as it is called
        each.connect_ex(address)
    for each in made:
        each.setblocking(True)  # noqa: FBT003 - as it is called
    return made


def shares(address: tuple[str, int], *, at_once: bool) -> tuple[list[float], list[float]]:
    """Return, for each repeat, the share of the worker that has most; and the times of replies under load."""
    most, times = [], []
    for _ in range(REPEATS):
        made = connect(address, at_once=at_once)
        found = Counter(ask(each)[0] for each in made)
        most.append(max(found.values()) / CONNECTIONS)
        with ThreadPoolExecutor(8) as crowd:
            for took in crowd.map(lambda each: [ask(each)[1] for _ in range(5)], made):
                times += took
        for each in made:
            each.close()
        time.sleep(0.2)
    return most, times


def measure(workers: int, *, is_shared: bool) -> None:
    """Print a line for each way of connecting."""
    with ExitStack() as stack:
        sockets = listeners(workers, is_shared=is_shared)
        for each in set(sockets):
            stack.enter_context(each)
        processes = [get_context("spawn").Process(target=work, args=(each,)) for each in sockets]
        for process in processes:
            process.start()
            stack.callback(process.join)
            stack.callback(process.kill)
        address = sockets[0].getsockname()
        time.sleep(2)
        for at_once in (True, False):
            most, times = shares(address, at_once=at_once)
            print(
                f"{workers} workers, {'one socket    ' if is_shared else 'a socket each '}, "
                f"{'at once   ' if at_once else 'one by one'}: the fullest has {sum(most) / len(most):.0%} "
                f"(worst {max(most):.0%}; even is {1 / workers:.0%}), reply p99 {percentile(times, 0.99) * 1e3:.1f} ms"
            )


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which this share of them is."""
    return sorted(values)[int(share * (len(values) - 1))]


if __name__ == "__main__":
    for number in (2, 4):
        for together in (True, False):
            measure(number, is_shared=together)
