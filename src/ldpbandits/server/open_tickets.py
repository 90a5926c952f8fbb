"""The tickets of one experiment that are neither answered nor expired, in memory only: a crash may forget them."""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from ldpbandits.server.tickets import Ticket
from ldpbandits.types import Arm

MOST = 1_000_000
"""Of more open tickets than this, the first to expire are forgotten: they still count when they are answered."""

MOST_AT_ONCE = 10_000
"""So many expired tickets are dropped at a time, in a few milliseconds; nobody waits longer for that."""

_ROOM = 1000


class OpenTickets:
    """Tickets by the second in which they expire; they may come in any order, as when the clock goes back."""

    def __init__(self, most: int = MOST) -> None:
        """Start with no ticket, and keep no more than `most`."""
        self._most = most
        self._count = 0
        # Dictionaries of bytes and small numbers are left alone by the garbage collector, which would otherwise look at
        # every open ticket again and again.
        self._seconds: dict[int, dict[bytes, Arm]] = {}
        self._expiries: list[int] = []
        """A heap of all seconds above, and of some that are empty by now."""

    def __len__(self) -> int:
        """Return how many tickets are open."""
        return self._count

    def add(self, ticket: Ticket) -> list[Arm]:
        """A ticket was handed out; return the arms of those that are forgotten for it."""
        tickets = self._seconds.get(ticket.expires_at)
        if tickets is None:
            tickets = self._seconds[ticket.expires_at] = {}
            heappush(self._expiries, ticket.expires_at)
        tickets[ticket.nonce] = ticket.arm
        self._count += 1
        return [self._drop_first() for _ in range(self._count - self._most)]

    def answered(self, ticket: Ticket) -> bool:
        """Tell whether this ticket was open; it no longer is."""
        tickets = self._seconds.get(ticket.expires_at)
        if tickets is None or tickets.pop(ticket.nonce, None) is None:
            return False
        self._count -= 1
        if not tickets:
            del self._seconds[ticket.expires_at]
            if len(self._expiries) > _ROOM + 2 * len(self._seconds):
                self._expiries = list(self._seconds)
                heapify(self._expiries)
        return True

    def expire(self, now: float) -> Iterator[Arm]:
        """Drop the tickets whose time is up, at most so many at once; yield their arms."""
        for _ in range(MOST_AT_ONCE):
            if not self._count or self._first() > now:
                return
            yield self._drop_first()

    def _first(self) -> int:
        """Return when the next ticket expires."""
        while self._expiries[0] not in self._seconds:
            heappop(self._expiries)
        return self._expiries[0]

    def _drop_first(self) -> Arm:
        second = self._first()
        tickets = self._seconds[second]
        _, arm = tickets.popitem()
        self._count -= 1
        if not tickets:
            del self._seconds[second]
        return arm
