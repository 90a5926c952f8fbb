"""`ldpbandits serve` as it is run: what it prints, stores, logs and exports, how it stops, when it does not start."""

import csv
import signal
import socket
import sqlite3
import stat
import subprocess
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from math import exp
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.server.running import HEADLINE, PATIENCE, SERVE, Running, running
from tests.server.threaded import until

from ldpbandits import CuratorSpec, curator_from_json
from ldpbandits.errors import DatabaseError
from ldpbandits.server.store.sqlite.schema import MIGRATIONS, migrate
from ldpbandits.server.store.sqlite.store import SqliteStore
from ldpbandits.spec import mechanisms

MARKER = "marker-of-a-person"
ADDRESS = "127.0.0.77"
ODD_NAMES = ['say "hi"', "back\\slash", "größer 🎈", "a,b;c", "{x=1}", "\\n"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with an experiment, shared by the tests that do not stop it."""
    with running(tmp_path_factory.mktemp("server")) as made:
        assert made.ask("POST", "/v1/experiments", HEADLINE).status == 201
        yield made


def refused(*arguments: str, environment: dict[str, str] | None = None) -> str:
    """Run a server that must not start; return the one line that it prints."""
    done = subprocess.run(
        [*SERVE, *arguments], env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    return done.stderr


def test_the_first_start_makes_the_keys_and_the_next_makes_none(tmp_path: Path) -> None:
    """Keys are made once, and hold after a restart; in the database there are only their hashes."""
    with running(tmp_path) as first:
        keys = first.keys
        assert set(keys) == {"admin", "viewer", "client"}
        assert "New keys are in " in first.printed()
        assert first.stop() == 0
    assert b"".join(path.read_bytes() for path in tmp_path.glob("agent.db*")).count(keys["admin"].encode()) == 0
    with running(tmp_path, keys=keys) as second:
        assert second.ask("GET", "/v1/experiments").status == 200
        assert second.printed().count("\n") == 1
        assert "key" not in second.printed()


def test_keys_of_the_environment_are_used_and_never_printed(tmp_path: Path) -> None:
    """With all keys in the environment none is made, printed or stored."""
    keys = {role: f"{role}-of-the-environment" for role in ("admin", "viewer", "client")}
    environment = {f"LDPBANDITS_{role.upper()}_KEY": key for role, key in keys.items()}
    environment["LDPBANDITS_SIGNING_SECRET"] = "the-signing-secret-of-the-environment"  # noqa: S105 - of this test
    with running(tmp_path, environment=environment, keys=keys) as server:
        assert server.ask("POST", "/v1/experiments", HEADLINE).status == 201
        assert server.respond(server.decide()["ticket"], 1).json == {"status": "counted"}
        assert server.ask("POST", "/v1/keys/signing/rotate", {}).json["code"] == "environment"
        printed = server.printed()
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("agent.db*"))
    assert not [value for value in environment.values() if value in printed or value.encode() in stored]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_server_and_what_was_acknowledged_is_on_disk(tmp_path: Path, number: signal.Signals) -> None:
    """SIGTERM and SIGINT: exit code 0, one line, and every acknowledged response is in the file."""
    with running(tmp_path) as server:
        assert server.ask("POST", "/v1/experiments", HEADLINE).status == 201
        for _ in range(5):
            assert server.respond(server.decide()["ticket"], 1).status == 200
        assert server.stop(number) == 0
        assert server.printed().endswith("Stopped; every acknowledged response is on disk.\n")
    assert not (tmp_path / "agent.db-wal").exists()
    with closing(sqlite3.connect(tmp_path / "agent.db")) as connection:
        assert connection.execute("SELECT sum(pulls), sum(total) FROM cells").fetchone() == (5, 5)
        assert connection.execute("SELECT count(*) FROM nonces").fetchone() == (5,)


def test_a_server_of_one_process_outlives_a_renewal(tmp_path: Path) -> None:
    """SIGHUP is for workers; whoever sends it to a server without any, by the same script, ended it."""
    without_terminal = ("sh", "-c", 'exec "$@" < /dev/null', "sh")
    with running(tmp_path, before=without_terminal) as server:
        server.process.send_signal(signal.SIGHUP)
        until(lambda: "SIGHUP replaces workers, but this server is one process" in server.printed())
        assert server.ask("GET", "/healthz").status == 200
        assert server.stop() == 0


def test_a_server_that_cannot_start_says_why_in_one_line(server: Running, tmp_path: Path) -> None:
    """A database in use, a port in use, an impossible port or host, a short key: one line and exit code 2."""
    used = server.log.parent / "agent.db"
    assert "is in use by another server" in refused("--port", "0", "--database", str(used))
    own = str(tmp_path / "agent.db")
    taken = refused("--port", str(server.port), "--database", own)
    assert taken.endswith(f"cannot listen on 127.0.0.1:{server.port}: Address already in use\n")
    assert "--port must be a whole number from 0 to 65535, got 65536" in refused("--port", "65536", "--database", own)
    for host in ("a" * 300, "a..b", "999.1.1.1"):
        assert "cannot listen on" in refused("--port", "0", "--host", host, "--database", own)
    short = {"LDPBANDITS_ADMIN_KEY": "x" * 15}
    assert "must have at least 16 characters" in refused("--port", "0", "--database", own, environment=short)
    assert not (tmp_path / "agent.db").exists()
    assert server.ask("GET", "/healthz").json == {"status": "ok"}


def test_a_database_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    """Not SQLite, another program's, from a newer version, a folder, nowhere: one line, and not a byte is changed."""
    text, other, newer = tmp_path / "text.db", tmp_path / "other.db", tmp_path / "newer.db"
    text.write_text("this is not a database, but a text that is long enough to look like one" * 100)
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE customers (name TEXT)")
    SqliteStore(newer).close()
    with closing(sqlite3.connect(newer)) as connection, connection:
        connection.execute("INSERT INTO migrations VALUES ('0002 from the future', 0)")
    for path, reason in (
        (text, "file is not a database"),
        (other, "not an agent server's: it has a table 'customers'"),
        (newer, "from a newer version: it has the migration '0002 from the future'"),
    ):
        before = path.read_bytes()
        assert reason in refused("--port", "0", "--database", str(path))
        assert path.read_bytes() == before
    assert "cannot be opened: it is a folder" in refused("--port", "0", "--database", str(tmp_path))
    nowhere = tmp_path / "nowhere"
    told = refused("--port", "0", "--database", str(nowhere / "agent.db"))
    assert f"cannot be opened: there is no folder {nowhere}" in told


def test_a_store_that_did_not_open_lets_go(tmp_path: Path) -> None:
    """After a failure to open, the database is not locked."""
    path = tmp_path / "agent.db"
    path.write_text("not a database" * 1000)
    for _ in range(2):
        with pytest.raises(DatabaseError, match="file is not a database"):
            SqliteStore(path)
    path.unlink()
    store = SqliteStore(path)
    with pytest.raises(DatabaseError, match="in use"):
        SqliteStore(path)
    store.close()


def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    """Each migration is a transaction: after a failure in its middle the database is as it was before."""
    path = tmp_path / "agent.db"
    SqliteStore(path).close()
    good = ("0002 good", ["CREATE TABLE good (x)"])
    bad = ("0003 bad", ["CREATE TABLE half (x)", "INSERT INTO arms (experiment) VALUES (1)", "CREATE TABLE ("])
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, [*MIGRATIONS, good])
        before = list(connection.iterdump())
        with pytest.raises(sqlite3.Error):
            migrate(connection, [*MIGRATIONS, good, bad])
        assert list(connection.iterdump()) == before
        assert not connection.in_transaction
        migrate(connection, [*MIGRATIONS, good])
    with pytest.raises(DatabaseError, match="0002 good"):
        SqliteStore(path)


