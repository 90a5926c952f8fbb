"""One of several workers on a store: how it learns what the others do, and they what it does.

Each worker looks every half second. It hands out arms by what it saw no more than two seconds ago, and refuses to when
it cannot look. A change by an experimenter is acknowledged once every worker that still hands out arms has seen it.
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
from ldpbandits.server.experiments.live import DECISION, MISSING, LiveExperiment
from ldpbandits.server.process.clock import elapsed
from ldpbandits.server.single_flight import take_note
from ldpbandits.server.store import FRESH_FOR_S, Behind, Event, Mark, News, Pending, Replaced, SharedStore, Unavailable
from ldpbandits.types import Arm

if TYPE_CHECKING:
    from ldpbandits.server.service import Service

PEER_POLL_INTERVAL_S = 0.5
IDLE_TIMEOUT_S = 30.0
"""What nobody has asked for in so many seconds is looked at no more, until somebody does."""

UNKNOWN_POLL_INTERVAL_S = 0.1
"""Whoever asks for what we do not know makes us look again, but no sooner after the last look than this."""

POLL_TIMEOUT_S = 5.0
"""Seconds after which nobody waits for a look any more: a database that hangs must not make everybody hang."""

EXPERIMENTS_PER_TURN = 100
"""What so many experiments have done elsewhere is taken over before decisions get their turn."""

ACKNOWLEDGE_TIMEOUT_S = 15.0
CHANGE_ATTEMPTS = 20

P = ParamSpec("P")
T = TypeVar("T")
_log = logging.getLogger(__name__)


class Peers:
    """The part of a service that deals with the other workers. It belongs to the event loop."""

    def __init__(self, service: "Service", store: SharedStore) -> None:
        """Look through a thread of its own: the one that writes may be waiting for a disk, or for a standby."""
        self._service, self._store = service, store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="news")
        self._lock = asyncio.Lock()
        self._poll_task: asyncio.Task[None] | None = None
        self._polled_at = self._failed_at = self._began_at = -inf
        self._applied = store.version
        """The last change that was taken over here; the others may not have been told yet."""
        self._happened: Counter[tuple[int, int, str]] = Counter()
        self._followed: dict[int, tuple[LiveExperiment, Mark]] = {}
        """Those of which all that the look of this mark has found was taken over."""

    def close(self) -> None:
        """Tell the others what is pending here, and end the thread."""
        self._publish()
        with suppress(Unavailable):
            self._thread.submit(self._store.refresh, (), {}).result()
        self._thread.shutdown()

    async def _run(self, verb: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: verb(*args, **kwargs))

    def note(self, experiment: int, arm: int, kind: str, count: int) -> None:
        """Take note of an event. What changes what is pending is told together with that, so that it adds up."""
        if kind in {DECISION, MISSING}:
            self._happened[experiment, arm, kind] += count
        else:
            self._service.committer.note(experiment, arm, kind, count)

    def forget(self, experiment: int) -> None:
        """Drop what has happened in an experiment that is no more."""
        for key in [key for key in self._happened if key[0] == experiment]:
            del self._happened[key]

    async def poll(self) -> None:
        """Take over what the others did until now. Many who ask at once share a look that begins after all of them."""
        await self._poll_after(elapsed())

    async def poll_unknown(self) -> None:
        """Look, for somebody who asks for what we do not know, but may know from another worker; not all the time."""
        await self._poll_after(elapsed(), UNKNOWN_POLL_INTERVAL_S)

    async def _poll_after(self, came: float, pause: float = 0.0) -> None:
        """Make sure that there was a look since somebody came, who is told so within some seconds, or `Unavailable`.

        A look goes on when nobody waits for it any more: what it finds is taken over once, and would be lost.
        """
        is_under_way = self._poll_task is not None and not self._poll_task.done()
        if is_under_way and self._began_at + POLL_TIMEOUT_S < came:  # others have waited in vain
            raise self._timed_out()
        try:
            async with asyncio.timeout(POLL_TIMEOUT_S), self._lock:
                if self._poll_task is not None and not self._poll_task.done():
                    await asyncio.shield(self._poll_task)
                if self._polled_at < came:
                    last = max(self._polled_at, self._failed_at)
                    if last >= came:  # it has failed, and would again
                        raise Unavailable("the other workers cannot be asked")
                    await asyncio.sleep(last + pause - elapsed())
                    self._began_at = elapsed()
                    self._poll_task = asyncio.create_task(self._poll())
                    self._poll_task.add_done_callback(take_note)
                    await asyncio.shield(self._poll_task)
        except TimeoutError:
            raise self._timed_out() from None

    @staticmethod
    def _timed_out() -> Unavailable:
        return Unavailable(f"the other workers were not heard of for {POLL_TIMEOUT_S:g} s")

    async def refresh(self, experiment: LiveExperiment) -> None:
        """Make sure that what we know of an experiment is fresh; raise `Unavailable` when we cannot look."""
        experiment.asked_at = elapsed()
        if experiment.fresh_until < experiment.asked_at:
            await self.poll()

    async def refresh_keys(self) -> None:
        """Make sure that a key that has ended elsewhere has ended here; if we cannot look, go on.

        Nobody waits for a worker that was frozen: it must not wake up with the keys of then. One without a database
        goes on, since whatever needs the others, or the store, fails by itself; its own metrics are all that is left.
        """
        with suppress(Unavailable):
            await self.refresh_secrets()

    async def refresh_secrets(self) -> None:
        """Make sure that a signing secret that has ended elsewhere has ended here; raise `Unavailable` if we cannot.

        Counting may wait for a database that is away, and when it is back nothing tells that the ticket is void.
        """
        if self._polled_at + FRESH_FOR_S < elapsed():
            await self.poll()

    async def refresh_all(self, experiments: Collection[LiveExperiment]) -> None:
        """Make sure that what we know of these experiments is fresh, for this once: there may be thousands."""
        now = elapsed()
        stale = [experiment for experiment in experiments if experiment.fresh_until < now]
        for experiment in stale:
            experiment.asked_at = max(experiment.asked_at, now - IDLE_TIMEOUT_S + FRESH_FOR_S)
        if stale:
            await self.poll()

    async def put(self, name: bytes, note: bytes, until: int) -> None:
        """Let all workers find this until then."""
        await self._run(self._store.put_note, name, note, until)

    async def find(self, name: bytes) -> bytes | None:
        """Return what a worker has put under this name."""
        return await self._run(self._store.find_note, name)

    async def find_all(self, start: bytes) -> dict[bytes, bytes]:
        """Return all that workers have put under names that start so, and that has not ended."""
        return await self._run(self._store.find_notes, start, int(time()))

    @property
    def worker(self) -> int:
        """The number under which this worker is listed; no other has it or had it."""
        return self._store.worker

    async def take(self, name: bytes) -> bytes | None:
        """Return it to nobody else."""
        return await self._run(self._store.take_note, name)

    async def change(self, work: Callable[[], Awaitable[T]]) -> T:
        """Make a change that is checked against the present state, and return when all workers know of it."""
        for _ in range(CHANGE_ATTEMPTS):
            await self.poll()
            self._store.basis = before = self._store.version
            try:
                result = await work()
            except Behind:  # another worker was faster: check again
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
                    _log.warning("a new key is shown, though %s", error)  # it is shown once, and must not be lost
            return result
        raise Unavailable("other workers change too much at once")

    async def _poll_from(self, version: int) -> None:
        """Take over again, at the next look, what was changed after this version.

        A look in the middle of a change that has failed, or perhaps not, may have taken over what was then undone here.
        """
        async with self._lock:
            if self._poll_task is not None:
                await asyncio.wait([self._poll_task], timeout=POLL_TIMEOUT_S)
            self._store.version = min(self._store.version, version)

    @property
    def is_overtaken(self) -> bool:
        """Tell whether a look has taken over the change that we have just made, and perhaps later ones of others."""
        return self._applied >= self._store.basis

    async def _wait_for_acknowledgements(self) -> None:
        """Wait until every worker that hands out arms knows our last change; we take it over as they do."""
        version = self._store.basis
        try:
            async with asyncio.timeout(ACKNOWLEDGE_TIMEOUT_S):
                await self.poll()
                while not await self._run(self._store.is_acknowledged, version):  # noqa: ASYNC110 - they are elsewhere
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise Unavailable("the change is made, but not every worker has taken note of it yet") from None

    async def _poll(self) -> None:
        started, experiments = elapsed(), self._service.experiments.values()
        in_use = {each.number: each for each in experiments if each.asked_at > started - IDLE_TIMEOUT_S}
        touched = self._publish()
        known = {number: self._followed.pop(number) for number in in_use if number in self._followed}
        followed = {number: mark for number, (each, mark) in known.items() if each is in_use[number]}
        try:
            news = await self._run(self._store.refresh, [0, *in_use], followed)
            await self._apply(news, in_use, touched)
            self._followed |= {number: (each, news.mark) for number, each in in_use.items()}
        except Exception as error:
            self._failed_at = started
            if isinstance(error, Replaced):
                self._service.lost = str(error)
            raise
        for experiment in in_use.values():
            experiment.fresh_until = started + FRESH_FOR_S
        self._polled_at = started

    def _publish(self) -> set[tuple[int, int]]:
        """Hand over what has changed, of the tickets that are out, since the last look, and what has happened.

        Return the arms concerned, by experiment and number.
        """
        pending: list[Pending] = []
        for experiment in self._service.experiments.values():
            opened = experiment.open
            if opened.touched:  # of thousands, in a few
                pending += [Pending(experiment.number, arm, opened.counts[arm], opened.until) for arm in opened.touched]
                opened.touched.clear()
        events, self._happened = self._happened, Counter()
        self._store.tell(pending, [Event(*key, count) for key, count in events.items()])
        return {each[:2] for each in pending}

    async def _apply(self, news: News, in_use: dict[int, LiveExperiment], touched: Collection[tuple[int, int]]) -> None:
        service = self._service
        if news.given_up is not None:
            self._start_anew(news.given_up)
        for number, stored in news.experiments.items():
            if stored is None:
                service.unload(number)
                self._followed.pop(number, None)
            else:
                service.load(stored)
        self._applied = max(self._applied, news.version)
        service.apply_totals(news.totals)
        await self._apply_arms(news, in_use, touched)
        if news.keys_changed:
            await service.committer.run(service.keys.reload)
        if news.version > self._store.version:
            await self._run(self._store.knows, news.version)

    async def _apply_arms(
        self, news: News, in_use: dict[int, LiveExperiment], touched: Collection[tuple[int, int]]
    ) -> None:
        """Take over what happened and is out elsewhere, of the arms at which anything did: there may be thousands."""
        events: dict[int, list[Event]] = {number: [] for number in (0, *in_use)}
        for event in news.events:
            events[event.experiment].append(event)
        self._service.apply_peer_events(events.pop(0))
        out = {(each.experiment, each.arm): each.tickets for each in news.pending}
        told = {number: set(range(len(in_use[number].records))) for number in news.whole if number}
        for number, arm in news.arms:
            told.setdefault(number, set()).add(arm)
        for place, (number, arms) in enumerate(told.items()):
            if place % EXPERIMENTS_PER_TURN == EXPERIMENTS_PER_TURN - 1:
                await asyncio.sleep(0)
            experiment = in_use[number]
            for arm in arms:
                elsewhere = out.get((number, arm), 0)
                if elsewhere != experiment.records[arm].out_elsewhere:
                    experiment.records[arm].out_elsewhere = elsewhere
                    experiment.show_out(Arm(arm))
            experiment.apply_peer_events(events[number], arms)
        for number, arm in {*touched, *(cell[:2] for cell in news.totals)}:
            if number in self._service.numbered:
                self._service.numbered[number].allow_for_lost(arm)

    def _start_anew(self, settled: Sequence[Pending]) -> None:
        """Go on after others took us for dead: what happened here happened elsewhere, and what was pending is missing.

        That is taken back: whether it is missing, our own books tell. So is, from now on, only what they do not know.
        """
        _log.warning("this worker was not heard of for so long that the others took it for dead; it starts anew")
        for experiment in self._service.experiments.values():
            experiment.rejected_here.clear()
            for number, record in enumerate(experiment.records):
                record.decided = self._happened[experiment.number, number, DECISION]
                record.missed = self._happened[experiment.number, number, MISSING]
            for each in settled:
                if each.experiment == experiment.number:
                    experiment.miss(each.arm, -each.tickets)
