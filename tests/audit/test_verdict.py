"""A verdict that can be filed: one leak is named once, with what was claimed and found, and how it was audited."""

import hashlib
import json
import shlex
import sys
from pathlib import Path

import pytest

import ldpbandits
from ldpbandits.audit import Audit, Layer
from ldpbandits.audit.blackbox import runs, side_channels
from ldpbandits.audit.page import page
from ldpbandits.audit.result import Record, in_words
from ldpbandits.cli import main

LAYERS = (
    Layer("empirical: single responses", "violated", "by size", 2.5),
    Layer("empirical: neighbours", "violated", "by the call before", 3.0),
    Layer("known attacks: bad rewards", "violated", "shown", 0.0, channel="refusals"),
    Layer("known attacks: short runs", "consistent", "fine", 0.5),
)
FOUND = Audit("client", 1.0, 0.999, 5_000, 2.0, LAYERS, record=Record((0.0, 1.0), 7, "ldpbandits audit", "ab12", "1.0"))


def test_one_leak_is_named_once() -> None:
    """The strongest layer of a channel names it, others say same leak; another channel is another leak."""
    assert [layer.name for layer in FOUND.leaks] == ["empirical: neighbours", "known attacks: bad rewards"]
    assert FOUND.same_leak == {"empirical: single responses": "empirical: neighbours"}
    lines = {line.split("  ")[0]: line for line in str(FOUND).splitlines()}
    assert "same leak" in lines["empirical: single responses"]
    assert "VIOLATED" in lines["empirical: neighbours"]
    told = {layer["name"]: layer["same_leak_as"] for layer in FOUND.to_json()["layers"]}
    assert told["empirical: single responses"] == "empirical: neighbours"
    assert told["empirical: neighbours"] is None
    assert "same leak" in page(FOUND)


def test_the_headline_says_what_was_claimed_and_found() -> None:
    """In odds and in words: e^1 = 2.72 and 73.11 % for the claim, e^3 = 20.09 and 95.26 % for what was found."""
    assert FOUND.headline.startswith("Claimed: epsilon = 1, so that a response makes one reward up to 2.72 times")
    assert "guesses right 73.11 % of the time. Found: epsilon is at least 3 at 99.9 %" in FOUND.headline
    assert "up to 20.09 times as likely as another, and guesses right 95.26 %" in FOUND.headline
    assert FOUND.headline in str(FOUND)
    assert "20.09 times" in page(FOUND)
    healthy = Audit("client", 1.0, 0.999, 5_000, 2.0, LAYERS[3:])
    assert "Found: no evidence against it; the best guesses reached epsilon = 0.5." in healthy.headline
    assert in_words(800.0) == "a response may give the reward away for certain"


def test_the_record_is_in_json_and_on_the_page() -> None:
    """Date, command, version, seed, rewards, bounds and digest."""
    found = FOUND.to_json()
    record = {"command": "ldpbandits audit", "seed": 7, "digest": "ab12", "version": "1.0", "rewards": [0.0, 1.0]}
    assert {name: found[name] for name in record} == record
    assert found["date"][:4].isdigit()
    assert [layer["epsilon_lower"] for layer in found["layers"]] == [2.5, 3.0, 0.0, 0.5]
    text = page(FOUND)
    for told in ("ldpbandits audit", "SHA-256 ab12", "0, 1", found["date"], "epsilon at least"):
        assert told in text
    assert json.dumps(found)


def audited(program: Path, *options: str) -> list[str]:
    """The words of an audit of a program, as small as it may be."""
    command = shlex.join([sys.executable, str(program)])
    return ["audit", "--command", command, "--epsilon", "1", "--samples", "1000", "--rewards", "0,1", *options]


def test_a_command_is_recorded_with_the_digest_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The digest is that of the interpreter and of the script; both are named by the command."""
    monkeypatch.setattr(runs, "USERS", 12)
    monkeypatch.setattr(side_channels, "TIMES", 8)
    script = tmp_path / "client.py"
    script.write_text("import sys, random\nfor line in sys.stdin: print(random.getrandbits(1))", encoding="utf-8")
    assert main(audited(script, "--seed", "3", "--json")) in {0, 2}  # 2: so few runs are not enough
    found = json.loads(capsys.readouterr().out)
    assert shlex.split(found["command"])[:4] == [
        *["ldpbandits", "audit", "--command"],
        shlex.join([sys.executable, str(script)]),
    ]
    assert "--seed 3" in found["command"]
    parts = [hashlib.sha256(Path(each).read_bytes()).digest() for each in (sys.executable, script)]
    assert found["digest"] == hashlib.sha256(b"".join(parts)).hexdigest()
    assert (found["version"], found["seed"], found["rewards"]) == (ldpbandits.__version__, 3, [0.0, 1.0])


@pytest.mark.parametrize(
    ("program", "hint"),
    [
        ("import sys\nprint('ready')\nfor line in sys.stdin: print(1)", "a banner, or anything else"),
        ("import sys\nfor line in sys.stdin: print('{\\n  1\\n}')", "JSON that is printed over many lines"),
    ],
)
def test_a_banner_and_pretty_json_get_a_hint(
    program: str, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the one line that says that there are too many lines."""
    script = tmp_path / "client.py"
    script.write_text(program, encoding="utf-8")
    assert main(audited(script)) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert hint in err


def test_there_is_no_shell(capsys: pytest.CaptureFixture[str]) -> None:
    """An operator of a shell is refused in one line that says what to do."""
    assert main(["audit", "--command", "cat | sort", "--epsilon", "1"]) == 2
    assert "there is no shell, so | is no operator: use sh -c '...', or a script" in capsys.readouterr().err