def test_the_database_is_durable_and_private(tmp_path: Path) -> None:
    """WAL with synchronous=FULL; only this user can read the file, its log and its index."""
    store = SqliteStore(tmp_path / "agent.db")
    assert store.file.rows("PRAGMA journal_mode") == [("wal",)]
    assert store.file.rows("PRAGMA synchronous") == [(2,)]
    files = {path.name: path.stat() for path in tmp_path.glob("agent.db*")}
    store.close()
    empty = {name for name, file in files.items() if file.st_size == 0}
    assert {name for name in files if "lock" in name} <= empty
    private = {name for name, file in files.items() if stat.S_IMODE(file.st_mode) == 0o600}
    assert private >= {"agent.db", "agent.db-wal", "agent.db-shm"}
    assert private | empty == set(files)


def broken_requests(server: Running) -> None:
    """Send what is not HTTP, and ask for a WebSocket."""
    marks = f"User-Agent: {MARKER}\r\nCookie: {MARKER}\r\n"
    upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAA\r\n"
    for text in (
        f"{MARKER}\r\n\r\n",
        f"GET /{MARKER} HTTP/9.9\r\n{marks}\r\n",
        f"GET /{MARKER} HTTP/1.1\r\nHost: x\r\n{marks}{upgrade}\r\n",
        f"POST /v1/responses HTTP/1.1\r\nHost: x\r\n{marks}Content-Length: 100\r\n\r\n{MARKER}",
    ):
        with socket.create_connection((server.host, server.port), PATIENCE, source_address=(ADDRESS, 0)) as connection:
            connection.sendall(text.encode())
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass


