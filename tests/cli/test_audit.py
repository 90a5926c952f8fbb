"""`ldpbandits audit`: what it prints, the page it writes, and its exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, NoReturn

import pytest

from ldpbandits.cli import main
from ldpbandits.errors import OutputError

QUICK = ["--samples", "2e4", "--confidence", "0.999999"]


JSON = '{"mechanism": "bernoulli", "transform": {"kind": "threshold", "theta": 1e6}}'


@pytest.mark.parametrize("curator", ["ctb", "ctl", "ctb-s", "ctl-s", "ctb-t(0.9)", "ctl-t(-7)", JSON])
def test_each_curator_can_be_named(curator: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0 and a verdict first. False alarm: 1e-6."""
    assert main(["audit", "--curator", curator, "--epsilon", "0.5", *QUICK]) == 0
    out, err = capsys.readouterr()
    assert ": consistent with epsilon = 0.5 (lower bound reached: 0." in out.splitlines()[0]
    assert "20,000 responses to each reward" in out
    assert err == ""


def test_a_curator_of_ones_own_can_be_loaded(root: Path, tmp_path: Path) -> None:
    """--load imports the module that registers its transform, the example of docs/own-mechanism.md."""
    page = (root / "docs" / "own-mechanism.md").read_text(encoding="utf-8")
    code = page.partition("```python\n# my_transform.py\n")[2].partition("\n```")[0]
    (tmp_path / "my_transform.py").write_text(code, encoding="utf-8")
    kind = code.partition('kind: ClassVar[str] = "')[2].partition('"')[0]
    curator = json.dumps({"mechanism": "bernoulli", "transform": {"kind": kind, "at": 0.5}})
    command = [sys.executable, "-m", "ldpbandits", "audit", "--curator", curator, "--epsilon", "0.5", *QUICK]
    done = subprocess.run(
        [*command, "--load", "my_transform"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert ": consistent with epsilon = 0.5" in done.stdout


def test_help_shows_how_to_call_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Two examples, the exit codes, and every option."""
    with pytest.raises(SystemExit, match="0"):
        main(["audit", "--help"])
    out = capsys.readouterr().out
    for text in (
        "--curator C",
        "ctb-t(THETA)",
        "--command",
        "--samples",
        "--confidence",
        "--time",
        "--calls-per-run",
        "--seed",
        "--json",
        "--out",
        "Exit",
    ):
        assert text in out


def test_json_has_the_promised_keys(capsys: pytest.CaptureFixture[str]) -> None:
    """And nothing else is on stdout."""
    assert main(["audit", "--curator", "ctl", "--epsilon", "2", *QUICK, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    keys = {"verdict", "epsilon_claimed", "epsilon_lower", "epsilon_could_be", "confidence", "samples", "seconds"}
    keys |= {"layers", "epsilon_could_be_of", "not_finished", "headline", "what", "leaks"}
    keys |= {"date", "version", "command", "digest", "seed", "rewards"}
    assert found.keys() == keys
    assert all(
        layer.keys() == {"name", "verdict", "detail", "epsilon_lower", "same_leak_as"} for layer in found["layers"]
    )
    verdicts = {"consistent", "violated", "reported", "not applicable"}
    assert found["not_finished"] == []
    assert found["epsilon_could_be_of"] == "a leak that a single response shows on its own"
    assert {layer["verdict"] for layer in found["layers"]} <= verdicts


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (["--epsilon", "1"], "give --curator or --command"),
        (["--curator", "ctb"], "required: --epsilon"),
        (["--curator", "ctx", "--epsilon", "1"], "--curator must be one of ctb, ctl"),
        (["--curator", "ctb-t(x)", "--epsilon", "1"], "or JSON, got 'ctb-t(x)'"),
        (["--curator", "ctb-t", "--epsilon", "1"], "or JSON, got 'ctb-t'"),
        (["--curator", "ctb-t(1e301)", "--epsilon", "1"], "or JSON, got 'ctb-t(1e301)'"),
        (["--curator", "{", "--epsilon", "1"], "--curator is not JSON"),
        (["--curator", '{"transform": {}}', "--epsilon", "1"], "a curator spec must be an object with the keys"),
        (["--curator", "ctb", "--epsilon", "0"], "epsilon must be finite and > 0"),
        (["--curator", "ctb", "--epsilon", "one"], "epsilon must be a number, got 'one'"),
        (["--curator", "ctb", "--epsilon", "1", "--samples", "10"], "samples must be a whole number >= 1000"),
        (["--curator", "ctb", "--epsilon", "1", "--samples", "nan"], "samples must be a whole number >= 1000"),
        (["--curator", "ctb", "--epsilon", "1", "--samples", "inf"], "samples must be a whole number >= 1000"),
        (["--curator", "ctb", "--epsilon", "1", "--samples", "1e30"], "samples must be at most 1e+10, got 1e+30"),
        (["--command", "cat", "--epsilon", "1", "--samples", "1e18"], "samples must be at most 1e+10, got 1e+18"),
        (["--curator", "ctb", "--epsilon", "1", "--confidence", "1"], "confidence must lie strictly between 0 and 1"),
        (["--curator", "ctb", "--epsilon", "1", "--confidence", "1e-300"], "confidence must be at least 0.5, and at"),
        (["--curator", "ctb", "--epsilon", "1", "--confidence", "0.99999999999999"], "at most 1 - 1e-12"),
        (["--curator", "ctb", "--epsilon", "1", "--seed", "-1"], "seed must be a whole number >= 0"),
        (["--curator", "ctb", "--epsilon", "1", "--time", "3"], "--time goes with --command"),
        (["--curator", "ctb", "--epsilon", "1", "--calls-per-run", "3"], "--calls-per-run goes with --command"),
        (["--command", "cat", "--epsilon", "1", "--time", "0"], "time must be finite and > 0"),
        (["--command", "cat", "--epsilon", "1", "--calls-per-run", "0.5"], "calls per run must be a whole number >= 1"),
        (["--curator", "ctb", "--epsilon", "1", "--rewards", "0"], "at least two different numbers"),
        (["--curator", "ctb", "--epsilon", "1", "--rewards", "0,nan"], "rewards must be finite numbers, got nan"),
        (["--curator", "ctb", "--epsilon", "1", "--rewards", "0,x"], "rewards must be a number, got 'x'"),
        (["--curator", "ctb", "--epsilon", "1", "--rewards", "0,2"], "takes no such rewards"),
        (
            ["--curator", "ctb", "--epsilon", "1", "--load", "no_such_module"],
            "no_such_module cannot be loaded: ModuleNotFoundError",
        ),
        (["--curator", "ctb", "--epsilon", "1", "--timeout", "3"], "--timeout goes with --command"),
        (["--command", "cat", "--epsilon", "1", "--timeout", "-3"], "timeout must be finite and > 0"),
        (
            ["--curator", "ctb", "--epsilon", "1", "--out", "/no/such/folder/a.html"],
            "cannot be written: no such folder",
        ),
        (["--curator", "ctb", "--epsilon", "1", "--out", "."], "cannot be written: it is a folder"),
        (["--curator", "ctb", "--epsilon", "1", "--out", "/dev/null"], "cannot be written: it is a link or a device"),
    ],
)
def test_a_bad_call_is_one_line_and_exit_code_2(
    options: list[str], rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing on stdout, one line on stderr that names the rule."""
    try:
        code = main(["audit", *options])
    except SystemExit as end:
        code = int(end.code or 0)
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert rule in err


def test_the_page_is_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Verdict, picture and layers in one file that loads nothing from elsewhere."""
    out = tmp_path / "audit.html"
    assert main(["audit", "--curator", "ctl", "--epsilon", "1", *QUICK, "--out", str(out)]) == 0
    text = out.read_text(encoding="utf-8")
    assert "consistent with epsilon = 1" in text
    assert "data:image/svg+xml;base64," in text
    assert "http" not in text
    assert "known attacks: fork" in text
    assert f"The page: {out}" in capsys.readouterr().out


def test_without_the_extra_it_says_what_to_install() -> None:
    """The command and the function name the package that is missing; other commands are not disturbed."""
    script = """
import sys
for name in ("numpy", "numba", "scipy", "rich", "matplotlib"):
    sys.modules[name] = None
from ldpbandits.cli import main
print(main(["audit", "--curator", "ctb", "--epsilon", "1"]))
try:
    from ldpbandits.audit import audit
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "2\nan audit needs numpy: pip install '.[lab]' in the source folder\n"
    assert done.stderr == "ldpbandits audit: needs numpy: pip install '.[lab]' in the source folder\n"


def test_a_link_is_not_replaced_by_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whether it leads somewhere or not: exit code 2, and the link is still there."""
    link = tmp_path / "page.html"
    for target in (tmp_path / "there.html", tmp_path / "nowhere.html"):
        (tmp_path / "there.html").write_text("kept", encoding="utf-8")
        link.symlink_to(target)
        assert main(["audit", "--curator", "ctb", "--epsilon", "1", *QUICK, "--out", str(link)]) == 2
        assert link.is_symlink()
        link.unlink()
    assert "it is a link or a device" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (MemoryError(), "not enough memory for this number of responses"),
        (ZeroDivisionError("reward 0.25"), "the audit failed and found nothing: ZeroDivisionError in "),
        (OSError(5, "Input/output error"), "the audit failed and found nothing: OSError in "),
        (RecursionError(), "the audit failed and found nothing: RecursionError in "),
        (OutputError("the disk is full", is_full=True), "the disk is full"),
    ],
)
def test_a_crash_is_no_violation(
    error: Exception, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever goes wrong, the exit code is 2 and there is one line, without what the error says."""

    def fails(*_args: object, **_options: object) -> NoReturn:
        raise error

    monkeypatch.setattr("ldpbandits.audit.run.audit", fails)
    assert main(["audit", "--curator", "ctb", "--epsilon", "1"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"ldpbandits audit: {told}")
    assert err.count("\n") == 1
    assert "0.25" not in err


def audited_into(stdout: IO[str], *options: str) -> "subprocess.CompletedProcess[str]":
    """Run the command with its output going somewhere."""
    words = [sys.executable, "-m", "ldpbandits", "audit", "--epsilon", "1", *QUICK, *options]
    return subprocess.run(words, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, timeout=60)


def test_output_that_cannot_be_written_is_no_violation() -> None:
    """A full disk behind stdout: exit code 2, one line."""
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = audited_into(full, "--curator", "ctb")
    assert done.returncode == 2
    assert done.stderr == "ldpbandits audit: cannot write the output: No space left on device\n"


def test_a_violation_that_nobody_reads_is_still_one() -> None:
    """Where the reader of the output has gone, the exit code tells the verdict: a program that echoes is violated."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w", encoding="utf-8") as closed:
        done = audited_into(closed, "--command", "cat")
    assert (done.returncode, done.stderr) == (1, "")


def test_without_matplotlib_a_page_is_refused_before_the_audit(tmp_path: Path) -> None:
    """One line that says what to install, and no page; an audit without a page does not need it."""
    script = f"""
import sys
sys.modules["matplotlib"] = None
from ldpbandits.cli import main
call = ["audit", "--curator", "ctb", "--epsilon", "1", "--samples", "2000", "--confidence", "0.999999"]
print(main([*call, "--out", {str(tmp_path / "page.html")!r}]))
print(main([*call, "--json"]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith("2\n{")
    assert done.stdout.endswith("}\n0\n")
    assert done.stderr == "ldpbandits audit: needs matplotlib: pip install '.[lab]' in the source folder\n"
    assert not list(tmp_path.iterdir())


def test_an_audit_whose_output_is_closed_is_no_violation() -> None:
    """Nobody reads: the exit code tells the verdict, and nothing fails. False alarm: 1e-6."""
    words = [sys.executable, "-m", "ldpbandits", "audit", "--epsilon", "1", *QUICK, "--curator", "ctb"]
    close = ["sh", "-c", 'exec "$@" >&-', "sh"]
    done = subprocess.run([*close, *words], stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
