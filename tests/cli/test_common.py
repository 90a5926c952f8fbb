"""What the commands share: one shape, one way to print, one way to say that something is missing."""

import ast
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import ldpbandits.cli
from ldpbandits.cli import COMMANDS, main
from ldpbandits.cli.common import Command, named_number, number, table
from ldpbandits.errors import MissingExtra, ParameterError
from ldpbandits.extras import needs

SHARED = {"common", "config", "database", "first_keys", "serve_options"}
BOUNDS = [sys.executable, "-m", "ldpbandits", "bounds", "--epsilon", "1", "--arm", "bernoulli(0.5)", "--horizon", "100"]


def test_a_command_is_a_module_and_a_module_is_a_command() -> None:
    """Every module but what commands share has a command of its name, and all of them are in the table."""
    modules = {module.name for module in pkgutil.iter_modules(ldpbandits.cli.__path__)}
    assert {command.name for command in COMMANDS} == modules - SHARED
    assert modules >= SHARED
    assert all(isinstance(command, Command) for command in COMMANDS)


def test_no_command_prints_by_itself(root: Path) -> None:
    """Who prints with `show` and `say` cannot forget that the reader may be gone or the disk full."""
    for path in (root / "src" / "ldpbandits" / "cli").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            assert not (isinstance(node, ast.Name) and node.id == "print"), path.name
            is_stdout = isinstance(node, ast.Attribute) and node.attr == "stdout"
            assert not is_stdout or path.name == "common.py", path.name


def test_a_reader_who_has_seen_enough_is_no_error() -> None:
    """A pipe that nobody reads, or an output that was closed: exit code 0, and not a word."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w", encoding="utf-8") as closed:
        done = subprocess.run(BOUNDS, stdout=closed, stderr=subprocess.PIPE, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    close = ["sh", "-c", 'exec "$@" >&-', "sh"]
    done = subprocess.run([*close, *BOUNDS], stderr=subprocess.PIPE, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_error_of_the_system_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What has nothing to do with the output is not blamed on it."""

    def fails(*_: object, **__: object) -> None:
        raise ConnectionResetError(104, "Connection reset by peer")

    monkeypatch.setattr("ldpbandits.lab.experiments.simulate", fails)
    assert main(["simulate", "--algorithm", "ucb1", "--arm", "bernoulli(0.5)", "--horizon", "100"]) == 1
    assert capsys.readouterr() == ("", "ldpbandits simulate: Connection reset by peer\n")


def test_what_is_missing_is_named_with_its_extra() -> None:
    """The package, not its module; who needs it, if that is said; and a fault of our own stays what it is."""
    told = r"^needs no_such_package: pip install '.\[lab\]' in the source folder$"
    with pytest.raises(MissingExtra, match=told), needs("lab"):
        raise ModuleNotFoundError(name="no_such_package.module")
    with pytest.raises(MissingExtra, match=r"^--cluster needs dask: pip"), needs("cluster", who="--cluster"):
        raise ModuleNotFoundError(name="dask")
    with pytest.raises(ModuleNotFoundError, match="gone") as caught, needs("lab"):
        raise ModuleNotFoundError("gone", name="ldpbandits.gone")
    assert not isinstance(caught.value, MissingExtra)


def test_numbers_are_read_without_loss() -> None:
    """Whole ones of any size, others as floats; what is no number is refused by its name."""
    assert number(str(2**90 + 1)) == 2**90 + 1
    assert number("1e5") == 100_000
    with pytest.raises(ParameterError, match=r"^epsilon must be a number, got 'one'$"):
        named_number("epsilon", "one")


def test_a_table_has_numbers_to_the_right() -> None:
    """And words to the left, with no blanks at the end of a line."""
    assert table(("arm", "pulls"), [("a", "1"), ("long", "")]) == "arm   pulls\na         1\nlong"
