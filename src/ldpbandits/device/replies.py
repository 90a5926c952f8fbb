"""What a device believes of an agent's replies. An agent may say anything: what is not checked here is not believed."""

from collections.abc import Mapping
from typing import Any, TypeGuard

from ldpbandits.checks import is_number, is_whole, shown
from ldpbandits.device.curators import curator_from_json
from ldpbandits.device.http import NONSENSE
from ldpbandits.device.outbox import Entry
from ldpbandits.device.transforms import Refused, transformed
from ldpbandits.errors import ServerError, SpecError
from ldpbandits.spec.protocol import Acknowledged
from ldpbandits.types import Arm

LONGEST_LIFETIME = 366 * 24 * 3600
LONGEST_TEXT = 1000
"""An agent must not fill a device's disk."""
MOST_ARMS = 1 << 31
MARGIN = 60.0
"""How long before a ticket expires its default is sent at the latest, in seconds."""


def read_decision(reply: Mapping[str, Any], now: float) -> Entry:
    """Return the pull that an agent has asked for now, or say what is wrong with its reply."""
    try:
        return _read_decision(reply, now)
    except RecursionError:  # lists in lists, which cannot even be shown
        raise ServerError("the agent's decision is nested without end", code=NONSENSE) from None


def is_acknowledgement(reply: Mapping[str, Any]) -> bool:
    """Tell whether the agent says that a response is counted, now or before: a hotel's login page answers 200 too."""
    return reply.get("status") in tuple(Acknowledged)  # a tuple: the agent may have sent a list, which has no hash


def _read_decision(reply: Mapping[str, Any], now: float) -> Entry:
    try:
        curator = curator_from_json(reply.get("curator"))
    except SpecError as error:
        raise ServerError(f"the agent asks for a curator that there is not: {error}", code=NONSENSE) from None
    arm, name, ticket = reply.get("arm"), reply.get("name", ""), reply.get("ticket")
    default, lifetime = reply.get("default"), reply.get("expires_in")
    if not is_whole(arm) or not 0 <= arm < MOST_ARMS or not _is_text(name) or not _is_text(ticket) or not ticket:
        raise ServerError("the agent's decision has no arm, name and ticket", code=NONSENSE)
    if not is_number(lifetime) or not 0 < lifetime <= LONGEST_LIFETIME:
        raise ServerError(f"the agent's ticket must hold for up to a year, got {shown(lifetime)}", code=NONSENSE)
    if not is_number(default) or isinstance(transformed(curator.spec.transform, default), Refused):
        raise ServerError("the agent's default is not a possible reward", code=NONSENSE)
    due = now + lifetime - min(MARGIN, lifetime / 10)
    return Entry(ticket, Arm(arm), name, curator, float(default), due)


def _is_text(value: object) -> TypeGuard[str]:
    """Tell whether a text can be kept and shown: half of a surrogate pair, which JSON can hold, cannot."""
    return isinstance(value, str) and len(value) <= LONGEST_TEXT and not any("\ud800" <= c <= "\udfff" for c in value)
