"""JSON over HTTP, kept open between requests. It sends what it is given, a key, and nothing that tells who sends it."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from threading import Lock
from typing import Any
from urllib.parse import quote, urlsplit

from ldpbandits.checks import shown
from ldpbandits.errors import ParameterError, ServerError

LARGEST_REPLY = 1 << 20


class Http:
    """One connection to one server."""

    def __init__(self, url: str, key: str, timeout: float) -> None:
        """Connect when there is something to send."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        # What HTTP would leave out or send elsewhere is refused: a user and password, a query, a fragment.
        if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc or parts.query:
            raise ParameterError(f"a server's URL looks like https://agent.example, got {shown(url)}")
        if not key or not key.isascii() or not key.isprintable():
            raise ParameterError("a key is not empty, and made of ASCII letters, digits and signs")
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._connection = kind(parts.hostname, port, timeout=timeout)
        self._path = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self._lock = Lock()

    def post(self, path: str, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the reply, or raise what the server says against it."""
        with self._lock:
            status, body = self._ask(self._path + path, json.dumps(message).encode())
        try:
            reply = json.loads(body)
        except (ValueError, RecursionError):  # not JSON, or nested without end
            reply = None
        if not isinstance(reply, dict):
            raise ServerError(f"the server's reply ({status}) is not an agent's", status=status, code="nonsense")
        if status != HTTPStatus.OK:
            said = [reply.get(name) for name in ("message", "code")]
            sentence, code = (text if isinstance(text, str) else "unknown" for text in said)
            raise ServerError(f"the server refuses ({status}): {sentence[:500]}", status=status, code=code[:100])
        return reply

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()

    def forked(self) -> None:
        """In a new process, leave the connection to the parent; who held the lock is not here to release it."""
        self._lock = Lock()
        self._connection.close()

    def _ask(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Send a request; once more when a connection that was open turns out to be dead.

        That is safe: a decision changes nothing, and a response counts once however often it is sent.
        """
        was_open = self._connection.sock is not None
        try:
            return self._request(path, body)
        except (OSError, HTTPException, UnicodeError) as error:  # the last of a host name that cannot be one
            self._connection.close()
            if not was_open or isinstance(error, TimeoutError):
                raise ServerError(f"the server cannot be reached: {_reason(error)}") from None
        try:
            return self._request(path, body)
        except (OSError, HTTPException) as error:
            self._connection.close()
            raise ServerError(f"the server cannot be reached: {_reason(error)}") from None

    def _request(self, path: str, body: bytes) -> tuple[int, bytes]:
        self._connection.request("POST", path, body, self._headers)
        reply = self._connection.getresponse()
        text = reply.read(LARGEST_REPLY + 1)
        if not reply.isclosed():  # too long, or shorter than it says: what comes next is no reply to the next request
            self._connection.close()
        return reply.status, text[:LARGEST_REPLY]


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
