"""What an agent asks for, as its reply says it; a reply that is no decision is refused in a sentence."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from ldpbandits.checks import brief, has_controls, without_controls
from ldpbandits.device.curators import Curator, Refused, curators_from_text, transformed
from ldpbandits.errors import ServerError, SpecError
from ldpbandits.net import UNREADABLE
from ldpbandits.types import Arm

YEAR_S = 366 * 24 * 3600
MAX_TEXT_CHARACTERS = 1000
"""An agent must not fill a device's disk."""
MAX_ARMS = 1 << 31


@dataclass(frozen=True, slots=True)
class Decision:
    """An arm to show, and the response that is asked for in return; without a ticket, none is."""

    arm: Arm
    name: str
    ticket: str | None = None
    curators: tuple[Curator, ...] = ()
    """One, or one for each epsilon that the agent leaves a choice of, the largest first."""
    default: float = 0.0
    """What silence counts as."""
    report_after: float = 0.0
    """How many seconds after it was accepted the response is sent; 0: when the reward comes."""
    lifetime: float = 0.0
    """How many seconds the ticket holds."""
    sticky: float = 0.0
    """For how many seconds the device keeps showing the arm."""


def read_decision(reply: Mapping[str, Any]) -> Decision:
    """Read what an agent asks for, or say what is wrong with its reply."""
    try:
        return _read_decision(reply)
    except RecursionError:  # lists in lists, which cannot even be shown
        raise ServerError("the agent's decision is nested without end", code=UNREADABLE) from None


def _read_decision(reply: Mapping[str, Any]) -> Decision:
    arm, name, sticky = reply.get("arm"), reply.get("name", ""), reply.get("sticky", 0)
    if not _is_number(arm) or not isinstance(arm, int) or not 0 <= arm < MAX_ARMS or not _is_text(name):
        raise ServerError("the agent's decision has no arm and name", code=UNREADABLE)
    if has_controls(name):
        raise ServerError("the agent's name for an arm has control characters in it", code=UNREADABLE)
    if not _is_number(sticky) or not 0 <= sticky <= YEAR_S:
        raise ServerError(f"the agent's arm may be kept for up to a year, got {brief(sticky)}", code=UNREADABLE)
    if reply.get("ticket", "") is None:
        return _shipped(reply, Decision(Arm(arm), name))
    return _with_ticket(reply, Arm(arm), name, float(sticky))


def _shipped(reply: Mapping[str, Any], decision: Decision) -> Decision:
    """Return a decision for which no response is asked: then there is no question either."""
    asked = ("curator", "default", "report_after", "expires_at", "expires_in")
    if any(reply.get(key) is not None for key in asked) or reply.get("sticky"):
        raise ServerError("the agent's decision has no ticket, and still asks for something", code=UNREADABLE)
    return decision


def _with_ticket(reply: Mapping[str, Any], arm: Arm, name: str, sticky: float) -> Decision:
    try:
        curators = curators_from_text(json.dumps(reply.get("curator"), sort_keys=True))
    except SpecError as error:
        told = without_controls(str(error))[:500]
        raise ServerError(f"the agent asks for a curator that there is not: {told}", code=UNREADABLE) from None
    ticket, default = reply.get("ticket"), reply.get("default")
    report_after, lifetime = reply.get("report_after"), reply.get("expires_in")
    if not _is_text(ticket) or not ticket:
        raise ServerError("the agent's decision has no ticket", code=UNREADABLE)
    if not _is_number(lifetime) or not 0 < lifetime <= YEAR_S:
        raise ServerError(f"the agent's ticket must hold for up to a year, got {brief(lifetime)}", code=UNREADABLE)
    if not _is_number(report_after) or not 0 <= report_after < lifetime:
        rule = "the agent's report_after must be from 0 to less than expires_in"
        raise ServerError(f"{rule}, got {brief(report_after)}", code=UNREADABLE)
    if not _is_number(default) or isinstance(transformed(curators[0].spec.transform, default), Refused):
        raise ServerError("the agent's default is not a possible reward", code=UNREADABLE)
    times = float(default), float(report_after), float(lifetime), sticky
    return Decision(arm, name, ticket, curators[::-1], *times)


def _is_number(value: object) -> TypeGuard[float]:
    """Tell whether JSON has a number here, of any size; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: object) -> TypeGuard[str]:
    """Tell whether a text can be kept and shown: half of a surrogate pair, which JSON can hold, cannot."""
    return (
        isinstance(value, str)
        and len(value) <= MAX_TEXT_CHARACTERS
        and not any("\ud800" <= c <= "\udfff" for c in value)
    )
