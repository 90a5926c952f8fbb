"""The systemd unit: systemd's own analyser finds nothing wrong, and little to attack. No systemd runs here."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.server.running import PATIENCE
from tests.tools import ROOT, tool

from ldpbandits.cli.serve_options import OPTIONS, SECRETS
from ldpbandits.server.process.front_door import FrontDoor

UNIT = (ROOT / "deploy" / "ldpbandits.service").read_text()
PROGRAM = "/opt/ldpbandits/bin/ldpbandits"


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit, with a program that is there."""
    path = tmp_path / "ldpbandits.service"
    assert UNIT.count(PROGRAM) == 1
    path.write_text(UNIT.replace(PROGRAM, sys.executable))
    return path


def analyse(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Ask systemd's analyser."""
    command = [tool("systemd-analyze"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)


def test_the_unit_is_valid(unit: Path) -> None:
    """Not a word about it."""
    done = analyse("verify", str(unit))
    assert (done.returncode, done.stdout, [line for line in done.stderr.splitlines() if "ldpbandits" in line]) == (
        0,
        "",
        [],
    )


def test_a_unit_that_is_not_valid_is_found(unit: Path) -> None:
    """The analyser can fail."""
    unit.write_text(unit.read_text().replace("ProtectSystem=strict", "ProtectSystem=stric"))
    assert "Failed to parse protect system value" in analyse("verify", str(unit)).stderr


def test_little_of_the_system_is_exposed(unit: Path) -> None:
    """On systemd's scale, from 0 to 10, at most 2.0."""
    done = analyse("security", "--offline=true", "--threshold=20", str(unit))
    assert done.returncode == 0, done.stdout[-300:]


def test_the_unit_sets_options_that_exist() -> None:
    """By their variables; a key is a credential, and its variable names the file of it."""
    known = {each.variable for each in OPTIONS}
    for name, value in re.findall(r"^Environment=(\w+)=(.*)$", UNIT, flags=re.MULTILINE):
        if name.endswith("_FILE"):
            assert name.removesuffix("_FILE") in SECRETS
            assert f"LoadCredential={value.removeprefix('%d/')}:/etc/ldpbandits/" in UNIT
        else:
            assert name in known


def test_there_is_time_to_stop() -> None:
    """More than requests have, and room for as many files as connections."""
    (seconds,) = re.findall(r"^TimeoutStopSec=(\d+)$", UNIT, flags=re.MULTILINE)
    assert int(seconds) > FrontDoor().stop_seconds + 10
    (files,) = re.findall(r"^LimitNOFILE=(\d+)$", UNIT, flags=re.MULTILINE)
    assert int(files) >= FrontDoor().connections + 100
