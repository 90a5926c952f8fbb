"""What it costs that workers know of each other with a delay: regret of eight workers beside one process.

10 arms, one better than the others by a gap of 0.1, CTB at epsilon 1, 1,000 decisions a second for a minute, each
answered after 10 seconds, at a worker that chance chooses. Workers exchange tallies and tickets that are out once a
second; the one process knows everything at once. Regret is a share of uniform play's. It is the live code that plays:
the agents, open tickets and totals of a server, in a time of our own. Runs of all kinds have the same responses.
"""

import json
import sys
from collections import deque
from functools import partial
from multiprocessing import Pool
from random import Random
from statistics import fmean, stdev

from ldpbandits.server.experiments.live import LiveExperiment
from ldpbandits.server.experiments.restoring import restore
from ldpbandits.server.experiments.tickets import Ticket
from ldpbandits.server.store import CellTotal, Definition, Outcome, StoredArm, StoredExperiment
from ldpbandits.spec.mechanisms import response_mean
from ldpbandits.types import Arm

ARMS, BEST, GAP, EPSILON = 10, 5, 0.1, 1.0
WORKERS, RATE, SECONDS, ANSWERED_AFTER, EXCHANGED_EVERY = 8, 1000, 60, 10, 1.0
MOST = 1.10
RUNS = 96
BITS = [response_mean(0.5 + GAP * (arm == BEST), EPSILON) for arm in range(ARMS)]
UNIFORM = RATE * SECONDS * (ARMS - 1) / ARMS


def worker(*, is_shared: bool) -> LiveExperiment:
    """Return an experiment as one worker has it."""
    curator = {"mechanism": "bernoulli", "epsilon": EPSILON}
    definition = Definition("one", json.dumps(curator), '{"kind": "kl-ucb++"}', '{"report_after": 1}', 3600, 0.0, 0)
    stored = StoredExperiment(1, definition, "running", tuple(StoredArm(f"arm {arm}") for arm in range(ARMS)))
    return restore(stored, (), lambda *_: None, 0, is_shared=is_shared)


class Crew:
    """Workers, of which each has its own totals; the others' are those of the last exchange."""

    def __init__(self, count: int, *, pending: bool) -> None:
        """Start so many; they tell each other what is out only if `pending`."""
        self.workers = [worker(is_shared=count > 1) for _ in range(count)]
        self._own = [[(0, 0)] * ARMS for _ in self.workers]
        self._others = [[(0, 0)] * ARMS for _ in self.workers]
        self._pending = pending

    def decide(self, number: int, second: int) -> Ticket:
        """Hand out an arm at one worker."""
        return self.workers[number].decide(second)

    def answer(self, number: int, ticket: Ticket, bit: int, second: int) -> None:
        """Count a response at one worker."""
        pulls, total = self._own[number][ticket.arm]
        self._own[number][ticket.arm] = (pulls + 1, total + bit)
        self._show(number, ticket.arm)
        self.workers[number].apply(ticket, Outcome.COUNTED, second)

    def _show(self, number: int, arm: Arm) -> None:
        pairs = (self._own[number][arm], self._others[number][arm])
        self.workers[number].count(CellTotal(1, arm, 0, sum(p for p, _ in pairs), sum(t for _, t in pairs)))

    def exchange(self) -> None:
        """Tell all workers of each other."""
        for number, experiment in enumerate(self.workers):
            others = [n for n in range(len(self.workers)) if n != number]
            for arm in map(Arm, range(ARMS)):
                pairs = [self._own[n][arm] for n in others]
                self._others[number][arm] = (sum(p for p, _ in pairs), sum(t for _, t in pairs))
                self._show(number, arm)
                if self._pending:
                    out = sum(self.workers[n].records[arm].out_here for n in others)
                    experiment.set_out_elsewhere(arm, out)


def play(seed: int, workers: int, *, pending: bool = True) -> float:
    """Return the regret of one run as a share of uniform play's."""
    crew, rng = Crew(workers, pending=pending), Random(seed)
    bits = [Random(seed * ARMS + arm) for arm in range(ARMS)]
    waiting: deque[tuple[float, Ticket]] = deque()
    wrong, next_exchange = 0, EXCHANGED_EVERY
    for step in range(RATE * SECONDS):
        now = step / RATE
        while waiting and waiting[0][0] <= now:
            _, ticket = waiting.popleft()
            bit = int(bits[ticket.arm].random() < BITS[ticket.arm])
            crew.answer(rng.randrange(workers), ticket, bit, int(now))
        if workers > 1 and now >= next_exchange:
            crew.exchange()
            next_exchange += EXCHANGED_EVERY
        ticket = crew.decide(rng.randrange(workers), int(now))
        wrong += ticket.arm != BEST
        waiting.append((now + ANSWERED_AFTER, ticket))
    return wrong / UNIFORM


def main() -> None:
    """Play everything and print; exit 1 when the delay costs more than it may."""
    kinds = {
        "one process": partial(play, workers=1),
        "8 workers, 1 s": partial(play, workers=WORKERS),
        "8 workers, 1 s, own tickets only": partial(play, workers=WORKERS, pending=False),
    }
    with Pool() as pool:
        shares = {what: pool.map(run, range(RUNS)) for what, run in kinds.items()}
    print(f"regret as a share of uniform play's, {RUNS} runs, with the standard error")
    for what, found in shares.items():
        print(f"{what:<36}{100 * fmean(found):6.2f} %  +- {100 * stdev(found) / RUNS**0.5:.2f}")
    many, one = shares["8 workers, 1 s"], shares["one process"]
    ratio = fmean(many) / fmean(one)
    error = stdev(a - ratio * b for a, b in zip(many, one, strict=True)) / RUNS**0.5 / fmean(one)
    missed = ratio > MOST
    print(f"8 workers / one process: {ratio:.3f} +- {error:.3f}, at most {MOST} wanted{': MISSED' if missed else ''}")
    sys.exit(missed)


if __name__ == "__main__":
    main()
