"""A ledger that went back, is gone, or is another one than before is refused; a healthy one never is."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ldpbandits import BernoulliCurator, Ledger, LedgerError, Limits, Range
from ldpbandits.device.database import SUFFIX
from ldpbandits.device.decision import Decision, Request
from ldpbandits.device.outbox import Outbox
from ldpbandits.types import Arm, Response

if TYPE_CHECKING:
    from tests.device.conftest import Device, FakeAgent

NOW = 1_000_000.0
DAY = 86400.0
LIMITS = Limits(Range(0, 1), 1, 1000)
OLDER = (
    r"ledger\.db is older than it was, as after a restored backup: put the newest one back\. .* delete .*\.high-water"
)
GONE = r"ledger\.db is gone, and with it what was spent: put it back\. .* delete .*\.high-water"
REPLACED = r"ledger\.db was deleted or replaced while in use: put it back, or start this program again"


def mark_of(path: Path) -> Path:
    """Where the mark of a ledger is."""
    return path.with_name(path.name + SUFFIX)


@contextmanager
def opened(path: Path) -> Iterator[Outbox]:
    """Open a ledger as a program that starts does, until the block ends."""
    ledger = Ledger(path)
    try:
        yield Outbox(ledger, "https://agent.example", "headline")
    finally:
        ledger.close()


def charge(outbox: Outbox, ticket: str) -> None:
    """Accept a pull."""
    curators = (BernoulliCurator(0.1),)
    outbox.keep(Decision(Arm(0), "", ticket, Request(curators, 0.0, report_after=300), lifetime=600), LIMITS, NOW)


def leave(outbox: Outbox, ticket: str) -> None:
    """Send the response of a pull."""
    outbox.report([ticket], NOW)
    assert outbox.take(ticket, LIMITS, NOW, lease=0) is not None


def use(path: Path) -> float:
    """Start a program with this ledger, spend, and return what was spent before."""
    with opened(path) as outbox:
        spent = outbox._ledger.spent(NOW, DAY)
        charge(outbox, f"ticket-{len(outbox.entries())}-{spent}")
    return spent


STEPS: dict[str, Callable[[Outbox], None]] = {
    "charge a": lambda outbox: charge(outbox, "a"),
    "observe a": lambda outbox: outbox.observe("a", Response(1.0), NOW),
    "leave a": lambda outbox: leave(outbox, "a"),
    "done a": lambda outbox: outbox.done("a"),
    "charge b": lambda outbox: charge(outbox, "b"),
    "leave b": lambda outbox: leave(outbox, "b"),
}
TELLING = ["charge a", "leave a", "charge b", "leave b"]
"""The steps after which the device has spent or told more than before."""


def snapshots(path: Path) -> list[tuple[bytes, bytes]]:
    """Return ledger and mark as they are before and after each step."""
    taken = []
    with opened(path) as outbox:
        outbox.entries()
        for step in (lambda _: None, *STEPS.values()):
            step(outbox)
            taken.append((path.read_bytes(), mark_of(path).read_bytes() if mark_of(path).exists() else b""))
    return taken


def test_a_restored_backup_is_refused_if_it_lacks_what_was_spent_or_has_left(path: Path) -> None:
    """Each older state is refused, in one line that says what to do; with the mark deleted, the owner goes on."""
    taken = snapshots(path)
    names = ["", *STEPS]
    for older in range(len(taken)):
        for newer in range(older + 1, len(taken)):
            path.write_bytes(taken[older][0])
            mark_of(path).write_bytes(taken[newer][1])
            if any(step in TELLING for step in names[older + 1 : newer + 1]):
                with opened(path) as outbox, pytest.raises(LedgerError, match=OLDER) as refused:
                    outbox.entries()
                assert "\n" not in str(refused.value)
                assert path.read_bytes() == taken[older][0]
                mark_of(path).unlink()
            use(path)


def test_one_ticket_is_answered_once_however_often_the_ledger_is_restored(
    agent: "FakeAgent", device: "Device", path: Path
) -> None:
    """A backup from before the response left does not bring a second draw for its ticket."""
    client = device()
    pull = client.decide()
    client.close(keep=True)
    backup = path.read_bytes()
    for number in range(12):
        path.write_bytes(backup)
        if number:
            with pytest.raises(LedgerError, match=OLDER):
                device()
        else:
            second = device()
            assert pull.ticket is not None
            second.observe(pull.ticket, 1)
            second.flush(now=1e12)
            second.close()
    assert len(agent.counted) == 1
    assert len(agent.bodies("ticket-1")) == 1


@pytest.mark.parametrize("with_mark", [False, True])
def test_a_ledger_deleted_under_a_running_client_is_refused(device: "Device", path: Path, *, with_mark: bool) -> None:
    """It gives no fresh budget to that client, nor to the next while the mark is there; put back, it goes on."""
    client = device()
    client.decide()
    away = path.rename(path.with_name("away"))
    if with_mark:
        mark_of(path).unlink()
    for call in (client.decide, client.spent, client.flush):
        with pytest.raises(LedgerError, match=REPLACED):
            call()
    if not with_mark:
        with pytest.raises(LedgerError, match=GONE):
            device()
    assert not path.exists()
    away.rename(path)
    client.decide()
    assert client.spent() == 1.0


def test_a_ledger_replaced_under_a_running_client_is_refused(device: "Device", path: Path, tmp_path: Path) -> None:
    """Be it another with more spent, moved to its place, or an older state, written into the same file."""
    client = device()
    client.decide()
    backup = path.read_bytes()
    client.decide()
    path.write_bytes(backup)
    mark_of(path).unlink()  # the running client remembers
    with pytest.raises(LedgerError, match=OLDER):
        client.decide()
    other = tmp_path / "other.db"
    for _ in range(20):
        use(other)
    other.replace(path)
    with pytest.raises(LedgerError, match=REPLACED):
        client.decide()


def test_a_forked_child_starts_no_ledger_in_the_place_of_a_deleted_one(path: Path) -> None:
    """It finds the file of its parent, or says that it was deleted."""
    script = """
