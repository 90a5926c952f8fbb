"""Links that open the console once, within a few minutes: for whoever holds the admin key, without typing it."""

from collections.abc import Callable
from hashlib import sha256
from secrets import token_urlsafe

LIFE = 300
"""Seconds for which a link holds."""

MOST = 100
"""Of more links that nobody has used, the oldest are forgotten."""


class Links:
    """The links that may still be used: of each the hash, until when, and the hash of the key that it stands for."""

    def __init__(self, now: Callable[[], int], key: Callable[[], bytes]) -> None:
        """Begin with none; `key` tells the hash of the key that a new link stands for."""
        self._now = now
        self._key = key
        self._links: dict[bytes, tuple[int, bytes]] = {}

    def new(self) -> str:
        """Return the token of a new link."""
        token = token_urlsafe(24)
        while len(self._links) >= MOST:
            del self._links[next(iter(self._links))]
        self._links[_hash(token)] = (self._now() + LIFE, self._key())
        return token

    def take(self, token: str) -> bytes | None:
        """Use a link up: return the hash of the key that it stands for, None when it does not hold."""
        expires_at, key = self._links.pop(_hash(token), (0, None))
        return key if self._now() < expires_at else None


def _hash(token: str) -> bytes:
    return sha256(token.encode()).digest()
