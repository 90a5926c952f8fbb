"""The whole server below a path such as /bandits, whether or not the proxy in front takes that path off."""

import re

from starlette.types import ASGIApp, Receive, Scope, Send

from ldpbandits.checks import brief
from ldpbandits.errors import ParameterError
from ldpbandits.server.api.operations import OPERATIONS

OWN = {operation.path.split("/")[1] for operation in OPERATIONS} | {"console", "docs", "openapi.json"}
"""The first parts of our own paths: below one of them it could not be told what is the prefix."""

_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)+")


def check_prefix(given: str) -> str:
    """Return a path prefix without a slash at its end, '' for none; refuse what cannot be one."""
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
    """Return an application below a prefix; below none it is as it is."""
    return Prefixed(app, prefix) if prefix else app


class Prefixed:
    """An application below a prefix: of a request that still has it, it is taken off.

    ASGI has `root_path` for this. But a path then means one thing where a proxy has taken the prefix off and another
    where it has not, and we have no need to know the difference: every address that we give is relative.
    """

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        """Hand on to this application."""
        self._app = app
        self._raw = prefix.encode() + b"/"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on."""
        raw = scope.get("raw_path") or scope.get("path", "").encode()
        if raw.startswith(self._raw):  # as it was sent: a prefix has no character that would be written in two ways
            cut = len(self._raw) - 1
            scope = {**scope, "path": scope["path"][cut:], "raw_path": raw[cut:]}
        await self._app(scope, receive, send)
