"""JSON over HTTP, on a connection that stays open. It sends a message, a key, and nothing that tells who sends it.

An exchange has one deadline, from the first byte that is sent to the last that is read: no server holds a device by a
byte now and then.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from io import BufferedReader, RawIOBase
from socket import IPPROTO_TCP, SHUT_RDWR, SOCK_STREAM, TCP_NODELAY, getaddrinfo, socket
from threading import Lock
from time import monotonic
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit

from ldpbandits.checks import brief, without_controls
from ldpbandits.errors import ParameterError, ServerError
from ldpbandits.types import Epsilon, Response

LARGEST_REPLY = 1 << 20
NONSENSE = "nonsense"
"""The code of an error whose reply no agent should give."""

Message: TypeAlias = Mapping[str, str | Response | Epsilon]
"""What may leave a device: text, and private responses. A Reward, or a number that nobody privatised, does not fit."""


def _left(moment: float) -> float:
    """Return the seconds until a moment, or say that it has passed."""
    left = moment - monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left


class _Until(RawIOBase):
    """A file of what a socket receives until a moment; to read from it later is a timeout."""

    def __init__(self, sock: socket, moment: float) -> None:
        self._socket, self._moment = sock, moment

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]
        self._socket.settimeout(_left(self._moment))
        return self._socket.recv_into(buffer)


class _Timely(HTTPResponse):
    """A reply that must arrive as a whole before a moment."""

    def __init__(self, moment: float, sock: socket, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as HTTPResponse takes them
        super().__init__(sock, *args, **kwargs)
        self._keeps_open = self.fp  # while this is open, so is the socket, even when the connection is closed
        self.fp = BufferedReader(_Until(sock, moment))

    def _close_conn(self) -> None:
        super()._close_conn()  # type: ignore[misc]
        self._keeps_open.close()


def connect(host: str, port: int, moment: float) -> socket:
    """Connect to the first address of a host that answers; each has its part of the time until the moment."""
    failure = OSError("the host has no address")
    addresses = getaddrinfo(host, port, type=SOCK_STREAM)
    for number, (family, kind, protocol, _, address) in enumerate(addresses):
        sock = socket(family, kind, protocol)
        try:
            sock.settimeout(_left(moment) / (len(addresses) - number))
            sock.connect(address)
            sock.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
            sock.settimeout(_left(moment))
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure


class _Connection(HTTPConnection):
    moment = 0.0
    """When the exchange must be over."""

    def connect(self) -> None:
        self.sock = connect(self.host, self.port, self.moment)


class _SecureConnection(HTTPSConnection, _Connection):
    """As above, with TLS around it: HTTPSConnection calls the `connect` of what comes after it."""


class Http:
    """One connection to one server."""

    def __init__(self, url: str, key: str, timeout: float) -> None:
        """Check the URL and the key; the connection is made when there is something to send."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        # What HTTP would leave out or send elsewhere is refused: a user and password, a query, a fragment.
        if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc or parts.query:
            raise ParameterError(f"a server's URL looks like https://agent.example, got {brief(url)}")
        if not key or not key.isascii() or not key.isprintable():
            raise ParameterError("a key is not empty, and made of ASCII letters, digits and signs")
        kind = _SecureConnection if parts.scheme == "https" else _Connection
        self._connection: _Connection = kind(parts.hostname, port)
        self._timeout = timeout
        self._path = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")
        self._key = {"Authorization": f"Bearer {key}"}
        self._lock = Lock()
        self._is_closed = False

    def post(
        self, path: str, message: Message, *, with_key: bool = True, patience: float | None = None
    ) -> Mapping[str, Any]:
        """Send a message and return the reply; a refusal is raised.

        It takes as long as the timeout at the most, or as `patience` if that is less, in seconds.
        """
        moment = monotonic() + (self._timeout if patience is None else min(patience, self._timeout))
        headers = {**(self._key if with_key else {}), "Content-Type": "application/json"}
        if patience is not None:  # then do not wait for others beyond it
            if not self._lock.acquire(timeout=max(patience, 0)):
                raise ServerError("the server cannot be reached: another request is still under way")
            self._lock.release()
        with self._lock:  # and not by acquire(), after which an interrupt would leave it locked
            status, body = self._ask(self._path + path, json.dumps(message).encode(), headers, moment)
        try:
            reply = json.loads(body)
        except (ValueError, RecursionError):  # not JSON, or nested without end
            reply = None
        if not isinstance(reply, dict):
            raise ServerError(f"the server's reply ({status}) is not an agent's", status=status, code=NONSENSE)
        if status != HTTPStatus.OK:
            texts = (reply.get(name) for name in ("message", "code"))
            sentence, code = (without_controls(text[:500]) if isinstance(text, str) else "unknown" for text in texts)
            raise ServerError(f"the server refuses ({status}): {sentence}", status=status, code=code[:100])
        return reply

    def close(self) -> None:
        """Close the connection, for good. A request that is under way is broken off."""
        self._is_closed = True
        has_lock = self._lock.acquire(blocking=False)
        if not has_lock:
            with suppress(OSError, AttributeError):  # it may be closed just now
                self._connection.sock.shutdown(SHUT_RDWR)
            has_lock = self._lock.acquire(timeout=1)
        if has_lock:
            self._connection.close()
            self._lock.release()

    def after_fork(self) -> None:
        """Start anew in a child process: the connection, and whoever held the lock, are in the parent."""
        self._lock = Lock()
        self._connection.close()

    def _ask(self, path: str, body: bytes, headers: dict[str, str], moment: float) -> tuple[int, bytes]:
        """Send a request; send it again when a connection that was open turns out to be dead.

        To send it twice is safe: a decision changes nothing, and a response counts once however often it is sent.
        """
        was_open = self._connection.sock is not None
        try:
            return self._request(path, body, headers, moment)
        except (OSError, HTTPException, UnicodeError) as error:  # UnicodeError: a host name that cannot be one
            self._connection.close()
            if not was_open or isinstance(error, TimeoutError):
                raise ServerError(f"the server cannot be reached: {_reason(error)}") from None
        try:
            return self._request(path, body, headers, moment)
        except (OSError, HTTPException) as error:
            self._connection.close()
            raise ServerError(f"the server cannot be reached: {_reason(error)}") from None

    def _request(self, path: str, body: bytes, headers: dict[str, str], moment: float) -> tuple[int, bytes]:
        if self._is_closed:
            raise ConnectionAbortedError("this client is closed")
        self._connection.moment = moment
        self._connection.response_class = partial(_Timely, moment)  # type: ignore[assignment]
        if self._connection.sock is not None:
            self._connection.sock.settimeout(_left(moment))
        self._connection.request("POST", path, body, headers)
        reply = self._connection.getresponse()
        text = reply.read(LARGEST_REPLY + 1)
        if not reply.isclosed():  # too long, or shorter than it says: what comes next is no reply to the next request
            self._connection.close()
        return reply.status, text[:LARGEST_REPLY]


def _reason(error: Exception) -> str:
    return without_controls(str(error))[:500] or type(error).__name__
