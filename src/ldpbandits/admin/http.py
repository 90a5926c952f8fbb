"""JSON over HTTP for the holder of an admin or viewer key: each question has a connection of its own, and is sent once.

A question is never sent again by itself: a change whose answer was lost may have been made.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from http import HTTPStatus
from http.client import HTTPResponse
from time import monotonic
from typing import Any

from ldpbandits.checks import brief, is_number
from ldpbandits.errors import ParameterError, ServerError
from ldpbandits.net import (
    UNREADABLE,
    Connection,
    ServerAddress,
    bearer_header,
    decode_json,
    printable,
    reporting_failures,
)
from ldpbandits.spec.protocol import Code

MAX_REPLY_BYTES = 1 << 25
"""A history of 200 moments of 256 arms has some 4 MB."""

CHUNK_BYTES = 1 << 16


class Experimenter:
    """Asks a server. A refusal is a ServerError with the server's sentence; so is a server that cannot be reached."""

    def __init__(self, url: str, key: str, timeout: float = 30.0) -> None:
        """Check the URL and the key; send nothing yet. The timeout, in seconds, is that of a whole exchange."""
        if not is_number(timeout) or timeout <= 0:
            raise ParameterError(f"a timeout must be finite and > 0, got {brief(timeout)}")
        self._address, self._key, self._timeout = ServerAddress.from_url(url), bearer_header(key), timeout

    def ask(self, method: str, path: str, message: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401 - JSON
        """Ask once, and return the reply."""
        try:
            body = None if message is None else json.dumps(message, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise ParameterError(f"this cannot be sent as JSON: {error}") from None
        with self._exchange(method, path, body) as (reply, _):
            text = reply.read(MAX_REPLY_BYTES + 1)
            if len(text) > MAX_REPLY_BYTES:
                raise ServerError(f"the server's reply has more than {MAX_REPLY_BYTES} bytes", code=UNREADABLE)
            _check_whole(reply)
        return _read(reply.status, text, reply.getheader("Location"))

    def stream(self, path: str) -> Iterator[bytes]:
        """Ask for a text of any length and yield it in chunks, each of which must come within the timeout.

        A text that is broken off is an error: what was yielded before is then not all there is.
        """
        with self._exchange("GET", path, None) as (reply, connection):
            if reply.status != HTTPStatus.OK:
                _read(reply.status, reply.read(MAX_REPLY_BYTES), reply.getheader("Location"))
                raise ServerError(f"the server answers {reply.status}", status=reply.status, code=UNREADABLE)
            if not reply.chunked and reply.length is None:
                raise ServerError("the server's reply has no length, so that a truncated one would go unnoticed")
            while chunk := reply.read1(CHUNK_BYTES):
                yield chunk
                connection.set_deadline(monotonic() + self._timeout)
            _check_whole(reply)

    @contextmanager
    def _exchange(self, method: str, path: str, body: bytes | None) -> Iterator[tuple[HTTPResponse, Connection]]:
        """Send a question; yield the reply as it begins to arrive, and its connection."""
        headers = {**self._key, **({} if body is None else {"Content-Type": "application/json"})}
        deadline = monotonic() + self._timeout
        with (
            reporting_failures(f"the server at {self._address.host}:{self._address.port}"),
            closing(self._address.connection()) as connection,
            connection.exchange(deadline, method, path, body, headers) as reply,
        ):
            yield reply, connection


def _check_whole(reply: HTTPResponse) -> None:
    """Refuse a reply that is shorter than it says."""
    if reply.length:
        raise ConnectionResetError("the reply was truncated")


def _read(status: int, text: bytes, location: str | None) -> Any:  # noqa: ANN401 - JSON
    """Return a reply as data, or raise what it says."""
    reply = decode_json(text)
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES and reply is not None:
        return reply
    told = reply if isinstance(reply, dict) else {}
    sentence, code = told.get("message"), told.get("code")
    if isinstance(sentence, str) and isinstance(code, str):
        raise ServerError(_refusal(status, printable(sentence), code), status=status, code=printable(code))
    target = "" if location is None else f" It points to {brief(location)}."
    raise ServerError(
        f"the reply ({status}) is not from an agent server: check the URL.{target}", status=status, code=UNREADABLE
    )


def _refusal(status: int, sentence: str, code: str) -> str:
    if code == Code.UNAUTHORIZED:
        return "the server does not know this key"
    return f"the server refuses ({status}): {sentence}"
