"""Allowances: signed tokens by which a site's own backend admits a visitor to a decision.

An allowance is `EXPERIMENT.EXPIRES.RANDOM.SIGNATURE`: the name of the experiment, the second at which it expires, at
least 16 random characters, and in hexadecimal digits the HMAC-SHA256 of all before it. The key of the HMAC is the
SHA-256 of the allowance key. An allowance says nothing about the visitor, and one response is counted for it.
"""

import hmac
import re
from collections.abc import Iterable
from hashlib import sha256
from secrets import token_urlsafe
from typing import NamedTuple

from ldpbandits.checks import check_count
from ldpbandits.errors import ParameterError

MAX_ALLOWANCE_CHARACTERS = 400
"""Largest number of characters of an allowance."""

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_ALLOWANCE = re.compile(rf"(({NAME.pattern})\.([0-9]{{1,12}})\.[A-Za-z0-9_-]{{16,200}})\.([0-9a-f]{{64}})")


class Allowance(NamedTuple):
    """The fields of a valid allowance."""

    experiment: str
    expires_at: int
    signature: bytes


def sign_allowance(experiment: str, key: str, *, expires_at: int) -> str:
    """Return an allowance for one decision of this experiment, until that second of Unix time.

    >>> sign_allowance("headline", "allowance-0123456789abcdef", expires_at=1_800_000_000).split(".")[:2]
    ['headline', '1800000000']
    """
    if not NAME.fullmatch(experiment):
        raise ParameterError("an experiment is named by lower-case letters, digits and hyphens, at most 64")
    text = f"{experiment}.{check_count('expires_at', expires_at)}.{token_urlsafe(16)}"
    return f"{text}.{_sign(text, sha256(key.encode()).digest()).hex()}"


def read_allowance(text: str, hashed_keys: Iterable[bytes]) -> Allowance | None:
    """Read an allowance that one of the keys of these hashes has signed; None when none has."""
    found = _ALLOWANCE.fullmatch(text)
    if found is None:
        return None
    text, experiment, expires_at, digits = found.groups()
    signature = bytes.fromhex(digits)
    if not any(hmac.compare_digest(_sign(text, hashed), signature) for hashed in hashed_keys):
        return None
    return Allowance(experiment, int(expires_at), signature)


def _sign(text: str, hashed_key: bytes) -> bytes:
    return hmac.digest(hashed_key, text.encode(), "sha256")
