"""The ledger counts every charge, whoever is killed, however many charge at once, and across fork."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from ldpbandits.device.ledger import Ledger
from ldpbandits.device.outbox import Outbox

HERE = ("https://agent.example", "headline")

START = """
import os, sys, threading, time
from ldpbandits import LaplaceCurator, LedgerError, Ledger, LimitError, Limits, Range
from ldpbandits.device.decision import Decision, Request
from ldpbandits.device.outbox import Outbox
path, name = sys.argv[1:3]

def say(*words):
    os.write(1, (" ".join(map(str, words)) + chr(10)).encode())  # in one piece, and not kept back in a buffer

def open_outbox():
    return Outbox(Ledger(path), "https://agent.example", "headline")

def asked(ticket):
    return Decision(0, "", str(ticket), Request((LaplaceCurator(0.1),), 0.0, report_after=300.0), lifetime=600.0)
"""

CHARGE_FOR_EVER = """
outbox, limits = open_outbox(), Limits(Range(0, 1), 1, 1e6)
for i in range(10**6):
    ticket = f"{name}-{i}"
    say("asks", ticket)
    outbox.keep(asked(ticket), limits, 1e6)
    say("charged", ticket)
    outbox.observe(ticket, i / 2**20, 1e6)
    say("stored", ticket, i / 2**20)
"""

CHARGE_ALL = """
say("ready")
sys.stdin.readline()
outbox = open_outbox()
for i in range(1000):
    try:
        outbox.keep(asked(f"{name}-{i}"), Limits(Range(0, 1), 1, 1.5), 1e6)
    except LimitError:
        break
    say("charged")
"""

FORK = """
outbox, memory, limits, is_over = open_outbox(), Ledger(":memory:"), Limits(Range(0, 1), 1, 1e6), threading.Event()
database = outbox.database

def charge_on():
    i = 0
    while not is_over.is_set():
        outbox.keep(asked(f"thread-{i}"), limits, 1e6)
        say("charged")
        time.sleep(0.002)  # SQLite is not fair: give the children a chance
        i += 1

inherited = database._connection
thread = threading.Thread(target=charge_on)
thread.start()
children = []
for number in range(4):
    child = os.fork()
    if child == 0:
        for i in range(2):
            outbox.keep(asked(f"child-{number}-{i}"), limits, 1e6)
            say("charged")
        assert database._connection is not inherited  # SQLite says that a connection must not be used after fork
        try:
            memory.spent(1e6, 1.0)
        except LedgerError:
            sys.exit()  # not os._exit: what was inherited is finalised
        sys.exit("a copy of a ledger in memory counts for itself")
    children.append(child)
codes = [os.waitpid(child, 0)[1] for child in children]
is_over.set()
thread.join()
say("codes", *codes)
"""


def start(script: str, path: Path, name: str) -> subprocess.Popen[str]:
    """Run a script in another process."""
    return subprocess.Popen(
        [sys.executable, "-c", START + script, str(path), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_kill_9_at_any_moment_loses_no_charge_and_no_response(path: Path) -> None:
    """On disk is every charge and response that was reported, at most one more a kill, each charge with its pull."""
    rng, asked, charged = random.Random(4), 0, 0
    stored: dict[str, float] = {}
    for round_ in range(8):
        with start(CHARGE_FOR_EVER, path, str(round_)) as child:
            assert child.stdout is not None
            lines = [child.stdout.readline()]
            assert lines[0].startswith("asks"), child.stderr and child.stderr.read()
            try:
                child.wait(rng.uniform(0, 0.1))
            except subprocess.TimeoutExpired:
                child.kill()
            lines += child.stdout.read().splitlines()
        words = [line.split() for line in lines]
        asked += sum(word[0] == "asks" for word in words)
        charged += sum(word[0] == "charged" for word in words)
        stored |= {word[1]: float(word[2]) for word in words if word[0] == "stored"}
        ledger = Ledger(path)
        charges = round(ledger.spent(1e6, 1.0) / 0.1)
        pulls = {pull.ticket: pull.response for pull in Outbox(ledger, *HERE).entries()}
        ledger.close()
        assert charged <= charges <= asked
        assert len(pulls) == charges
        assert stored.items() <= pulls.items()
    assert charged > 0


def test_processes_together_never_exceed_the_budget(path: Path) -> None:
    """Four processes that open a new ledger at the same moment get exactly 15 times 0.1 out of 1.5 between them."""
    children = [start(CHARGE_ALL, path, str(i)) for i in range(4)]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    results = [child.communicate(timeout=60) for child in children]
    assert [errors for _, errors in results] == [""] * 4
    assert sum(said.count("charged") for said, _ in results) == 15
    ledger = Ledger(path)
    assert ledger.spent(1e6, 1.0) == pytest.approx(1.5)
    ledger.close()


def test_fork_in_the_middle_of_charges_of_another_thread(path: Path) -> None:
    """A child finds no lock held and no transaction begun, and neither its charges nor its end undo the parent's."""
    with start(FORK, path, "") as child:
        said, _ = child.communicate(timeout=60)
    assert said.splitlines()[-1] == "codes 0 0 0 0"
    ledger = Ledger(path)
    charges = round(ledger.spent(1e6, 1.0) / 0.1)
    ledger.close()
    assert charges == said.count("charged")
    assert charges > 8
