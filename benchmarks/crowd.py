"""A crowd that asks a server as fast as it answers, and how much processor time that costs whom."""

import asyncio
import secrets
import time
from collections.abc import Iterable, Iterator
from http.client import HTTPConnection
from itertools import cycle
from typing import NamedTuple, cast

import msgspec
import psutil

from ldpbandits.server.experiments.tickets import Signer, Ticket, new_nonce
from ldpbandits.types import Arm

KEYS = {
    "LDPBANDITS_ADMIN_KEY": "admin-" + secrets.token_urlsafe(24),
    "LDPBANDITS_VIEWER_KEY": "viewer-" + secrets.token_urlsafe(24),
    "LDPBANDITS_CLIENT_KEY": "client-" + secrets.token_urlsafe(24),
    "LDPBANDITS_SIGNING_SECRET": secrets.token_urlsafe(32),
}
ARMS = 10
EXPERIMENT = {
    "name": "bench",
    "arms": [f"arm {number}" for number in range(ARMS)],
    "curator": {"mechanism": "bernoulli", "epsilon": 1},
    "responses_per_hour": 0,
}


class Measured(NamedTuple):
    """Replies a second, and the microseconds of processor time that each cost, by who spent them."""

    rate: float
    cpu: tuple[float, ...] = ()


class Connection(asyncio.Protocol):
    """Sends a request, waits for its reply, sends the next."""

    def __init__(self, requests: Iterator[bytes], count: list[int]) -> None:
        """Take requests from here; count the replies there."""
        self._requests, self._count, self._data = requests, count, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        """Take a reply; anything but success ends the run."""
        self._data += data
        head, separator, body = self._data.partition(b"\r\n\r\n")
        if not separator or len(body) < int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]):
            return
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(self._data.decode())
        self._data = b""
        self._count[0] += 1
        request = next(self._requests, None)
        if request is None:
            raise SystemExit("the crowd has nothing more to send: what it measured would be too low")
        self._transport.write(request)


def _request(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEYS['LDPBANDITS_CLIENT_KEY']}\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def responses(identity: bytes, count: int) -> Iterator[bytes]:
    """Responses to so many new tickets, made beforehand: the crowd's own work is not what is measured."""
    return _of_tickets(identity, count, "/v1/responses", b'{"ticket": "%s", "response": 1}')


def acceptances(identity: bytes, count: int) -> Iterator[bytes]:
    """Acceptances of so many new tickets, made beforehand."""
    return _of_tickets(identity, count, "/v1/acceptances", b'{"ticket": "%s"}')


def _of_tickets(identity: bytes, count: int, path: str, message: bytes) -> Iterator[bytes]:
    signer = Signer.of_list([KEYS["LDPBANDITS_SIGNING_SECRET"].encode()], identity)
    expires_at = int(time.time()) + 3600
    tickets = [signer.sign(Ticket(1, Arm(number % ARMS), expires_at, new_nonce())) for number in range(count)]
    return iter([_request(path, message % ticket.encode()) for ticket in tickets])


def offers() -> Iterator[bytes]:
    """Questions for the offer."""
    return cycle([b"GET /v1/experiments/bench/offer HTTP/1.1\r\nHost: x\r\n\r\n"])


def decisions() -> Iterator[bytes]:
    """Decisions."""
    return cycle([_request("/v1/experiments/bench/decisions", b"{}")])


def greetings() -> Iterator[bytes]:
    """The same size of message, to hello-world."""
    return cycle([_request("/", b'{"ticket": "%s", "response": 1}' % (b"x" * 64))])


async def measure(
    port: int, requests: Iterator[bytes], seconds: float, connections: int, who: Iterable[psutil.Process] = ()
) -> Measured:
    """Ask for so many seconds over so many connections; return the rate, and what it cost each of `who`."""
    loop, count = asyncio.get_running_loop(), [0]
    made = [
        await loop.create_connection(lambda: Connection(requests, count), "127.0.0.1", port) for _ in range(connections)
    ]
    await asyncio.sleep(seconds / 10)  # warm
    processes = list(who)
    earlier, before, start = [spent(process) for process in processes], count[0], time.perf_counter()
    await asyncio.sleep(seconds)
    answered, took = count[0] - before, time.perf_counter() - start
    cpu = [1e6 * (spent(process) - then) / answered for process, then in zip(processes, earlier, strict=True)]
    for transport, _ in made:
        transport.abort()
    await asyncio.sleep(0.2)
    return Measured(answered / took, tuple(cpu))


def spent(process: psutil.Process) -> float:
    """Return the seconds of processor time of a process and its children."""
    everybody = [process, *process.children(recursive=True)]
    return float(sum(sum(each.cpu_times()[:2]) for each in everybody))


def create(port: int) -> None:
    """Create the experiment."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Authorization": f"Bearer {KEYS['LDPBANDITS_ADMIN_KEY']}"}
    connection.request("POST", "/v1/experiments", msgspec.json.encode(EXPERIMENT), headers)
    reply = connection.getresponse()
    if reply.status != 201:  # noqa: PLR2004 - created
        raise SystemExit(reply.read().decode())
    connection.close()
