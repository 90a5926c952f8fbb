"""The front door: no client takes up more of the server than it may, and no client keeps others out."""

import json
import resource
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from threading import Event
from time import monotonic, sleep

import pytest
from tests.server.running import HEADLINE, PATIENCE, running
from tests.server.threaded import ADMIN, CLIENT, NEW, Threaded, all_of, pour, reply, request, threaded, until

from ldpbandits.errors import ParameterError
from ldpbandits.server.api.rate_limits import RateLimits
from ldpbandits.server.keys import Role
from ldpbandits.server.process.connections import LARGEST_PIPELINE
from ldpbandits.server.process.front_door import FrontDoor
from ldpbandits.server.process.server import _files
from ldpbandits.server.store.sqlite.store import SqliteStore

SHORT = 1.0
"""A limit in seconds that is over soon, and long enough for a busy machine to answer what is complete."""


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Threaded]:
    """A server with short limits."""
    with threaded(
        tmp_path_factory.mktemp("front"),
        header_bytes=4096,
        head_seconds=SHORT,
        body_seconds=SHORT,
        idle_seconds=SHORT,
        stall_seconds=SHORT,
    ) as server:
        yield server


def status(said: bytes) -> int:
    """Return the status of the only reply, whose body, if it is a refusal, is JSON with a code and a message."""
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.count(b"HTTP/1.1 ") == 1, said
    number = int(head[9:12])
    assert number < 400 or set(json.loads(body)) == {"code", "message"}
    return number


@pytest.mark.parametrize(
    ("start", "again"),
    [
        (b"GET / HTTP/1.1\r\n", b"a: b\r\n" * 1000),
        (b"GET / HTTP/1.1\r\na: ", b"b" * 6000),
        (b"GET / HTTP/1.1\r\n", b"a" * 6000),
        (b"GET /", b"a" * 6000),
    ],
    ids=["small headers", "a value", "a name", "a path"],
)
def test_a_head_without_an_end_is_cut(live: Threaded, start: bytes, again: bytes) -> None:
    """Headers without end, or one without end, are refused with 431 after the bytes that are allowed, and read no more.

    Some 276 MB of small headers once took 2.5 GB.
    """
    before = live.closed.get("header_bytes", 0)
    with live.connect(start) as connection:
        assert pour(connection, again)
    assert live.closed["header_bytes"] == before + 1
    assert status(live.ask(start + again)) == 431


def test_a_complete_head_has_so_many_bytes_and_no_more(live: Threaded) -> None:
    """What counts is the size of the head itself, not how its bytes and those of others are sent together."""
    small = request("/healthz", "Connection: close", "a: " + "b" * 3900)
    assert status(live.ask(small)) == 200
    assert status(live.ask(request("/healthz", "a: " + "b" * 4096))) == 431
    body = b'{"x": "%s"}' % (b"y" * 8000)
    with live.connect(request("/v1/responses", body=body) * 2) as connection:
        both = reply(connection)
        while both.count(b"HTTP/1.1 400") < 2:
            both += connection.recv(65536)


