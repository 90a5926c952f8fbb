"""A menu is one question with several epsilons; a curator is a menu of one."""

import json
from typing import Any

import pytest

from ldpbandits import BernoulliCurator, LaplaceCurator, Menu, Sigmoid, SpecError

BITS: dict[str, Any] = {"mechanism": "bernoulli", "epsilon": [0.2, 1, 4]}


def test_a_menu_goes_through_json_and_finds_its_levels() -> None:
    """An epsilon is found exactly, or not at all; on a menu of one it need not be said."""
    menu = Menu.from_json(BITS)
    assert Menu.from_json(json.loads(json.dumps(menu.to_json()))) == menu
    assert menu.to_json()["epsilon"] == [0.2, 1.0, 4.0]
    assert [menu.level(epsilon) for epsilon in (0.2, 1, 4, 0.3, None)] == [0, 1, 2, None, None]
    assert "that the owner of the device picks: 0.2, 1, 4." in menu.promise


@pytest.mark.parametrize("curator", [BernoulliCurator(1.0), LaplaceCurator(2.0, Sigmoid())], ids=str)
def test_a_curator_is_a_menu_of_one(curator: Any) -> None:
    """In every form, with the JSON and the promise of the curator itself."""
    forms: list[Any] = [curator, curator.spec, curator.to_json(), {**curator.to_json(), "epsilon": [curator.epsilon]}]
    for form in forms:
        menu = Menu.of(form)
        assert menu == Menu((curator.spec,))
        assert menu.to_json() == curator.to_json()
        assert menu.promise == str(curator.guarantee)
        assert (menu.level(None), menu.level(curator.epsilon), menu.level(9.0)) == (0, 0, None)
    assert Menu.of(Menu.of(curator)) == Menu.of(curator)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({**BITS, "epsilon": []}, "from 1 to 8 epsilons, got 0"),
        ({**BITS, "epsilon": [float(n) for n in range(1, 10)]}, "from 1 to 8 epsilons, got 9"),
        ({**BITS, "epsilon": [1, 1]}, "must rise"),
        ({**BITS, "epsilon": [4, 1]}, "must rise"),
        ({**BITS, "epsilon": [1, "2"]}, "epsilon must be finite"),
        ({**BITS, "epsilon": [1, [2]]}, "epsilon must be finite"),
        ({**BITS, "epsilon": [1, True]}, "epsilon must be finite"),
        ({**BITS, "epsilon": [-1, 1]}, "epsilon must be finite and > 0"),
        ({"mechanism": "laplace", "epsilon": [1, 2]}, "is for bits; those of the mechanism laplace are not"),
        ({**BITS, "extra": 1}, "extra"),
        (3, "must be an object"),
    ],
)
def test_what_is_no_menu_is_refused(data: Any, told: str) -> None:
    """In one line that says why."""
    with pytest.raises(SpecError, match=told):
        Menu.from_json(data)


def test_the_curators_of_a_menu_differ_in_their_epsilon_alone() -> None:
    """Another transform or mechanism is another question."""
    for other in (BernoulliCurator(2.0, Sigmoid()), LaplaceCurator(2.0)):
        with pytest.raises(SpecError, match="differ in their epsilon alone"):
            Menu((BernoulliCurator(1.0).spec, other.spec))
