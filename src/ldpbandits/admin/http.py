"""JSON over HTTP for whoever holds the admin or viewer key: each question is asked once, on a connection of its own.

A question is never sent twice by itself: a change whose answer was lost may have been made.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from time import monotonic
from typing import Any

from ldpbandits.checks import brief, is_number, without_controls
from ldpbandits.errors import ParameterError, ServerError
from ldpbandits.spec.protocol import Code
from ldpbandits.timely import Connection, Place, bearer

LARGEST_REPLY = 1 << 25
"""A history of 200 moments of 256 arms has some 4 MB."""

PIECE = 1 << 16
UNREACHABLE = "unreachable"
"""The code of an error that may pass: no reply, or only a part of one."""

NONSENSE = "nonsense"
"""The code of an error whose reply no agent server should give."""


class Experimenter:
    """Asks a server. A refusal is a ServerError with the server's sentence; so is a server that cannot be reached."""

    def __init__(self, url: str, key: str, timeout: float = 30.0) -> None:
        """Check the URL and the key; nothing is sent yet. The timeout, in seconds, is that of a whole exchange."""
        if not is_number(timeout) or timeout <= 0:
            raise ParameterError(f"a timeout must be finite and > 0, got {brief(timeout)}")
        self._place, self._key, self._timeout = Place.of(url), bearer(key), timeout

    def ask(self, method: str, path: str, message: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401 - JSON
        """Ask once, and return the reply."""
        try:
            body = None if message is None else json.dumps(message, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise ParameterError(f"this cannot be sent as JSON: {error}") from None
        with self._reply(method, path, body) as (reply, _):
            text = reply.read(LARGEST_REPLY + 1)
            if len(text) > LARGEST_REPLY:
                raise ServerError(f"the server's reply has more than {LARGEST_REPLY} bytes", code=NONSENSE)
            _check_whole(reply)
        return _read(reply.status, text, reply.getheader("Location"))

    def stream(self, path: str) -> Iterator[bytes]:
        """Ask for a text of any length and yield it in pieces, each of which must come within the timeout.

        A text that is broken off is an error: what was yielded before is then not all there is.
        """
        with self._reply("GET", path, None) as (reply, connection):
            if reply.status != HTTPStatus.OK:
                _read(reply.status, reply.read(LARGEST_REPLY), reply.getheader("Location"))
                raise ServerError(f"the server answers {reply.status}", status=reply.status, code=NONSENSE)
            if not reply.chunked and reply.length is None:
                raise ServerError("the server's reply has no length: nobody could tell whether it is whole")
            while piece := reply.read1(PIECE):
                yield piece
                connection.until(monotonic() + self._timeout)
            _check_whole(reply)

    @contextmanager
    def _reply(self, method: str, path: str, body: bytes | None) -> Iterator[tuple[HTTPResponse, Connection]]:
        """Send a question; yield what begins to arrive, and from where."""
        headers = {**self._key, **({} if body is None else {"Content-Type": "application/json"})}
        try:
            with closing(self._place.connection()) as connection:
                connection.until(monotonic() + self._timeout)
                connection.request(method, self._place.prefix + path, body, headers)
                with closing(connection.getresponse()) as reply:
                    yield reply, connection
        except (OSError, HTTPException, UnicodeError) as error:  # UnicodeError: a host name that cannot be one
            reason = _shown(str(getattr(error, "strerror", None) or error)) or type(error).__name__
            where = f"{self._place.host}:{self._place.port}"
            raise ServerError(f"the server at {where} cannot be reached: {reason}", code=UNREACHABLE) from None


def _check_whole(reply: HTTPResponse) -> None:
    """Refuse a reply that is shorter than it says."""
    if reply.length:
        raise ConnectionResetError("the reply was broken off")


def _read(status: int, text: bytes, location: str | None) -> Any:  # noqa: ANN401 - JSON
    """Return a reply as data, or raise what it says."""
    try:
        reply = json.loads(text)
    except (ValueError, RecursionError):  # not JSON, or nested without end
        reply = None
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES and reply is not None:
        return reply
    told = reply if isinstance(reply, dict) else {}
    sentence, code = told.get("message"), told.get("code")
    if isinstance(sentence, str) and isinstance(code, str):
        raise ServerError(_refusal(status, _shown(sentence), code), status=status, code=_shown(code))
    where = "" if location is None else f" It points to {brief(location)}."
    raise ServerError(
        f"what answers there ({status}) is no agent server: is the URL right?{where}", status=status, code=NONSENSE
    )


def _refusal(status: int, sentence: str, code: str) -> str:
    if code == Code.UNAUTHORIZED:
        return "the server does not know this key"
    return f"the server refuses ({status}): {sentence}"


def _shown(text: str) -> str:
    """Return a text of the server as it may be shown, in one line."""
    return without_controls(text[:500])
