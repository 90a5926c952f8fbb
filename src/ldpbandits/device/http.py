"""JSON over HTTP, on a connection that stays open. It sends a message, a key, and nothing that tells who sends it."""

import json
from contextlib import closing, suppress
from http import HTTPStatus
from http.client import HTTPException
from socket import SHUT_RDWR
from threading import Lock
from time import monotonic

from ldpbandits.checks import without_controls
from ldpbandits.device.exchange import Message, Reply
from ldpbandits.errors import ServerError
from ldpbandits.timely import Place, bearer

LARGEST_REPLY = 1 << 20
NONSENSE = "nonsense"
"""The code of an error whose reply no agent should give."""


class Http:
    """One connection to one server."""

    def __init__(self, url: str, key: str, timeout: float) -> None:
        """Check the URL and the key; the connection is made when there is something to send."""
        place = Place.of(url)
        self._connection, self._path = place.connection(), place.prefix
        self._timeout, self._key = timeout, bearer(key)
        self._lock = Lock()
        self._is_closed = False

    def post(self, path: str, message: Message, *, with_key: bool = True, patience: float | None = None) -> Reply:
        """Send a message and return the reply; a refusal is raised.

        It takes as long as the timeout at the most, or as `patience` if that is less, in seconds.
        """
        moment = monotonic() + (self._timeout if patience is None else min(patience, self._timeout))
        body, headers = written(message, self._key if with_key else {})
        if patience is not None:  # then do not wait for others beyond it
            if not self._lock.acquire(timeout=max(patience, 0)):
                raise ServerError("the server cannot be reached: another request is still under way")
            self._lock.release()
        with self._lock:  # and not by acquire(), after which an interrupt would leave it locked
            status, text = self._ask(self._path + path, body, headers, moment)
        return read_reply(status, text)

    def close(self, patience: float = 1.0) -> None:
        """Close the connection, for good. A request that is under way is broken off, and has so many seconds to end."""
        self._is_closed = True
        has_lock = self._lock.acquire(blocking=False)
        if not has_lock:
            with suppress(OSError, AttributeError):  # it may be closed just now
                self._connection.sock.shutdown(SHUT_RDWR)
            has_lock = self._lock.acquire(timeout=patience)
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
                raise ServerError(f"the server cannot be reached: {reason(error)}") from None
        try:
            return self._request(path, body, headers, moment)
        except (OSError, HTTPException) as error:
            self._connection.close()
            raise ServerError(f"the server cannot be reached: {reason(error)}") from None

    def _request(self, path: str, body: bytes, headers: dict[str, str], moment: float) -> tuple[int, bytes]:
        if self._is_closed:
            raise ConnectionAbortedError("this client is closed")
        self._connection.until(moment)
        self._connection.request("POST", path, body, headers)
        with closing(self._connection.getresponse()) as reply:  # on errors too: its socket is open as long as it is
            text = reply.read(LARGEST_REPLY + 1)
            if not reply.isclosed():  # too long, or shorter than it says: what comes next is no reply to the next one
                self._connection.close()
        return reply.status, text[:LARGEST_REPLY]


def written(message: Message, key: dict[str, str]) -> tuple[bytes, dict[str, str]]:
    """Return the body of a request and its headers: nothing beside the message and the key tells who sends it."""
    return json.dumps(message).encode(), {**key, "Content-Type": "application/json"}


def read_reply(status: int, body: bytes) -> Reply:
    """Return what the server says; a refusal is raised, and so is what no agent should say."""
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


def reason(error: Exception) -> str:
    """Return why a server cannot be reached, in the words of the error, which may be the server's."""
    return without_controls(str(getattr(error, "strerror", None) or error))[:500] or type(error).__name__
