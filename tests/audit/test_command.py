"""`ldpbandits audit`: what it prints, the page it writes, and its exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ldpbandits import BernoulliCurator, LaplaceCurator, ParameterError
from ldpbandits.audit import audit
from ldpbandits.audit.page import page
from ldpbandits.cli import main

QUICK = ["--samples", "2e4", "--confidence", "0.999999"]


@pytest.mark.parametrize("curator", ["ctb", "ctl", "ctb-s", "ctl-s"])
def test_each_curator_can_be_named(curator: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0 and a verdict first. False alarm: 1e-6."""
    assert main(["audit", "--curator", curator, "--epsilon", "0.5", *QUICK]) == 0
    out, err = capsys.readouterr()
    assert ": consistent with epsilon = 0.5 (lower bound reached: 0." in out.splitlines()[0]
    assert "20,000 responses a reward" in out
    assert err == ""


def test_help_shows_how_to_call_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Two examples, the exit codes, and every option."""
    with pytest.raises(SystemExit, match="0"):
        main(["audit", "--help"])
    out = capsys.readouterr().out
    for text in (
        "--curator {ctb,ctl,ctb-s,ctl-s}",
        "--command",
        "--samples",
        "--confidence",
        "--json",
        "--out",
        "Exit",
    ):
        assert text in out


def test_json_has_the_promised_keys(capsys: pytest.CaptureFixture[str]) -> None:
    """And nothing else is on stdout."""
    assert main(["audit", "--curator", "ctl", "--epsilon", "2", *QUICK, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    keys = {"verdict", "epsilon_claimed", "epsilon_lower", "confidence", "samples", "seconds", "layers"}
    assert found.keys() == keys
    assert all(layer.keys() == {"name", "verdict", "detail"} for layer in found["layers"])
    verdicts = {"consistent", "violated", "reported", "not applicable"}
    assert {layer["verdict"] for layer in found["layers"]} <= verdicts


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (["--epsilon", "1"], "give --curator or --command"),
        (["--curator", "ctb"], "required: --epsilon"),
        (["--curator", "ctx", "--epsilon", "1"], "invalid choice: 'ctx'"),
        (["--curator", "ctb", "--epsilon", "0"], "epsilon must be finite and > 0"),
        (["--curator", "ctb", "--epsilon", "one"], "epsilon must be a number, got 'one'"),
        (["--curator", "ctb", "--epsilon", "1", "--samples", "10"], "samples must be a whole number >= 1000"),
        (["--curator", "ctb", "--epsilon", "1", "--samples", "nan"], "samples must be a whole number >= 1000"),
        (["--curator", "ctb", "--epsilon", "1", "--samples", "inf"], "samples must be a whole number >= 1000"),
        (["--curator", "ctb", "--epsilon", "1", "--confidence", "1"], "confidence must lie strictly between 0 and 1"),
        (["--curator", "ctb", "--epsilon", "1", "--rewards", "0"], "at least two different finite numbers"),
        (["--curator", "ctb", "--epsilon", "1", "--rewards", "0,nan"], "at least two different finite numbers"),
        (["--curator", "ctb", "--epsilon", "1", "--rewards", "0,x"], "rewards must be a number, got 'x'"),
        (["--curator", "ctb", "--epsilon", "1", "--rewards", "0,2"], "takes no such rewards"),
        (["--curator", "ctb", "--epsilon", "1", "--timeout", "3"], "--timeout goes with --command"),
        (["--command", "cat", "--epsilon", "1", "--timeout", "-3"], "timeout must be finite and > 0"),
        (
            ["--curator", "ctb", "--epsilon", "1", "--out", "/no/such/folder/a.html"],
            "cannot be written: no such folder",
        ),
        (["--curator", "ctb", "--epsilon", "1", "--out", "."], "cannot be written: it is a folder"),
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


def test_the_page_of_a_violation_says_so_and_shows_no_markup_of_others() -> None:
    """Names are escaped: a page about somebody's program must not run it."""

    def respond(reward: float) -> float:
        return reward

    respond.__qualname__ = "<script>alert(1)</script>"
    text = page(audit(respond, epsilon=1.0, samples=2_000))
    assert 'class="verdict violated"' in text
    assert "<script>" not in text


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
    assert done.stdout == "2\nan audit needs numpy: pip install 'ldpbandits[lab]'\n"
    assert done.stderr == "ldpbandits audit: needs numpy: pip install 'ldpbandits[lab]'\n"


def test_bad_calls_from_python() -> None:
    """Each says its rule; a reward that was given is not shown."""
    with pytest.raises(ParameterError, match="epsilon is needed"):
        audit(lambda reward: reward)
    with pytest.raises(ParameterError, match="must be a curator, or a function"):
        audit(3, epsilon=1.0)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="a response must be a number, got a NoneType"):
        audit(lambda _: None, epsilon=1.0)
    with pytest.raises(ParameterError, match="raised ZeroDivisionError on one of the rewards") as caught:
        audit(lambda reward: 1 / (reward - 1), epsilon=1.0)
    assert caught.value.__cause__ is None
    with pytest.raises(ParameterError, match="takes no such rewards"):
        audit(LaplaceCurator(1.0), rewards=(0, 3.25), samples=1_000)


def test_an_audit_is_data() -> None:
    """It prints its verdict first, and compares by what was found."""
    found = audit(BernoulliCurator(1.0), samples=2_000)
    assert str(found).startswith("BernoulliCurator(epsilon=1.0")
    assert found.to_json()["layers"][0]["name"] == "exact"
    with pytest.raises(AttributeError):
        found.samples = 3  # type: ignore[misc]