import os, sys
from pathlib import Path
from ldpbandits import Ledger, LedgerError
ledger = Ledger(sys.argv[1])
Path(sys.argv[1]).unlink()
child = os.fork()
if child == 0:
    try:
        ledger.spent(0, 1)
    except LedgerError as error:
        os._exit(7 if "deleted or replaced" in str(error) else 8)
    os._exit(9)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-c", script, str(path)], check=False).returncode == 7
    assert not path.exists()


KILLED_AT_EACH_LINE = """
import os, shutil, signal, sys
from pathlib import Path
from ldpbandits import Ledger, LedgerError
from ldpbandits.device import database
from tests.device.test_high_water import STEPS, opened, use

path = Path(sys.argv[1])
OURS = {database.__file__}

def live(at):
    # Take each step in turn, and die at the line with this number.
    count = 0
    def trace(frame, event, _):
        nonlocal count
        if frame.f_code.co_filename not in OURS:
            return None
        if event == "line":
            count += 1
            if count == at:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace
    sys.settrace(trace)
    with opened(path) as outbox:
        for step in STEPS.values():
            step(outbox)

kills = 0
while True:
    shutil.rmtree(path.parent, ignore_errors=True)
    child = os.fork()
    if child == 0:
        live(kills + 1)
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
        break
    kills += 1
    use(path)
    use(path)
print(kills)
"""


def test_a_ledger_is_healthy_after_kill_9_at_every_line(tmp_path: Path, root: Path) -> None:
    """A process that is killed at any line between opening a ledger and its last change leaves one that goes on."""
    command = [sys.executable, "-c", KILLED_AT_EACH_LINE, str(tmp_path / "home" / "ledger.db")]
    run = subprocess.run(command, check=False, cwd=root, capture_output=True, text=True)
    assert run.stderr == ""
    assert int(run.stdout) > 200


