"""Several workers on one machine: whoever dies is replaced, nobody outlives the one who started them."""

import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer

import pytest
from tests.server.running import PATIENCE

from ldpbandits.errors import ParameterError
from ldpbandits.server.process import sockets as listening_module
from ldpbandits.server.process import supervisor as workers
from ldpbandits.server.process.sockets import HAS_REUSE_PORT, Listeners, listening, open_listeners, unix_listening


class Supervised:
    """A supervisor that runs, and its workers."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        """Take what runs, and wait until it listens."""
        self.process, self.log = process, log
        self.wait_for("all are ready")
        self.port = int(re.findall(r"port (\d+)", self.said)[0])

    @property
    def said(self) -> str:
        """All that it has said."""
        return self.log.read_text()

    def wait_for(self, text: str, times: int = 1) -> None:
        """Wait until it has said this so many times."""
        until(lambda: self.said.count(text) >= times, lambda: self.said)

    def connect(self) -> tuple[int, socket.socket]:
        """Return the process that takes in a connection, and the connection."""
        connection = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        return int(connection.makefile().readline()), connection

    def worker(self) -> int:
        """Return the process that takes in a connection."""
        number, connection = self.connect()
        connection.close()
        return number

    def workers(self, count: int = 2) -> set[int]:
        """Return the processes that take in connections, once there are so many of them."""
        found: set[int] = set()

        def are_all() -> bool:
            with suppress(OSError, ValueError):  # one that is just leaving may cut us off
                found.add(self.worker())
            return len(found) == count

        until(are_all, lambda: f"{found} {self.said}")
        return found

    def stop(self) -> int:
        """Ask it to stop; return its exit code."""
        self.process.terminate()
        return self.process.wait(PATIENCE)


def until(condition: Callable[[], bool], told: Callable[[], str]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, told()
        time.sleep(0.01)


def is_alive(number: int) -> bool:
    """Tell whether there is a process of this number, and it is no mere entry of one that has ended."""
    with suppress(OSError):
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@contextmanager
def supervised(folder: Path, *options: str) -> Iterator[Supervised]:
    """Run a supervisor for as long as the block lasts; files in the folder say how its workers fail."""
    log = folder / "log"
    program = [sys.executable, str(Path(__file__).with_name("supervised.py")), str(folder), *options]
    with log.open("wb") as file, subprocess.Popen(program, stderr=file) as process:
        try:
            yield Supervised(process, log)
        finally:
            process.kill()  # its workers notice


def test_a_worker_that_dies_is_started_again(tmp_path: Path) -> None:
    """Killed, one is replaced by another, and the other goes on; what was said names the signal."""
    with supervised(tmp_path) as server:
        first, second = server.workers()
        os.kill(first, signal.SIGKILL)
        server.wait_for("was ended by SIGKILL after")
        assert second in server.workers()
        assert first not in server.workers()
        assert server.stop() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="there is no way to limit another process")
def test_a_machine_that_has_no_room_for_a_worker_keeps_the_others(tmp_path: Path) -> None:
    """Where one was killed for want of memory, the next may not start either: there is another try, and no end."""
    with supervised(tmp_path) as server:
        first, second = server.workers()
        before = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
        largest = max(int(file.name) for file in Path(f"/proc/{server.process.pid}/fd").iterdir())
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (largest + 1, before[1]))
        os.kill(first, signal.SIGKILL)
        server.wait_for("cannot be started: Too many open files; next try in", 3)
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("replacing every worker, one after the other")
        server.wait_for("a new worker cannot be started: Too many open files: the other workers go on")
        assert server.worker() == second
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, before)
        assert second in server.workers()
        assert server.stop() == 0


def test_a_pause_stays_a_number_however_often_a_worker_dies() -> None:
    """2^1024 is none: a database that is away for a night must not end the one who starts workers."""
    with listening("127.0.0.1", 0) as one:
        made = workers.Workers(lambda _, __: None, Listeners(1, one), 1.0)
        pauses = [made._schedule_restart(0, 0.0) for _ in range(5000)]
    assert pauses[:3] == [0.5, 1.0, 2.0]
    assert set(pauses[6:]) == {workers.LONGEST_RESTART_DELAY_S}


def test_a_worker_may_be_ended_by_a_signal_without_a_name(tmp_path: Path) -> None:
    """It is told by its number: the one who tells it must not fail over that, and end all others."""
    with supervised(tmp_path) as server:
        first, second = server.workers()
        number = signal.SIGRTMIN + 1
        os.kill(first, number)
        server.wait_for(f"was ended by signal {number} after")
        assert second in server.workers()
        assert server.stop() == 0


def test_workers_stop_in_order_with_the_one_who_started_them(tmp_path: Path) -> None:
    """SIGTERM to the parent: all of them end, by themselves, and its exit code is 0."""
    with supervised(tmp_path) as server:
        workers = server.workers()
        number, connection = server.connect()
        assert number in workers
        assert server.stop() == 0
        assert connection.recv(1) == b""  # it was closed by a worker that had the time for it
        connection.close()
    assert not [number for number in workers if is_alive(number)]
    assert "died" not in server.said


def test_workers_do_not_outlive_a_parent_that_is_killed(tmp_path: Path) -> None:
    """Killed by SIGKILL, it can tell nobody: they notice, also one that does not listen to requests to stop."""
    with supervised(tmp_path) as server:
        workers = server.workers()
        server.process.kill()
        until(lambda: not any(map(is_alive, workers)), lambda: f"{workers} are still there")
    (tmp_path / "deaf").touch()
    with supervised(tmp_path) as server:
        workers = server.workers()
        server.process.kill()
        until(lambda: not any(map(is_alive, workers)), lambda: f"{workers} are still there")


def test_a_worker_that_dies_at_once_is_started_after_a_pause_that_grows(tmp_path: Path) -> None:
    """The pause doubles up to a limit; the reason is one line; the others take the connections meanwhile."""
    with supervised(tmp_path) as server:
        first, second = server.workers()
        (tmp_path / "no-start").touch()
        os.kill(first, signal.SIGKILL)
        server.wait_for("it is restarted in", times=4)
        pauses = re.findall(r"it is restarted in ([\d.]+) s", server.said)
        assert pauses[:4] == ["0.1", "0.1", "0.2", "0.2"]  # 0.05, 0.1, 0.2, and no more
        assert "a worker exits: the database is gone\n" in server.said
        assert "Traceback" not in server.said
        assert {server.worker() for _ in range(20)} == {second}
        (tmp_path / "no-start").unlink()
        assert second in server.workers()


def test_a_renewal_replaces_every_worker_without_a_gap(tmp_path: Path) -> None:
    """SIGHUP: a new one is ready before an old one is told to stop; every connection is taken in."""
    with supervised(tmp_path) as server:
        before = server.workers()
        server.process.send_signal(signal.SIGHUP)
        until(lambda: not any(map(is_alive, before)) or server.worker() < 0, lambda: server.said)
        assert not before & server.workers()
        assert server.stop() == 0


def test_a_renewal_by_workers_that_do_not_start_changes_nothing(tmp_path: Path) -> None:
    """As after an upgrade that is broken: the old ones stay."""
    with supervised(tmp_path) as server:
        before = server.workers()
        (tmp_path / "no-start").touch()
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("a new worker did not start: the other workers go on")
        assert server.workers() == before


def test_a_worker_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    """When its time is over."""
    (tmp_path / "deaf").touch()
    with supervised(tmp_path) as server:
        workers = server.workers()
        start = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - start >= 1.0
    assert not [number for number in workers if is_alive(number)]


@pytest.mark.skipif(not HAS_REUSE_PORT, reason="only Linux shares a port out evenly")
def test_connections_are_shared_out(tmp_path: Path) -> None:
    """Of 128 connections each of two workers gets 37 or more: if each goes to either by a coin, but for one in 10^6."""
    with supervised(tmp_path) as server:
        made = [server.connect() for _ in range(128)]
        counts = Counter(number for number, _ in made)
        for _, connection in made:
            connection.close()
    assert len(counts) == 2
    assert min(counts.values()) >= 37


def test_a_port_in_use_is_noticed_though_it_could_be_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two servers would share the requests."""
    monkeypatch.setattr(listening_module, "ORPHAN_STOP_TIMEOUT_S", 0.3)
    listeners = open_listeners("127.0.0.1", 0, 2)
    port = listeners[0].getsockname()[1]
    assert listeners[1].getsockname()[1] == port
    with pytest.raises(ParameterError, match="Address already in use"):
        open_listeners("127.0.0.1", port, 2)
    listeners.close()


