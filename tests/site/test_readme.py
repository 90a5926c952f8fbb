"""What the README shows, runs."""

import math
import re
import runpy
import shlex
from pathlib import Path

import matplotlib as mpl
import pytest

from ldpbandits.cli import main, parser
from ldpbandits.demo import running

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
LIVE = [block for block in BLOCKS if "Client(" in block]
URL = "http://127.0.0.1:8000"


def run(block: str) -> None:
    """Run a block by itself."""
    exec(compile(block, "a block of the README", "exec"), {})  # noqa: S102 - our own README


@pytest.mark.parametrize("number", [number for number, block in enumerate(BLOCKS) if block not in LIVE])
def test_python_blocks_run(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Each block runs by itself and prints something."""
    run(BLOCKS[number])
    assert capsys.readouterr().out


def test_the_live_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Against a real server: the experiment of the README is created, and its Python block takes part in it."""
    (block,) = LIVE
    create, show = re.findall(r"^    ldpbandits (experiments .*)$", README, flags=re.MULTILINE)
    assert URL in block
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with running() as agent:
        monkeypatch.setenv("LDPBANDITS_CLIENT_KEY", agent.client)
        monkeypatch.setenv("LDPBANDITS_URL", agent.url)
        monkeypatch.setenv("LDPBANDITS_ADMIN_KEY", agent.admin)
        assert main(shlex.split(create)) == 0
        capsys.readouterr()
        run(block.replace(URL, agent.url))
        assert capsys.readouterr().out.endswith("True 1.0\n")
        assert main(shlex.split(show.removesuffix(" --watch"))) == 0
        assert "1 response" in capsys.readouterr().out
    assert (tmp_path / "ldpbandits" / "ledger.db").exists()


def test_there_are_five_examples() -> None:
    """Numbered, among them the loop, a device that takes part, and an audit."""
    assert re.findall(r"^\*\*(\d)\. ", README, flags=re.MULTILINE) == ["1", "2", "3", "4", "5"]
    assert len(BLOCKS) == 3
    assert len(LIVE) == 1


def test_the_first_two_sentences_have_no_term_of_art() -> None:
    """The paragraph below the line in the field's words says in ordinary words what the package is for."""
    first = re.split(r"(?<=[.]) ", README.split("\n\n")[2])[:2]
    terms = {"arm", "arms", "bandit", "bandits", "curator", "epsilon", "regret", "reward", "response", "differential"}
    assert not terms & set(re.findall(r"[a-z]+", " ".join(first).lower()))


def test_the_commands_have_options_that_exist() -> None:
    """Every line that begins with ldpbandits."""
    commands = re.findall(r"^    ldpbandits (.*)$", README, flags=re.MULTILINE)
    assert len(commands) >= 4
    for command in commands:
        assert parser().parse_known_args(shlex.split(command))[1] == []


def test_the_size_of_the_sdk_is_what_its_readme_says(root: Path) -> None:
    """In whole kilobytes."""
    (size,) = re.findall(r"an SDK of (\d+) kB", README)
    (exact,) = re.findall(
        r"^\| `index` \| (\d+) \|", (root / "sdk/js/README.md").read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    assert int(size) == round(int(exact) / 1000)


def test_the_picture_shows_what_its_script_prints(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The two estimates that the text beside the picture names, and the share of bits that are flipped."""
    script = runpy.run_path(str(root / "examples" / "what_the_server_sees.py"))
    script["main"].__globals__["OUT"] = tmp_path / "picture.svg"
    with mpl.rc_context():
        script["main"]()
    found = re.findall(r"the server's estimate is ([\d.]+)", capsys.readouterr().out)
    named = re.findall(r"(\d+) % for page [AB]", README)
    assert [f"{100 * float(mean):.0f}" for mean in found] == named == ["30", "47"]
    assert "of 27 %" in "".join(script["LEGENDS"]).format(flipped=100 / (1 + math.e))
    assert (tmp_path / "picture.svg").stat().st_size > 10_000
