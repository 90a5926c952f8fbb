"""Live pages: a stream of server-sent events announces each new version of a page.

A stream sends no content: the page then requests itself again, so that it is rendered in one way only. Counting a
response does no extra work: a stream polls the counts once a second, and the content of live pages is computed about
once a second, however many viewers there are.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from math import ceil, inf
from typing import Any, TypeAlias, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ldpbandits.server.api.refusals import Refusal
from ldpbandits.server.console.replies import HEADERS
from ldpbandits.server.console.sessions import Session, Sessions
from ldpbandits.server.experiments.live import LiveExperiment
from ldpbandits.server.service import Service
from ldpbandits.spec.messages import History, Report
from ldpbandits.spec.protocol import Code

REFRESH_INTERVAL_S = 1.0
"""Seconds between two polls of a stream."""

SNAPSHOT_LIFETIME_S = 0.9
"""Seconds for which a cached snapshot is good enough for live pages, which request again and again."""

POLLS_PER_KEEP_ALIVE = 20
"""Polls without a new version after which an empty line is sent: proxies close silent connections."""

LARGEST_STREAMS = 64
"""Concurrent streams; further pages are not updated."""


ROWS_PER_PAGE = 25
"""Experiments on a page of the list. The report of each is computed again whenever it has changed."""

MOST_SNAPSHOTS = 200
"""Cached snapshots; beyond that the oldest are dropped."""


@dataclass(frozen=True)
class Line:
    """The content of a line of the list, and its version."""

    version: str
    report: Report


@dataclass(frozen=True)
class Snapshot(Line):
    """A snapshot of an experiment with its history."""

    history: History


@dataclass(frozen=True)
class Listing:
    """A page of the list of experiments, the newest first: those whose names contain `find`."""

    page: int = 1
    find: str = ""

    def part(self, experiments: dict[str, LiveExperiment]) -> "Part":
        """Return what is on this page; a page after the last is the last."""
        newest = reversed(experiments)
        found = [name for name in newest if self.find in name] if self.find else newest
        total = len(found) if isinstance(found, list) else len(experiments)
        page = min(self.page, max(1, ceil(total / ROWS_PER_PAGE)))
        first = (page - 1) * ROWS_PER_PAGE
        return Part(page, first, total, tuple(islice(found, first, first + ROWS_PER_PAGE)))


@dataclass(frozen=True)
class Part:
    """The experiments on a page of the list: their names, how many are before them, and how many there are in all."""

    page: int
    first: int
    total: int
    names: tuple[str, ...]


View: TypeAlias = str | Listing
"""A page that can be followed: of the experiment of this name, or of the list."""

L = TypeVar("L", bound=Line)


class Live:
    """The cached versions and snapshots that all viewers share."""

    def __init__(self, service: Service, sessions: Sessions) -> None:
        self._service = service
        self._sessions = sessions
        self._views: dict[tuple[str, bool], tuple[float, str, asyncio.Task[Any]]] = {}
        """Cached snapshots by experiment, and whether they include the history."""
        self._versions: dict[View, tuple[float, str]] = {}
        self.streams = 0
        self.ending = service.ending

    def version(self, view: View) -> str:
        """Return a word that changes whenever this page does."""
        if isinstance(view, Listing):
            part = view.part(self._service.experiments)
            return version_of_part(part, map(self.version, part.names))
        experiment = self._service.experiments.get(view)
        forged = self._service.rejected[Code.FORGED]
        return _short((forged, None if experiment is None else _state(experiment, self._service.now)))

    def recent_version(self, view: View) -> str:
        """Return the version at the last poll of any stream, or now, so that all streams share one computation."""
        now = asyncio.get_running_loop().time()
        at, version = self._versions.get(view, (-inf, ""))
        if now >= at + REFRESH_INTERVAL_S / 2:
            version = self.version(view)
            self._versions = {
                known: seen for known, seen in self._versions.items() if now < seen[0] + REFRESH_INTERVAL_S
            }
            self._versions[view] = (now, version)
        return version

    async def snapshot(self, name: str, *, follows: bool = False) -> Snapshot:
        """Return a snapshot of an experiment; that of a live page may be a second old."""
        return await self._share(name, self._snapshot, follows=follows, has_history=True)

    async def line(self, name: str, *, follows: bool = False) -> Line:
        """Return the snapshot without the history, which takes most of the time."""
        return await self._share(name, self._line, follows=follows, has_history=False)

    async def _share(
        self, name: str, work: Callable[[str, str], Coroutine[Any, Any, L]], *, follows: bool, has_history: bool
    ) -> L:
        """Share one computation among all callers until the version changes."""
        version, now, key = self.version(name), asyncio.get_running_loop().time(), (name, has_history)
        at, seen, task = self._views.get(key, (0.0, "", None))
        if task is None or (seen != version and now >= at + (SNAPSHOT_LIFETIME_S if follows else 0)):
            task = asyncio.ensure_future(work(name, version))
            self._views.pop(key, None)  # so that it is the last
            self._views[key] = (now, version, task)
            while len(self._views) > MOST_SNAPSHOTS:
                del self._views[next(iter(self._views))]
        try:
            done: L = await asyncio.shield(task)  # others may wait for it too
        except Exception:
            self._views.pop(key, None)
            raise
        return done

    async def _snapshot(self, name: str, version: str) -> Snapshot:
        return Snapshot(version, await self._service.report(name), await self._service.history(name))

    async def _line(self, name: str, version: str) -> Line:
        return Line(version, await self._service.report(name))

    def stream(self, session: Session, view: View, seen: str) -> Response:
        """Return a stream of the versions of a page after the one that was seen."""
        if isinstance(view, str):
            self._service.find(view)
        if self.streams >= LARGEST_STREAMS:
            raise Refusal(
                503, Code.RETRY, "the server already updates as many pages as it can: reload this page to see changes"
            )
        return _Stream(self, session, view, seen)

    async def goes_on(self, session: Session, view: View, *, thorough: bool) -> bool:
        """Tell whether the session and the page still exist; with `thorough` also by other workers."""
        if isinstance(view, str):
            await self._service.refresh(view)
        else:
            await self._service.refresh_all(view.part(self._service.experiments).names)
        holds = await self._sessions.is_known(session) if thorough else self._sessions.holds(session)
        return holds and (isinstance(view, Listing) or view in self._service.experiments)


class _Stream(Response):
    """A stream of server-sent events: it sends every version once, and ends with the session or the page."""

    def __init__(self, live: Live, session: Session, view: View, seen: str) -> None:
        super().__init__(headers={**HEADERS, "X-Accel-Buffering": "no"}, media_type="text/event-stream")
        del self.headers["content-length"]
        self._live, self._session, self._view, self._seen = live, session, view, seen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as ASGI has it
        self._live.streams += 1
        ends = [asyncio.ensure_future(_left(receive)), asyncio.ensure_future(self._live.ending.wait())]
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await _say(send, "retry: 2000\n\n")
            quiet = 0
            while await self._live.goes_on(self._session, self._view, thorough=quiet == 0):
                version = self._live.recent_version(self._view)
                quiet += 1
                if version != self._seen:
                    await _say(send, f"id: {version}\ndata: {version}\n\n")
                    self._seen, quiet = version, 0
                elif quiet >= POLLS_PER_KEEP_ALIVE:
                    await _say(send, ":\n\n")
                    quiet = 0
                done, _ = await asyncio.wait(ends, timeout=REFRESH_INTERVAL_S, return_when=asyncio.FIRST_COMPLETED)
                if done:
                    break
            else:
                await _say(send, "data: over\n\n")  # the page asks for itself once more, and finds out why
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._live.streams -= 1
            for end in ends:
                end.cancel()


async def _say(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


async def _left(receive: Receive) -> None:
    """Wait until the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _state(experiment: LiveExperiment, now: int) -> tuple[object, ...]:
    """Return what changes whenever something about an experiment does: of all that happens to arms, the sums.

    Responses and decisions only grow, so that no two things that happen make up for each other.
    """
    experiment.expire(now)
    arms, records = experiment.arms, experiment.records
    sums = (
        experiment.responses,
        sum(arm.out for arm in arms),
        sum(arm.retired for arm in arms),
        sum(record.decisions for record in records),
        sum(record.missing_events + record.forgiven for record in records),
        sum(record.waiting for record in records),
        sum(record.expired for record in records),
    )
    rejected = sorted(experiment.rejected.items())
    is_hidden = experiment.is_hidden
    said = experiment.metadata
    return experiment.number, experiment.status, experiment.shipped, len(arms), sums, rejected, is_hidden, said


def version_of_part(part: Part, versions: Iterable[str]) -> str:
    """Return a word that changes whenever a page of the list does, of whose experiments these are the versions."""
    return _short((part, *versions))


def _short(state: object) -> str:
    return sha256(repr(state).encode()).hexdigest()[:16]
