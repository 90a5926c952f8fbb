"""Decisions that need an allowance: a client without one gets no ticket, and one allowance counts once.

The nonce and the expiry of a ticket are derived from its allowance. The store counts one response for each nonce, so
the limit holds across workers and restarts without any record of allowances. A client that retries an allowance, as
after a lost reply, gets the same decision from the same worker.
"""

from ldpbandits.server.api.refusals import Refusal
from ldpbandits.server.experiments.live import LiveExperiment
from ldpbandits.server.experiments.tickets import NONCE_BYTES, Ticket
from ldpbandits.server.keys import Keys, Role
from ldpbandits.spec.allowance import Allowance, read_allowance
from ldpbandits.spec.protocol import Code

ALLOWANCE_LIFETIME_S = 86_400
"""Seconds from now within which an allowance must expire: nonces are stored until their tickets have expired."""


class Allowances:
    """The allowances that were used at this worker and have not expired."""

    def __init__(self, keys: Keys) -> None:
        """Accept allowances that the allowance key has signed."""
        self._keys = keys
        self._tickets: dict[Allowance, Ticket] = {}

    def decide(self, experiment: LiveExperiment, text: str | None, now: int) -> Ticket:
        """Assign an arm for an allowance, or refuse."""
        hashed_keys = self._keys.hashes(Role.ALLOWANCE, now)
        allowance = None if text is None else read_allowance(text, hashed_keys)
        is_valid = allowance is not None and now < allowance.expires_at <= now + ALLOWANCE_LIFETIME_S
        if allowance is None or not is_valid or allowance.experiment != experiment.name:
            message = (
                "a decision of this experiment needs an allowance that the site has signed and that has not expired"
            )
            raise Refusal(403, Code.NOT_ALLOWED, message)
        ticket = self._tickets.get(allowance)
        if ticket is None or ticket.experiment != experiment.number:
            expires_at = allowance.expires_at + experiment.ticket_lifetime
            ticket = experiment.decide(now, expires_at, allowance.signature[:NONCE_BYTES])
            self._tickets[allowance] = ticket
        return ticket

    def __len__(self) -> int:
        """Return the number of used allowances that have not expired."""
        return len(self._tickets)

    def forget(self, now: int) -> None:
        """Drop the allowances that have expired."""
        self._tickets = {each: ticket for each, ticket in self._tickets.items() if each.expires_at > now}
