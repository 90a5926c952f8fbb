"""Options from flags, the environment, a file or their defaults: one name, one rule, and one line when it is broken."""

import argparse
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest

from ldpbandits.cli import main
from ldpbandits.cli.config import add_options, fill, misspelt, option, options_of, read_secrets, settle, variable
from ldpbandits.cli.serve_options import GROUPS, OPTIONS, SECRETS
from ldpbandits.errors import ParameterError
from ldpbandits.server.process.front_door import FrontDoor

KEY = "admin-key-that-nobody-may-see"


@dataclass(frozen=True)
class Example:
    """An option of each type."""

    port: int = option(8000, "a port", least=0, most=65535)
    seconds: float = option(2.5, "how long", least=0.5)
    log_format: str = option("text", "the form", choices=("text", "json"))
    folder: Path | None = option(None, "where")  # noqa: RUF009 - a field, as the others
    quiet: bool = option(False, "100 % silent")  # noqa: FBT003 - the default
    load: tuple[str, ...] = option((), "modules")
    database: str = option("agent.db", "what", has_file=True)


EXAMPLE = options_of(Example)


def told(*flags: str, environment: dict[str, str] | None = None, file: Path | None = None) -> Example:
    """Return what comes of flags, variables and a file."""
    parser = argparse.ArgumentParser()
    add_options(parser, {"of the test": Example})
    words = [*flags, *(["--config", str(file)] if file else [])]
    return fill(Example, settle(EXAMPLE, parser.parse_args(words), environment or {}, SECRETS))


def test_flags_come_before_the_environment_before_the_file_before_defaults(tmp_path: Path) -> None:
    """Of each option, whatever the others say."""
    file = tmp_path / "server.toml"
    file.write_text("port = 1\nseconds = 1\nlog_format = 'json'\n")
    environment = {"LDPBANDITS_PORT": "2", "LDPBANDITS_SECONDS": "2"}
    made = told("--port", "3", environment=environment, file=file)
    assert (made.port, made.seconds, made.log_format, made.database) == (3, 2.0, "json", "agent.db")
    assert told() == Example()


def test_every_form_gives_every_type(tmp_path: Path) -> None:
    """The same values by flags, by variables and by a file."""
    wanted = Example(7, 9.0, "json", Path("/x"), True, ("a", "b.c"), "other.db")  # noqa: FBT003 - by place
    flags = ["--port", "7", "--seconds", "9", "--log-format", "json", "--folder", "/x", "--quiet", "true"]
    assert told(*flags, "--load", "a", "--load", "b.c", "--database", "other.db") == wanted
    values = ["7", "9", "json", "/x", "true", "a, b.c", "other.db"]
    environment = {each.variable: value for each, value in zip(EXAMPLE, values, strict=True)}
    assert told(environment=environment) == wanted
    file = tmp_path / "server.toml"
    text = "port = 7\nseconds = 9\nlog_format = 'json'\nfolder = '/x'\nquiet = true\nload = ['a', 'b.c']\n"
    file.write_text(text + "database = 'other.db'\n")
    assert told(file=file) == wanted
    assert told(environment={"LDPBANDITS_CONFIG": str(file)}) == wanted


def test_an_empty_variable_says_nothing() -> None:
    """As compose files set variables that nobody has given a value."""
    assert told(environment={"LDPBANDITS_PORT": "", "LDPBANDITS_DATABASE_FILE": ""}) == Example()


@pytest.mark.parametrize(
    ("flag", "value", "rule"),
    [
        ("--port", "65536", "--port must be a whole number from 0 to 65535, got 65536"),
        ("--port", "1.5", "--port must be a whole number from 0 to 65535, got '1.5'"),
        ("--seconds", "nan", "--seconds must be a number >= 0.5, got nan"),
        ("--seconds", "0", "--seconds must be a number >= 0.5, got 0.0"),
        ("--log-format", "xml", "--log-format must be text or json, got 'xml'"),
        ("--quiet", "yes", "--quiet must be true or false, got 'yes'"),
        ("--folder", "a\x1b[2J", r"--folder must be a text, got 'a\x1b[2J'"),
    ],
)
def test_a_value_that_breaks_its_rule_is_one_line(flag: str, value: str, rule: str) -> None:
    """It has the option as it was given, the rule and the value; a variable is named as such."""
    with pytest.raises(ParameterError) as refused:
        told(flag, value)
    assert str(refused.value) == rule
    name = "LDPBANDITS_" + flag[2:].upper().replace("-", "_")
    with pytest.raises(ParameterError) as refused:
        told(environment={name: value})
    assert str(refused.value) == rule.replace(flag, name)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("prot = 1", "there is no option 'prot'; did you mean port?"),
        ("log-format = 'json'", "there is no option 'log-format'; did you mean log_format?"),
        ("[front]\nport = 1", "options belong in no table, got [front]"),
        ("zzz = 1", "there is no option 'zzz'; there are port, seconds, log_format, folder, quiet, load, database"),
        ("port = '8000'", "port must be a whole number from 0 to 65535, got '8000'"),
        ("port = true", "port must be a whole number from 0 to 65535, got True"),
        ("load = 'a'", "load must be a list of texts, got 'a'"),
        ("folder = ''", "folder must not be empty"),
        ("database = ''", "database must not be empty"),
        ("port = ", "is not TOML: Invalid value (at end of document)"),
        (f"admin_key = '{KEY}'", "admin_key is a secret, and does not belong here: set LDPBANDITS_ADMIN_KEY or"),
    ],
)
def test_a_file_that_is_wrong_is_one_line(tmp_path: Path, text: str, rule: str) -> None:
    """With the nearest name for one that is unknown; of a secret nothing is repeated."""
    file = tmp_path / "server.toml"
    file.write_text(text)
    with pytest.raises(ParameterError) as refused:
        told(file=file)
    line = str(refused.value)
    assert line.startswith(f"{file}: {rule}")
    assert "\n" not in line
    assert KEY not in line


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    """It is not there, or no text."""
    with pytest.raises(ParameterError, match=r"nowhere\.toml: cannot be read: No such file or directory"):
        told(file=tmp_path / "nowhere.toml")
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(ParameterError, match=r"binary\.toml: is not TOML: 'utf-8' codec"):
        told(file=binary)


