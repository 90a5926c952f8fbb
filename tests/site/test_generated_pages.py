"""The pages of the site that a program writes are complete: what is added to the code is documented by being added."""

import argparse
import json
import re
from collections.abc import Iterator

import pytest

import ldpbandits
from api_page import GROUPS, api_page
from command_page import command_page
from http_page import http_page
from ldpbandits.cli import COMMANDS, parser
from ldpbandits.server.api.openapi import openapi
from ldpbandits.server.api.operations import OPERATIONS
from notebook_page import notebook_page
from plain_docstrings import process, public


def parsers(one: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and all parsers of its commands and verbs."""
    yield one
    for action in one._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from parsers(each)


def test_every_command_and_every_option_is_on_the_page() -> None:
    """A command that is not documented does not exist for its users; one that is not there is noticed."""
    sections = dict(re.findall(r"^#+ (ldpbandits .*?)\n(.*?)(?=^#|\Z)", command_page(), flags=re.MULTILINE | re.DOTALL))
    assert {f"ldpbandits {command.name}" for command in COMMANDS} <= set(sections)
    for one in list(parsers(parser()))[1:]:
        listed = set(re.findall(r"^\| `(?:[^`]*?, )?(--[\w-]+)[^`]*` \|", sections[one.prog], flags=re.MULTILINE))
        shown = [action for action in one._actions if action.help != argparse.SUPPRESS]
        options = {option for action in shown for option in action.option_strings if option.startswith("--")}
        assert options - {"--help"} == listed, one.prog
    assert "ldpbandits no-such-command" not in sections


def test_every_request_and_every_message_is_on_the_page() -> None:
    """With every field; what is no request is not there."""
    text = http_page()
    for operation in OPERATIONS:
        assert f"\n### {operation.method} {operation.path}\n" in text
    for name, schema in openapi(OPERATIONS)["components"]["schemas"].items():
        (section,) = re.findall(rf"^### {name}\n(.*?)(?=^##|\Z)", text, flags=re.MULTILINE | re.DOTALL)
        assert all(f"| `{field}` |" in section for field in schema.get("properties", ()))
    assert "### PATCH" not in text
    assert "nothing was changed" not in text  # of a 503 nobody can say that: the connection to a database may be lost
    assert "the database may or may not have the change: retry the same request" in text


def test_every_public_name_is_on_the_page() -> None:
    """Once each."""
    named = re.findall(r"^\.\. (?:auto|py:)(?:class|function|data):: (ldpbandits\S*)$", api_page(), flags=re.MULTILINE)
    assert len(named) == len(set(named))
    assert {f"ldpbandits.{name}" for name in ldpbandits.__all__ if name != "__version__"} <= set(named)
    assert {"ldpbandits.lab.simulate", "ldpbandits.audit.audit"} <= set(named)
    assert "what a user did or felt. Private: it never leaves the device." in api_page()  # the text below a NewType


def test_a_public_name_without_a_section_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that nobody forgets it."""
    monkeypatch.delitem(GROUPS, "Errors")
    with pytest.raises(LookupError, match="ArmError"):
        api_page()


def test_a_notebook_is_read_as_a_page() -> None:
    """Text as it is, code and what it printed in blocks, pictures as pictures."""
    picture = {"output_type": "display_data", "data": {"image/png": "QUJD\n", "text/plain": "<Figure>"}}
    printed = {"output_type": "stream", "text": ["3\n"]}
    cells = [
        {"cell_type": "markdown", "source": ["# A title\n", "and text"]},
        {"cell_type": "code", "source": ["print(3)"], "outputs": [printed, picture], "metadata": {"alt": "A line"}},
    ]
    page = notebook_page(json.dumps({"cells": cells}))
    assert page == (
        "# A title\nand text\n\n```python\nprint(3)\n```\n\n```text\n3\n```\n\n![A line](data:image/png;base64,QUJD)"
    )


def test_what_is_private_is_in_no_signature() -> None:
    """A pull is made by its client, which gives it a function of its own; a reader of the page need not know."""
    shown = public(None, "class", "Pull", None, None, "(arm: Arm, _respond: Callable[[float], bool])", "None")
    assert shown == ("(arm: Arm)", "None")
    assert public(None, "data", "X", None, None, None, None) == (None, None)
    shown = public(None, "function", "f", None, None, "(jobs: int = 1, progress: C = <function X.<lambda>>)", None)
    assert shown == ("(jobs: int = 1, progress: C = ...)", None)
    assert public(None, "function", "f", None, None, "(low_end: float)", None) == ("(low_end: float)", None)


def test_docstrings_are_read_as_plain_text() -> None:
    """A bar is a bar, and what is indented is code."""
    lines = ["c e^-|z|", "", "    a | b", "", "more", ">>> 1 | 2", "3"]
    process(None, "class", "X", None, None, lines)
    assert lines == ["c e^-\\|z\\|", "", "::", "", "    a | b", "", "more", ">>> 1 | 2", "3"]
