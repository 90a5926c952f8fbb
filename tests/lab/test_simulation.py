"""A simulation as people ask for it in Python, and what they get."""

import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from ldpbandits import UCB, ArmError, BernoulliCurator, MissingExtra, ParameterError, Rule, SpecError
from ldpbandits.lab import Algorithm, NotPrivate, Simulation, algorithm, simulate
from ldpbandits.lab.algorithms import NAMES, LineStyle, algorithms_from_json, is_private, with_rule
from ldpbandits.lab.panels.figures import panel_lines
from ldpbandits.lab.panels.panel import Panel, Ratios
from ldpbandits.lab.panels.paper import BERNOULLI
from ldpbandits.lab.panels.summary import panel_summary
from ldpbandits.lab.rewards import Bernoulli


def small(**change: Any) -> Simulation:
    """A quick simulation, by default as the README has it."""
    settings: dict[str, Any] = {
        "algorithm": "ldp-ucb-b", "epsilon": 2, "arms": ["bernoulli(0.9)", "2*bernoulli(0.5)"],
        "horizon": 1e3, "trials": 4, "seed": 1,
    }  # fmt: skip
    return simulate(**(settings | change))


def test_strings_laws_and_algorithms_are_all_accepted() -> None:
    """They are ways to say the same, and give the same numbers."""
    by_name = small()
    by_law = small(arms=(Bernoulli(0.9), "bernoulli(0.5)", Bernoulli(0.5)))
    by_algorithm = small(algorithm=algorithm("ldp-ucb-b", 2.0), epsilon=None)
    assert by_name == by_law == by_algorithm
    assert small(arms="bernoulli(0.5)").arms == (Bernoulli(0.5),)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"algorithm": "ldp-ucb"}, "algorithm must be one of ucb1, ucb1-s"),
        ({"algorithm": "LDP-UCB_B"}, "got 'LDP-UCB_B'; did you mean ldp-ucb-b?"),
        (
            {"algorithm": 3, "epsilon": None},
            "or an Algorithm, such as with_rule(rule, epsilon=2), got 3",
        ),
        ({"algorithm": algorithm("ucb1")}, "epsilon goes with an algorithm's name"),
        ({"epsilon": None}, "ldp-ucb-b is private and needs an epsilon"),
        ({"arms": [0.9, 0.5]}, "an arm is a law, or written as one, such as 'bernoulli(0.9)', got 0.9"),
        ({"arms": 3}, "arms are a list of laws"),
        ({"arms": ["poisson(1)"]}, "an arm's law must be one of bernoulli"),
        ({"arms": []}, "at least one arm"),
    ],
)
def test_a_wrong_one_says_what_is_right(change: dict[str, Any], told: str) -> None:
    """One line, before anything is played."""
    with pytest.raises((ParameterError, ArmError)) as caught:
        small(**change)
    assert told in str(caught.value)


def test_a_simulation_is_short_to_read_and_can_be_compared() -> None:
    """repr() is a line with the regret; equal numbers make equal simulations, whatever time they took."""
    one, same, other = small(), small(), small(seed=2)
    assert repr(one).startswith("<Simulation ldp-ucb-b, epsilon=2: regret ")
    assert repr(one).endswith("4 trials of T=1,000 on 3 arms>")
    assert "±" not in repr(small(trials=1))
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert one != "a simulation"
    assert one.pulls.shape == (4, len(one.checkpoints), 3)
    assert one.regret.shape == (4, len(one.checkpoints))


def test_a_frame_has_a_row_for_each_trial_and_checkpoint() -> None:
    """Regret and pulls are those of the arrays."""
    made = small()
    frame = made.to_frame()
    assert list(frame.columns) == ["algorithm", "epsilon", "trial", "t", "regret", "pulls_0", "pulls_1", "pulls_2"]
    assert len(frame) == 4 * len(made.checkpoints)
    last = frame[(frame.trial == 2) & (frame.t == 1_000)].iloc[0]
    assert last.regret == made.regret[2, -1]
    assert (last.pulls_0, last.pulls_1, last.pulls_2) == tuple(made.pulls[2, -1])


def test_a_frame_without_pandas_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pandas is nobody's dependency: who wants a frame installs it."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match="to_frame needs pandas: pip install pandas"):
        small().to_frame()


