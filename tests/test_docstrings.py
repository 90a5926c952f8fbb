"""Every example in a docstring is true, and what users call has one."""

import doctest
import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from tests.server.running import HEADLINE, running

import ldpbandits
from ldpbandits import lab

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(ldpbandits.__path__, "ldpbandits.")
    if not module.name.endswith("__main__")
)
CLASSES = [
    "Admin",
    "Agent",
    "AsyncClient",
    "BernoulliCurator",
    "Client",
    "CuratorSpec",
    "LaplaceCurator",
    "Ledger",
    "Limits",
    "Range",
    "Sigmoid",
    "UCB",
]
"""Of the public classes, those that a user starts from."""

LIVE = {
    "ldpbandits.device.async_client": "client",
    "ldpbandits.device.client": "client",
    "ldpbandits.admin.admin": "admin",
}
"""Modules whose examples talk to a server, and the key that they hold."""


def examples(module: ModuleType) -> list[doctest.DocTest]:
    """Return the docstrings of a module that have examples."""
    found = doctest.DocTestFinder(exclude_empty=True).find(module)
    return [docstring for docstring in found if docstring.examples]


@pytest.fixture
def names(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """What examples may name beside their module: where an agent is, and the key to it."""
    role = LIVE.get(request.node.callspec.params["name"])
    if role is None:
        yield {}
        return
    with running(tmp_path) as server:
        assert server.ask("POST", "/v1/experiments", HEADLINE).status == 201
        yield {"url": server.url, "key": server.keys[role]}


def failures(module: ModuleType, names: dict[str, str]) -> str:
    """Run the examples of a module; return what is said of those that are not true."""
    said: list[str] = []
    runner = doctest.DocTestRunner()
    for docstring in examples(module):
        docstring.globs.update(names)
        runner.run(docstring, out=said.append)
    return "".join(said)


@pytest.mark.parametrize("name", [name for name in MODULES if examples(import_module(name))])
def test_the_examples_of_a_module_are_true(name: str, names: dict[str, str]) -> None:
    """Each example gives what stands below it."""
    assert failures(import_module(name), names) == ""


def test_an_example_that_is_not_true_is_found() -> None:
    """Also when only the sentence of an error is another one."""
    assert "Expected:\n    3" in failures(ModuleType("wrong", ">>> 1 + 1\n3\n"), {})
    sentence = ">>> float('x')\nTraceback (most recent call last):\nValueError: no number\n"
    assert "Expected:" in failures(ModuleType("wrong", sentence), {})


def starting_points() -> list[str]:
    """Return what must have an example: public functions, the main classes, and all of the lab but a marker."""
    functions = [name for name in ldpbandits.__all__ if inspect.isfunction(getattr(ldpbandits, name))]
    assert {"curator_from_json", "estimate", "ldp_ucb_b", "ldp_ucb_l", "paper_rule", "ucb1"} <= set(functions)
    ours = [f"ldpbandits.{name}" for name in (*functions, *CLASSES)]
    return [*ours, *(f"ldpbandits.lab.{name}" for name in lab.__all__ if name != "NotPrivate")]


@pytest.mark.parametrize("place", starting_points())
def test_what_users_call_has_an_example(place: str) -> None:
    """Whoever calls help() on it sees how it is used."""
    module, _, name = place.rpartition(".")
    found = getattr(import_module(module), name)
    assert doctest.DocTestParser().get_examples(inspect.getdoc(found) or ""), f"{place} has no example"
