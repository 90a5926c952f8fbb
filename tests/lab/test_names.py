"""The lab's names and parameters: what a notebook completes, and one spelling in Python and on the command line."""

from collections.abc import Callable
from inspect import signature

import pytest

from ldpbandits import Range, lab
from ldpbandits.cli import parser
from ldpbandits.errors import ParameterError
from ldpbandits.lab.planning.question import Question


def test_the_public_names_are_listed() -> None:
    """`dir` and completion show them before they are imported, and no name that only the module itself uses."""
    assert {name for name in dir(lab) if not name.startswith("_")} == {*lab.__all__}


SHARED: dict[str, tuple[Callable[..., object], set[str]]] = {
    "simulate": (lab.simulate, {"seed", "trials", "engine", "jobs", "cluster"}),
    "plan": (lab.plan, {"seed", "low", "high", "arms", "users", "power", "missing", "rule", "data", "column"}),
    "calibrate": (lab.calibrate, {"seed", "low", "high", "epsilon"}),
}
"""Parameters that a command and its function have both."""

FILLED: dict[str, dict[str, object]] = {"simulate": {"seed": 0, "trials": 50}, "calibrate": {"seed": 0}, "plan": {}}
"""Defaults that a command fills in later: an option that was not given must be told from one that was."""


@pytest.mark.parametrize("command", SHARED)
def test_options_and_parameters_have_one_spelling_and_one_default(command: str) -> None:
    """A parameter has the name of the option, and its default, or None where the option has that."""
    function, names = SHARED[command]
    needed = {
        "plan": ["--lift", "0.1"],
        "calibrate": ["--arm", "bernoulli(0.5)", "--low", "0", "--high", "1", "--epsilon", "1"],
    }
    options = vars(parser(chosen=command).parse_args([command, *needed.get(command, [])]))
    parameters = signature(function).parameters
    assert names <= options.keys()
    assert names <= parameters.keys()
    for name in names - {"low", "high", "epsilon"} if command == "calibrate" else names:
        assert FILLED[command].get(name, options[name]) == parameters[name].default, name


def test_a_name_that_is_near_none_is_not_guessed() -> None:
    """The message ends with what was given."""
    with pytest.raises(ParameterError, match=r"got 'epsilon greedy'$"):
        lab.algorithm("epsilon greedy")


def test_the_former_spelling_of_a_range_still_works() -> None:
    """A plan that was written with `declared` is that of low and high; both at once are refused."""
    now, former = Question(2.0, 0.5, low=0, high=5), Question(2.0, 0.5, declared=(0, 5))
    assert now == former
    assert now.range == Range(0, 5)
    assert Question(0.3, 0.5, low=-1).range == Range(-1, 1)
    with pytest.raises(ParameterError, match="declared is the former spelling of low and high"):
        Question(2.0, 0.5, low=0, high=5, declared=(0, 4))
