"""The tickets of one experiment that are neither answered nor expired, in memory only: a crash may forget them."""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from ldpbandits.server.tickets import Ticket
from ldpbandits.types import Arm

_ROOM = 1000


class OpenTickets:
    """Tickets by the second in which they expire; they may come in any order, as when the clock goes back."""

    def __init__(self) -> None:
        """Start with none."""
        # Dictionaries of bytes and small numbers are left alone by the garbage collector, which would otherwise look at
        # every open ticket again and again.
        self._seconds: dict[int, dict[bytes, Arm]] = {}
        self._expiries: list[int] = []
        """A heap of all seconds above, and of some that are empty by now."""

    def __len__(self) -> int:
        """Count them."""
        return sum(map(len, self._seconds.values()))

    def add(self, ticket: Ticket) -> None:
        """A ticket was handed out."""
        tickets = self._seconds.get(ticket.expires_at)
        if tickets is None:
            tickets = self._seconds[ticket.expires_at] = {}
            heappush(self._expiries, ticket.expires_at)
        tickets[ticket.nonce] = ticket.arm

    def answered(self, ticket: Ticket) -> bool:
        """Tell whether this ticket was open; it no longer is."""
        tickets = self._seconds.get(ticket.expires_at)
        if tickets is None or tickets.pop(ticket.nonce, None) is None:
            return False
        if not tickets:
            del self._seconds[ticket.expires_at]
            if len(self._expiries) > _ROOM + 2 * len(self._seconds):
                self._expiries = list(self._seconds)
                heapify(self._expiries)
        return True

    def expire(self, now: float) -> Iterator[Arm]:
        """Drop the tickets whose time is up; yield their arms."""
        while self._expiries and self._expiries[0] <= now:
            yield from self._seconds.pop(heappop(self._expiries), {}).values()
