"""What several workers on one database promise, as a plain program.

Each keeps how many more tickets it has handed out than it has seen answered, by their expiry; what is told is the sum.
"""

from collections import Counter

from tests.server.model import Model, ModelArm, Ticket


class SharedModel(Model):
    """The workers, without any of their machinery. What happens, happens at one of them, `worker`."""

    def __init__(self, now: int) -> None:
        """Start with one worker."""
        super().__init__(now)
        self.worker = 0
        self.out: dict[int, Counter[tuple[str, int, int]]] = {0: Counter()}
        """By worker: how many are out, by experiment, arm and expiry."""
        self.gone: set[int] = set()
        """Workers that have ended, and whose tickets are not settled yet."""
        self.missed: Counter[tuple[str, int]] = Counter()

    def decided(self, ticket: Ticket) -> None:
        """A ticket was handed out."""
        super().decided(ticket)
        ticket.pending = False  # it is counted below
        self.out[self.worker][ticket.experiment, ticket.arm, ticket.expires_at] += 1

    def answered(self, ticket: Ticket, arm: ModelArm) -> None:  # noqa: ARG002 - which arm it is, the ticket says
        """One ticket fewer is out, wherever it was handed out."""
        self.out[self.worker][ticket.experiment, ticket.arm, ticket.expires_at] -= 1

    def accept(self, ticket: Ticket) -> tuple[int, str]:
        """A worker that has seen an acceptance is known until its ticket expires."""
        told = super().accept(ticket)
        if told == (200, "accepted"):
            self.out[self.worker][ticket.experiment, ticket.arm, ticket.expires_at] += 0
        return told

    def expire(self) -> None:
        """Let each worker stop waiting for tickets whose time is up."""
        for worker in self.out.keys() - self.gone:
            self._give_up(worker)

    def _give_up(self, worker: int) -> None:
        for key in [key for key in self.out[worker] if key[2] <= self.now]:
            self.missed[key[:2]] += self.out[worker].pop(key)

    def end(self, worker: int) -> None:
        """A worker ends."""
        self.gone.add(worker)

    def settle(self, known: set[int]) -> None:
        """Those of the workers that have ended and are not known any more were settled: their tickets have expired."""
        for worker in sorted(self.gone):
            ends = [end for (_, _, end), count in self.out[worker].items() if count]
            assert worker in known or all(end <= self.now for end in ends)
            if worker not in known:
                self._give_up(worker)
                del self.out[worker]
                self.gone.discard(worker)
            else:
                assert any(end > self.now for end in self.untils(worker))

    def untils(self, worker: int) -> list[int]:
        """Return when tickets expire that a worker has handed out, or seen answered."""
        return [end for _, _, end in self.out[worker]]

    def delete(self, name: str) -> None:
        """Remove an experiment."""
        super().delete(name)
        for out in self.out.values():
            for key in [key for key in out if key[0] == name]:
                del out[key]
        for place in [place for place in self.missed if place[0] == name]:
            del self.missed[place]

    def shown(self, name: str, number: int) -> tuple[int, int, int]:
        """Return what is told: sums over all workers, of which none is shown as negative."""
        arm = self.experiments[name].arms[number]
        pending, missing = max(0, self.open(name, number)), max(0, self.missed[name, number])
        return pending, missing, max(arm.decisions, arm.pulls + missing)

    def open(self, name: str, arm: int) -> int:
        """Add up what is out of an arm."""
        return sum(count for out in self.out.values() for key, count in out.items() if key[:2] == (name, arm))

    @property
    def adds_up(self) -> bool:  # type: ignore[override]
        """Tell whether each decision is answered, pending or missing.

        It need not be for a while, where the clock was set back over an expiry, or a worker has ended whose tickets
        expire at different times.
        """
        return not self.gone and all(count >= 0 for count in (*self.missed.values(), *self._sums().values()))

    def _sums(self) -> Counter[tuple[str, int]]:
        sums: Counter[tuple[str, int]] = Counter()
        for out in self.out.values():
            for (name, arm, _), count in out.items():
                sums[name, arm] += count
        return sums