def test_a_mark_before_a_text_is_no_part_of_it(tmp_path: Path) -> None:
    """Some editors put one there: a key would hold for nobody, and the first line of a file of options be nonsense."""
    key, options = tmp_path / "key", tmp_path / "server.toml"
    key.write_text(KEY, encoding="utf-8-sig")
    options.write_text("port = 8001\n", encoding="utf-8-sig")
    assert read_secrets(SECRETS, {"LDPBANDITS_ADMIN_KEY_FILE": str(key)}) == {"LDPBANDITS_ADMIN_KEY": KEY}
    assert told(file=options).port == 8001


def test_a_secret_comes_from_a_variable_or_from_a_file(tmp_path: Path) -> None:
    """As Docker and systemd hand them over; both at once are refused, and so is a file that says nothing."""
    file, empty = tmp_path / "key", tmp_path / "empty"
    file.write_text(f"{KEY}\n")
    empty.write_text("\n")
    name = "LDPBANDITS_ADMIN_KEY"
    assert read_secrets(SECRETS, {name: KEY}) == {name: KEY}
    assert read_secrets(SECRETS, {f"{name}_FILE": str(file)}) == {name: KEY}
    assert read_secrets(SECRETS, {}) == {}
    assert read_secrets(SECRETS, {name: ""}) == {name: ""}  # to be refused as too short, as ever
    for environment, rule in (
        ({name: KEY, f"{name}_FILE": str(file)}, "are both set"),
        ({f"{name}_FILE": str(empty)}, "is empty"),
        ({f"{name}_FILE": str(tmp_path / "nowhere")}, "cannot be read: No such file"),
    ):
        with pytest.raises(ParameterError, match=rule) as refused:
            read_secrets(SECRETS, environment)
        assert KEY not in str(refused.value)


def test_a_database_whose_url_has_a_password_may_be_in_a_file(tmp_path: Path) -> None:
    """And a URL that is refused is not repeated."""
    file = tmp_path / "url"
    file.write_text("postgresql://agent:hush@db/agent\n")
    assert told(environment={"LDPBANDITS_DATABASE_FILE": str(file)}).database == "postgresql://agent:hush@db/agent"
    assert variable("LDPBANDITS_PORT", {"LDPBANDITS_PORT_FILE": str(file)}, has_file=False)[0] == ""
    with pytest.raises(ParameterError) as refused:
        told("--database", "postgresql://agent:hush@db\n")
    assert "hush" not in str(refused.value)


def test_help_shows_every_option_with_its_variable(capsys: pytest.CaptureFixture[str]) -> None:
    """Flags, variables and keys are those of one table; no secret is a flag."""
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for each in OPTIONS:
        assert f"{each.flag} " in shown
        assert each.variable in shown
    assert "LDPBANDITS_CONFIG" in shown
    flags = {each.flag for each in OPTIONS}
    for name in SECRETS:
        assert name in shown
        assert "--" + name.removeprefix("LDPBANDITS_").lower().replace("_", "-") not in flags


def test_every_limit_of_the_front_door_is_an_option() -> None:
    """By its field alone, with its help, its default, and its least and largest value."""
    found = {each.name: each for each in OPTIONS}
    for limit in fields(FrontDoor):
        assert found[limit.name].default == limit.default
        told_of = {name: getattr(found[limit.name], name) for name in limit.metadata}
        assert told_of == dict(limit.metadata)
    names = [each.name for each in options_of(*GROUPS.values())]
    assert len(set(names)) == len(names)


def test_the_least_value_of_a_limit_is_checked_by_its_own_name(capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is opened."""
    assert main(["serve", "--connections", "0"]) == 2
    said: Any = capsys.readouterr()
    rule = "--connections must be a whole number from 1 to 100000, got 0"
    assert (said.out, said.err) == ("", f"ldpbandits serve: {rule}\n")


def test_a_variable_that_is_nearly_an_option_is_noticed() -> None:
    """Not what other commands, or Kubernetes for a service of our name, have in the environment."""
    theirs = ["URL", "FAULTS", "SERVICE_HOST", "SERVICE_PORT", "PORT_8000_TCP", "PORT_8000_TCP_ADDR", "CONFIG"]
    ours = [each.variable for each in OPTIONS] + [*SECRETS, "LDPBANDITS_DATABASE_FILE", "LDPBANDITS_ADMIN_KEY_FILE"]
    assert not list(misspelt(dict.fromkeys([*ours, *(f"LDPBANDITS_{each}" for each in theirs)], ""), OPTIONS, SECRETS))
    told = list(misspelt({"LDPBANDITS_WORKER": "4", "LDPBANDITS_ADMIN_KEYFILE": KEY, "WORKER": ""}, OPTIONS, SECRETS))
    assert told == [
        "LDPBANDITS_WORKER is no option: did you mean LDPBANDITS_WORKERS?",
        "LDPBANDITS_ADMIN_KEYFILE is no option: did you mean LDPBANDITS_ADMIN_KEY_FILE?",
    ]