@pytest.mark.parametrize("horizon", [50, 1_000])
def test_a_plot_is_a_figure(horizon: int) -> None:
    """One curve with its label; also for a horizon before the first decade that figures show, and for one trial."""
    figure = small(horizon=horizon, trials=1).plot()
    (axes,) = figure.axes
    assert axes.get_lines()[0].get_label() == "LDP-UCB-B"
    assert np.isfinite(axes.get_lines()[0].get_ydata()).all()


def test_an_algorithm_that_nobody_has_heard_of_is_drawn_and_summed_up() -> None:
    """Looks and bound come with the algorithm, not from its name; one that has neither is drawn in grey."""
    own = Algorithm("ldp-imed", UCB(1.0), algorithm("ldp-ucb-b", 2.0).curator)
    panel = Panel("x", "new", "bernoulli", BERNOULLI, algorithm("ucb1"), (own,), Ratios())
    played = [simulate(curve, BERNOULLI, 500, trials=2, seed=0) for curve in panel.curves]
    assert [line.style for line in panel_lines(panel, played)][1] == LineStyle("ldp-imed")
    baseline, entry = panel_summary(panel, played)["curves"]
    assert baseline["upper_bound"] > 0
    assert (entry["upper_bound"], entry["theorys_factor"]) == (None, None)
    assert entry["ratio"] > 0


@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_goes_through_json(name: str) -> None:
    """What is read back is the same algorithm, with its looks and its bound."""
    played = algorithm(name, 0.5 if is_private(name) else None)
    (again,) = algorithms_from_json(played.to_json())
    assert again == played
    assert (again.looks, again.bound) == (played.looks, played.bound)
    assert (played.upper_bound is not None) == ("ucb1" in name or "ldp-ucb" in name)


def test_our_name_on_another_rule_is_not_ours() -> None:
    """A record that has our name but another rule keeps that rule, and none of our bounds."""
    changed = Algorithm("ucb1", UCB(0.3), NotPrivate())
    (again,) = algorithms_from_json(changed.to_json())
    assert again == changed
    assert again.upper_bound is None


@pytest.mark.parametrize(
    ("curator", "epsilon", "told"),
    [("ctb", None, "ctb is private and needs an epsilon"), ("none", 1, "none is not private"), ("x", 1, "one of none")],
)
def test_a_rule_needs_a_curator_that_fits(curator: str, epsilon: float | None, told: str) -> None:
    """By the paper's names, with an epsilon just where there is one."""
    with pytest.raises(ParameterError, match=told):
        with_rule(UCB(1.0), curator, epsilon)


def test_a_rule_may_have_any_curator() -> None:
    """A curator of anybody, its spec, or the paper's name."""
    curator = BernoulliCurator(2.0)
    assert with_rule(UCB(1.0), curator) == with_rule(UCB(1.0), curator.spec) == with_rule(UCB(1.0), "ctb", 2.0)
    wrongs: tuple[Any, ...] = (["ctb"], {}, 3)
    for wrong in wrongs:
        with pytest.raises(ParameterError, match="curator must be one of none"):
            with_rule(UCB(1.0), wrong)
    with pytest.raises(ParameterError, match="epsilon: is part of the curator"):
        with_rule(UCB(1.0), curator, 2.0)


def test_no_curator_is_checked_like_any_other() -> None:
    """A key that is not known, and a transform that is none, are refused."""
    with pytest.raises(SpecError, match="no curator has no extra"):
        algorithms_from_json(
            {"name": "x", "rule": {"kind": "ucb", "width": 1}, "curator": {"mechanism": "none", "extra": 1}}
        )
    with pytest.raises(ParameterError, match="transform must be one of range"):
        NotPrivate(3)  # type: ignore[arg-type]


def test_what_numba_cannot_compile_is_named() -> None:
    """The line that says what is wrong, in one line."""

    @dataclass(frozen=True)
    class Wrong(Rule):
        floor: float = 0.0
        parameters: ClassVar[tuple[float, ...]] = ()

        @staticmethod
        def index(arm: Any, random: Any, parameters: Any) -> Any:
            return arm.colour

    with pytest.raises(ParameterError) as caught:
        simulate(with_rule(Wrong()), ["bernoulli(0.5)"], 10, seed=0)
    assert "colour" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_notebook_shows_the_regret_and_the_figure() -> None:
    """In a sentence, and as a picture that needs no network."""
    html = small()._repr_html_()
    assert html.startswith("<p><b>")
    assert "regret" in html.split("</b>")[0]
    assert html.count("data:image/svg+xml;base64,") == 1
    assert "http" not in html.split("base64,")[0]
