"""The HTTP client of devices, of `Admin` and of `ldpbandits health`: an exchange has one deadline.

The deadline covers everything from the first byte sent to the last byte read, so no server holds its caller by sending
a byte now and then. The module needs the standard library alone.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from http.client import HTTP_PORT, HTTPS_PORT, HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from io import BufferedReader, RawIOBase
from socket import IPPROTO_TCP, SOCK_STREAM, TCP_NODELAY, getaddrinfo, socket
from time import monotonic
from typing import Any
from urllib.parse import quote, urlsplit

from ldpbandits.checks import brief
from ldpbandits.errors import ParameterError, ServerError

UNREACHABLE = "unreachable"
"""The code of a ServerError that may pass: no reply arrived, or only a part of one."""

UNREADABLE = "unreadable"
"""The code of a ServerError whose reply no agent server should give."""

SERVER_TEXT_CHARACTERS = 500
"""The most characters of a server's text that an error shows."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The address of a server.

    >>> ServerAddress.from_url("https://example.org/agent/").prefix
    '/agent'
    """

    is_secure: bool
    host: str
    port: int
    prefix: str
    """The start of each path: empty, or /agent for a server behind a proxy."""
    unix_socket: str | None = None
    """The file of a Unix socket, which replaces host and port."""

    @classmethod
    def from_url(cls, url: object) -> "ServerAddress":
        """Read a URL. Refuse a password, a query and a fragment, which HTTP would drop or send elsewhere."""
        try:
            parts = urlsplit(url if isinstance(url, str) else "")
            port = parts.port
        except ValueError:  # the port is not a number
            parts, port = urlsplit(""), None
        has_extras = "@" in parts.netloc or parts.query or parts.fragment
        if parts.scheme not in {"http", "https"} or not parts.hostname or has_extras:
            raise ParameterError(f"a server's URL looks like https://agent.example, got {brief(url)}")
        prefix = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")
        default_port = HTTPS_PORT if parts.scheme == "https" else HTTP_PORT
        return cls(parts.scheme == "https", parts.hostname, default_port if port is None else port, prefix)

    def connection(self) -> "Connection":
        """Return a connection, which connects with its first request."""
        connection = (_SecureConnection if self.is_secure else Connection)(self.host, self.port)
        connection.prefix, connection.unix_socket = self.prefix, self.unix_socket
        return connection


def bearer_header(key: object) -> dict[str, str]:
    """Return the header that carries a key."""
    if not isinstance(key, str) or not key or not key.isascii() or not key.isprintable():
        raise ParameterError("a key must not be empty, and is made of ASCII letters, digits and signs")
    return {"Authorization": f"Bearer {key}"}


def remaining(deadline: float) -> float:
    """Return the seconds until a deadline on `time.monotonic`; raise TimeoutError if it has passed."""
    seconds = deadline - monotonic()
    if seconds <= 0:
        raise TimeoutError("timed out")
    return seconds


@contextmanager
def reporting_failures(server: str = "the server") -> Iterator[None]:
    """Raise a ServerError for each way in which an exchange with this server fails."""
    try:
        yield
    except (OSError, HTTPException, UnicodeError) as error:  # UnicodeError: the host name cannot be encoded
        raise ServerError(f"{server} cannot be reached: {failure_reason(error)}", code=UNREACHABLE) from None


def failure_reason(error: Exception) -> str:
    """Return the message of an error, cleaned: it may contain text of the server."""
    return printable(str(getattr(error, "strerror", None) or error)) or type(error).__name__


_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that control a page or a terminal: C0, DEL, C1, ends of lines and paragraphs, direction marks."""


def has_controls(text: str) -> bool:
    r"""Tell whether a text contains control characters.

    >>> has_controls("plain, \u00fc and \u4e2d"), has_controls("\x1b[2J")
    (False, True)
    """
    return _CONTROLS.search(text) is not None


def without_controls(text: str) -> str:
    """Return an untrusted text with a question mark for each control character, safe to print."""
    return _CONTROLS.sub("?", text)


def printable(text: str) -> str:
    """Return a server's text as one short line without control characters."""
    return without_controls(text[:SERVER_TEXT_CHARACTERS])


def decode_json(body: bytes) -> Any:  # noqa: ANN401 - JSON
    """Return the JSON of a reply; None if it is invalid, or nested too deeply."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def connect(host: str, port: int, deadline: float) -> socket:
    """Connect to the first address of a host that answers; each address has its share of the remaining time."""
    failure = OSError("the host has no address")
    addresses = getaddrinfo(host, port, type=SOCK_STREAM)
    for number, (family, kind, protocol, _, address) in enumerate(addresses):
        try:
            sock = _connect_to(address, family, kind, protocol, remaining(deadline) / (len(addresses) - number))
            sock.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        except OSError as error:
            failure = error
        else:
            return sock
    raise failure


def _connect_to(address: Any, family: int, kind: int, protocol: int, timeout: float) -> socket:  # noqa: ANN401 - as socket takes it
    sock = socket(family, kind, protocol)
    try:
        sock.settimeout(timeout)
        sock.connect(address)
    except BaseException:
        sock.close()
        raise
    return sock


class Connection(HTTPConnection):
    """A connection on which each exchange ends by its deadline; without one it sends nothing."""

    deadline = 0.0
    prefix = ""
    unix_socket: str | None = None

    @property
    def response_class(self) -> "partial[_Reply]":  # type: ignore[override]
        """The class of replies, which share the deadline of this connection."""
        return partial(_Reply, self)

    @contextmanager
    def exchange(
        self, deadline: float, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] = {}
    ) -> Iterator[HTTPResponse]:
        """Send a request, and yield the reply as it begins to arrive. The deadline is one of `time.monotonic`."""
        self.set_deadline(deadline)
        self.request(method, self.prefix + path, body, headers)
        with closing(self.getresponse()) as reply:  # on errors too: an open reply keeps its socket open
            yield reply

    def set_deadline(self, deadline: float) -> None:
        """Set the deadline of all further sends and reads."""
        self.deadline = deadline
        if self.sock is not None:
            self.sock.settimeout(remaining(deadline))

    def connect(self) -> None:
        """Open the socket before the deadline, by TCP or to a Unix socket."""
        if self.unix_socket is None:
            self.sock = connect(self.host, self.port, self.deadline)
        else:
            from socket import AF_UNIX  # noqa: PLC0415 - Windows has none

            self.sock = _connect_to(self.unix_socket, AF_UNIX, SOCK_STREAM, 0, remaining(self.deadline))
        self.sock.settimeout(remaining(self.deadline))


class _SecureConnection(HTTPSConnection, Connection):
    """A connection with TLS: HTTPSConnection calls the `connect` of the next class, and wraps its socket."""


class _Received(RawIOBase):
    """A file of the bytes that a connection receives; a read after the deadline raises TimeoutError."""

    def __init__(self, connection: Connection, sock: socket) -> None:
        self._connection, self._socket = connection, sock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]
        self._socket.settimeout(remaining(self._connection.deadline))
        return self._socket.recv_into(buffer)


class _Reply(HTTPResponse):
    """A reply that must arrive as a whole before the deadline of its connection."""

    def __init__(self, connection: Connection, sock: socket, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as HTTPResponse takes them
        super().__init__(sock, *args, **kwargs)
        self._keeps_open = self.fp  # keeps the socket open even when the connection is closed
        self.fp = BufferedReader(_Received(connection, sock))

    def _close_conn(self) -> None:
        super()._close_conn()  # type: ignore[misc]
        self._keeps_open.close()
