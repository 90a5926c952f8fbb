"""JSON over HTTP, kept open between requests. It sends what it is given, a key, and nothing that tells who sends it."""

import json
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from ldpbandits.checks import shown
from ldpbandits.errors import ParameterError, ServerError

LARGEST_REPLY = 1 << 20


class Http:
    """One connection to one server."""

    def __init__(self, url: str, key: str, timeout: float) -> None:
        """Connect when there is something to send."""
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ParameterError(f"a server's URL looks like https://agent.example, got {shown(url)}")
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=timeout)
        self._path = parts.path.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self._lock = Lock()

    def post(self, path: str, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the reply, or raise what the server says against it."""
        with self._lock:
            status, body = self._ask(self._path + path, json.dumps(message).encode())
        try:
            reply = json.loads(body)
        except ValueError:
            reply = None
        if not isinstance(reply, dict):
            reply = {}
            status = status if status >= 400 else 502  # noqa: PLR2004 - a success that says nothing is none
        if status >= 400:  # noqa: PLR2004 - HTTP's errors
            sentence = str(reply.get("message", "no reason given"))[:500]
            code = str(reply.get("code", "unknown"))[:100]
            raise ServerError(f"the server refuses ({status}): {sentence}", status=status, code=code)
        return reply

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()

    def _ask(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Send a request; once more when a connection that was open turns out to be dead.

        That is safe: a decision changes nothing, and a response counts once however often it is sent.
        """
        was_open = self._connection.sock is not None
        try:
            return self._request(path, body)
        except (OSError, HTTPException) as error:
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
        if len(text) > LARGEST_REPLY:
            raise HTTPException("the reply is too large")
        return reply.status, text


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
