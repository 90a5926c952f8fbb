"""What the pages of the site show, runs, and prints what they show."""

import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.site.pages import DOCS, Step, squeezed, steps

from ldpbandits import Admin
from ldpbandits.cli import main, parser
from ldpbandits.demo import running

ALONE = ("model.md", "proofs.md", "simulate.md", "faq.md")
"""Pages that need no server: they are played from top to bottom, in a folder of their own."""


def play(step: Step, folder: Path, names: dict[str, Any]) -> None:
    """Save a file, run Python, or type a command, as a reader does who goes down the page."""
    if step.kind == "toml":
        (folder / "mine.toml").write_text(step.text, encoding="utf-8")
    elif step.file:
        (folder / step.file).write_text(step.text, encoding="utf-8")
    elif step.kind == "python":
        exec(compile(step.text, "a block of a page", "exec"), names)  # noqa: S102 - our own page
    elif step.kind == "command":
        program, *words = shlex.split(step.text)
        if program == "python":
            exec(compile((folder / words[0]).read_text(encoding="utf-8"), words[0], "exec"), {"__name__": "__main__"})  # noqa: S102 - our own page
        else:
            assert program == "ldpbandits"
            assert main(words) == 0


@pytest.mark.parametrize("page", ALONE)
def test_a_page_runs_from_top_to_bottom(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files are saved, Python and commands run in order, and a block of text is what the step before it printed."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    printed: set[str] = set()
    for step in steps(page):
        if step.kind == "text" and "TRUSTED" not in step.text:
            assert [line for line in squeezed(step.text) if line not in printed] == []
            continue
        play(step, tmp_path, names)
        out = squeezed(capsys.readouterr().out)
        if out:  # how long it took is left out on the pages
            printed = {line.partition(", seed 0, ")[0] + (", seed 0" if ", seed 0, " in line else "") for line in out}


def test_the_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """From the server on: the experiment is created, visitors come, the report is shown, and the winner is shipped."""
    commands = [step.text for step in steps("tutorial.md") if step.kind == "command"]
    (visitors,) = (step.text for step in steps("tutorial.md") if step.file == "visitors.py")
    create, show, ship = (shlex.split(each)[1:] for each in commands if each.startswith("ldpbandits experiments"))
    monkeypatch.chdir(tmp_path)
    with running() as agent:
        monkeypatch.setenv("LDPBANDITS_URL", agent.url)
        monkeypatch.setenv("LDPBANDITS_ADMIN_KEY", agent.admin)
        monkeypatch.setenv("LDPBANDITS_CLIENT_KEY", agent.client)
        assert main(create) == 0
        assert "range(1000)" in visitors
        exec(compile(visitors.replace("range(1000)", "range(40)"), "visitors.py", "exec"), {})  # noqa: S102 - our own page
        capsys.readouterr()
        assert main(show) == 0
        shown = capsys.readouterr().out
        assert shown.startswith("headline: running; 40 responses at epsilon = 2, by duels")
        assert shown.endswith(
            "Settings: devices report after 25 seconds; they keep an arm for 7 days; once it\n"
            "is decided, it pauses, 1 day after its creation at the earliest; it counts at\n"
            "most 10,000 responses an hour.\n"
        )
        (program,) = (step.text for step in steps("python.md") if step.kind == "python")
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
        exec(compile(program, "docs/python.md", "exec"), {})  # noqa: S102 - our own page
        assert capsys.readouterr().out.endswith("True 2.0\n")
        assert main(ship) == 0
        assert Admin(agent.url, agent.admin).show("headline").status == "shipped"
    assert (tmp_path / "ldpbandits" / "ledger.db").exists()


def test_every_command_of_every_page_is_understood() -> None:
    """Its options exist; a word that is no option would be noticed."""
    understood = 0
    for path in sorted(DOCS.glob("*.md")):
        for step in steps(path.name):
            if step.kind == "command" and step.text.startswith("ldpbandits ") and "COMMAND" not in step.text:
                words = shlex.split(step.text.partition(" > ")[0], comments=True)[1:]  # where it goes is the shell's
                assert parser().parse_known_args(words)[1] == [], f"{path.name}: {step.text}"
                understood += 1
    assert understood > 40
    assert parser().parse_known_args(["demo", "--no-such-option"])[1] == ["--no-such-option"]
