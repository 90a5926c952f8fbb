"""Sign-in by a proxy in front that knows who somebody is, as by OpenID Connect: it sends the name in a header.

Anybody can send a header. The proxy therefore sends a secret beside it, and a request without the secret has no name.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING

from ldpbandits.checks import brief
from ldpbandits.errors import ParameterError
from ldpbandits.server.keys import HOLDER_PATTERN, RESERVED_NAMES, Holder, Keys, Role

if TYPE_CHECKING:
    from starlette.datastructures import Headers

PROXY_SECRET_VARIABLE = "LDPBANDITS_PROXY_SECRET"  # noqa: S105 - the name of a variable
SECRET_HEADER = "x-ldpbandits-proxy-secret"  # noqa: S105 - the name of a header
SHORTEST_PROXY_SECRET = 32
"""Minimum characters: its holder can be anybody."""

DEFAULT_ROLES = ("none", "viewer", "admin")
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,99}")
_OWN = {SECRET_HEADER, "authorization", "cookie", "host", "origin"}
"""Headers that browsers or our own clients send."""

_NAME = re.compile(HOLDER_PATTERN)


@dataclass(frozen=True)
class ProxySignIn:
    """The header that has the name, the secret beside it, and the role of a name without a key of its own."""

    header: str
    secret: str = field(repr=False)
    default_role: Role | None = None

    @classmethod
    def of(cls, header: str, default_role: str, secrets: Mapping[str, str]) -> "ProxySignIn | None":
        """Check the options; return None where no header is set. No error quotes the secret."""
        secret = secrets.get(PROXY_SECRET_VARIABLE, "")
        if not header and not secret:
            return None
        if not header:
            raise ParameterError(f"{PROXY_SECRET_VARIABLE} is set without proxy_user_header: there is nothing to trust")
        if not _HEADER.fullmatch(header) or header.lower() in _OWN:
            raise ParameterError(f"proxy_user_header is a header such as X-Forwarded-User, got {brief(header)}")
        if len(secret) < SHORTEST_PROXY_SECRET or not secret.isascii() or not secret.isprintable() or " " in secret:
            told = f"of at least {SHORTEST_PROXY_SECRET} ASCII characters without spaces in {PROXY_SECRET_VARIABLE}"
            raise ParameterError(f"proxy_user_header needs a secret {told}, which the proxy sends as {SECRET_HEADER}")
        return cls(header.lower(), secret, None if default_role == "none" else Role(default_role))

    def name(self, headers: "Headers") -> str | None:
        """Return who sends a request, by its header; None without the secret, or where a header comes twice."""
        secrets, names = headers.getlist(SECRET_HEADER), headers.getlist(self.header)
        if len(secrets) != 1 or len(names) != 1:
            return None
        if not compare_digest(secrets[0].encode("latin-1"), self.secret.encode()):
            return None
        name = names[0].strip().lower()
        return name if _NAME.fullmatch(name) and name not in RESERVED_NAMES else None

    def holder(self, name: str, keys: Keys) -> Holder | None:
        """Return what somebody of this name may do: as the holder of a key of this name, or by default."""
        key, stored = sha256(b"proxy " + name.encode()).digest(), keys.named(name)
        if stored is not None:
            return Holder(name, Role(stored.role), key, stored.experiments)
        return None if self.default_role is None else Holder(name, self.default_role, key)
