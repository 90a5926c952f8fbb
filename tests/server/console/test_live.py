"""Pages follow what happens: a stream says when there is something new, no more often than need be, and then ends."""

import asyncio
import re
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from http.client import HTTPConnection
from pathlib import Path

import pytest
from starlette.types import Message
from tests.server.console.browsing import ENVIRONMENT, HOST, KEYS, Browser, browser
from tests.server.console.browsing import HEADLINE as NEW
from tests.server.console.conftest import Clock
from tests.server.console.life import run
from tests.server.running import HEADLINE, PATIENCE, running

from ldpbandits.server.api.messages import NewExperiment, ResponseMessage
from ldpbandits.server.console import live, sessions
from ldpbandits.server.service import Service

SOON = 10.0
"""Seconds, for a machine that is busy; nothing here takes a tenth of that."""


class Stream:
    """A reply that goes on: what it says comes into a queue, and None at its end."""

    def __init__(self) -> None:
        """Begin with nothing heard."""
        self.said: asyncio.Queue[str | None] = asyncio.Queue()
        self.left = asyncio.Event()
        self.status = 0
        self.headers: dict[str, str] = {}

    async def receive(self) -> Message:
        """Tell the application when we leave."""
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Hear something."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        elif message.get("body"):
            await self.said.put(message["body"].decode())

    async def next(self) -> str | None:
        """Return what is said next."""
        return await asyncio.wait_for(self.said.get(), SOON)

    async def versions(self) -> list[str]:
        """Return all versions that are said before there is a sign of life only."""
        told = [await self.version()]
        while (said := await self.next()) != ":\n\n":
            told += re.findall(r"data: (\w+)", said or "")
        return told

    async def version(self) -> str:
        """Return the version that is said next."""
        said = await self.next()
        found = re.fullmatch(r"id: (\w+)\ndata: \1\n\n", said or "")
        assert found is not None, said
        return found[1]


@asynccontextmanager
async def listening(visitor: Browser, path: str, query: str = "", seen: str = "") -> AsyncIterator[Stream]:
    """Follow a stream as this visitor."""
    stream = Stream()
    cookie = "; ".join(f"{name}={value}" for name, value in visitor.cookies.items())
    sent = {"Host": HOST, "Cookie": cookie, "Last-Event-ID": seen}
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in sent.items() if value],
        "server": ("127.0.0.1", 80),
    }

    async def follow() -> None:
        await visitor.app(scope, stream.receive, stream.send)
        await stream.said.put(None)

    task = asyncio.create_task(follow())
    try:
        assert await stream.next() == "retry: 2000\n\n"
        yield stream
    finally:
        stream.left.set()
        await asyncio.wait_for(task, SOON)


ONE, ALL = "/console/experiments/headline/events", "/console/events"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshot a hundred times as often as in life."""
    monkeypatch.setattr(live, "REFRESH_INTERVAL_S", 0.01)


@pytest.mark.parametrize("path", [ONE, ALL])
def test_a_stream_says_when_something_changed_and_only_then(
    service: Service, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decision, a response, a status: each is told once; while nothing happens, there is a sign of life at most."""
    monkeypatch.setattr(live, "POLLS_PER_KEEP_ALIVE", 5)

    async def life(service: Service) -> None:
        visitor = browser(service)
        await visitor.sign_in("viewer")
        await visitor.visit("experiments/headline" if path == ONE else "./")
        (seen,) = re.findall(r"events\?version=(\w+)", visitor.page)
        async with listening(visitor, path, f"version={seen}") as stream:
            assert stream.status == 200
            assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
            assert stream.headers["cache-control"] == "no-store"
            assert [await stream.next() for _ in range(3)] == [":\n\n"] * 3, "the page has seen this version"
            versions = [seen]
            for change in ("decide", "respond", "pause"):
                if change == "decide":
                    ticket = service.decide("headline").ticket or ""
                elif change == "respond":
                    await service.respond(ResponseMessage(ticket, 1.0))
                else:
                    await service.commands.set_status("headline", "paused")
                told = await stream.versions()
                assert 1 <= len(told) <= 2, "a response is counted, and then its ticket is no longer out"
                versions += told
            assert len(set(versions)) == len(versions)
        async with listening(visitor, path, "version=old", seen=versions[-1]) as stream:
            assert await stream.next() == ":\n\n", "a browser that comes back says what it has heard"

    run(service, life)


