"""The tab key completes: every command, every option, and the values that can be listed, in three shells."""

import os
import pty
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from select import select
from shlex import quote
from time import monotonic

import pytest
from tests.tools import tool

from ldpbandits.cli import COMMANDS, main, parser
from ldpbandits.cli.completion import SHELLS, actions

ACTIONS = list(actions(parser()))
SHELL_TIMEOUT_S = 30.0


@pytest.fixture
def script(request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The script for a shell, in a file."""
    assert main(["completion", request.param]) == 0
    path = tmp_path / f"script.{request.param}"
    path.write_text(capsys.readouterr().out, encoding="utf-8")
    return path


def for_shell(shell: str) -> pytest.MarkDecorator:
    """Give a test the script for this shell."""
    return pytest.mark.parametrize("script", [shell], indirect=True)


@pytest.mark.parametrize("script", SHELLS, indirect=True)
def test_a_script_has_every_word(script: Path) -> None:
    """Every command, option and listed value of the parser is in each script; hidden options are not."""
    text = script.read_text(encoding="utf-8")
    for command in COMMANDS:
        assert re.search(rf"\b{command.name}\b", text)
    for action in ACTIONS:
        for word in (*action.option_strings, *(action.choices or ())):
            assert re.search(rf"(?<!\w){re.escape(str(word).lstrip('-'))}(?![\w-])", text), word
    assert not re.search(r"(--|-l )key(?![\w-])", text)


def complete(script: Path, *words: str) -> list[str]:
    """Let bash complete the last of these words; return what it offers."""
    listed = " ".join(map(quote, ("ldpbandits", *words)))
    ask = f"COMP_WORDS=({listed}); COMP_CWORD={len(words)}; _shtab_ldpbandits 2> /dev/null"
    done = subprocess.run(
        [
            tool("bash"),
            "--norc",
            "-c",
            f'source {quote(str(script))}; {ask}; printf "%s\\n" "${{COMPREPLY[@]}}"',
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=SHELL_TIMEOUT_S,
    )
    assert done.stderr == ""
    return done.stdout.split()


@for_shell("bash")
def test_bash_offers_what_fits(script: Path) -> None:
    """It offers commands, verbs, options, files and listed values, and nothing for a free value."""
    assert complete(script, "re") == ["reproduce", "restore"]
    assert complete(script, "simulate", "--eps") == ["--epsilon", "--epsilon-mix"]
    assert complete(script, "simulate", "--engine", "") == ["leap", "step"]
    assert complete(script, "simulate", "--horizon", "") == []
    assert complete(script, "simulate", "--out", str(script)[:-2]) == [str(script)]
    assert complete(script, "serve", "--log-format", "") == ["text", "json"]
    assert complete(script, "experiments", "cr") == ["create"]
    assert complete(script, "experiments", "create", "name", "--stop-w") == ["--stop-when-decided"]
    assert complete(script, "experiments", "create", "--stop-when-decided", "p") == ["pause"]
    assert complete(script, "rotate", "") == ["admin", "viewer", "client", "allowance", "signing"]
    assert complete(script, "completion", "f") == ["fish"]
    assert complete(script, "no-such-command", "--ver") == ["--version"]
    assert complete(script, "") == [command.name for command in COMMANDS]


STARTS = {
    "bash": (
        ["--norc", "--noprofile", "-i"],
        "PS1='ready''> '; ldpbandits() {{ echo \"<$*>\"; }}; source {script}",
    ),
    "zsh": (
        ["-f", "-i"],
        "PS1='ready''> '; autoload compinit; compinit -uD; ldpbandits() {{ echo \"<$*>\"; }}; eval \"$(<{script})\"",
    ),
    "fish": (
        ["--no-config", "-i"],
        "function fish_prompt; echo -n 'ready''> '; end; function ldpbandits; echo \"<$argv>\"; end; source {script}",
    ),
}


@contextmanager
def terminal(command: list[str], folder: Path) -> Iterator[int]:
    """Run a shell in a terminal of its own, until the block ends."""
    child, terminal = pty.fork()
    if child == 0:  # pragma: no cover - the shell
        os.chdir(folder)
        here = {**os.environ, "TERM": "dumb", "HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
        os.execvpe(command[0], command, here)  # noqa: S606 - it is the shell that we want
    try:
        yield terminal
    finally:
        os.close(terminal)
        with suppress(ProcessLookupError):
            os.kill(child, 9)
        os.waitpid(child, 0)


def read_until(terminal: int, pattern: str) -> None:
    """Read what a terminal shows, until there is this."""
    shown, end = "", monotonic() + SHELL_TIMEOUT_S
    while not re.search(pattern, shown):
        assert select([terminal], [], [], max(0, end - monotonic()))[0], shown
        shown += os.read(terminal, 65536).decode(errors="replace")


@pytest.mark.filterwarnings("ignore:.*forkpty:DeprecationWarning")  # the child becomes the shell at once
@pytest.mark.parametrize(("script", "shell"), [(shell, shell) for shell in SHELLS], indirect=["script"])
def test_the_tab_key_completes_in_a_terminal(script: Path, shell: str, tmp_path: Path) -> None:
    """Who types the first letters of each word and of a folder, each with a tab, has the whole call."""
    (tmp_path / "home" / "results of today").mkdir(parents=True)
    options, start = STARTS[shell]
    with terminal([tool(shell), *options], tmp_path / "home") as keys:
        os.write(keys, (start.format(script=quote(str(script))) + "\n").encode())
        read_until(keys, "ready> ")
        os.write(keys, b"ldpbandits simu\t--eng\tle\t--out resu\t\n")
        read_until(keys, "<simulate --engine leap --out results of today/?>")  # zsh takes the stroke off again


@pytest.mark.parametrize(("script", "shell"), [(shell, shell) for shell in SHELLS], indirect=["script"])
def test_a_script_is_right_for_its_shell(script: Path, shell: str) -> None:
    """The shell reads it without a complaint."""
    done = subprocess.run(
        [tool(shell), "-n", str(script)], capture_output=True, text=True, check=False, timeout=SHELL_TIMEOUT_S
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@for_shell("bash")
def test_to_complete_starts_no_python(script: Path) -> None:
    """All that is known is in the script: it works where nothing of ours is on the path."""
    done = subprocess.run(
        [
            tool("bash"),
            "--norc",
            "-c",
            f"source {script}; COMP_WORDS=(x p) COMP_CWORD=1; _shtab_ldpbandits; echo $COMPREPLY",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=SHELL_TIMEOUT_S,
        env={"PATH": ""},
    )
    assert done.stdout == "plan\n"


def test_another_shell_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """The line says which there are."""
    with pytest.raises(SystemExit) as ended:
        main(["completion", "tcsh"])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert "invalid choice: 'tcsh' (choose from 'bash', 'zsh', 'fish')" in told.replace(
        "bash, zsh, fish", "'bash', 'zsh', 'fish'"
    )
    assert told.count("\n") == 1
