"""How pages follow what happens: by a stream of server-sent events that says when there is something new to see.

A stream tells no more than that: the page then asks for itself again, and so there is one way in which it is made.
Nothing is added to the way of a response: a stream looks at the counts once a second, and what pages that follow show
is worked out about once a second, however many look on.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from math import inf

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ldpbandits.server.console.replies import HEADERS
from ldpbandits.server.console.sessions import Session, Sessions
from ldpbandits.server.experiments import LiveExperiment
from ldpbandits.server.messages import History, Report
from ldpbandits.server.refusals import Refusal
from ldpbandits.server.service import Service
from ldpbandits.spec.protocol import Code

EVERY = 1.0
"""Seconds between two looks of a stream."""

FRESH = 0.9
"""For so many seconds what was worked out is good enough for pages that follow: they ask again and again."""

QUIET = 20
"""After so many looks without news, a line that says nothing: proxies cut what is silent."""

MOST = 64
"""Streams at a time. Whoever comes later sees pages that do not follow."""


@dataclass(frozen=True)
class Look:
    """What an experiment looked like at a moment, and a word for that moment."""

    version: str
    report: Report
    history: History


class Live:
    """What is the same for all who look on."""

    def __init__(self, service: Service, sessions: Sessions) -> None:
        """Begin without streams."""
        self._service = service
        self._sessions = sessions
        self._looks: dict[str, tuple[float, str, asyncio.Task[Look]]] = {}
        self._versions: dict[str | None, tuple[float, str]] = {}
        self.streams = 0
        self.ending = service.ending

    def version(self, name: str | None) -> str:
        """Return a word that changes whenever the page of an experiment does; without a name, that of the list."""
        if name is None:
            return version_of_all(map(self.version, self._service.experiments))
        experiment = self._service.experiments.get(name)
        forged = self._service.rejected[Code.FORGED]
        return _short((forged, None if experiment is None else _state(experiment, self._service.now)))

    def recent_version(self, name: str | None) -> str:
        """Return the same, as it was at the last look of any stream, or now: so it is worked out for all at once."""
        now = asyncio.get_running_loop().time()
        at, version = self._versions.get(name, (-inf, ""))
        if now >= at + EVERY / 2:
            version = self.version(name)
            self._versions = {known: seen for known, seen in self._versions.items() if now < seen[0] + EVERY}
            self._versions[name] = (now, version)
        return version

    async def look(self, name: str, *, follows: bool = False) -> Look:
        """Return what an experiment looks like now, or to a page that follows, within the last second."""
        version, now = self.version(name), asyncio.get_running_loop().time()
        at, seen, task = self._looks.get(name, (0.0, "", None))
        if task is None or (seen != version and now >= at + (FRESH if follows else 0)):
            task = asyncio.ensure_future(self._look(name, version))
            self._looks = {known: look for known, look in self._looks.items() if known in self._service.experiments}
            self._looks[name] = (now, version, task)
        try:
            return await asyncio.shield(task)  # others may wait for it too
        except Exception:
            self._looks.pop(name, None)
            raise

    async def _look(self, name: str, version: str) -> Look:
        return Look(version, await self._service.report(name), await self._service.history(name))

    def stream(self, session: Session, name: str | None, seen: str) -> Response:
        """Return a reply that goes on, and says each version of a page other than the one that was seen."""
        if name is not None and name not in self._service.experiments:
            raise Refusal(404, Code.NOT_FOUND, "there is no experiment of this name")
        if self.streams >= MOST:
            raise Refusal(503, Code.RETRY, "too many pages are kept up to date already: reload this one to see more")
        return _Stream(self, session, name, seen)

    async def goes_on(self, session: Session, name: str | None, *, thorough: bool) -> bool:
        """Tell whether there is still somebody to tell, and something to tell of; others are asked when thorough."""
        await (self._service.know_all() if name is None else self._service.know(name))
        holds = await self._sessions.is_known(session) if thorough else self._sessions.holds(session)
        return holds and (name is None or name in self._service.experiments)


class _Stream(Response):
    """A reply that is never complete: it says every version once, and ends when nobody may or wants to hear more."""

    def __init__(self, live: Live, session: Session, name: str | None, seen: str) -> None:
        super().__init__(headers={**HEADERS, "X-Accel-Buffering": "no"}, media_type="text/event-stream")
        del self.headers["content-length"]
        self._live, self._session, self._name, self._seen = live, session, name, seen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as ASGI has it
        self._live.streams += 1
        ends = [asyncio.ensure_future(_left(receive)), asyncio.ensure_future(self._live.ending.wait())]
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await _say(send, "retry: 2000\n\n")
            quiet = 0
            while await self._live.goes_on(self._session, self._name, thorough=quiet == 0):
                version = self._live.recent_version(self._name)
                quiet += 1
                if version != self._seen:
                    await _say(send, f"id: {version}\ndata: {version}\n\n")
                    self._seen, quiet = version, 0
                elif quiet >= QUIET:
                    await _say(send, ":\n\n")
                    quiet = 0
                done, _ = await asyncio.wait(ends, timeout=EVERY, return_when=asyncio.FIRST_COMPLETED)
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
    """Wait until whoever asked has gone."""
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
        sum(record.missing for record in records),
    )
    rejected = sorted(experiment.rejected.items())
    return experiment.number, experiment.status, experiment.shipped, len(arms), sums, rejected


def version_of_all(versions: Iterable[str]) -> str:
    """Return a word that changes whenever one of these does."""
    return _short(list(versions))


def _short(state: object) -> str:
    return sha256(repr(state).encode()).hexdigest()[:16]
