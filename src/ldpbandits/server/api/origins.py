"""Lets the pages of some origins read replies, where by default those of any origin may (CORS).

Browsers enforce it, so that other sites cannot use a client key from their pages; a program can use it anyway.
"""

import re
from collections.abc import Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ldpbandits.checks import brief
from ldpbandits.errors import ParameterError

_ALLOW_ORIGIN = b"access-control-allow-origin"
_ORIGIN = re.compile(r"https?://[a-z0-9.-]+(:\d{1,5})?|https?://\[[0-9a-f:]+\](:\d{1,5})?")


def check_origins(given: Sequence[str]) -> tuple[str, ...]:
    """Return the origins; refuse one that no browser sends."""
    for origin in given:
        if not _ORIGIN.fullmatch(origin):
            shape = "https://example.org, in small letters and without a path"
            raise ParameterError(f"allowed_origins are like {shape}, got {brief(origin)}")
    return tuple(given)


def only_for(origins: Sequence[str], app: ASGIApp) -> ASGIApp:
    """Return an application whose replies only pages of these origins may read; without origins, unchanged."""
    return _Restricted(app, {origin.encode() for origin in origins}) if origins else app


class _Restricted:
    """An application that names the origin of a request where it is allowed, instead of any."""

    def __init__(self, app: ASGIApp, origins: set[bytes]) -> None:
        """Pass requests to this application."""
        self._app, self._origins = app, origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and put its origin in the place of `*`."""
        origin = next((value for name, value in scope.get("headers", ()) if name == b"origin"), b"")

        async def restrict(message: Message) -> None:
            headers = message.get("headers", ())
            if any(name.lower() == _ALLOW_ORIGIN for name, _ in headers):
                kept = [(name, value) for name, value in headers if name.lower() != _ALLOW_ORIGIN]
                named = [(_ALLOW_ORIGIN, origin)] if origin in self._origins else []
                message = {**message, "headers": [*kept, *named, (b"vary", b"Origin")]}  # caches keep one of each
            await send(message)

        await self._app(scope, receive, restrict)
