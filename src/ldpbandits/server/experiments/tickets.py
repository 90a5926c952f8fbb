"""Tickets: signed tokens that a device returns with its response, so that a decision need not be stored.

A ticket is 48 bytes in base64: the number of its secret, experiment, arm, expiry, a nonce, and the first 16 bytes of an
HMAC-SHA256 over all of that. Its holder can be counted once; nobody can forge one without the secret. The key of the
HMAC is derived from the secret and the identity of the database: servers that share a secret do not accept each other's
tickets, in which the same numbers mean other experiments.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping, Sequence
from hmac import compare_digest, digest
from math import inf
from os import urandom
from struct import Struct
from typing import NamedTuple

from ldpbandits.errors import ParameterError
from ldpbandits.types import Arm

NONCE_BYTES = 15
MAC_BYTES = 16
_BODY = Struct(f">BHIHQ{NONCE_BYTES}s")
_VERSION = 2
"""The format of tickets; in version 1 the HMAC's key was the secret itself."""

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


def new_nonce() -> bytes:
    """Draw the nonce of a ticket; 120 random bits do not repeat."""
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
                told = "are the same" if secrets[first - 1] == secrets[place] else "cannot be told apart in tickets"
                raise ParameterError(f"signing secrets {first} and {second} of the list {told}: put another in place")
        return cls(dict(zip(numbers, secrets, strict=True)), identity=identity, newest=numbers[0])

    def sign(self, ticket: Ticket) -> str:
        """Serialise and sign a ticket."""
        experiment, arm, expires_at, nonce = ticket
        body = _BODY.pack(_VERSION, self._newest, experiment, arm, expires_at, nonce)
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
        version, number, experiment, arm, expires_at, nonce = _BODY.unpack(body)
        for key, valid_until in self._keys.get(number, ()):
            if compare_digest(digest(key, body, "sha256")[:MAC_BYTES], mac):
                is_valid = version == _VERSION and now < valid_until
                return Ticket(experiment, arm, expires_at, nonce) if is_valid else None
        return None
