"""Tickets: signed tokens that a device returns with its response, so that a decision need not be stored; and open ones.

A ticket is 48 bytes in base64: the number of its secret, experiment, arm, rival, expiry, a nonce, and the first 16
bytes of an HMAC-SHA256 over all of that. Its holder can be counted once; nobody can forge one without the secret. The
key of the HMAC is derived from the secret and the identity of the database: servers that share a secret do not accept
each other's tickets, in which the same numbers mean other experiments.

Single open tickets are not stored: rules and reports need their counts only, which are small, and tickets that expire
together are removed together.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections import Counter
from collections.abc import Mapping, Sequence
from hmac import compare_digest, digest
from math import inf
from os import urandom
from struct import Struct
from typing import NamedTuple

from ldpbandits.errors import ParameterError
from ldpbandits.types import Arm

NONCE_BYTES = 13
MAC_BYTES = 16
_BODY = Struct(f">BHIHHQ{NONCE_BYTES}s")
_VERSION = 3
"""The format of tickets; in version 1 the HMAC's key was the secret itself."""

_BODY_2 = Struct(">BHIHQ15s")
"""The body of version 2, before tickets had a rival: an upgraded server still reads open tickets of this version."""

_NO_RIVAL = 0xFFFF
"""The rival in the ticket of a pull that no fair coin has chosen; arms have smaller numbers."""

_LISTED = 1 << 15
"""The first number of secrets from the environment; those of a store have smaller numbers."""

_NUMBERS = 1 << 16
"""A ticket holds the last 16 bits of a secret's number; the HMAC distinguishes secrets that share them."""

TICKET_LENGTH = (_BODY.size + MAC_BYTES) * 4 // 3


class Ticket(NamedTuple):
    """One pull that a device may answer once."""

    experiment: int
    arm: Arm
    expires_at: int
    nonce: bytes
    rival: Arm | None = None
    """The arm against which a fair coin chose this one; None where no coin has."""


def new_nonce() -> bytes:
    """Draw the nonce of a ticket; 104 random bits do not repeat among the tickets of one second."""
    return urandom(NONCE_BYTES)


class Signer:
    """Signs with the newest secret, and verifies tickets that earlier ones have signed."""

    def __init__(
        self,
        secrets: Mapping[int, bytes],
        valid_until: Mapping[int, int] | None = None,
        *,
        identity: bytes,
        newest: int | None = None,
    ) -> None:
        """Use these secrets, by number, until their expiry, if any; by default the largest number is the newest.

        `identity` is that of the store which counts the responses.
        """
        until = valid_until or {}
        self._newest = (max(secrets) if newest is None else newest) % _NUMBERS
        self._keys: dict[int, list[tuple[bytes, float]]] = {}
        """The keys of the HMAC by the number in a ticket, the newest first, and the expiry of each."""
        for number in sorted(secrets, reverse=True):
            key = digest(secrets[number], identity, "sha256"), until.get(number, inf)
            self._keys.setdefault(number % _NUMBERS, []).append(key)
        self._key = self._keys[self._newest][0][0]

    @classmethod
    def of_list(cls, secrets: Sequence[bytes], identity: bytes) -> "Signer":
        """Use a list of secrets, the newest first; raise ParameterError when two of them have one number.

        The number of a secret is 15 bits of its hash, so that it does not depend on the secret's place in the list.
        """
        numbers = [_LISTED | int.from_bytes(digest(secret, b"number", "sha256")[:2]) >> 1 for secret in secrets]
        for place, number in enumerate(numbers):
            if number in numbers[:place]:
                first, second = numbers.index(number) + 1, place + 1
                told = "are the same" if secrets[first - 1] == secrets[place] else "have the same number in tickets"
                raise ParameterError(f"signing secrets {first} and {second} of the list {told}: replace one of them")
        return cls(dict(zip(numbers, secrets, strict=True)), identity=identity, newest=numbers[0])

    def sign(self, ticket: Ticket) -> str:
        """Serialise and sign a ticket."""
        experiment, arm, expires_at, nonce, rival = ticket
        against = _NO_RIVAL if rival is None else rival
        body = _BODY.pack(_VERSION, self._newest, experiment, arm, against, expires_at, nonce)
        return urlsafe_b64encode(body + digest(self._key, body, "sha256")[:MAC_BYTES]).decode()

    def read(self, text: str, now: int = 0) -> Ticket | None:
        """Verify a ticket; return None when its signature or spelling is wrong, or its secret has expired."""
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
        number = int.from_bytes(body[1:3])
        for key, valid_until in self._keys.get(number, ()):
            if compare_digest(digest(key, body, "sha256")[:MAC_BYTES], mac):
                return _parse(body) if now < valid_until else None
        return None


