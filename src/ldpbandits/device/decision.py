"""The decision of an agent, parsed and validated; an invalid reply raises a ServerError of one sentence."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeGuard

from ldpbandits.checks import brief
from ldpbandits.device.curators import Curator, curator_from_json, transformed
from ldpbandits.errors import RewardError, ServerError, SpecError
from ldpbandits.net import UNREADABLE, has_controls, without_controls
from ldpbandits.spec.menu import Menu
from ldpbandits.spec.transforms import Transform
from ldpbandits.types import Arm

YEAR_S = 366 * 24 * 3600
MAX_TEXT_CHARACTERS = 1000
"""Longest name or ticket of an agent: an agent must not fill a device's disk."""
MAX_ARMS = 1 << 31


@dataclass(frozen=True, slots=True)
class Request:
    """The response that an agent asks for with each arm, as its offer and its decisions say."""

    curators: tuple[Curator, ...] = ()
    """One, or one for each epsilon of the agent's menu, the largest first."""
    default: float = 0.0
    """The reward that counts if none is observed."""
    report_after: float = 0.0
    """Seconds from accepting the arm to sending the response; 0: send it when the reward comes."""
    sticky: float = 0.0
    """Seconds for which the device keeps showing the arm."""


@dataclass(frozen=True, slots=True)
class Decision:
    """An arm to show, and the response that the agent asks for; without a ticket, it asks for none."""

    arm: Arm
    name: str
    ticket: str | None = None
    request: Request = Request()
    lifetime: float = 0.0
    """Seconds for which the ticket is valid."""


@contextmanager
def refusing_nesting(reply: str) -> Iterator[None]:
    """Raise a ServerError for lists in lists, which cannot even be printed."""
    try:
        yield
    except RecursionError:
        raise ServerError(f"the agent's {reply} is nested too deeply", code=UNREADABLE) from None


def read_decision(reply: Mapping[str, Any]) -> Decision:
    """Parse a decision; raise a ServerError that names the invalid field."""
    with refusing_nesting("decision"):
        arm, name, ticket = reply.get("arm"), reply.get("name", ""), reply.get("ticket", "")
        if not is_arm(arm) or not isinstance(name, str) or not _is_text(name):
            raise ServerError("the agent's decision has no arm and name", code=UNREADABLE)
        if has_controls(name):
            raise ServerError("the agent's name for an arm contains control characters", code=UNREADABLE)
        if ticket is None:
            return _shipped(reply, Decision(Arm(arm), name))
        if not _is_text(ticket) or not ticket:
            raise ServerError("the agent's decision has no ticket", code=UNREADABLE)
        request = read_request(reply, "expires_in")
        return Decision(Arm(arm), name, ticket, request, float(reply["expires_in"]))


def _shipped(reply: Mapping[str, Any], decision: Decision) -> Decision:
    """Return the decision of a shipped experiment; without a ticket no field of a response is allowed."""
    asked = ("curator", "default", "report_after", "expires_at", "expires_in")
    if any(reply.get(key) is not None for key in asked) or reply.get("sticky"):
        raise ServerError("the agent's decision has no ticket, and still asks for a response", code=UNREADABLE)
    return decision


def read_request(reply: Mapping[str, Any], lifetime_field: str) -> Request:
    """Parse what an agent asks for, and check the lifetime of tickets in this field."""
    try:
        curators = curators_from_text(json.dumps(reply.get("curator"), sort_keys=True))
    except SpecError as error:
        reason = without_controls(str(error))[:500]
        raise ServerError(f"the agent asks for an unknown curator: {reason}", code=UNREADABLE) from None
    default, sticky = reply.get("default"), reply.get("sticky", 0)
    report_after, lifetime = reply.get("report_after"), reply.get(lifetime_field)
    if not is_number(sticky) or not 0 <= sticky <= YEAR_S:
        raise ServerError(f"the agent's arm may be kept for up to a year, got {brief(sticky)}", code=UNREADABLE)
    if not is_number(lifetime) or not 0 < lifetime <= YEAR_S:
        raise ServerError(f"the agent's ticket may be valid for up to a year, got {brief(lifetime)}", code=UNREADABLE)
    if not is_number(report_after) or not 0 <= report_after < lifetime:
        rule = f"the agent's report_after must be from 0 to less than {lifetime_field}"
        raise ServerError(f"{rule}, got {brief(report_after)}", code=UNREADABLE)
    if not _is_reward(default, curators[0].spec.transform):
        raise ServerError("the agent's default is not a possible reward", code=UNREADABLE)
    return Request(curators[::-1], float(default), float(report_after), float(sticky))


def curator_to_text(curator: Curator) -> str:
    """Return the JSON of a curator; `curator_from_text` is the inverse."""
    return json.dumps(curator.to_json(), sort_keys=True)


@lru_cache(maxsize=64)
def curator_from_text(text: str) -> Curator:
    """Make a curator from its JSON, cached: a curator is stateless, and pulls share it."""
    return curator_from_json(json.loads(text))


@lru_cache(maxsize=64)
def curators_from_text(text: str) -> tuple[Curator, ...]:
    """Make the curators of a menu from its JSON, cached; the smallest epsilon comes first."""
    return tuple(map(curator_from_json, Menu.from_json(json.loads(text)).curators))


def is_number(value: object) -> TypeGuard[float]:
    """Tell whether a JSON value is a number, of any size; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_arm(value: object) -> TypeGuard[int]:
    """Tell whether a JSON value may be the number of an arm."""
    return is_number(value) and isinstance(value, int) and 0 <= value < MAX_ARMS


def is_name(value: object) -> TypeGuard[str]:
    """Tell whether a JSON value may be the name of an arm: a short text without control characters."""
    return _is_text(value) and not has_controls(value)


def _is_reward(value: object, transform: Transform) -> TypeGuard[float]:
    try:
        transformed(transform, value)
    except RewardError:
        return False
    return is_number(value)


def _is_text(value: object) -> TypeGuard[str]:
    """Tell whether a value is a short text without lone surrogates, which JSON allows and UTF-8 does not."""
    return (
        isinstance(value, str)
        and len(value) <= MAX_TEXT_CHARACTERS
        and not any("\ud800" <= c <= "\udfff" for c in value)
    )
