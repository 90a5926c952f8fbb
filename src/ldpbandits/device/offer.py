"""The offer of an agent: what a decision will ask for, the same for everybody, read before a device asks for one.

A device checks its owner's limits and budget against the offer, and asks for an arm only if it will take part. A
decision that asks for anything else is refused. Neither request tells more than that this device may take part.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ldpbandits.device.decision import (
    Decision,
    Request,
    is_arm,
    is_name,
    is_number,
    read_request,
    refusing_nesting,
)
from ldpbandits.device.wire import AgentConnection
from ldpbandits.errors import ServerError
from ldpbandits.net import UNREADABLE
from ldpbandits.spec.protocol import NO_SUCH_PATH, Code
from ldpbandits.types import Arm

MAX_AGE_S = 3600.0
"""Longest time for which a device keeps an offer, whatever the agent says."""

_OLD_SERVER = 404, 405
_REFUSALS = {"paused": (409, "the experiment is paused"), "closed": (410, "the experiment is closed")}


@dataclass(frozen=True, slots=True)
class Offer:
    """The present offer of an agent."""

    status: str
    request: Request
    """The response that decisions ask for."""
    shipped: tuple[Arm, str] | None
    """The number and the name of the arm that everybody gets."""
    retired: frozenset[int]
    max_age: float

    def keeps(self, arm: Arm) -> bool:
        """Tell whether a device may go on to show this arm."""
        return self.status == "running" and arm not in self.retired

    def check_running(self) -> None:
        """Raise the ServerError of an experiment that assigns no arms."""
        if self.status in _REFUSALS:
            status, reason = _REFUSALS[self.status]
            raise ServerError(f"the server refuses ({status}): {reason}", status=status, code=self.status)

    def agrees_with(self, decision: Decision) -> bool:
        """Tell whether a decision asks for what was offered."""
        return decision.request == self.request


class Offers:
    """The offers of one experiment, each kept for as long as it says."""

    def __init__(self, connection: AgentConnection, path: str) -> None:
        """Read the offer at this path."""
        self._connection, self._path = connection, path
        self._kept: Offer | None = None
        self._kept_until = 0.0

    def current(self) -> Offer:
        """Return the offer, at most `max_age` seconds old; raise a ServerError if it cannot be read."""
        kept = self._kept
        return kept if kept is not None and time.monotonic() < self._kept_until else self.fresh(past_caches=False)

    def fresh(self, *, past_caches: bool = True) -> Offer:
        """Ask for the offer; `past_caches` also those between the agent and this device."""
        try:
            offer = read_offer(self._connection.get(self._path, past_caches=past_caches))
        except ServerError as error:
            if error.status in _OLD_SERVER and (error.code != Code.NOT_FOUND or NO_SUCH_PATH in str(error)):
                told = "the server makes no offers: update it to this version of ldpbandits first"
                raise ServerError(told, status=error.status, code=UNREADABLE) from None
            raise
        self._kept, self._kept_until = offer, time.monotonic() + offer.max_age
        return offer


def read_offer(reply: Mapping[str, Any]) -> Offer:
    """Parse an offer; raise a ServerError that names the invalid field."""
    with refusing_nesting("offer"):
        status, retired, max_age = reply.get("status"), reply.get("retired"), reply.get("max_age")
        if status not in {"running", "paused", "shipped", "closed"}:
            raise ServerError("the agent's offer has no status", code=UNREADABLE)
        if not isinstance(retired, list) or not all(is_arm(arm) for arm in retired):
            raise ServerError("the agent's offer does not list the retired arms", code=UNREADABLE)
        if not is_number(max_age) or not max_age >= 0:
            raise ServerError("the agent's offer has no age", code=UNREADABLE)
        request = read_request(reply, "ticket_lifetime")
        shipped = _read_shipped(reply.get("shipped"), is_shipped=status == "shipped")
        return Offer(status, request, shipped, frozenset(retired), min(float(max_age), MAX_AGE_S))


def _read_shipped(shipped: object, *, is_shipped: bool) -> tuple[Arm, str] | None:
    if not is_shipped:
        return None
    if not isinstance(shipped, dict) or not is_arm(shipped.get("arm")) or not is_name(shipped.get("name")):
        raise ServerError("the agent's offer ships no arm", code=UNREADABLE)
    return Arm(shipped["arm"]), shipped["name"]
