"""The messages to and from the agent: JSON over HTTP, on a connection that stays open.

A request holds a message, a key, and nothing that identifies the sender. No message has a field for a reward.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPException
from socket import SHUT_RDWR
from threading import Lock
from time import monotonic
from typing import Any, TypeAlias

from ldpbandits.errors import ServerError
from ldpbandits.net import UNREADABLE, ServerAddress, bearer_header, decode_json, printable, reporting_failures
from ldpbandits.types import Epsilon, Response

Message: TypeAlias = Mapping[str, str | Response | Epsilon]
"""Text and private responses may leave a device. A Reward, or a number that nobody privatised, does not fit."""

Sent: TypeAlias = tuple[str, str, bytes | None, dict[str, str]]
"""Method, path, body and headers of a request."""

Reply: TypeAlias = Mapping[str, Any]
"""The JSON object of an agent's reply, not validated yet."""

MAX_REPLY_BYTES = 1 << 20
"""Largest reply that is read: an agent must not fill the memory of a device."""

MAX_CODE_CHARACTERS = 100


class AgentConnection:
    """One connection to one agent, on which requests take turns."""

    def __init__(self, url: str, key: str, timeout: float) -> None:
        """Check the URL and the key; the first request connects. An exchange takes at most `timeout` seconds."""
        self._connection = ServerAddress.from_url(url).connection()
        self._timeout, self._key = timeout, bearer_header(key)
        self._lock = Lock()
        self._is_closed = False

    def post(self, path: str, message: Message, *, with_key: bool = True, timeout: float | None = None) -> Reply:
        """Send a message and return the reply; raise a ServerError for a refusal.

        It takes at most the timeout of this connection, or `timeout` seconds if that is less.
        """
        deadline = monotonic() + (self._timeout if timeout is None else min(timeout, self._timeout))
        headers = {**(self._key if with_key else {}), "Content-Type": "application/json"}
        return self._ask(("POST", path, json.dumps(message).encode(), headers), deadline, timeout)

    def get(self, path: str, *, past_caches: bool = False) -> Reply:
        """Return the reply at a path that needs no key; `past_caches` asks the agent itself."""
        headers = {"Cache-Control": "no-cache"} if past_caches else {}
        return self._ask(("GET", path, None, headers), monotonic() + self._timeout)

    def _ask(self, request: Sent, deadline: float, timeout: float | None = None) -> Reply:
        if timeout is not None:  # bound the wait for the requests of other threads, too
            if not self._lock.acquire(timeout=max(timeout, 0)):
                raise ServerError("the server cannot be reached: another request is still under way")
            self._lock.release()
        with self._lock, reporting_failures():  # and not by acquire(), after which an interrupt would leave it locked
            status, text = self._send(request, deadline)
        return read_reply(status, text)

    def close(self, timeout: float = 1.0) -> None:
        """Close the connection for good. Abort a request under way, and wait `timeout` seconds for its end."""
        self._is_closed = True
        has_lock = self._lock.acquire(blocking=False)
        if not has_lock:
            with suppress(OSError, AttributeError):  # it may be closed just now
                self._connection.sock.shutdown(SHUT_RDWR)
            has_lock = self._lock.acquire(timeout=timeout)
        if has_lock:
            self._connection.close()
            self._lock.release()

    def after_fork(self) -> None:
        """Reset in a child process: the connection, and the thread that held the lock, are in the parent."""
        self._lock = Lock()
        self._connection.close()

    def _send(self, request: Sent, deadline: float) -> tuple[int, bytes]:
        """Send a request; retry once when a connection that was open turns out to be dead.

        The retry is idempotent: a decision changes nothing, and an acceptance or a response counts once.
        """
        was_open = self._connection.sock is not None
        try:
            return self._exchange(request, deadline)
        except (OSError, HTTPException) as error:
            if not was_open or isinstance(error, TimeoutError):
                raise
        return self._exchange(request, deadline)

    def _exchange(self, request: Sent, deadline: float) -> tuple[int, bytes]:
        if self._is_closed:
            raise ConnectionAbortedError("this client is closed")
        is_whole = False
        try:
            with self._connection.exchange(deadline, *request) as reply:
                text = reply.read(MAX_REPLY_BYTES + 1)
                is_whole = reply.isclosed()  # else the rest of this reply would be read as the next one
        finally:
            if not is_whole:
                self._connection.close()
        return reply.status, text[:MAX_REPLY_BYTES]


def read_reply(status: int, body: bytes) -> Reply:
    """Return the reply as JSON; raise a ServerError for a refusal, and for a reply that is not a JSON object."""
    reply = decode_json(body)
    if not isinstance(reply, dict):
        raise ServerError(f"the reply ({status}) is not from an agent server", status=status, code=UNREADABLE)
    if status != HTTPStatus.OK:
        sentence, code = reply.get("message"), reply.get("code")
        reason = printable(sentence) if isinstance(sentence, str) else "unknown"
        code = printable(code)[:MAX_CODE_CHARACTERS] if isinstance(code, str) else UNREADABLE
        raise ServerError(f"the server refuses ({status}): {reason}", status=status, code=code)
    return reply