def _parse(body: bytes) -> Ticket | None:
    """Parse the body of a verified ticket; return None when its version is unknown."""
    match body[0]:
        case 3:
            _, _, experiment, arm, rival, expires_at, nonce = _BODY.unpack(body)
            return Ticket(experiment, arm, expires_at, nonce, None if rival == _NO_RIVAL else rival)
        case 2:
            _, _, experiment, arm, expires_at, nonce = _BODY_2.unpack(body)
            return Ticket(experiment, arm, expires_at, nonce)
        case _:
            return None


STRETCHES_PER_LIFETIME = 3600
"""Stretches of a ticket's lifetime, of a second or more each; a ticket counts as open until its stretch ends."""


class OpenTickets:
    """A calendar of the open tickets: their counts by the second in which a stretch ends, and by arm.

    A decision adds 1, an answer subtracts 1. Where several workers share a store, a ticket may be answered at another
    worker than issued it: counts may be negative, and their sum over all workers is right. Only the event loop uses it.
    """

    def __init__(self, lifetime: int) -> None:
        """Start without tickets; tickets expire after `lifetime` seconds."""
        self._width = max(1, lifetime // STRETCHES_PER_LIFETIME)
        self._stretches: dict[int, Counter[Arm]] = {}
        self._first: float = inf
        """The earliest end of a stretch."""
        self.touched: set[Arm] = set()
        """Arms whose counts changed since this set was last cleared."""

    @property
    def total(self) -> int:
        """The number of open tickets; at one of several workers it may be negative."""
        return sum(stretch.total() for stretch in self._stretches.values())

    @property
    def until(self) -> int:
        """The second in which the last open ticket expires; 0 without open tickets."""
        return max(self._stretches, default=0)

    def count(self, arm: Arm) -> int:
        """Return the number of open tickets of an arm; at one of several workers it may be negative."""
        return sum(stretch[arm] for stretch in self._stretches.values())

    def change(self, arm: Arm, expires_at: int, by: int, *, if_open: bool = False) -> bool:
        """Add `by` open tickets of this arm with this expiry; return False when `if_open` is set and none is open."""
        end = expires_at + -expires_at % self._width  # the first multiple of the width that is no earlier
        stretch = self._stretches.get(end)
        if if_open and (stretch is None or stretch[arm] <= 0):
            return False
        if stretch is None:
            stretch = self._stretches[end] = Counter()
            self._first = min(self._first, end)
        stretch[arm] += by
        self.touched.add(arm)
        if not stretch[arm]:
            del stretch[arm]
            if not stretch:
                del self._stretches[end]
        return True

    def expire(self, now: float) -> Counter[Arm]:
        """Remove the tickets whose stretch has ended; return their counts by arm, which may be negative."""
        gone: Counter[Arm] = Counter()
        if now < self._first:
            return gone
        for end in [end for end in self._stretches if end <= now]:
            for arm, count in self._stretches.pop(end).items():
                gone[arm] += count
        self.touched |= gone.keys()
        self._first = min(self._stretches, default=inf)
        return gone
