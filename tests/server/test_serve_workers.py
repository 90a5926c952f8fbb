"""`ldpbandits serve --workers 2` on a real PostgreSQL: one server to whoever asks, also when a worker is killed."""

import json
import os
import signal
import sys
import time
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Event, Thread

import psycopg
from tests.server.postgres_server import Postgres
from tests.server.running import HEADLINE, PATIENCE, Running, running
from tests.server.test_workers import is_alive, until


def workers(server: Running) -> list[int]:
    """Return the processes that serve: of the children, those that are Python's own for work."""
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    found = []
    for each in children:
        with suppress(OSError):  # it has just ended
            if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes():
                found.append(int(each))
    return found


class Crowd(Thread):
    """Devices that take part on connections that stay open, and send each response until it is acknowledged."""

    def __init__(self, server: Running) -> None:
        """Begin with nothing acknowledged."""
        super().__init__()
        self._server, self.stop, self.acknowledged = server, Event(), 0

    def run(self) -> None:
        """Take part until told to stop."""
        while not self.stop.is_set():
            decision = self._ask("/v1/experiments/headline/decisions", {})
            self._ask("/v1/responses", {"ticket": decision["ticket"], "response": 1})
            self.acknowledged += 1

    def _ask(self, path: str, message: object) -> dict[str, str]:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            connection = HTTPConnection(self._server.host, self._server.port, timeout=PATIENCE)
            with suppress(OSError, HTTPException):
                key = {"Authorization": f"Bearer {self._server.keys['client']}"}
                connection.request("POST", path, json.dumps(message), key)
                with closing(connection.getresponse()) as reply:
                    said = reply.read()
                if reply.status == 200:
                    connection.close()
                    return dict(json.loads(said))
                assert reply.status == 503, said
            connection.close()
            time.sleep(0.02)
        raise AssertionError(f"no answer to {path}")


def test_several_workers_are_one_server(postgres: Postgres, tmp_path: Path) -> None:
    """Keys are shown once; a worker that is killed loses and doubles nothing; all stop in order, and none stays."""
    url = postgres.new()
    with running(tmp_path, options=["--database", url, "--workers", "2"]) as server:
        assert set(server.keys) == {"admin", "viewer", "client"}
        assert server.printed().count("New keys are in ") == 1
        assert server.ask("POST", "/v1/experiments", HEADLINE).status == 201
        until(lambda: len(workers(server)) == 2, server.printed)
        titles = [Path(f"/proc/{pid}/comm").read_text() for pid in (server.process.pid, *sorted(workers(server)))]
        assert titles == ["ldpbandits\n", "ldpbandits-w0\n", "ldpbandits-w1\n"]
        first, second = workers(server)
        crowd = Crowd(server)
        crowd.start()
        try:
            until(lambda: crowd.acknowledged > 20, server.printed)
            os.kill(first, signal.SIGKILL)
            until(lambda: first not in workers(server) and len(workers(server)) == 2, server.printed)
            before = crowd.acknowledged
            until(lambda: crowd.acknowledged > before + 20, server.printed)
        finally:
            crowd.stop.set()
            crowd.join()
        now = workers(server)
        assert second in now
        assert server.stop() == 0
        assert server.printed().endswith("Stopped; every acknowledged response is on disk.\n")
        assert not [each for each in now if is_alive(each)]
    with running(tmp_path, options=["--database", url], keys=server.keys) as again:
        assert again.ask("GET", "/v1/experiments/headline").json["responses"] == crowd.acknowledged
        assert "New keys" not in again.printed()


def test_a_server_whose_parent_was_killed_is_started_again_at_once(postgres: Postgres, tmp_path: Path) -> None:
    """Its workers still listen at that moment; the new server has the address as soon as they have stopped."""
    url = postgres.new()
    options = ["--database", url, "--workers", "2"]
    with running(tmp_path, options=options) as server:
        until(lambda: len(workers(server)) == 2, server.printed)
        server.process.kill()
        with running(tmp_path, options=[*options, "--port", str(server.port)], keys=server.keys) as again:
            assert again.port == server.port
            assert again.ask("GET", "/v1/experiments").status == 200


IMPATIENT = (
    "import sys; from ldpbandits.cli import main, serve; serve.WORKER_STOP_EXTRA_S = 0.5; "
    "sys.exit(main(['serve', *sys.argv[1:]]))"
)


def test_a_database_that_hangs_does_not_keep_a_server_from_stopping(postgres: Postgres, tmp_path: Path) -> None:
    """As while somebody holds a lock on a table: the server ends when its time is over, and says so."""
    url = postgres.new()
    impatient, options = (sys.executable, "-c", IMPATIENT), ["--database", url, "--stop-seconds", "0"]
    with running(tmp_path, serve=impatient, options=options) as server, psycopg.connect(url) as other:
        assert server.ask("POST", "/v1/experiments", HEADLINE).status == 201
        ticket = server.decide()["ticket"]
        other.execute("LOCK TABLE responses IN ACCESS EXCLUSIVE MODE")
        device = HTTPConnection(server.host, server.port, timeout=PATIENCE)
        with closing(device):
            device.request("POST", "/v1/responses", json.dumps({"ticket": ticket, "response": 1}))
            waiting = "SELECT count(*) FROM pg_locks WHERE relation = 'responses'::regclass AND NOT granted"
            until(lambda: other.execute(waiting).fetchall() == [(1,)], server.printed)
            assert server.stop() == 1
        assert "the store did not close within 0.5 s: the server exits" in server.printed()


def test_a_server_whose_database_went_back_ends(postgres: Postgres, tmp_path: Path) -> None:
    """So that whoever keeps it running starts it again, on what the database has now."""
    url = postgres.new()
    with running(tmp_path, options=["--database", url]) as server, psycopg.connect(url, autocommit=True) as other:
        assert server.ask("POST", "/v1/experiments", HEADLINE).status == 201
        other.execute("DELETE FROM changes WHERE version = (SELECT max(version) FROM changes)")
        assert server.process.wait(PATIENCE) == 2
        assert "as after a restore or a failover: restart the server" in server.printed()


def test_a_password_is_never_shown(postgres: Postgres, tmp_path: Path) -> None:
    """Not in what the server prints; who puts it on the command line, where all can read it, is told so."""
    url = postgres.new().replace("ldp@", "ldp:hush-hush@")
    with running(tmp_path, options=["--database", url]) as server:
        assert (
            "everybody on this machine can read the password of the database: LDPBANDITS_DATABASE_FILE"
            in server.printed()
        )
        assert "hush" not in server.printed()