def test_headers_after_a_body_are_not_kept(live: Threaded) -> None:
    """A body in chunks may be followed by headers: they are dropped, and too many of them end the connection."""
    start = request("/v1/responses", "Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n"
    assert status(live.ask(start + b"a: b\r\n" * 100 + b"\r\n")) == 400
    asked = request("/v1/experiments/none/decisions", "Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n"
    assert status(live.ask(asked + f"Authorization: Bearer {CLIENT}\r\n\r\n".encode())) == 401
    with live.connect(start) as connection:
        assert pour(connection, b"a: b\r\n" * 10_000)


@pytest.mark.parametrize("start", [b"", b"GET /", b"GET / HTTP/1.1\r\nHost"], ids=["silent", "a word", "a line"])
def test_a_head_is_in_within_its_time(live: Threaded, start: bytes) -> None:
    """Whoever has not sent all headers in time is cut off, also if another byte comes from time to time."""
    begun = monotonic()
    with live.connect(start) as connection:
        connection.settimeout(SHORT / 10)
        said = b""
        while True:
            try:
                if not (got := connection.recv(4096)):
                    break
                said += got
            except TimeoutError:
                if start:
                    connection.send(b"x")
            except ConnectionResetError:
                break
    assert monotonic() - begun >= SHORT
    assert said == b"" if not start else status(said) == 408


@pytest.mark.parametrize(
    "start",
    [
        request("/v1/responses", "Content-Length: 100"),
        request("/v1/responses", "Transfer-Encoding: chunked"),
    ],
    ids=["a length", "chunks"],
)
def test_a_body_is_in_within_its_time(live: Threaded, start: bytes) -> None:
    """A body that never ends is refused with 408, however it is sent."""
    assert status(live.ask(start + b"1\r\n")) == 408


def test_a_body_that_nobody_reads_ends_too(live: Threaded) -> None:
    """Where no body is asked for, the reply comes at once, and whoever goes on sending is cut off all the same."""
    with live.connect(b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n") as connection:
        assert reply(connection).startswith(b"HTTP/1.1 200")
        assert pour(connection, b"x", 6000, pause=SHORT / 20)


def test_a_connection_is_kept_for_the_next_request_for_a_time(live: Threaded) -> None:
    """Requests follow one another on a connection; when none comes for long, it is closed without a word."""
    with live.connect() as connection:
        for _ in range(3):
            connection.sendall(request())
            assert reply(connection).startswith(b"HTTP/1.1 200")
        assert all_of(connection) == b""


def test_whoever_does_not_read_is_cut_off(live: Threaded) -> None:
    """Replies that are not read do not stay in memory: the connection is closed after a time."""
    before = live.closed.get("stall_seconds", 0)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", live.port))
        connection.settimeout(SHORT)
        connection.sendall(request("/openapi.json") * (LARGEST_PIPELINE - 1))
        until(lambda: live.closed.get("stall_seconds", 0) > before)


def test_no_other_protocol_is_spoken(live: Threaded) -> None:
    """An upgrade to HTTP/2 or to a web socket is not taken up: the request is answered as any other."""
    for upgrade in ("h2c", "websocket"):
        asked = request("/healthz", "Connection: Upgrade", f"Upgrade: {upgrade}")
        assert status(live.ask(asked)) == 200


@pytest.mark.parametrize("after", [b"", request(body=b'{"more":1}'), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"])
@pytest.mark.parametrize("cut", [0, 1, 10])
@pytest.mark.parametrize("form", ["length", "chunks"])
def test_a_body_is_read_though_an_upgrade_is_asked_for(live: Threaded, form: str, cut: int, after: bytes) -> None:
    """Java's own client asks for HTTP/2 so, in its first request: a response that it sends must not be lost.

    What comes after it is no part of it, and not answered: the connection is closed.
    """
    body = b'{"ticket":"x","response":1}'
    more = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA")
    if form == "length":
        asked = request("/v1/responses", *more, body=body)
    else:
        asked = request("/v1/responses", *more, "Transfer-Encoding: chunked") + b"1b\r\n" + body + b"\r\n0\r\n\r\n"
    with live.connect(asked[: len(asked) - cut]) as connection:
        if cut:
            sleep(0.02)  # the rest comes by itself
        connection.sendall(asked[len(asked) - cut :] + after)
        said = all_of(connection)
    assert (status(said), json.loads(said.partition(b"\r\n\r\n")[2])["code"]) == (403, "forged")


def test_a_body_is_refused_as_any_other_though_an_upgrade_is_asked_for(
    live: Threaded, caplog: pytest.LogCaptureFixture
) -> None:
    """The limits are those of any other, and so are the rules of where it ends."""
    more = ("Connection: Upgrade", "Upgrade: h2c")
    with live.connect(request("/v1/responses", *more, "Content-Length: 70000") + b" " * 70000) as connection:
        assert status(all_of(connection)) == 413
    assert status(live.ask(request("/v1/responses", *more, "Content-Length: 9") + b"{")) == 408
    assert status(live.ask(request("/v1/responses", *more, "Transfer-Encoding: chunked") + b"no chunk\r\n")) == 400
    assert status(live.ask(request("/v1/responses", *more, "Transfer-Encoding: gzip") + b"no chunk\r\n")) == 400
    both = ("Transfer-Encoding: chunked", "Content-Length: 1")
    assert status(live.ask(request("/v1/responses", *more, *both) + b"0\r\n\r\n")) == 400
    assert status(live.ask(request("/v1/responses", *more, body=b"") + request())) == 400
    assert not caplog.records


def test_what_is_not_http_is_refused_and_not_logged(live: Threaded, caplog: pytest.LogCaptureFixture) -> None:
    """Noise gets a 400, and no line of the log: who makes much of it fills no disk."""
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
    tunnel = b"CONNECT elsewhere:80 HTTP/1.1\r\nHost: elsewhere\r\n\r\n"
    for noise in (hello, b"NOISE\r\n\r\n", b"GET  HTTP/9.9\r\n\r\n", tunnel):
        assert status(live.ask(noise)) == 400
    with live.connect(request()) as connection:
        assert reply(connection).startswith(b"HTTP/1.1 200")
        connection.sendall(tunnel)
        assert status(all_of(connection)) == 400
    assert not caplog.records


def test_few_requests_are_sent_ahead(live: Threaded) -> None:
    """A hundred are answered in their order; whoever goes on without waiting is cut off: 10 MB took 270 MB."""
    with live.connect(request() * LARGEST_PIPELINE) as connection:
        said = b""
        while said.count(b"HTTP/1.1 200") < LARGEST_PIPELINE:
            said += connection.recv(65536)
    before = live.closed.get("sent_ahead", 0)
    with live.connect() as connection:
        assert pour(connection, request() * 1000)
    until(lambda: live.closed.get("sent_ahead", 0) == before + 1)


def test_slow_clients_do_not_lock_others_out(tmp_path: Path) -> None:
    """Silent connections, and heads that come a byte at a time, make way for newcomers, the oldest first.

    With 1,100 of them the server was out of reach.
    """
    with threaded(tmp_path, connections=5) as live:
        slow = [live.connect(b"GET / HTTP/1.1\r\na: " if number % 2 else b"") for number in range(5)]
        until(lambda: len(live.server.connections.open) == 5)
        for number in range(3):
            with live.connect(request()) as connection:
                assert reply(connection).startswith(b"HTTP/1.1 200")
                assert all_of(slow[number]) == b""
                slow.append(live.connect(b"G"))
        assert len(live.server.connections.open) <= 5
        assert live.closed["connections"] >= 3


class Blocked:
    """A store whose commits wait, once it is told to."""

    def __init__(self) -> None:
        """Let commits pass."""
        self.waits, self.go_on = False, Event()

    def __call__(self, point: str) -> None:
        """Wait here."""
        if self.waits and point == "before commit":
            assert self.go_on.wait(60)


def responses(live: Threaded, count: int) -> list[bytes]:
    """Create the experiment and write so many requests that count a response."""
    with live.connect(request("/v1/experiments", key=ADMIN, body=json.dumps(NEW).encode())) as connection:
        assert reply(connection).startswith(b"HTTP/1.1 201")
        asked = []
        for _ in range(count):
            connection.sendall(request("/v1/experiments/headline/decisions", key=CLIENT, body=b"{}"))
            ticket = json.loads(reply(connection).partition(b"\r\n\r\n")[2])["ticket"]
            asked.append(request("/v1/responses", body=json.dumps({"ticket": ticket, "response": 1}).encode()))
    return asked


def test_requests_that_are_being_answered_keep_their_connections(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """When every connection is being answered, a newcomer is told 503 at once, which is logged and counted."""
    blocked = Blocked()
    with threaded(tmp_path, blocked, connections=3) as live:
        asked = responses(live, 3)
        until(lambda: not live.server.connections.open)
        blocked.waits = True
        busy = [live.connect(one) for one in asked]
        until(lambda: len(live.server.server_state.tasks) == 3)
        said = live.ask(b"")
        assert status(said) == 503
        assert b"Retry-After: 1" in said
        assert status(live.ask(b"")) == 503
        blocked.go_on.set()
        assert all(reply(connection).endswith(b'{"status":"counted"}') for connection in busy)
        assert live.server.connections.meters.unavailable["connections"] == 2
        assert [record.message for record in caplog.records] == [
            "503, connections: all 3 connections are being answered"
        ]


def test_a_stop_waits_for_replies_and_not_for_bodies(tmp_path: Path) -> None:
    """Told to stop, the server cuts requests that are not complete at once, and finishes those that are."""
    blocked = Blocked()
    with threaded(tmp_path, blocked) as live:
        (asked,) = responses(live, 1)
        blocked.waits = True
        answered = live.connect(asked)
        until(lambda: len(live.server.server_state.tasks) == 1)
        head = request("/v1/responses", "Content-Length: 100")
        partial = [live.connect(head + b"{"), live.connect(b"GET /"), live.connect(b"")]
        until(lambda: len(live.server.connections.open) == 4 and len(live.server.server_state.tasks) == 2)
        with ThreadPoolExecutor(1) as pool:
            stopped = pool.submit(live.stop)
            try:
                assert [all_of(connection) for connection in partial] == [b"", b"", b""]
                assert not stopped.done()
            finally:
                blocked.go_on.set()
            assert reply(answered).endswith(b'{"status":"counted"}')
            stopped.result()


def test_a_body_without_an_end_does_not_delay_sigterm(tmp_path: Path) -> None:
    """A process that gets SIGTERM ends at once, though somebody has sent half of a body; it took 10 seconds."""
    with running(tmp_path) as server:
        assert server.ask("POST", "/v1/experiments", HEADLINE).status == 201
        with socket.create_connection((server.host, server.port)) as connection:
            connection.sendall(request("/v1/responses", "Content-Length: 9", "Expect: 100-continue"))
            assert connection.recv(100).startswith(b"HTTP/1.1 100")
            begun = monotonic()
            assert server.stop() == 0
            assert monotonic() - begun < 9  # without it: 10 s
        assert "Traceback" not in server.printed()


def test_who_leaves_before_the_replies_makes_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Requests that were sent ahead by somebody who left meanwhile are dropped, without a line of the log."""
    begun, go_on = Event(), Event()

    def check(_: SqliteStore) -> None:
        begun.set()
        assert go_on.wait(PATIENCE)

    monkeypatch.setattr(SqliteStore, "check", check)
    with threaded(tmp_path) as live:
        with live.connect(request("/readyz") * 20):
            assert begun.wait(PATIENCE)
        until(lambda: not live.server.connections.open)
        go_on.set()
        with live.connect() as connection:
            for _ in range(3):
                connection.sendall(request("/readyz"))
                assert reply(connection).startswith(b"HTTP/1.1 200")
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def test_a_key_asks_no_faster_than_it_may(tmp_path: Path) -> None:
    """Beyond the rate of its key a request is refused with 429, `retry` and the seconds to wait; others go on."""
    with threaded(tmp_path, admin_rate=0.5, rate_burst=4) as live, live.connect() as connection:
        heads = []
        for _ in range(3):
            connection.sendall(request("/v1/experiments", key=ADMIN))
            heads.append(reply(connection))
        assert [head[9:12] for head in heads] == [b"200", b"200", b"429"]
        assert b"retry-after: 2\r\n" in heads[2]
        refusal = json.loads(heads[2].partition(b"\r\n\r\n")[2])
        assert refusal["code"] == "retry"
        assert refusal["message"] == "the rate limit of this key is exceeded: available again after 2 s"
        for _ in range(10):
            connection.sendall(request("/v1/experiments/none/decisions", key=CLIENT, body=b"{}"))
            assert reply(connection).startswith(b"HTTP/1.1 404")


def test_batches_are_charged_by_decision(tmp_path: Path) -> None:
    """A batch takes as much of the client key's rate as its decisions would alone; a rested key gets a large one."""
    decisions = "/v1/experiments/none/decisions"

    def folder(name: str) -> Path:
        (tmp_path / name).mkdir()
        return tmp_path / name

    def statuses(live: Threaded, counts: list[int]) -> list[int]:
        heads = []
        with live.connect() as connection:
            for count in counts:
                path, body = (decisions, b"{}") if count == 1 else (decisions + "/batch", b'{"count": %d}' % count)
                connection.sendall(request(path, key=CLIENT, body=body))
                heads.append(reply(connection))
        return [int(head[9:12]) for head in heads]

    with threaded(folder("a"), client_rate=0.01, rate_burst=5000) as live:  # 50 decisions at once
        assert statuses(live, [20, 20, 20, 1]) == [404, 404, 429, 404]
    with threaded(folder("b"), client_rate=0.01, rate_burst=5000) as live:
        assert statuses(live, [100, 1, 2]) == [404, 429, 429]
    with threaded(folder("c"), client_rate=0.01, rate_burst=5000) as live:
        assert statuses(live, [1, 100, 49]) == [404, 429, 429], "the first of a batch is charged before it is read"


def test_rates_come_back_with_time() -> None:
    """After a burst of some seconds a key has its rate, on the dot; each key has its own, and 0 is no limit."""
    now = 0.0
    rates = RateLimits(FrontDoor(admin_rate=10, viewer_rate=10, client_rate=0, rate_burst=3), lambda: now)
    assert [rates.wait(b"a", Role.ADMIN) for _ in range(30)] == [0.0] * 30
    assert rates.wait(b"a", Role.ADMIN) == pytest.approx(0.1)
    assert rates.wait(b"b", Role.VIEWER) == 0
    asked = allowed = 0
    while now < 100:
        now += 0.03
        asked += 1
        allowed += not rates.wait(b"a", Role.ADMIN)
    assert asked > 3000
    assert allowed == pytest.approx(1000, abs=2)
    assert not any(rates.wait(b"c", Role.CLIENT) for _ in range(10_000))


def test_the_public_key_has_a_limit_by_default() -> None:
    """A stranger who asks as fast as a machine can gets 10,000 decisions at once, and then 1,000 a second."""
    now = 0.0
    rates = RateLimits(FrontDoor(), lambda: now)
    assert sum(not rates.wait(b"c", Role.CLIENT) for _ in range(20_000)) == 10_000
    now = 2.0
    assert sum(not rates.wait(b"c", Role.CLIENT) for _ in range(20_000)) == 2000


def test_every_limit_is_explained_and_checked() -> None:
    """Each limit has a help text and a default that passes; one that lets nothing pass is refused by its name.

    So is one that no clock and no table of open files can hold: a timer of such a length ended a server in a traceback.
    """
    for limit in fields(FrontDoor):
        assert limit.metadata["help"]
        assert limit.type in {int, float}
        assert isinstance(limit.default, limit.type)
        for wrong in (-1, 1e11, float("nan"), "10", True):
            with pytest.raises(ParameterError, match=f"^{limit.name} must be a"):
                FrontDoor(**{limit.name: wrong})  # type: ignore[arg-type]


def test_as_many_files_may_be_open_as_there_may_be_connections(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The soft limit of open files is raised; where the hard one is lower, there are fewer connections: it says so."""
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1500))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: given.append(limits))
    assert _files(1000) == 1000
    assert not given
    assert _files(1200) == 1200
    assert given == [(1200, 1500)]
    assert not caplog.records
    assert _files(2100) == 1500
    assert given[-1] == (1500, 1500)
    assert "no more than 1400 connections" in caplog.text
