"""`ldpbandits keys`: every verb, for people and for machines, against a real server."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.running import HEADLINE, Running, running

from ldpbandits import Admin
from ldpbandits.cli import main
from ldpbandits.errors import ServerError


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A server, and who asks it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    with running(tmp_path) as made:
        monkeypatch.setenv("LDPBANDITS_URL", made.url)
        monkeypatch.setenv("LDPBANDITS_ADMIN_KEY", made.keys["admin"])
        yield made


def test_keys_are_made_changed_listed_and_removed(
    server: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new one is shown once or written into a file for its owner; what somebody did has the name."""
    name = str(HEADLINE["name"])
    assert main(["keys", "add", "ben", "--role", "editor", "--experiment", name]) == 0
    ben = capsys.readouterr().out.strip()
    assert ben.startswith("editor-")
    assert main(["keys", "add", "carl", "--role", "viewer", "--out", "carl-key"]) == 0
    assert capsys.readouterr() == ("", "the key of carl is in carl-key, and nowhere else\n")
    assert stat.S_IMODE((tmp_path / "carl-key").stat().st_mode) == 0o600
    carl = Admin(server.url, (tmp_path / "carl-key").read_text().strip())
    assert carl.list() == ()
    assert main(["keys", "list"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["name", "role", "last", "used", "experiments"]
    assert [(line[0], line[1]) for line in lines[1:]] == [
        *((role, role) for role in ("admin", "viewer", "client")),
        ("ben", "editor"),
        ("carl", "viewer"),
    ]
    assert lines[4][-1] == name

    Admin(server.url, ben).create(name, ["blue", "green"], epsilon=1)
    assert main(["keys", "change", "ben", "--role", "editor", "--experiment", "other", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["experiments"] == ["other"]
    with pytest.raises(ServerError, match="the key of ben may change other, and not"):
        Admin(server.url, ben).pause(name)
    assert main(["rotate", "ben", "--json"]) == 0
    new = json.loads(capsys.readouterr().out)
    assert (new["name"], new["role"]) == ("ben", "editor")
    with pytest.raises(ServerError, match="the server does not know this key"):
        Admin(server.url, ben).list()
    assert main(["keys", "remove", "ben"]) == 0
    assert capsys.readouterr().out == "ben has no key any more\n"
    with pytest.raises(ServerError, match="the server does not know this key"):
        Admin(server.url, new["key"]).list()

    assert main(["experiments", "log", name]) == 0
    header, line = capsys.readouterr().out.splitlines()
    assert header.split() == ["when", "(UTC)", "who", "change", "experiment", "detail"]
    assert line.split()[2:] == ["ben", "create", name, "arms:", "blue,", "green"]
    assert main(["experiments", "log", "--json", "--most", "2"]) == 0
    told = [(line["who"], line["what"], line["detail"]) for line in json.loads(capsys.readouterr().out)]
    assert told == [
        ("admin", "remove-key", "ben"),
        ("admin", "rotate-key", "ben, the earlier ones valid for 0 s"),
    ]


def test_a_refusal_is_one_line_and_leaves_no_file(
    server: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit code 2."""
    for arguments, told in (
        (["add", "ben", "--role", "editor", "--out", "key"], "an editor needs the names of the experiments"),
        (["add", "admin", "--role", "viewer"], "admin is a name of the server's own"),
        (["remove", "eve"], "there is no key named 'eve'"),
        (["change", "admin", "--role", "viewer"], "it can only be rotated"),
    ):
        assert main(["keys", *arguments]) == 2
        printed = capsys.readouterr()
        assert (printed.out, printed.err.count("\n")) == ("", 1)
        assert told in printed.err
    assert not (tmp_path / "key").exists()
    assert main(["experiments", "log", "--most", "0"]) == 2
    assert "most must be a whole number >= 1" in capsys.readouterr().err
    assert main(["rotate", "eve"]) == 2
    assert "there is no key named 'eve'" in capsys.readouterr().err
    assert server.process.poll() is None


def test_the_log_is_read_page_by_page(server: Running) -> None:
    """As many lines as are asked for, the newest first, without a gap or a repetition."""
    admin = Admin(server.url, server.keys["admin"])
    admin.create("headline", ["blue", "green"], epsilon=1)
    for _ in range(105):
        admin.pause("headline")
    for most, expected in ((1, 1), (100, 100), (104, 104), (1000, 106)):
        found = admin.log("headline", most=most)
        assert len(found) == expected
        assert [line.number for line in found] == sorted({line.number for line in found}, reverse=True)
    assert [line.what for line in found[-2:]] == ["pause", "create"]
    with pytest.raises(ServerError, match="there is no experiment named"):
        admin.log("other")
