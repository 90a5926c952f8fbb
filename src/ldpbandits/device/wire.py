"""The messages to and from the agent: JSON over HTTP, on a connection that stays open.

A request holds a message, a key, and nothing that tells who sends it. No message has a field for a reward.
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

Reply: TypeAlias = Mapping[str, Any]
"""An agent may say anything."""

MAX_REPLY_BYTES = 1 << 20
"""An agent must not fill the memory of a device."""

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
        """Send a message and return the reply; raise a refusal.

        It takes at most the timeout of this connection, or `timeout` seconds if that is less.
        """
        deadline = monotonic() + (self._timeout if timeout is None else min(timeout, self._timeout))
        body = json.dumps(message).encode()
        headers = {**(self._key if with_key else {}), "Content-Type": "application/json"}
        if timeout is not None:  # then do not wait longer for the requests of others
            if not self._lock.acquire(timeout=max(timeout, 0)):
                raise ServerError("the server cannot be reached: another request is still under way")
            self._lock.release()
        with self._lock, reporting_failures():  # and not by acquire(), after which an interrupt would leave it locked
            status, text = self._send(path, body, headers, deadline)
        return read_reply(status, text)

    def close(self, timeout: float = 1.0) -> None:
        """Close the connection for good. A request under way is broken off, and has `timeout` seconds to end."""
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
        """Start anew in a child process: the connection, and the thread that held the lock, are in the parent."""
        self._lock = Lock()
        self._connection.close()

    def _send(self, path: str, body: bytes, headers: dict[str, str], deadline: float) -> tuple[int, bytes]:
        """Send a request; send it again when a connection that was open turns out to be dead.

        To send it twice is safe: a decision changes nothing, and a response counts once however often it is sent.
        """
        was_open = self._connection.sock is not None
        try:
            return self._exchange(path, body, headers, deadline)
        except (OSError, HTTPException) as error:
            if not was_open or isinstance(error, TimeoutError):
                raise
        return self._exchange(path, body, headers, deadline)

    def _exchange(self, path: str, body: bytes, headers: dict[str, str], deadline: float) -> tuple[int, bytes]:
        if self._is_closed:
            raise ConnectionAbortedError("this client is closed")
        is_whole = False
        try:
            with self._connection.exchange(deadline, "POST", path, body, headers) as reply:
                text = reply.read(MAX_REPLY_BYTES + 1)
                is_whole = reply.isclosed()  # else what comes next is no reply to the next request
        finally:
            if not is_whole:
                self._connection.close()
        return reply.status, text[:MAX_REPLY_BYTES]


def read_reply(status: int, body: bytes) -> Reply:
    """Return what the agent says; raise a refusal, and a reply that no agent should give."""
    reply = decode_json(body)
    if not isinstance(reply, dict):
        raise ServerError(f"the server's reply ({status}) is not an agent's", status=status, code=UNREADABLE)
    if status != HTTPStatus.OK:
        sentence, code = reply.get("message"), reply.get("code")
        said = printable(sentence) if isinstance(sentence, str) else "unknown"
        code = printable(code)[:MAX_CODE_CHARACTERS] if isinstance(code, str) else UNREADABLE
        raise ServerError(f"the server refuses ({status}): {said}", status=status, code=code)
    return reply
