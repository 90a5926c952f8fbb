"""Peers: the workers that share a store. Each polls what the others did and publishes what it did itself.

A worker polls every half second. It assigns arms by a poll that is at most two seconds old, and answers 503 while the
store cannot be polled. An experimenter's change is acknowledged once every worker that still assigns arms has seen it.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from math import inf
from time import time
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from ldpbandits.server.api.messages import Key
from ldpbandits.server.experiments.events import MISSING, OF_TICKETS, UNACCEPTED
from ldpbandits.server.experiments.live import LiveExperiment
from ldpbandits.server.process.clock import elapsed
from ldpbandits.server.single_flight import retrieve_error
from ldpbandits.server.store import (
    FRESH_FOR_S,
    Behind,
    Event,
    Mark,
    PeerUpdates,
    Pending,
    Replaced,
    SharedStore,
    Unavailable,
)

if TYPE_CHECKING:
    from ldpbandits.server.service import Service

PEER_POLL_INTERVAL_S = 0.5
IDLE_TIMEOUT_S = 30.0
"""Seconds after the last request for an experiment for which it is still polled."""

UNKNOWN_POLL_INTERVAL_S = 0.1
"""Minimum seconds between polls caused by unknown keys or experiments."""

POLL_TIMEOUT_S = 5.0
"""Seconds that a request waits for a poll: a database that hangs must not make every request hang."""

EXPERIMENTS_PER_TURN = 100
"""Experiments whose peer updates are applied before the event loop serves decisions again."""

ACKNOWLEDGE_TIMEOUT_S = 15.0
"""Seconds within which every peer must have seen a change, or its caller gets 503."""

CHANGE_ATTEMPTS = 20
"""A change is checked again this often while other workers change something first."""

CLOSE_ATTEMPTS = 2
"""The first attempt may find that the connection is lost; the second makes a new one."""

P = ParamSpec("P")
T = TypeVar("T")
_log = logging.getLogger(__name__)


class Peers:
    """The part of a service that talks to the other workers. Only the event loop uses it."""

    def __init__(self, service: "Service", store: SharedStore) -> None:
        """Poll in a thread of its own: the thread that writes may wait for a disk or a standby."""
        self._service, self._store = service, store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="peer-poll")
        self._lock = asyncio.Lock()
        self._poll_task: asyncio.Task[None] | None = None
        self._polled_at = self._failed_at = self._began_at = -inf
        self._applied = store.version
        """The version of the last change that was applied here; peers may not know that yet."""
        self._happened: Counter[tuple[int, int, str]] = Counter()
        self._followed: dict[int, tuple[LiveExperiment, Mark]] = {}
        """Experiments whose updates up to this mark are applied."""

    def close(self) -> None:
        """Publish what is pending here, and end the thread."""
        self._publish()
        for _ in range(CLOSE_ATTEMPTS):
            with suppress(Unavailable):
                self._thread.submit(self._store.refresh, (), {}).result()
                break
        self._thread.shutdown()

    async def _run(self, verb: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: verb(*args, **kwargs))

    def note(self, experiment: int, arm: int, kind: str, count: int) -> None:
        """Count an event. Events that change the pending count are published with it, so the totals agree."""
        if kind in OF_TICKETS:
            self._happened[experiment, arm, kind] += count
        else:
            self._service.committer.note(experiment, arm, kind, count)

    def forget(self, experiment: int) -> None:
        """Drop the unpublished events of a deleted experiment."""
        for key in [key for key in self._happened if key[0] == experiment]:
            del self._happened[key]

    async def poll(self) -> None:
        """Apply what the peers did until now. Concurrent callers share one poll that begins after all of them."""
        await self._poll_after(elapsed())

    async def poll_unknown(self) -> None:
        """Poll for a key or an experiment that is unknown here but may exist at a peer; the rate is limited."""
        await self._poll_after(elapsed(), UNKNOWN_POLL_INTERVAL_S)

    async def _poll_after(self, came: float, pause: float = 0.0) -> None:
        """Return once a poll that began after `came` has succeeded; raise `Unavailable` after `POLL_TIMEOUT_S`.

        A poll goes on after its callers have given up: its updates are read once, and would be lost.
        """
        is_under_way = self._poll_task is not None and not self._poll_task.done()
        if is_under_way and self._began_at + POLL_TIMEOUT_S < came:  # earlier callers have timed out
            raise self._timed_out()
        try:
            async with asyncio.timeout(POLL_TIMEOUT_S), self._lock:
                if self._poll_task is not None and not self._poll_task.done():
                    await asyncio.shield(self._poll_task)
                if self._polled_at < came:
                    last = max(self._polled_at, self._failed_at)
                    if last >= came:  # a poll failed meanwhile, and would again
                        raise Unavailable("the changes of other workers cannot be polled")
                    await asyncio.sleep(last + pause - elapsed())
                    self._began_at = elapsed()
                    self._poll_task = asyncio.create_task(self._poll())
                    self._poll_task.add_done_callback(retrieve_error)
                    await asyncio.shield(self._poll_task)
        except TimeoutError:
            raise self._timed_out() from None

    @staticmethod
    def _timed_out() -> Unavailable:
        return Unavailable(f"a poll of the other workers took longer than {POLL_TIMEOUT_S:g} s")

    async def refresh(self, experiment: LiveExperiment) -> None:
        """Poll unless the state of this experiment is fresh; raise `Unavailable` when the poll fails."""
        experiment.asked_at = elapsed()
        if experiment.fresh_until < experiment.asked_at:
            await self.poll()

    async def refresh_keys(self) -> None:
        """Poll unless the keys are fresh, so that a key revoked at a peer is revoked here; go on when the poll fails.

        A worker that was frozen must not accept the keys of the time before. One without a database goes on: requests
        that need the store fail by themselves, and its own metrics are needed then.
        """
        with suppress(Unavailable):
            await self.refresh_secrets()

    async def refresh_secrets(self) -> None:
        """Poll unless the signing secrets are fresh; raise `Unavailable` when the poll fails.

        A response may wait for a database that is away. When it is back, nothing else shows that its ticket is void.
        """
        if self._polled_at + FRESH_FOR_S < elapsed():
            await self.poll()

    async def refresh_all(self, experiments: Collection[LiveExperiment]) -> None:
        """Poll once unless all of these experiments are fresh; they are not polled again: there may be thousands."""
        now = elapsed()
        stale = [experiment for experiment in experiments if experiment.fresh_until < now]
        for experiment in stale:
            experiment.asked_at = max(experiment.asked_at, now - IDLE_TIMEOUT_S + FRESH_FOR_S)
        if stale:
            await self.poll()

    async def put(self, name: bytes, note: bytes, until: int) -> None:
        """Store a note that every worker can find until `until`."""
        await self._run(self._store.put_note, name, note, until)

    async def find(self, name: bytes) -> bytes | None:
        """Return the note of this name."""
        return await self._run(self._store.find_note, name)

    async def find_all(self, start: bytes) -> dict[bytes, bytes]:
        """Return the notes whose names begin with `start` and that have not expired."""
        return await self._run(self._store.find_notes, start, int(time()))

    @property
    def worker(self) -> int:
        """The number of this worker; no other worker has it or had it."""
        return self._store.worker

    async def take(self, name: bytes) -> bytes | None:
        """Remove the note of this name and return it."""
        return await self._run(self._store.take_note, name)

    async def change(self, work: Callable[[], Awaitable[T]]) -> T:
        """Make a change that was checked against the present state; return once every worker knows it."""
        for _ in range(CHANGE_ATTEMPTS):
            await self.poll()
            self._store.basis = before = self._store.version
            try:
                result = await work()
            except Behind:  # a peer changed something first
                await self._poll_from(before)
                continue
            except Unavailable:
                await self._poll_from(before)
                raise
            if self._store.basis > before:
                try:
                    await self._wait_for_acknowledgements()
                except Unavailable as error:
                    if not isinstance(result, Key):
                        raise
                    _log.warning(
                        "the reply shows the new key, although %s", error
                    )  # it is shown once, and must not be lost
            return result
        raise Unavailable("changes of other workers conflicted with each attempt: try again")

    async def _poll_from(self, version: int) -> None:
        """Let the next poll apply again what was changed after this version.

        A poll during a change of unknown outcome may have applied what was then undone here.
        """
        async with self._lock:
            if self._poll_task is not None:
                await asyncio.wait([self._poll_task], timeout=POLL_TIMEOUT_S)
            self._store.version = min(self._store.version, version)

    @property
    def is_overtaken(self) -> bool:
        """Tell whether a poll has applied the change that was just made here, and perhaps later ones of peers."""
        return self._applied >= self._store.basis

    async def _wait_for_acknowledgements(self) -> None:
        """Wait until every worker that assigns arms has seen the last change."""
        version = self._store.basis
        try:
            async with asyncio.timeout(ACKNOWLEDGE_TIMEOUT_S):
                await self.poll()
                while not await self._run(self._store.is_acknowledged, version):  # noqa: ASYNC110 - they are elsewhere
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise Unavailable("the change is made, but not every worker has acknowledged it yet") from None

    async def _poll(self) -> None:
        started, experiments = elapsed(), self._service.experiments.values()
        in_use = {each.number: each for each in experiments if each.asked_at > started - IDLE_TIMEOUT_S}
        touched = self._publish()
        known = {number: self._followed.pop(number) for number in in_use if number in self._followed}
        followed = {number: mark for number, (each, mark) in known.items() if each is in_use[number]}
        try:
            updates = await self._run(self._store.refresh, [0, *in_use], followed)
            await self._apply(updates, in_use, touched)
            self._followed |= {number: (each, updates.mark) for number, each in in_use.items()}
        except Exception as error:
            self._failed_at = started
            if isinstance(error, Replaced):
                self._service.lost = str(error)
            raise
        for experiment in in_use.values():
            experiment.fresh_until = started + FRESH_FOR_S
        for experiment in experiments:
            experiment.expire(self._service.now)  # for the next poll: a peer that forgives the missing asks nobody
        self._polled_at = started

    def _publish(self) -> set[tuple[int, int]]:
        """Hand the store what changed since the last poll: open tickets, as absolute counts, and events.

        Return the arms concerned, by experiment and number.
        """
        pending: list[Pending] = []
        for experiment in self._service.experiments.values():
            opened, accepted = experiment.open, experiment.accepted
            if opened.touched or accepted.touched:  # of thousands, in a few
                until = max(opened.until, accepted.until)
                for arm in opened.touched | accepted.touched:
                    count = experiment.records[arm].out_here
                    pending.append(Pending(experiment.number, arm, count, until, accepted.count(arm)))
                opened.touched.clear()
                accepted.touched.clear()
        events, self._happened = self._happened, Counter()
        self._store.queue_updates(pending, [Event(*key, count) for key, count in events.items()])
        return {each[:2] for each in pending}

    async def _apply(
        self, updates: PeerUpdates, in_use: dict[int, LiveExperiment], touched: Collection[tuple[int, int]]
    ) -> None:
        service = self._service
        if updates.settled is not None:
            self._register_again(updates.settled)
        for number, stored in updates.experiments.items():
            if stored is None:
                service.unload(number)
                self._followed.pop(number, None)
            else:
                service.load(stored)
        self._applied = max(self._applied, updates.version)
        service.apply_totals(updates.totals)
        await self._apply_arms(updates, in_use, touched)
        if updates.keys_changed:
            await service.committer.run(service.keys.reload)
        if updates.version > self._store.version:
            await self._run(self._store.acknowledge, updates.version)

    async def _apply_arms(
        self, updates: PeerUpdates, in_use: dict[int, LiveExperiment], touched: Collection[tuple[int, int]]
    ) -> None:
        """Apply events and open tickets of peers, of the arms that changed: there may be thousands."""
        events: dict[int, list[Event]] = {number: [] for number in (0, *in_use)}
        for event in updates.events:
            events[event.experiment].append(event)
        self._service.apply_peer_events(events.pop(0))
        out = {(each.experiment, each.arm): each.tickets for each in updates.pending}
        told = {number: set(range(len(in_use[number].records))) for number in updates.whole if number}
        for number, arm in updates.arms:
            told.setdefault(number, set()).add(arm)
        for place, (number, arms) in enumerate(told.items()):
            if place % EXPERIMENTS_PER_TURN == EXPERIMENTS_PER_TURN - 1:
                await asyncio.sleep(0)
            experiment = in_use[number]
            for arm in arms:
                experiment.set_out_elsewhere(arm, out.get((number, arm), 0))
            experiment.apply_peer_events(events[number], arms)
        for number, arm in {*touched, *(cell[:2] for cell in updates.totals)}:
            if number in self._service.numbered:
                self._service.numbered[number].count_lost_decisions(arm)

    def _register_again(self, settled: Sequence[Pending]) -> None:
        """Go on under a new number after the peers took this worker for dead.

        They count its published events as theirs and its open tickets as missing. This worker still knows these
        tickets, so it takes the missing back and counts only what it has not published.
        """
        _log.warning("this worker sent no heartbeat for too long: its peers took it for dead; it registers again")
        for experiment in self._service.experiments.values():
            for number, record in enumerate(experiment.records):
                unpublished = {kind: self._happened[experiment.number, number, kind] for kind in OF_TICKETS}
                record.here = Counter(unpublished)
            for each in settled:
                if each.experiment == experiment.number:
                    experiment.count_event(each.arm, MISSING, -each.accepted)
                    experiment.count_event(each.arm, UNACCEPTED, each.accepted - each.tickets)
