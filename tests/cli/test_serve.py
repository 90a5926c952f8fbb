"""`ldpbandits serve` as operators run it: sockets that are files, a path prefix, logs for machines, keys in a file."""

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPConnection
from pathlib import Path

import pytest
from tests.server.inprocess import Reply
from tests.server.running import HEADLINE, PATIENCE, SERVE, running

from ldpbandits.cli import first_keys, main
from ldpbandits.cli.first_keys import keys_file
from ldpbandits.errors import ParameterError
from ldpbandits.net import ServerAddress
from ldpbandits.server.keys import FIRST_ROLES, Role
from ldpbandits.server.service import Service
from ldpbandits.server.store.sqlite.store import SqliteStore
from ldpbandits.spec.messages import Change

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("LDPBANDITS_")}
MARKER = "marker-of-a-person"
PORT = ("--port", "0")  # whatever else runs on this machine


@dataclass
class Operated:
    """A server on a socket that is a file, with the keys that it has written."""

    process: "subprocess.Popen[bytes]"
    folder: Path
    keys: dict[str, str] = field(default_factory=dict)

    @property
    def log(self) -> str:
        """All that it has said."""
        return (self.folder / "log").read_text()

    def ask(self, method: str, path: str, body: object = None, role: str = "admin", **headers: str) -> Reply:
        """Send one request."""
        address = ServerAddress(
            is_secure=False, host="localhost", port=80, prefix="", unix_socket=str(self.folder / "socket")
        )
        with closing(address.connection()) as connection:
            given = {"Authorization": f"Bearer {self.keys.get(role, MARKER)}", **headers}
            sent = None if body is None else json.dumps(body).encode()
            with connection.exchange(time.monotonic() + PATIENCE, method, path, sent, given) as reply:
                return Reply(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())


@contextmanager
def operated(folder: Path, *options: str, environment: Mapping[str, str] | None = None) -> Iterator[Operated]:
    """Run a server in this folder, configured by a file there and by these options."""
    (folder / "server.toml").write_text(
        "unix_socket = 'socket'\npath_prefix = '/ab/'\nlog_format = 'json'\nkeys_file = 'keys'\nheader_bytes = 2048\n"
    )
    command = [*SERVE, "--config", "server.toml", *options]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env={**CLEAN, **(environment or {})}) as process,
    ):
        server = Operated(process, folder)
        try:
            until = time.monotonic() + PATIENCE
            while '"started"' not in server.log:
                assert process.poll() is None, server.log
                assert time.monotonic() < until, server.log
                time.sleep(0.02)
            written = (folder / "keys").read_text() if (folder / "keys").exists() else ""
            server.keys = {role.lower(): key for role, key in re.findall(r"LDPBANDITS_(\w+)_KEY=(\S+)", written)}
            yield server
        finally:
            process.kill()


