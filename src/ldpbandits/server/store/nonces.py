"""The row that a store keeps of a used ticket: no nonce, no second, no number of a response.

    id         = SHA-256(nonce, expiry)          counts a ticket once
    commitment = SHA-256(nonce, value, cell)     tells a repeated response from a changed one; null while only accepted
    expiry     rounded up to the hour            tells when the row may be deleted

The nonce, 104 random bits, is the key of both hashes, and is stored nowhere: a ticket is in the hands of its device.
The rows of a table of nonces therefore join no response to a time, and nobody finds the ticket of a response.
"""

from hashlib import sha256

from ldpbandits.server.experiments.tickets import Ticket
from ldpbandits.server.store import Answer

HOUR_S = 3600
HASH_BYTES = 16
"""The bytes of a hash that are stored: 128 bits do not collide by chance."""


def rounded_expiry(expires_at: int) -> int:
    """Return the first full hour at or after an expiry."""
    return expires_at + -expires_at % HOUR_S


def hash_id(nonce: bytes, expires_at: int) -> bytes:
    """Return the id of a nonce."""
    return sha256(nonce + b"%d" % expires_at).digest()[:HASH_BYTES]


def hash_response(nonce: bytes, value: int, cell: int) -> bytes:
    """Return the commitment of a nonce to a response."""
    return sha256(nonce + b"%d %d" % (value, cell)).digest()[:HASH_BYTES]


def place_of(ticket: Ticket) -> tuple[int, bytes]:
    """Return the key of a ticket's row: its rounded expiry and its id."""
    return rounded_expiry(ticket.expires_at), hash_id(ticket.nonce, ticket.expires_at)


def commitment_of(answer: Answer) -> bytes | None:
    """Return the commitment of a response; None for an acceptance."""
    return None if answer.is_acceptance else hash_response(answer.ticket.nonce, answer.value, answer.cell)