def test_a_ledger_is_healthy_after_a_loss_of_power_at_every_step(path: Path) -> None:
    """The ledger is on disk; of its mark nothing is, or any older one, or any part of the newest over an older one."""
    taken = snapshots(path)
    for newest, (ledger, _) in enumerate(taken):
        marks = [mark for _, mark in taken[: newest + 1]]
        torn = [new[:cut] + old[cut:] for old, new in pairwise(marks) for cut in range(len(new))]
        lost = [b"\0" * 164, b"", b"0" * 164]
        for mark in {*marks, *torn, *lost}:
            path.write_bytes(ledger)
            mark_of(path).write_bytes(mark)
            with opened(path) as outbox:
                outbox.entries()
    use(path)


def test_a_ledger_of_the_version_before_has_no_mark_and_gets_one_when_it_changes(path: Path) -> None:
    """Programs of both versions may share it: one that writes no mark leaves the mark behind, and that is healthy."""
    use(path)
    mark_of(path).unlink()
    with opened(path) as outbox:
        outbox.entries()
        assert not mark_of(path).exists(), "to read changes nothing"
        charge(outbox, "a")
    before = mark_of(path).read_bytes()
    with sqlite3.connect(path) as connection:  # as an older version does
        connection.execute("INSERT INTO spent (accepted_at, epsilon) VALUES (?, 0.1)", (NOW,))
    connection.close()
    assert mark_of(path).read_bytes() == before
    assert use(path) == pytest.approx(0.3)


def test_a_ledger_may_be_moved_copied_and_linked(path: Path, tmp_path: Path) -> None:
    """With its mark or without, to another folder; a link leads to the mark of the file itself."""
    use(path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name, with_mark in (("a.db", False), ("b.db", True)):
        shutil.copy(path, elsewhere / name)
        if with_mark:
            shutil.copy(mark_of(path), mark_of(elsewhere / name))
        assert use(elsewhere / name) == pytest.approx(0.1)
    link = tmp_path / "link.db"
    link.symlink_to(path)
    assert use(link) == pytest.approx(0.1)
    link.unlink()
    link.symlink_to(elsewhere / "a.db")
    use(path)
    assert use(link) == pytest.approx(0.2)
    assert not mark_of(link).exists()


def test_a_mark_that_cannot_be_read_or_written_refuses_nobody(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is one followed that is a link to something else; the mark is for the same eyes as its ledger."""
    use(path)
    assert mark_of(path).stat().st_mode & 0o777 == path.stat().st_mode & 0o777 == 0o600
    mark_of(path).unlink()
    other = path.with_name("precious")
    other.write_bytes(b"not a mark")
    mark_of(path).symlink_to(other)
    use(path)
    assert other.read_bytes() == b"not a mark"
    mark_of(path).unlink()
    mark_of(path).mkdir()
    use(path)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    use(path)


def test_who_starts_while_another_makes_the_ledger_takes_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mark that the other has written by then does not make it look as if the ledger was gone."""
    exists = Path.exists

    def come_first(where: Path) -> bool:
        found = exists(where)
        monkeypatch.undo()
        use(path)
        return found

    monkeypatch.setattr(Path, "exists", come_first)
    assert use(path) == pytest.approx(0.1)


def test_two_processes_and_many_threads_meet_no_ledger_that_is_behind(path: Path) -> None:
    """Each reads the mark before the ledger, so that what another writes in between does not look like a loss."""
    script = """
import sys
from pathlib import Path
from threading import Thread
from tests.device.test_high_water import charge, opened

def spend(name):
    with opened(Path(sys.argv[1])) as outbox:
        for number in range(15):
            charge(outbox, f"{name}-{number}")

threads = [Thread(target=spend, args=(f"{sys.argv[2]}-{i}",)) for i in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    root = Path(__file__).parents[2]
    children = [
        subprocess.Popen([sys.executable, "-c", script, str(path), name], cwd=root, stderr=subprocess.PIPE, text=True)
        for name in "ab"
    ]
    assert [child.communicate()[1] for child in children] == ["", ""]
    assert use(path) == pytest.approx(9.0)