def refused(folder: Path, *options: str, environment: Mapping[str, str] | None = None) -> str:
    """Run a server that must not start; return the one line that it prints."""
    command, given = [*SERVE, *options], {**CLEAN, "LDPBANDITS_PORT": "0", **(environment or {})}  # 8000 may be taken
    done = subprocess.run(command, env=given, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    return done.stderr


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    """A server that the tests share."""
    with operated(tmp_path_factory.mktemp("operated")) as made:
        assert made.ask("POST", "/ab/v1/experiments", HEADLINE).status == 201
        yield made


def test_new_keys_are_written_to_a_file_and_shown_nowhere(server: Operated) -> None:
    """One line a key, for its owner only; all of them hold."""
    file = server.folder / "keys"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert set(server.keys) == {"admin", "viewer", "client"}
    assert server.ask("GET", "/v1/experiments", role="viewer").status == 200
    assert not [key for key in server.keys.values() if key in server.log]


def test_everything_is_below_the_prefix_whether_or_not_it_was_taken_off(server: Operated) -> None:
    """API, console and the page that describes all of it; what is refused points there."""
    for prefix in ("", "/ab"):
        assert server.ask("GET", f"{prefix}/healthz").status == 200
        assert server.ask("POST", f"{prefix}/v1/experiments/headline/decisions", {}, "client").status == 200
        assert server.ask("GET", f"{prefix}/console").headers["location"] == "console/"  # beside itself
        assert b"HTTP interface" in server.ask("GET", f"{prefix}/docs", role="none").body
        page = server.ask("GET", f"{prefix}/console/experiments/headline", role="none")
        assert page.headers["location"] == "../sign-in?next=experiments/headline"
        told = server.ask("GET", f"{prefix}/nothing").json["message"]
        assert told == "not found: see /ab/docs"
    assert server.ask("GET", "/ab/openapi.json").json["servers"] == [{"url": "/ab"}]
    for wrong in ("/abc/healthz", "/ab", "/ab/ab/healthz", "/%61b/healthz", "//ab/healthz"):
        assert server.ask("GET", wrong).status == 404


def test_options_of_the_front_door_hold(server: Operated) -> None:
    """Those of the file: 2,048 bytes of headers are enough here."""
    assert server.ask("GET", "/healthz", **{"X-Long": "x" * 1500}).status == 200
    assert server.ask("GET", "/healthz", **{"X-Long": "x" * 2500}).status == 431


def test_health_finds_the_server_by_its_own_configuration(
    server: Operated, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Alive and ready: 0; nobody there: 1, and one line says so."""
    monkeypatch.chdir(server.folder)
    monkeypatch.setenv("LDPBANDITS_CONFIG", "server.toml")
    assert main(["health"]) == 0
    assert capsys.readouterr().out == "alive\n"
    assert main(["health", "--ready", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"healthy": True, "message": "ready"}
    assert main(["health", "--unix-socket", "nowhere"]) == 1
    assert capsys.readouterr().out == "no server answers at nowhere: No such file or directory\n"
    assert main(["health", "--path-prefix", "/other"]) == 1
    assert "answers 404" in capsys.readouterr().out


def test_health_over_a_port_that_nobody_listens_on_is_1(capsys: pytest.CaptureFixture[str]) -> None:
    """Where all addresses are listened on, this machine's is asked."""
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = str(taken.getsockname()[1])
    assert main(["health", "--host", "0.0.0.0", "--port", port]) == 1  # noqa: S104 - nobody listens
    assert capsys.readouterr().out == f"no server answers at 0.0.0.0:{port}: Connection refused\n"


def test_a_second_server_on_the_socket_is_refused(server: Operated, tmp_path: Path) -> None:
    """While the first one listens; and the first goes on."""
    told = refused(tmp_path, "--unix-socket", str(server.folder / "socket"))
    assert told.endswith("socket: another server listens there\n")
    assert not (tmp_path / "agent.db").exists()
    assert server.ask("GET", "/healthz").status == 200


def test_a_socket_is_private_survives_a_crash_and_is_removed_in_the_end(tmp_path: Path) -> None:
    """After a kill it is replaced, and the keys stay where they are; after a stop nothing is left of it."""
    with operated(tmp_path, "--unix-socket-mode", "600") as first:
        assert stat.S_IMODE((tmp_path / "socket").stat().st_mode) == 0o600
        keys = first.keys
        first.process.kill()
    assert (tmp_path / "socket").is_socket()
    with operated(tmp_path) as second:
        assert second.keys == keys
        assert stat.S_IMODE((tmp_path / "socket").stat().st_mode) == 0o660
        assert second.ask("GET", "/v1/experiments").status == 200
        second.process.send_signal(signal.SIGTERM)
        assert second.process.wait(PATIENCE) == 0
        assert not (tmp_path / "socket").exists()
        last = json.loads(second.log.splitlines()[-1])
        assert (last["level"], last["event"]) == ("info", "stopped")


def test_what_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    """A file in its place, a folder that is not there, a mode that is none: one line."""
    (tmp_path / "file").write_text("precious")
    assert "file: it exists, and is not a socket" in refused(tmp_path, "--unix-socket", "file")
    assert (tmp_path / "file").read_text() == "precious"
    assert "cannot listen on nowhere/s: No such file or directory" in refused(tmp_path, "--unix-socket", "nowhere/s")
    assert "is like 660, as for chmod, got '999'" in refused(
        tmp_path, "--unix-socket", "s", "--unix-socket-mode", "999"
    )


@pytest.mark.parametrize(
    ("prefix", "rule"),
    [
        ("ab", "a path prefix is like /bandits or /a/b"),
        ("/a b", "a path prefix is like /bandits or /a/b"),
        ("/a/../b", "a path prefix is like /bandits or /a/b"),
        ("/v1", "a path prefix must not begin with a path of the server's own, /v1"),
        ("/console/x", "a path prefix must not begin with a path of the server's own, /console"),
    ],
)
def test_a_prefix_that_cannot_be_one_is_refused(prefix: str, rule: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is opened."""
    assert main(["serve", "--path-prefix", prefix]) == 2
    assert rule in capsys.readouterr().err


def test_a_file_of_keys_is_never_overwritten_and_never_left_empty(tmp_path: Path) -> None:
    """It is made before the keys are: where it cannot be, no key is made."""
    (tmp_path / "keys").write_text("of another server")
    assert "new keys would be written to keys, which exists already" in refused(tmp_path, *PORT, "--keys-file", "keys")
    assert "cannot be written to nowhere/keys: No such file" in refused(tmp_path, *PORT, "--keys-file", "nowhere/keys")
    assert (tmp_path / "keys").read_text() == "of another server"
    new = tmp_path / "new"
    with pytest.raises(ParameterError), keys_file(new):
        raise ParameterError("the server does not start")
    with keys_file(new):
        pass  # another server was faster, and has made them
    assert not new.exists()


@pytest.mark.parametrize("moment", ["before the file is written", "before a key holds", "when one of them holds"])
def test_a_first_start_that_is_killed_loses_no_key(tmp_path: Path, moment: str) -> None:
    """Whatever ends it: what holds in the end is what stands in the file. Before, nobody had the keys, for ever."""
    keys, database = tmp_path / "keys", tmp_path / "agent.db"
    keep = partial(first_keys.keep, path=keys, may_show=False)
    rotated: list[str] = []

    class Killed(SqliteStore):
        def rotate_key(self, role: str, hashed: bytes, now: int, grace: int, *, log: Change | None = None) -> None:
            if len(rotated) == (moment == "when one of them holds"):
                raise KeyboardInterrupt
            rotated.append(role)
            super().rotate_key(role, hashed, now, grace, log=log)

    if moment == "before the file is written":
        keys.touch(0o600)
    else:
        with closing(Killed(database)) as store, pytest.raises(KeyboardInterrupt):
            Service(store, keep=keep)
    with closing(Service(SqliteStore(database), keep=keep)) as service:
        told = dict(line.split("=") for line in keys.read_text().splitlines())
        assert {name: service.role(key.encode()) for name, key in told.items()} == {
            each.variable: each for each in FIRST_ROLES
        }
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600


def test_a_file_of_keys_that_others_can_read_is_not_taken(tmp_path: Path) -> None:
    """Somebody may have put it there, or knows what is in it by now."""
    keys = tmp_path / "keys"
    made = first_keys.keep({Role.ADMIN: "admin-" + "x" * 32}, keys, may_show=False)
    assert first_keys.keep({Role.ADMIN: "admin-" + "y" * 32}, keys, may_show=False) == made
    keys.chmod(0o644)
    with pytest.raises(ParameterError, match="which exists already"):
        first_keys.keep({Role.ADMIN: "admin-" + "y" * 32}, keys, may_show=False)


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_keys_do_not_go_into_a_log(tmp_path: Path, log_format: str) -> None:
    """Where stderr is no terminal they are in a file beside the database, which only its owner can read."""
    with running(tmp_path, options=["--log-format", log_format], environment={"LDPBANDITS_KEYS_FILE": ""}) as server:
        written = tmp_path / "agent.db.keys"
        keys = dict(line.split("=") for line in written.read_text().splitlines())
        server.keys = {"admin": keys["LDPBANDITS_ADMIN_KEY"]}
        assert server.ask("GET", "/v1/experiments").status == 200
        assert stat.S_IMODE(written.stat().st_mode) == 0o600
        assert not [key for key in keys.values() if key in server.printed()]


def test_without_a_place_for_keys_none_is_made() -> None:
    """As with a database on PostgreSQL and a log: nobody could read the keys."""
    with pytest.raises(ParameterError, match="new keys are shown on a terminal only"):
        first_keys.keep({Role.ADMIN: "admin-" + "x" * 32}, None, may_show=False)


def test_on_a_terminal_keys_are_shown_once(tmp_path: Path) -> None:
    """With the commands to begin with; they are in no file then."""
    ours, theirs = os.openpty()
    command = [*SERVE, "--port", "0", "--database", str(tmp_path / "agent.db")]
    with subprocess.Popen(command, env=CLEAN, cwd=tmp_path, stderr=theirs) as process:
        os.close(theirs)
        told = b""
        while b"openapi.json" not in told:
            told += os.read(ours, 65536)
        process.terminate()
        with suppress(OSError):  # the end of a terminal is an error on Linux
            while os.read(ours, 65536):
                pass
    os.close(ours)
    assert re.findall(rb"(\w+) key: +(\w+)-", told) == [(role, role) for role in (b"admin", b"viewer", b"client")]
    assert not list(tmp_path.glob("*keys"))


def test_secrets_come_from_files(tmp_path: Path) -> None:
    """As Docker and systemd hand them over: no key is made then."""
    environment = {}
    for role in ("admin", "viewer", "client"):
        (tmp_path / role).write_text(f"{role}-key-from-a-file\n")
        environment[f"LDPBANDITS_{role.upper()}_KEY_FILE"] = str(tmp_path / role)
    with operated(tmp_path, environment=environment) as server:
        server.keys = {"admin": "admin-key-from-a-file"}
        assert server.ask("GET", "/v1/experiments").status == 200
        assert not (tmp_path / "keys").exists()


def test_several_workers_on_sqlite_are_refused_with_the_reason(tmp_path: Path) -> None:
    """In one line, before anything is opened."""
    told = refused(tmp_path, "--workers", "2")
    assert "workers must be 1 here, got 2: a SQLite database is for one process, and PostgreSQL for many" in told
    assert not list(tmp_path.iterdir())


def test_systemd_is_told_when_the_server_is_ready(tmp_path: Path) -> None:
    """One datagram, when requests are answered."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as told:
        told.bind(str(tmp_path / "notify"))
        told.settimeout(PATIENCE)
        with operated(tmp_path, environment={"NOTIFY_SOCKET": str(tmp_path / "notify")}) as server:
            assert told.recv(100) == b"READY=1"
            assert server.ask("GET", "/healthz").status == 200


def test_every_line_of_the_log_is_an_object(tmp_path: Path) -> None:
    """Time, level, event, message; nothing of a request is in it, also when the database is gone."""
    with operated(tmp_path) as server:
        assert server.ask("POST", "/v1/experiments", HEADLINE).status == 201
        ticket = server.ask("POST", "/v1/experiments/headline/decisions", {}, "client").json["ticket"]
        for path in tmp_path.glob("agent.db*"):
            path.unlink()
        message = {"ticket": ticket, "response": 1}
        assert server.ask("POST", "/v1/responses", message, "none", **{"User-Agent": MARKER}).status == 503
        server.ask("POST", f"/{MARKER}", {"ticket": MARKER}, "none", Cookie=MARKER)
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(PATIENCE)
        lines = [json.loads(line) for line in server.log.splitlines()]
    assert len(lines) >= 3
    for line in lines:
        assert {"time", "level", "event", "message"} <= set(line)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", line["time"])
        assert line["level"] in {"info", "warning", "error"}
        assert line["message"]
    assert MARKER not in server.log
    assert ticket not in server.log


def test_the_program_can_be_told_by_the_environment_alone(tmp_path: Path) -> None:
    """As in a container."""
    environment = {"LDPBANDITS_PORT": "0", "LDPBANDITS_DATABASE": str(tmp_path / "other.db"), **CLEAN}
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen([sys.executable, "-m", "ldpbandits", "serve"], stderr=log, env=environment) as process,
    ):
        until = time.monotonic() + PATIENCE
        while "server at http" not in (tmp_path / "log").read_text() and time.monotonic() < until:
            time.sleep(0.02)
        found = re.search(r"server at http://127.0.0.1:(\d+)", (tmp_path / "log").read_text())
        assert found is not None
        with closing(HTTPConnection("127.0.0.1", int(found[1]), timeout=PATIENCE)) as connection:
            connection.request("GET", "/readyz")
            with closing(connection.getresponse()) as reply:
                assert reply.status == 200
        process.terminate()
        assert process.wait(PATIENCE) == 0
    assert (tmp_path / "other.db").exists()