def test_a_burst_is_told_once(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much happens between two looks, a stream says one version."""
    monkeypatch.setattr(live, "REFRESH_INTERVAL_S", 0.2)

    async def life(service: Service) -> None:
        visitor = browser(service)
        await visitor.sign_in("viewer")
        async with listening(visitor, ONE) as stream:
            first = await stream.version()
            for _ in range(500):
                service.decide("headline")
            assert await stream.version() != first
            assert stream.said.empty()

    run(service, life)


@pytest.mark.parametrize("end", ["sign-out", "expiry", "stop", "leave", "delete"])
def test_a_stream_ends_promptly(service: Service, clock: Clock, end: str) -> None:
    """When its session ends, when the server stops, when the reader leaves, when the experiment is gone."""

    async def life(service: Service) -> None:
        visitor = browser(service)
        await visitor.sign_in("admin")
        async with listening(visitor, ONE) as stream:
            await stream.version()
            if end == "sign-out":
                await visitor.submit("sign-out", {})
            elif end == "expiry":
                clock.now += sessions.SESSION_LIFETIME_S
            elif end == "stop":
                service.ending.set()
            elif end == "leave":
                stream.left.set()
            else:
                await service.commands.delete("headline")
            last = None
            while (said := await stream.next()) is not None:
                last = said
            assert (last == "data: over\n\n") == (end not in {"stop", "leave"}), "so that the page finds out why"

    run(service, life)


def test_the_number_of_streams_is_bounded(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """One too many is told to come later; when somebody leaves there is room again."""
    monkeypatch.setattr(live, "LARGEST_STREAMS", 2)

    async def life(service: Service) -> None:
        visitor = browser(service)
        await visitor.sign_in("viewer")
        async with listening(visitor, ONE):
            async with listening(visitor, ALL):
                assert (await visitor.send("GET", ONE)).status == 503
            async with listening(visitor, ALL) as stream:
                assert stream.status == 200

    run(service, life)


def test_a_page_of_the_list_follows_its_own_experiments(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """What happens to an experiment on another page is no news; an experiment that is new is, on all pages."""
    monkeypatch.setattr(live, "ROWS_PER_PAGE", 1)

    async def life(service: Service) -> None:
        await service.commands.create(NewExperiment(**{**NEW, "name": "other"}))
        made = live.Live(service, sessions.Sessions(service))
        first, second = live.Listing(1), live.Listing(2)
        before = made.version(first), made.version(second)
        service.decide("headline")
        assert (made.version(first), made.version(second) != before[1]) == (before[0], True)
        before = made.version(first), made.version(second)
        await service.commands.create(NewExperiment(**{**NEW, "name": "third"}))
        assert (made.version(first) != before[0], made.version(second) != before[1]) == (True, True)

    run(service, life)


def test_few_looks_are_kept(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever goes through very many experiments leaves no more than a few reports in memory: the last ones."""
    monkeypatch.setattr(live, "MOST_SNAPSHOTS", 3)

    async def life(service: Service) -> None:
        names = [f"e-{number}" for number in range(5)]
        for name in names:
            await service.commands.create(NewExperiment(**{**NEW, "name": name}))
        made = live.Live(service, sessions.Sessions(service))
        for name in names:
            assert (await made.line(name)).report.name == name
        assert [name for name, _ in made._views] == names[-3:]

    run(service, life)


def test_what_many_see_is_worked_out_once(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty pages that follow share one report, for almost a second; who opens a page sees how it is now."""
    monkeypatch.setattr(live, "SNAPSHOT_LIFETIME_S", 60.0)

    async def life(service: Service) -> None:
        calls, report = 0, service.report

        async def counted(name: str) -> object:
            nonlocal calls
            calls += 1
            return await report(name)

        monkeypatch.setattr(service, "report", counted)
        visitor = browser(service)
        await visitor.sign_in("viewer")

        async def look(*, follows: bool) -> bytes:
            headers = {"Ldpbandits-Follows": "yes"} if follows else {}
            pages = [visitor.send("GET", "experiments/headline", headers=headers) for _ in range(20)]
            (body,) = {reply.body for reply in await asyncio.gather(*pages)}
            return body

        assert b"decisions</dt><dd>0<" in await look(follows=False)
        calls = 0
        service.decide("headline")
        assert b"decisions</dt><dd>0<" in await look(follows=True)
        assert calls == 0
        assert b"decisions</dt><dd>1<" in await look(follows=False)
        assert calls == 1
        assert b"decisions</dt><dd>1<" in await look(follows=False)
        assert calls == 1, "nothing has happened since"
        service.decide("headline")
        monkeypatch.setattr(live, "SNAPSHOT_LIFETIME_S", 0.0)
        assert b"decisions</dt><dd>2<" in await look(follows=True)
        assert calls == 2

    run(service, life)


def test_an_open_stream_does_not_keep_the_server(tmp_path: Path) -> None:
    """A server with somebody looking on stops within a second or so of SIGTERM, not after its ten of patience."""
    with running(tmp_path, environment=ENVIRONMENT, keys=KEYS) as server:
        assert server.ask("POST", "/v1/experiments", HEADLINE).status == 201
        link = server.ask("POST", "/v1/console/links").json["path"]
        form = {"Origin": server.url, "Content-Type": "application/x-www-form-urlencoded"}
        body = f"link={link.rpartition('/')[2]}".encode()
        reply = server.ask("POST", "/console/sign-in", body, role=None, headers=form)
        cookie = reply.headers["set-cookie"].partition(";")[0]
        assert cookie.startswith(f"ldpbandits-{server.port}=")
        connection = HTTPConnection(server.host, server.port, timeout=PATIENCE)
        connection.request("GET", ONE, headers={"Cookie": cookie})
        with closing(connection.getresponse()) as stream:
            assert stream.status == 200
            assert stream.readline() == b"retry: 2000\n"
            start = time.monotonic()
            assert server.stop(signal.SIGTERM) == 0
            assert time.monotonic() - start < 9
            stream.read()
        connection.close()