def test_nothing_that_identifies_a_person_is_stored_or_logged(tmp_path: Path) -> None:
    """Address, user agent, cookies, forwarding and referring headers are in no file and in no line of the log."""
    names = ("User-Agent", "Cookie", "X-Forwarded-For", "Forwarded", "Referer", "Origin", "X-Real-IP", "From")
    headers = {name: f"{MARKER}-{name}" for name in names}
    with running(tmp_path) as server:
        assert server.ask("POST", "/v1/experiments", HEADLINE, headers=headers, source=ADDRESS).status == 201

        def ask(method: str, path: str, body: object = None, role: str | None = "client") -> Any:
            return server.ask(method, path, body, role=role, headers=headers, source=ADDRESS).json

        for value in (1, 1, 2):
            ticket = ask("POST", "/v1/experiments/headline/decisions")["ticket"]
            ask("POST", "/v1/responses", {"ticket": ticket, "response": value})
        ask("POST", "/v1/responses", {"ticket": MARKER, "response": 1})
        ask("POST", "/v1/responses", MARKER.encode())
        ask("GET", f"/{MARKER}", role=None)
        ask("GET", "/v1/experiments", role=None)
        broken_requests(server)
        wal = (tmp_path / "agent.db-wal").read_bytes()
        assert wal.count(b"headline")
        stored = b"".join(path.read_bytes() for path in tmp_path.glob("agent.db*"))
        assert server.stop() == 0
        printed = server.printed().encode()
    everything = stored + printed + b"".join(path.read_bytes() for path in tmp_path.glob("agent.db*"))
    assert b"headline" in everything
    for mark in (MARKER, ADDRESS):
        assert mark.encode() not in everything
    assert socket.inet_aton(ADDRESS) not in everything


