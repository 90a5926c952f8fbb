"""One-time links that open the console within a few minutes, without typing the admin key."""

from collections.abc import Callable
from hashlib import sha256
from secrets import token_urlsafe

from ldpbandits.server.peers.peers import Peers

LINK_LIFETIME_S = 300
"""Seconds after which a link expires."""

LARGEST_LINKS = 100
"""Unused links that are stored; beyond that the oldest are dropped."""


class Links:
    """The unused links: of each its hash, its expiry, and the hash of the key that it stands for.

    Where there are several workers, any of them may be asked to open it: then links are in the store.
    """

    def __init__(self, now: Callable[[], int], sharing: Peers | None = None) -> None:
        """Start without links; `now` is the present second."""
        self._now = now
        self._sharing = sharing
        self._links: dict[bytes, tuple[int, bytes]] = {}

    async def new(self, key: bytes) -> str:
        """Create a link that stands for the key of this hash, and return its token."""
        token, until = token_urlsafe(24), self._now() + LINK_LIFETIME_S
        if self._sharing is not None:
            await self._sharing.put(_hash(token), until.to_bytes(8) + key, until)
            return token
        while len(self._links) >= LARGEST_LINKS:
            del self._links[next(iter(self._links))]
        self._links[_hash(token)] = (until, key)
        return token

    async def take(self, token: str) -> bytes | None:
        """Consume a link: return the hash of the key that it stands for, None when it is not valid."""
        if self._sharing is not None:
            note = await self._sharing.take(_hash(token)) or bytes(8)
            expires_at, key = int.from_bytes(note[:8]), note[8:]
        else:
            expires_at, key = self._links.pop(_hash(token), (0, b""))
        return key if self._now() < expires_at else None


def _hash(token: str) -> bytes:
    return sha256(b"link " + token.encode()).digest()
