"""Tickets: what a device brings back with its response, so that a decision need not be written down.

A ticket is 48 bytes in base64: which key signed it, experiment, arm, when it expires, a nonce, and the first 16 bytes
of an HMAC-SHA256 over all of that. Whoever holds one can be counted once; nobody can make one without the secret.

`OpenTickets` are neither answered nor expired. They are in memory only: a crash may forget them.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush
from hmac import compare_digest, digest
from os import urandom
from struct import Struct
from typing import NamedTuple

from ldpbandits.types import Arm

MOST = 1_000_000
"""Of more open tickets than this, the first to expire are forgotten: they still count when they are answered."""

MOST_AT_ONCE = 10_000
"""So many expired tickets are dropped at a time, in a few milliseconds; nobody waits longer for that."""

_ROOM = 1000

NONCE_BYTES = 15
MAC_BYTES = 16
_BODY = Struct(f">BHIHQ{NONCE_BYTES}s")
_VERSION = 1
TICKET_LENGTH = (_BODY.size + MAC_BYTES) * 4 // 3


class Ticket(NamedTuple):
    """One pull that a device may answer."""

    experiment: int
    arm: Arm
    expires_at: int
    nonce: bytes


def new_nonce() -> bytes:
    """Draw what tells this ticket from all others; 120 random bits do not repeat."""
    return urandom(NONCE_BYTES)


class Signer:
    """Signs with the newest secret, and knows tickets that earlier ones have signed."""

    def __init__(self, secrets: Mapping[int, bytes], valid_until: Mapping[int, int] | None = None) -> None:
        """Take secrets by their number, and until when those hold that will end; the largest number is the newest."""
        self._secrets = dict(secrets)
        self._valid_until = dict(valid_until or {})
        self._newest = max(secrets)

    def sign(self, ticket: Ticket) -> str:
        """Write a ticket that only this signer could have made."""
        experiment, arm, expires_at, nonce = ticket
        body = _BODY.pack(_VERSION, self._newest, experiment, arm, expires_at, nonce)
        return urlsafe_b64encode(body + digest(self._secrets[self._newest], body, "sha256")[:MAC_BYTES]).decode()

    def read(self, text: str, now: int = 0) -> Ticket | None:
        """Read a ticket, or return None when it is not one of ours, to the last bit, or its secret has ended."""
        if len(text) != TICKET_LENGTH:
            return None
        try:
            raw = urlsafe_b64decode(text)
        except (NotBase64, ValueError):
            return None
        # Python skips characters that are not base64; a ticket has one spelling only.
        if len(raw) != _BODY.size + MAC_BYTES or urlsafe_b64encode(raw).decode() != text:
            return None
        body, mac = raw[: _BODY.size], raw[_BODY.size :]
        version, key, experiment, arm, expires_at, nonce = _BODY.unpack(body)
        secret = self._secrets.get(key)
        if secret is None or not compare_digest(digest(secret, body, "sha256")[:MAC_BYTES], mac):
            return None
        if version != _VERSION or (key in self._valid_until and self._valid_until[key] <= now):
            return None
        return Ticket(experiment, arm, expires_at, nonce)


class OpenTickets:
    """Tickets by the second in which they expire; they may come in any order, as when the clock goes back."""

    def __init__(self, most: int = MOST) -> None:
        """Start with no ticket, and keep no more than `most`."""
        self._most = most
        self._count = 0
        # Dictionaries of bytes and small numbers are left alone by the garbage collector, which would otherwise look at
        # every open ticket again and again.
        self._seconds: dict[int, dict[bytes, Arm]] = {}
        self._expiries: list[int] = []
        """A heap of all seconds above, and of some that are empty by now."""

    def __len__(self) -> int:
        """Return how many tickets are open."""
        return self._count

    def add(self, ticket: Ticket) -> list[Arm]:
        """A ticket was handed out; return the arms of those that are forgotten for it."""
        tickets = self._seconds.get(ticket.expires_at)
        if tickets is None:
            tickets = self._seconds[ticket.expires_at] = {}
            heappush(self._expiries, ticket.expires_at)
        tickets[ticket.nonce] = ticket.arm
        self._count += 1
        return [self._drop_first() for _ in range(self._count - self._most)]

    def answered(self, ticket: Ticket) -> bool:
        """Tell whether this ticket was open; it no longer is."""
        tickets = self._seconds.get(ticket.expires_at)
        if tickets is None or tickets.pop(ticket.nonce, None) is None:
            return False
        self._count -= 1
        if not tickets:
            del self._seconds[ticket.expires_at]
            if len(self._expiries) > _ROOM + 2 * len(self._seconds):
                self._expiries = list(self._seconds)
                heapify(self._expiries)
        return True

    def expire(self, now: float) -> Iterator[Arm]:
        """Drop the tickets whose time is up, at most so many at once; yield their arms."""
        for _ in range(MOST_AT_ONCE):
            if not self._count or self._first() > now:
                return
            yield self._drop_first()

    def _first(self) -> int:
        """Return when the next ticket expires."""
        while self._expiries[0] not in self._seconds:
            heappop(self._expiries)
        return self._expiries[0]

    def _drop_first(self) -> Arm:
        second = self._first()
        tickets = self._seconds[second]
        _, arm = tickets.popitem()
        self._count -= 1
        if not tickets:
            del self._seconds[second]
        return arm