def test_exports_match(server: Running) -> None:
    """The CSV has every response in the order of counting, and its sums are the tallies to the last bit."""
    curator = {"mechanism": "laplace", "epsilon": 0.5}
    new = {"name": "exported", "arms": ODD_NAMES[:3], "curator": curator, "goal": "earn"}
    assert server.ask("POST", "/v1/experiments", new).status == 201
    device, sent = curator_from_json(CuratorSpec.from_json(curator)), []
    for _ in range(30):
        decision = server.decide("exported")
        response = device.respond(0.25)
        assert server.respond(decision["ticket"], response).json == {"status": "counted"}
        sent.append((decision["arm"], float(response)))
    reply = server.ask("GET", "/v1/experiments/exported/responses-in-order.csv")
    assert reply.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(reply.body.decode().splitlines()))
    assert list(rows[0]) == ["response_number", "arm", "arm_name", "response"]
    assert [(int(row["arm"]), float(row["response"])) for row in rows] == sent
    assert [row["arm_name"] for row in rows] == [ODD_NAMES[arm] for arm, _ in sent]
    assert [int(row["response_number"]) for row in rows] == list(range(1, 31))
    tallies = server.ask("GET", "/v1/experiments/exported/tallies").json
    for arm in tallies["arms"]:
        values = [Fraction(value) for number, value in sent if number == arm["arm"]]
        assert (len(values), sum(values)) == (arm["pulls"], arm["total"] * Fraction(tallies["unit"]))


def test_metrics_are_prometheus_text(server: Running) -> None:
    """Prometheus's own parser reads it; labels with quotes, backslashes and any script come back as they were."""
    new = {**HEADLINE, "name": "odd", "arms": ODD_NAMES}
    assert server.ask("POST", "/v1/experiments", new).status == 201
    for _ in ODD_NAMES:
        server.decide("odd")
    server.ask("GET", "/v1/experiments", role=None)
    reply = server.ask("GET", "/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(reply.body.decode())}
    odd = [sample for sample in families["ldpbandits_pending"].samples if sample.labels["experiment"] == "odd"]
    arms = [sample.labels["arm"] for sample in odd]
    assert {sample.value for sample in odd} == {1}
    assert arms == ODD_NAMES
    assert families["ldpbandits_pulls"].type == "counter"
    reasons = {sample.labels["reason"] for sample in families["ldpbandits_rejected"].samples}
    assert "unauthorized" in reasons


@pytest.mark.parametrize(
    "path", ["/v1/experiments", "/v1/experiments/headline", "/healthz", "/metrics", "/openapi.json"]
)
def test_head_is_get_without_the_body(server: Running, path: str) -> None:
    """HEAD has the status and the type of GET, and no body."""
    head, get = server.ask("HEAD", path), server.ask("GET", path)
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-type"] == get.headers["content-type"]
    assert server.ask("HEAD", "/v1/nothing").status == 404


def tail(q: Fraction | float, m: int) -> Fraction | float:
    """P(|Z| > m) for P(Z = k) = (1 - q) / (1 + q) q^|k|."""
    return 2 * q ** (m + 1) / (1 + q)


def test_the_tail_of_the_noise_is_what_its_law_sums_to() -> None:
    """The closed form of the tail is 1 minus the sum of the law, exactly."""
    for q in (Fraction(1, 2), Fraction(9, 10)):
        for m in range(20):
            assert tail(q, m) == 1 - sum((1 - q) / (1 + q) * q ** abs(k) for k in range(-m, m + 1))


@pytest.mark.parametrize("epsilon", [0.01, 1, 50])
def test_the_cap_refuses_an_honest_response_with_probability_below_1e_12(epsilon: float) -> None:
    """Noise beyond the cap has probability below 1e-12, and not far below: what is let pass is no more than needed."""
    spec = CuratorSpec(mechanisms.Laplace(epsilon))
    least, most = spec.mechanism.limits
    cap = -least
    assert most == (1 << 20) + cap
    assert 1e-13 < tail(exp(-epsilon / 2**20), cap) < 1e-12  # floats: the power loses less than 1e-6 of itself
    assert spec.in_units(least / 2**20) == least
    assert spec.in_units((least - 1) / 2**20) is None
    assert spec.in_units(most / 2**20) == most
    assert spec.in_units((most + 1) / 2**20) is None
