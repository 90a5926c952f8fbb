"""The tickets of one experiment that are neither answered nor expired, in memory only: a crash may forget them."""

from collections import OrderedDict
from collections.abc import Iterator

from ldpbandits.server.tickets import Ticket
from ldpbandits.types import Arm


class OpenTickets:
    """Tickets in the order of issue, which is that of expiry, since the tickets of an experiment live equally long."""

    def __init__(self) -> None:
        """Start with none."""
        # An OrderedDict drops its first entry in constant time, a dict does not. Plain tuples of numbers are left alone
        # by the garbage collector, which would otherwise look at every open ticket again and again.
        self._tickets: OrderedDict[bytes, tuple[Arm, int]] = OrderedDict()

    def __len__(self) -> int:
        """Count them."""
        return len(self._tickets)

    def add(self, ticket: Ticket) -> None:
        """A ticket was handed out."""
        self._tickets[ticket.nonce] = (ticket.arm, ticket.expires_at)

    def answered(self, nonce: bytes) -> bool:
        """Tell whether this ticket was open; it no longer is."""
        return self._tickets.pop(nonce, None) is not None

    def expire(self, now: float) -> Iterator[Arm]:
        """Drop the tickets whose time is up; yield their arms."""
        tickets = self._tickets
        while tickets:
            nonce, (arm, expires_at) = next(iter(tickets.items()))
            if expires_at > now:
                return
            del tickets[nonce]
            yield arm
