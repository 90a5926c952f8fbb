"""HTTP connections on which an exchange has one deadline, from the first byte that is sent to the last that is read.

No server holds its caller by a byte now and then. It needs the standard library alone.
"""

from dataclasses import dataclass
from functools import partial
from http.client import HTTP_PORT, HTTPS_PORT, HTTPConnection, HTTPResponse, HTTPSConnection
from io import BufferedReader, RawIOBase
from socket import IPPROTO_TCP, SOCK_STREAM, TCP_NODELAY, getaddrinfo, socket
from time import monotonic
from typing import Any
from urllib.parse import quote, urlsplit

from ldpbandits.checks import brief
from ldpbandits.errors import ParameterError


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server is.

    >>> Place.of("https://example.org/agent/").prefix
    '/agent'
    """

    is_secure: bool
    host: str
    port: int
    prefix: str
    """What stands before each path: nothing, or /agent of a server behind a proxy."""

    @classmethod
    def of(cls, url: object) -> "Place":
        """Read a URL. What HTTP would leave out or send elsewhere is refused: a password, a query, a fragment."""
        try:
            parts = urlsplit(url if isinstance(url, str) else "")
            port = parts.port
        except ValueError:  # a port that is none
            parts, port = urlsplit(""), None
        odd = "@" in parts.netloc or parts.query or parts.fragment
        if parts.scheme not in {"http", "https"} or not parts.hostname or odd:
            raise ParameterError(f"a server's URL looks like https://agent.example, got {brief(url)}")
        prefix = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")
        usual = HTTPS_PORT if parts.scheme == "https" else HTTP_PORT
        return cls(parts.scheme == "https", parts.hostname, usual if port is None else port, prefix)

    def connection(self) -> "Connection":
        """Return a connection, which is made when there is something to send."""
        return (_Secure if self.is_secure else Connection)(self.host, self.port)


def bearer(key: object) -> dict[str, str]:
    """Return the header that carries a key."""
    if not isinstance(key, str) or not key or not key.isascii() or not key.isprintable():
        raise ParameterError("a key must not be empty, and is made of ASCII letters, digits and signs")
    return {"Authorization": f"Bearer {key}"}


def left(moment: float) -> float:
    """Return the seconds until a moment of `time.monotonic`, or say that it has passed."""
    seconds = moment - monotonic()
    if seconds <= 0:
        raise TimeoutError("timed out")
    return seconds


def connect(host: str, port: int, moment: float) -> socket:
    """Connect to the first address of a host that answers; each has its part of the time until the moment."""
    failure = OSError("the host has no address")
    addresses = getaddrinfo(host, port, type=SOCK_STREAM)
    for number, (family, kind, protocol, _, address) in enumerate(addresses):
        sock = socket(family, kind, protocol)
        try:
            sock.settimeout(left(moment) / (len(addresses) - number))
            sock.connect(address)
            sock.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
            sock.settimeout(left(moment))
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure


class Connection(HTTPConnection):
    """A connection on which everything is over at a moment: say by `until` when that is, before each exchange."""

    moment = 0.0

    @property
    def response_class(self) -> "partial[_Reply]":  # type: ignore[override]
        """What reads a reply: within the same time."""
        return partial(_Reply, self)

    def until(self, moment: float) -> None:
        """Let what comes now be over at this moment of `time.monotonic`."""
        self.moment = moment
        if self.sock is not None:
            self.sock.settimeout(left(moment))

    def connect(self) -> None:
        """Connect before the moment."""
        self.sock = connect(self.host, self.port, self.moment)


class _Secure(HTTPSConnection, Connection):
    """As above, with TLS around it: HTTPSConnection calls the `connect` of what comes after it."""


class _Received(RawIOBase):
    """A file of what a connection receives before its moment; to read from it later is a timeout."""

    def __init__(self, connection: Connection, sock: socket) -> None:
        self._connection, self._socket = connection, sock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]
        self._socket.settimeout(left(self._connection.moment))
        return self._socket.recv_into(buffer)


class _Reply(HTTPResponse):
    """A reply that must arrive as a whole before the moment of its connection."""

    def __init__(self, connection: Connection, sock: socket, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as HTTPResponse takes them
        super().__init__(sock, *args, **kwargs)
        self._keeps_open = self.fp  # while this is open, so is the socket, even when the connection is closed
        self.fp = BufferedReader(_Received(connection, sock))

    def _close_conn(self) -> None:
        super()._close_conn()  # type: ignore[misc]
        self._keeps_open.close()
