"""Experiments are data, and what is wrong with one is said by its key."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldpbandits.errors import ParameterError
from ldpbandits.lab.algorithms import algorithm
from ldpbandits.lab.engine import leap
from ldpbandits.lab.engine.sums import encode_sums
from ldpbandits.lab.experiments import Experiment
from ldpbandits.lab.panels import paper
from ldpbandits.lab.play import play_all
from ldpbandits.lab.rewards import Bernoulli

TOML = """
horizon = 1e4
trials = 3
seed = 7
arms = ["bernoulli(0.9)", "2*beta(4,1)"]

[[algorithms]]
name = "ucb1"

[[algorithms]]
name = "ldp-ucb-b"
epsilon = [0.5, 2]
"""


def test_an_experiment_is_read_from_file_and_written_back(tmp_path: Path) -> None:
    """All keys are understood; a list of epsilons is an algorithm each; its JSON is the same experiment."""
    path = tmp_path / "my.toml"
    path.write_text(TOML, encoding="utf-8")
    made = Experiment.from_file(path)
    assert (made.horizon, made.trials, made.seed, made.engine) == (10_000, 3, 7, None)
    assert {curve.engine for curve in made.curves} == {"leap"}
    assert [(played.name, played.epsilon) for played in made.algorithms] == [
        ("ucb1", None),
        ("ldp-ucb-b", 0.5),
        ("ldp-ucb-b", 2.0),
    ]
    assert len(made.arms) == 3
    assert Experiment.from_json(json.loads(json.dumps(made.to_json()))) == made


GOOD: dict[str, Any] = {"horizon": 100, "arms": ["bernoulli(0.5)"], "algorithms": [{"name": "ucb1"}]}


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"horizn": 5}, "horizn: unknown key"),
        ({"horizon": 0}, "horizon: horizon must be a whole number >= 1"),
        ({"horizon": "long"}, "horizon: horizon must be a whole number"),
        ({"trials": 0}, "trials: trials must be a whole number >= 1, got 0"),
        ({"seed": -1}, "seed: seed must be"),
        ({"arms": "bernoulli(0.5)"}, "arms: must be a list"),
        ({"arms": [0.5]}, "arms[0]: an arm is written as a string"),
        ({"arms": ["bernoulli(0.5)", "dice(6)"]}, "arms[1]: an arm's law must be one of"),
        ({"arms": []}, "at least one arm"),
        ({"arms": ["200*bernoulli(0.5)"]}, "horizon must be at least the number of arms, 200"),
        ({"arms": ["gaussian(0,1)"]}, "ucb1 takes rewards in [0, 1]"),
        ({"algorithms": []}, "at least one Algorithm"),
        ({"algorithms": {"name": "ucb1"}}, "algorithms: must be a list"),
        ({"algorithms": [{"name": "ucb1", "eps": 1}]}, "algorithms[0]: an algorithm has a name"),
        ({"algorithms": [{"name": "ucb7"}]}, "algorithms[0]: algorithm must be one of"),
        ({"algorithms": [{"name": "ldp-ucb-b"}]}, "algorithms[0]: ldp-ucb-b is private and needs an epsilon"),
        (
            {"algorithms": [{"name": "ldp-ucb-b", "epsilon": 0}]},
            "algorithms[0]: epsilon must be finite and > 0",
        ),
        ({"algorithms": [{"name": "ucb1"}, {"name": "ldp-ucb-b", "epsilon": []}]}, "algorithms[1]: epsilon: a list of"),
        ({"algorithms": [{"name": "typo", "epsilon": 1}]}, "algorithms[0]: algorithm must be one of"),
        ({"algorithms": [{"name": "ucb1"}, {"name": "ucb1"}]}, "each algorithm and epsilon once"),
        ({"engine": "warp"}, "engine must be leap or step"),
        ({"checkpoints": [10, 5, 100]}, "checkpoints: checkpoints must be"),
        ({"checkpoints": [10]}, "checkpoints: the last checkpoint must be the horizon"),
    ],
)
def test_a_bad_experiment_is_refused_by_key_and_rule(change: dict[str, Any], rule: str) -> None:
    """One line that names the key and the rule."""
    assert Experiment.from_json(GOOD).trials == 50
    with pytest.raises(ParameterError) as caught:
        Experiment.from_json({**GOOD, **change})
    assert rule in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "rule"), [("horizon = = 3", "is not TOML"), ("horizon = 3", "arms: an experiment needs")]
)
def test_a_bad_file_is_refused_by_name(tmp_path: Path, text: str, rule: str) -> None:
    """The file, the key and the rule."""
    path = tmp_path / "bad.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ParameterError) as caught:
        Experiment.from_file(path)
    assert str(path) in str(caught.value)
    assert rule in str(caught.value)
    with pytest.raises(ParameterError, match="cannot be read"):
        Experiment.from_file(tmp_path / "none.toml")


def test_a_curve_does_not_depend_on_its_company() -> None:
    """The same curve in another experiment has the same numbers; another seed or epsilon has others."""
    b, ucb = algorithm("ldp-ucb-b", 2.0), algorithm("ucb1")
    alone = Experiment(paper.BERNOULLI, (b,), 2_000, trials=2)
    together = Experiment(paper.BERNOULLI, (ucb, b), 2_000, trials=2)
    reseeded = Experiment(paper.BERNOULLI, (b,), 2_000, trials=2, seed=1)
    played = [play_all(made.curves, 2)[-1] for made in (alone, together, reseeded)]
    assert np.array_equal(played[0], played[1])
    assert not np.array_equal(played[0], played[2])


def test_an_experiment_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The choice of the engine, the check that it can leap and the compiled loop share one encoding of the arms."""
    calls: list[object] = []

    def counting(*arguments: Any) -> Any:
        calls.append(arguments)
        return encode_sums(*arguments)

    monkeypatch.setattr(leap, "encode_sums", counting)
    Experiment((Bernoulli(0.8125), Bernoulli(0.3125)), (algorithm("ldp-ucb-b", 1.25),), 100, trials=3).play()
    assert len(calls) == 1