def test_a_start_waits_for_workers_whose_parent_was_killed(tmp_path: Path) -> None:
    """They listen until they notice, at a port or a file; a server of one process waits for nobody."""
    before = open_listeners("127.0.0.1", 0, 2)
    port = before[0].getsockname()[1]
    with pytest.raises(ParameterError, match="Address already in use"):
        open_listeners("127.0.0.1", port, 1)
    Timer(0.3, before.close).start()
    after = open_listeners("127.0.0.1", port, 2)
    assert after[0].getsockname()[1] == port
    after.close()
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as orphan:
        orphan.bind(str(path))
        orphan.listen()
        with pytest.raises(ParameterError, match="another server listens there"), unix_listening(path, 0o600):
            pass
        Timer(0.3, orphan.close).start()
        with unix_listening(path, 0o600, workers=2) as listener:
            assert listener.getsockname() == str(path)


@pytest.mark.skipif(not HAS_REUSE_PORT, reason="elsewhere there is one socket for all")
def test_connections_do_not_wait_for_a_worker_that_may_never_be_ready() -> None:
    """Its socket gets none before it listens, the first time and each time that it is made again."""
    listeners = open_listeners("127.0.0.1", 0, 2)
    first = listeners[0]
    first.settimeout(PATIENCE)
    for _ in range(2):
        assert listeners[1].getsockname() == first.getsockname()
        for _ in range(30):
            socket.create_connection(first.getsockname(), PATIENCE).close()
            first.accept()[0].close()
        listeners[1].listen()
        listeners.drop(1)
    listeners.close()


def test_the_last_socket_keeps_the_address() -> None:
    """Others are closed while their worker is away, and made again."""
    listeners = open_listeners("127.0.0.1", 0, 2)
    first, second = listeners[0], listeners[1]
    listeners.drop(1)
    if HAS_REUSE_PORT:
        assert second.fileno() == -1
        assert listeners[1].getsockname() == first.getsockname()
        listeners.drop(1)
        assert listeners[1].fileno() >= 0  # it does not listen: another server could do so here
    listeners.drop(0)
    assert listeners[0].fileno() == first.fileno() >= 0
    listeners.close()
    with listening("127.0.0.1", 0) as one:
        alone = Listeners(3, one)
        assert alone[0] is alone[2] is one
