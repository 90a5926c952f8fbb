"""JSON over HTTP, on a connection that stays open. It sends a message, a key, and nothing that tells who sends it."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from io import BufferedReader, RawIOBase
from socket import socket
from threading import Lock
from time import monotonic
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit

from ldpbandits.checks import brief
from ldpbandits.errors import ParameterError, ServerError
from ldpbandits.types import Epsilon, Response

LARGEST_REPLY = 1 << 20
NONSENSE = "nonsense"
"""The code of an error whose reply no agent should give."""

Message: TypeAlias = Mapping[str, str | Response | Epsilon]
"""What may leave a device: text, and private responses. A Reward, or a number that nobody privatised, does not fit."""


class _Until(RawIOBase):
    """A file of what a socket receives until a moment; to read from it later is a timeout."""

    def __init__(self, sock: socket, moment: float) -> None:
        self._socket, self._moment = sock, moment

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]
        left = self._moment - monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._socket.settimeout(left)
        return self._socket.recv_into(buffer)


class _Timely(HTTPResponse):
    """A reply that must arrive as a whole within the socket's timeout: no server holds us by a byte now and then."""

    def __init__(self, sock: socket, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as HTTPResponse takes them
        super().__init__(sock, *args, **kwargs)
        self._keeps_open = self.fp  # while this is open, so is the socket, even when the connection is closed
        self.fp = BufferedReader(_Until(sock, monotonic() + (sock.gettimeout() or 0)))

    def _close_conn(self) -> None:
        super()._close_conn()  # type: ignore[misc]
        self._keeps_open.close()


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
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._connection = kind(parts.hostname, port, timeout=timeout)
        self._connection.response_class = _Timely
        self._timeout = timeout
        self._path = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self._lock = Lock()

    def post(self, path: str, message: Message) -> Mapping[str, Any]:
        """Send a message and return the reply; a refusal is raised."""
        with self._lock:
            status, body = self._ask(self._path + path, json.dumps(message).encode())
        try:
            reply = json.loads(body)
        except (ValueError, RecursionError):  # not JSON, or nested without end
            reply = None
        if not isinstance(reply, dict):
            raise ServerError(f"the server's reply ({status}) is not an agent's", status=status, code=NONSENSE)
        if status != HTTPStatus.OK:
            texts = (reply.get(name) for name in ("message", "code"))
            sentence, code = (text if isinstance(text, str) else "unknown" for text in texts)
            raise ServerError(f"the server refuses ({status}): {sentence[:500]}", status=status, code=code[:100])
        return reply

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()

    def after_fork(self) -> None:
        """Start anew in a child process: the connection, and whoever held the lock, are in the parent."""
        self._lock = Lock()
        self._connection.close()

    def _ask(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Send a request; send it again when a connection that was open turns out to be dead.

        To send it twice is safe: a decision changes nothing, and a response counts once however often it is sent.
        """
        was_open = self._connection.sock is not None
        try:
            return self._request(path, body)
        except (OSError, HTTPException, UnicodeError) as error:  # UnicodeError: a host name that cannot be one
            self._connection.close()
            if not was_open or isinstance(error, TimeoutError):
                raise ServerError(f"the server cannot be reached: {_reason(error)}") from None
        try:
            return self._request(path, body)
        except (OSError, HTTPException) as error:
            self._connection.close()
            raise ServerError(f"the server cannot be reached: {_reason(error)}") from None

    def _request(self, path: str, body: bytes) -> tuple[int, bytes]:
        if self._connection.sock is not None:
            self._connection.sock.settimeout(self._timeout)  # the last reply may have left less
        self._connection.request("POST", path, body, self._headers)
        reply = self._connection.getresponse()
        text = reply.read(LARGEST_REPLY + 1)
        if not reply.isclosed():  # too long, or shorter than it says: what comes next is no reply to the next request
            self._connection.close()
        return reply.status, text[:LARGEST_REPLY]


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
