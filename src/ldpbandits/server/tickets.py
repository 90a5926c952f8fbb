"""Tickets: what a device brings back with its response, so that a decision need not be written down.

A ticket is 48 bytes in base64: which key signed it, experiment, arm, when it expires, a nonce, and the first 16 bytes
of an HMAC-SHA256 over all of that. Whoever holds one can be counted once; nobody can make one without the secret.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping
from hmac import compare_digest, digest
from os import urandom
from struct import Struct
from typing import NamedTuple

from ldpbandits.types import Arm

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
