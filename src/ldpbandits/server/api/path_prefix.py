"""Serves everything below a path such as /bandits, whether or not the proxy in front strips that path."""

import re

from starlette.types import ASGIApp, Receive, Scope, Send

from ldpbandits.checks import brief
from ldpbandits.errors import ParameterError
from ldpbandits.server.api.operations import OPERATIONS

OWN = {operation.path.split("/")[1] for operation in OPERATIONS} | {"about", "console", "docs", "openapi.json"}
"""The first segments of our own paths, which would be ambiguous as a prefix."""

_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)+")


def check_prefix(given: str) -> str:
    """Return a path prefix without a trailing slash, '' for none; refuse an invalid one."""
    prefix = given.rstrip("/")
    if not prefix:
        return ""
    parts = prefix.split("/")[1:]
    if not _PREFIX.fullmatch(prefix) or {".", ".."} & set(parts):
        raise ParameterError(f"a path prefix is like /bandits or /a/b, of letters, digits and -._~, got {brief(given)}")
    if parts[0] in OWN:
        raise ParameterError(f"a path prefix must not begin with a path of the server's own, /{parts[0]}")
    return prefix


def below(prefix: str, app: ASGIApp) -> ASGIApp:
    """Return an application below a prefix; without a prefix return it unchanged."""
    return Prefixed(app, prefix) if prefix else app


class Prefixed:
    """An application below a prefix, which it strips from requests that still have it.

    ASGI's `root_path` would make a path mean one thing where a proxy has stripped the prefix and another where it has
    not. We need no such difference: every address that we give is relative.
    """

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        """Pass requests to this application."""
        self._app = app
        self._raw = prefix.encode() + b"/"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Strip the prefix and pass the request on."""
        raw = scope.get("raw_path") or scope.get("path", "").encode()
        if raw.startswith(self._raw):  # as it was sent: a prefix has no character that would be written in two ways
            cut = len(self._raw) - 1
            scope = {**scope, "path": scope["path"][cut:], "raw_path": raw[cut:]}
        await self._app(scope, receive, send)
