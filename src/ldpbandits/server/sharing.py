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

from ldpbandits.server.clock import elapsed
from ldpbandits.server.experiments import DECISION, MISSING, LiveExperiment
from ldpbandits.server.messages import Key
from ldpbandits.server.once import take_note
from ldpbandits.server.store import FRESH, Behind, Event, Mark, News, Pending, Replaced, SharedStore, Unavailable
from ldpbandits.types import Arm

if TYPE_CHECKING:
    from ldpbandits.server.service import Service

LOOK_EVERY = 0.5
IDLE = 30.0
"""What nobody has asked for in so many seconds is looked at no more, until somebody does."""

SHORTEST_PAUSE = 0.1
"""Whoever asks for what we do not know makes us look again, but no sooner after the last look than this."""

LONGEST_LOOK = 5.0
"""Seconds after which nobody waits for a look any more: a database that hangs must not make everybody hang."""

TURN = 100
"""What so many experiments have done elsewhere is taken over before decisions get their turn."""

EVERYBODY_WITHIN = 15.0
TRIES = 20
CLOSE_ATTEMPTS = 2

P = ParamSpec("P")
T = TypeVar("T")
_log = logging.getLogger(__name__)


class Sharing:
    """The part of a service that deals with the other workers. It belongs to the event loop."""

    def __init__(self, service: "Service", store: SharedStore) -> None:
        """Look through a thread of its own: the one that writes may be waiting for a disk, or for a standby."""
        self._service, self._store = service, store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="news")
        self._lock = asyncio.Lock()
        self._looking: asyncio.Task[None] | None = None
        self._looked_at = self._failed_at = self._began_at = -inf
        self._taken_over = store.version
        """The last change that was taken over here; the others may not have been told yet."""
        self._happened: Counter[tuple[int, int, str]] = Counter()
        self._followed: dict[int, tuple[LiveExperiment, Mark]] = {}
        """Those of which all that the look of this mark has found was taken over."""

    def close(self) -> None:
        """Tell the others what is pending here, and end the thread.

        A connection that was lost since the last look is noticed by the first attempt, and replaced by the second.
        """
        self._tell()
        for _ in range(CLOSE_ATTEMPTS):
            with suppress(Unavailable):
                self._thread.submit(self._store.refresh, (), {}).result()
                break
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

    async def look(self) -> None:
        """Take over what the others did until now. Many who ask at once share a look that begins after all of them."""
        await self._look_after(elapsed())

    async def look_again(self) -> None:
        """Look, for somebody who asks for what we do not know, but may know from another worker; not all the time."""
        await self._look_after(elapsed(), SHORTEST_PAUSE)

    async def _look_after(self, came: float, pause: float = 0.0) -> None:
        """Make sure that there was a look since somebody came, who is told so within some seconds, or `Unavailable`.

        A look goes on when nobody waits for it any more: what it finds is taken over once, and would be lost.
        """
        is_under_way = self._looking is not None and not self._looking.done()
        if is_under_way and self._began_at + LONGEST_LOOK < came:  # others have waited in vain
            raise self._unheard()
        try:
            async with asyncio.timeout(LONGEST_LOOK), self._lock:
                if self._looking is not None and not self._looking.done():
                    await asyncio.shield(self._looking)
                if self._looked_at < came:
                    last = max(self._looked_at, self._failed_at)
                    if last >= came:  # it has failed, and would again
                        raise Unavailable("the other workers cannot be asked")
                    await asyncio.sleep(last + pause - elapsed())
                    self._began_at = elapsed()
                    self._looking = asyncio.create_task(self._look())
                    self._looking.add_done_callback(take_note)
                    await asyncio.shield(self._looking)
        except TimeoutError:
            raise self._unheard() from None

    @staticmethod
    def _unheard() -> Unavailable:
        return Unavailable(f"the other workers were not heard of for {LONGEST_LOOK:g} s")

    async def freshen(self, experiment: LiveExperiment) -> None:
        """Make sure that what we know of an experiment is fresh; raise `Unavailable` when we cannot look."""
        experiment.asked_at = elapsed()
        if experiment.fresh_until < experiment.asked_at:
            await self.look()

    async def freshen_keys(self) -> None:
        """Make sure that a key that has ended elsewhere has ended here; if we cannot look, go on.

        Nobody waits for a worker that was frozen: it must not wake up with the keys of then. One without a database
        goes on, since whatever needs the others, or the store, fails by itself; its own metrics are all that is left.
        """
        with suppress(Unavailable):
            await self.freshen_secrets()

    async def freshen_secrets(self) -> None:
        """Make sure that a signing secret that has ended elsewhere has ended here; raise `Unavailable` if we cannot.

        Counting may wait for a database that is away, and when it is back nothing tells that the ticket is void.
        """
        if self._looked_at + FRESH < elapsed():
            await self.look()

    async def freshen_all(self, experiments: Collection[LiveExperiment]) -> None:
        """Make sure that what we know of these experiments is fresh, for this once: there may be thousands."""
        now = elapsed()
        stale = [experiment for experiment in experiments if experiment.fresh_until < now]
        for experiment in stale:
            experiment.asked_at = max(experiment.asked_at, now - IDLE + FRESH)
        if stale:
            await self.look()

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
        for _ in range(TRIES):
            await self.look()
            self._store.basis = before = self._store.version
            try:
                result = await work()
            except Behind:  # another worker was faster: check again
                await self._look_from(before)
                continue
            except Unavailable:
                await self._look_from(before)
                raise
            if self._store.basis > before:
                try:
                    await self._tell_everybody()
                except Unavailable as error:
                    if not isinstance(result, Key):
                        raise
                    _log.warning("a new key is shown, though %s", error)  # it is shown once, and must not be lost
            return result
        raise Unavailable("other workers change too much at once")

    async def _look_from(self, version: int) -> None:
        """Take over again, at the next look, what was changed after this version.

        A look in the middle of a change that has failed, or perhaps not, may have taken over what was then undone here.
        """
        async with self._lock:
            if self._looking is not None:
                await asyncio.wait([self._looking], timeout=LONGEST_LOOK)
            self._store.version = min(self._store.version, version)

    @property
    def is_overtaken(self) -> bool:
        """Tell whether a look has taken over the change that we have just made, and perhaps later ones of others."""
        return self._taken_over >= self._store.basis

    async def _tell_everybody(self) -> None:
        """Wait until every worker that hands out arms knows our last change; we take it over as they do."""
        version = self._store.basis
        try:
            async with asyncio.timeout(EVERYBODY_WITHIN):
                await self.look()
                while not await self._run(self._store.everybody_knows, version):  # noqa: ASYNC110 - they are elsewhere
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise Unavailable("the change is made, but not every worker has taken note of it yet") from None

    async def _look(self) -> None:
        started, experiments = elapsed(), self._service.experiments.values()
        in_use = {each.number: each for each in experiments if each.asked_at > started - IDLE}
        touched = self._tell()
        known = {number: self._followed.pop(number) for number in in_use if number in self._followed}
        followed = {number: mark for number, (each, mark) in known.items() if each is in_use[number]}
        try:
            news = await self._run(self._store.refresh, [0, *in_use], followed)
            await self._take_over(news, in_use, touched)
            self._followed |= {number: (each, news.mark) for number, each in in_use.items()}
        except Exception as error:
            self._failed_at = started
            if isinstance(error, Replaced):
                self._service.lost = str(error)
            raise
        for experiment in in_use.values():
            experiment.fresh_until = started + FRESH
        self._looked_at = started

    def _tell(self) -> set[tuple[int, int]]:
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

    async def _take_over(
        self, news: News, in_use: dict[int, LiveExperiment], touched: Collection[tuple[int, int]]
    ) -> None:
        service = self._service
        if news.given_up is not None:
            self._start_anew(news.given_up)
        for number, stored in news.experiments.items():
            if stored is None:
                service.drop(number)
                self._followed.pop(number, None)
            else:
                service.take_up(stored)
        self._taken_over = max(self._taken_over, news.version)
        service.take_over(news.totals)
        await self._take_over_arms(news, in_use, touched)
        if news.keys_changed:
            await service.committer.run(service.keys.reload)
        if news.version > self._store.version:
            await self._run(self._store.knows, news.version)

    async def _take_over_arms(
        self, news: News, in_use: dict[int, LiveExperiment], touched: Collection[tuple[int, int]]
    ) -> None:
        """Take over what happened and is out elsewhere, of the arms at which anything did: there may be thousands."""
        events: dict[int, list[Event]] = {number: [] for number in (0, *in_use)}
        for event in news.events:
            events[event.experiment].append(event)
        self._service.happened_elsewhere(events.pop(0))
        out = {(each.experiment, each.arm): each.tickets for each in news.pending}
        told = {number: set(range(len(in_use[number].records))) for number in news.whole if number}
        for number, arm in news.arms:
            told.setdefault(number, set()).add(arm)
        for place, (number, arms) in enumerate(told.items()):
            if place % TURN == TURN - 1:
                await asyncio.sleep(0)
            experiment = in_use[number]
            for arm in arms:
                elsewhere = out.get((number, arm), 0)
                if elsewhere != experiment.records[arm].out_elsewhere:
                    experiment.records[arm].out_elsewhere = elsewhere
                    experiment.show_out(Arm(arm))
            experiment.happened_elsewhere(events[number], arms)
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
            experiment.incidents_here.clear()
            for number, record in enumerate(experiment.records):
                record.decided = self._happened[experiment.number, number, DECISION]
                record.missed = self._happened[experiment.number, number, MISSING]
            for each in settled:
                if each.experiment == experiment.number:
                    experiment.miss(each.arm, -each.tickets)
