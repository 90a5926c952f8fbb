"""`ldpbandits rotate`: a new key is handed over once, and the old one ends."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.running import HEADLINE, Running, running

from ldpbandits.cli import main


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A server, and who asks it."""
    monkeypatch.chdir(tmp_path)
    with running(tmp_path) as made:
        monkeypatch.setenv("LDPBANDITS_URL", made.url)
        monkeypatch.setenv("LDPBANDITS_ADMIN_KEY", made.keys["admin"])
        yield made


def test_keys_and_the_secret_are_rotated(server: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Printed, as JSON, or into a file for its owner only; with a grace both hold; tickets may be void at once."""
    old = server.keys["viewer"]
    assert main(["rotate", "viewer", "--out", "viewer-key"]) == 0
    assert capsys.readouterr().out == ""
    server.keys["viewer"] = (tmp_path / "viewer-key").read_text().strip()
    assert stat.S_IMODE((tmp_path / "viewer-key").stat().st_mode) == 0o600
    assert server.ask("GET", "/v1/experiments", role="viewer").status == 200
    server.keys["viewer"] = old
    assert server.ask("GET", "/v1/experiments", role="viewer").status == 401
    assert main(["rotate", "viewer", "--out", "viewer-key"]) == 2
    assert "viewer-key, which exists already" in capsys.readouterr().err

    assert server.ask("POST", "/v1/experiments", HEADLINE).status == 201
    assert main(["rotate", "client", "--grace", "3600"]) == 0
    new = capsys.readouterr().out.strip()
    assert server.decide()["arm"] in {0, 1}  # by the old one
    server.keys["client"] = new
    ticket = server.decide()["ticket"]
    assert main(["rotate", "signing", "--grace", "0"]) == 0
    assert capsys.readouterr() == ("", "tickets are signed with a new secret\n")
    assert server.respond(ticket, 1).json["code"] == "forged"

    assert main(["rotate", "admin", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["role"] == "admin"
    assert server.ask("GET", "/v1/experiments").status == 401
    server.keys["admin"] = made["key"]
    assert server.ask("GET", "/v1/experiments").status == 200


def test_a_refusal_leaves_no_file(server: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And is one line."""
    assert main(["rotate", "client", "--grace", "-1", "--out", "key"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "key").exists()
    assert server.process.poll() is None
