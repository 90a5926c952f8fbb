"""Simulations meet the reference values, stay below the theory's bounds, and do not depend on the number of threads."""

import csv
import json
import math
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from ldpbandits import Agent, Response, ldp_ucb_b
from ldpbandits.errors import ParameterError
from ldpbandits.lab.algorithms import algorithm
from ldpbandits.lab.engine.verdicts import judge_by
from ldpbandits.lab.experiments import simulate
from ldpbandits.lab.panels import paper
from ldpbandits.lab.play import Curve, Engine, Trials, log_spaced, play
from ldpbandits.lab.rewards import Bernoulli, Law, gaps
from ldpbandits.lab.simulation import Simulation

FOLDER = Path(__file__).parent.parent.parent / "benchmarks"
with (FOLDER / "reference.csv").open(encoding="ascii") as file:
    REFERENCE = list(csv.DictReader(file))


@pytest.mark.parametrize("engine", ["step", "leap"])
@pytest.mark.parametrize("row", REFERENCE, ids=lambda row: "-".join(row.values()))
def test_reference_values(row: dict[str, str], engine: Engine) -> None:
    """Regret at T = 1e5 over 32 trials within four joint standard errors. False alarm: 3e-4 a case; seeded.

    At every checkpoint the regret is below the bound of its theorem.
    """
    arms: tuple[Law, ...] = getattr(paper, row["arms"])
    name, epsilon = row["algorithm"], float(row["epsilon"]) if row["epsilon"] else None
    made = simulate(algorithm(name, epsilon), arms, 100_000, trials=32, seed=5, engine=engine)
    joint = math.hypot(float(row["sem"]), made.sem_regret[-1])
    assert abs(made.mean_regret[-1] - float(row["regret"])) < 4 * joint
    for t, mean in zip(made.checkpoints, made.mean_regret, strict=True):
        assert made.algorithm.upper_bound is not None
        assert mean <= made.algorithm.upper_bound.at(gaps(arms), epsilon, t)


def numbers(made: Simulation) -> list[float]:
    """All that was simulated."""
    return made.pulls.ravel().tolist()


@pytest.mark.parametrize("name", ["ldp-ucb-b", "ldp-ucb-l"])
def test_the_number_of_threads_changes_nothing(name: str) -> None:
    """1, 2 and 5 threads give the same pulls, trial by trial; another seed, others; fewer trials, the first ones."""
    made = [simulate(algorithm(name, 1), paper.MIXED, 3_000, trials=6, seed=8, jobs=jobs) for jobs in (1, 2, 5)]
    assert numbers(made[0]) == numbers(made[1]) == numbers(made[2])
    other = simulate(algorithm(name, 1), paper.MIXED, 3_000, trials=6, seed=9)
    assert numbers(other) != numbers(made[0])
    fewer = simulate(algorithm(name, 1), paper.MIXED, 3_000, trials=2, seed=8)
    assert numbers(fewer) == made[0].pulls[:2].ravel().tolist()


def test_trials_differ() -> None:
    """No two trials share a stream."""
    made = simulate(algorithm("ucb1"), paper.BERNOULLI, 2_000, trials=20, seed=0)
    assert len({tuple(row) for row in made.pulls[:, -1].tolist()}) == 20


def test_checkpoints_do_not_change_the_run() -> None:
    """Where one looks does not change what happens in steps; pulls add up to t at each checkpoint in both engines."""
    looks = ([1, 10, 500, 1_000], [1_000])
    for engine in get_args(Engine):
        often, once = (
            simulate(algorithm("ldp-ucb-l", 2), paper.MIXED, 1_000, trials=2, seed=1, engine=engine, checkpoints=points)
            for points in looks
        )
        assert often.pulls.sum(axis=2).tolist() == [[1, 10, 500, 1_000]] * 2
        if engine == "step":
            assert np.array_equal(often.pulls[:, -1], once.pulls[:, -1])


def test_checkpoints_are_log_spaced() -> None:
    """Ten a decade from 10 to the horizon, which is always the last."""
    assert log_spaced(1_000)[:11] == (10, 13, 16, 20, 25, 32, 40, 50, 63, 79, 100)
    assert log_spaced(1_000)[-1] == 1_000
    assert log_spaced(12_345)[-2:] == (10_000, 12_345)
    assert log_spaced(3) == (3,)
    for horizon in (1, 9, 10, 11, 12, 99, 10**7, 10**12 + 1):
        points = log_spaced(horizon)
        assert list(points) == sorted(set(points))
        assert points[-1] == horizon


def test_regret_is_pseudo_regret() -> None:
    """sum N_a Delta_a: it never falls, and is never negative."""
    made = simulate(algorithm("ucb1"), [Bernoulli(0.9), Bernoulli(0.4)], 5_000, trials=4, seed=2)
    assert (np.diff(made.regret, axis=1) >= 0).all()
    assert np.allclose(made.regret, 0.5 * made.pulls[:, :, 1])


def test_the_json_has_the_promised_keys() -> None:
    """Regret at each checkpoint, pulls at the end; a single trial has no standard error."""
    made = simulate(algorithm("ldp-ucb-b", 2), paper.BERNOULLI, 500, trials=1, seed=4).to_json()
    assert list(made) == [
        "algorithm", "epsilon", "horizon", "trials", "seed", "engine", "seconds", "checkpoints", "regret", "pulls",
    ]  # fmt: skip
    assert made["checkpoints"][-1] == made["horizon"] == 500
    assert len(made["regret"]["mean"]) == len(made["checkpoints"])
    assert set(made["regret"]["sem"]) == {None}
    assert sum(made["pulls"]["mean"]) == 500


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"horizon": 19}, "horizon must be at least the number of arms, 20"),
        ({"horizon": 0}, "horizon must be a whole number >= 1"),
        ({"horizon": 100.5}, "horizon must be a whole number"),
        ({"horizon": 2**53 + 2}, "horizon must be at most 2^53"),
        ({"trials": 0}, "trials must be a whole number >= 1"),
        ({"jobs": 0}, "jobs must be a whole number >= 1"),
        ({"seed": -1}, "seed must be a whole number >= 0"),
        ({"arms": []}, "at least one arm"),
        ({"arms": paper.GAUSSIAN}, "use ucb1-s, ldp-ucb-bs, ldp-ucb-ls, or a threshold: ldp-imed-t(0)"),
        ({"checkpoints": [10, 10, 100]}, "each larger than the one before"),
        ({"checkpoints": [10]}, "the last checkpoint must be the horizon"),
        ({"checkpoints": []}, "one or more"),
    ],
)
def test_a_bad_experiment_is_refused_by_its_rule(change: dict[str, object], rule: str) -> None:
    """Before anything is played."""
    settings: dict[str, object] = {"algorithm": algorithm("ucb1"), "arms": paper.BERNOULLI, "horizon": 100, "seed": 0}
    with pytest.raises(ParameterError) as caught:
        simulate(**{**settings, **change})  # type: ignore[arg-type]
    assert rule in str(caught.value)


@pytest.mark.parametrize(("name", "epsilon"), [("ucb1", 1.0), ("ldp-ucb-b", None), ("ldp-ucb-b", 0), ("ucb2", None)])
def test_a_bad_algorithm_is_refused(name: str, epsilon: float | None) -> None:
    """Unknown, private without an epsilon, or not private with one."""
    with pytest.raises(ParameterError):
        algorithm(name, epsilon)


def test_an_interrupt_stops_the_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is raised while waiting (Ctrl-C above all) comes out; trials not begun are not played; no thread goes on."""
    begun = []
    play = Trials.play

    def counted(self: Trials, *arguments: Any) -> Iterator[Any]:
        begun.append(1)
        return play(self, *arguments)

    def interrupt(done: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Trials, "play", counted)
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        simulate(algorithm("ucb1"), paper.BERNOULLI, 100_000, trials=200, seed=0, jobs=1, progress=interrupt)
    assert threading.active_count() == before
    assert 3 <= len(begun) < 100


def test_a_long_stretch_without_checkpoints_can_be_stopped() -> None:
    """A trial looks up at least every million rounds, or twentieth of its length, whatever the checkpoints."""
    asked = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) == 3

    rows = list(Trials(algorithm("ucb1"), paper.BERNOULLI, "step").play([10**9], np.random.default_rng(0), stop))
    assert rows == []
    assert len(asked) == 3


def test_trials_release_the_gil() -> None:
    """While one thread plays two million rounds, another goes on counting; with the lock held it could not."""
    trials = Trials(algorithm("ucb1"), paper.BERNOULLI, "step")
    playing = threading.Thread(target=lambda: list(trials.play([10**6, 2 * 10**6], np.random.default_rng(0))))
    counted = 0
    playing.start()
    while playing.is_alive():
        counted += 1
    playing.join()
    assert counted > 10_000


def test_numpy_numbers_are_numbers() -> None:
    """Settings that come out of an array are taken."""
    made = simulate(
        algorithm("ldp-ucb-b", np.float32(1.0)),  # type: ignore[arg-type]
        [Bernoulli(np.float64(0.5)), Bernoulli(0.25)],
        np.int64(2_000),  # type: ignore[arg-type]
        trials=np.int64(2),  # type: ignore[arg-type]
        seed=0,
        checkpoints=np.array([10, 2_000]),  # type: ignore[arg-type]
    )
    assert made.checkpoints == (10, 2_000)
    agent = Agent(ldp_ucb_b(), np.int64(2))  # type: ignore[arg-type]
    agent.update(np.int64(1), Response(np.float32(1.0)))  # type: ignore[arg-type]
    assert json.loads(json.dumps(agent.to_json()))["pulls"] == [0, 1]


def test_judged_trials_record_the_first_verdict_of_each_test() -> None:
    """A trial is that of its curve without tests; each test declares at its checkpoint, and not before."""
    arms, times = paper.BERNOULLI[-2:] + paper.BERNOULLI[:1], tuple(range(200, 4_001, 200))
    played = algorithm("ldp-equal", 4.0)
    plain = Curve(played, arms, times, (1, 2), "step")
    judged = replace(plain, tests=("coin", "pair", "intervals"))
    first = play(judged, 0)
    assert judged.fits(first)
    assert not judged.fits(first + 1)
    assert not judged.fits(play(plain, 0))
    assert plain.fits(play(plain, 0))
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence((1, 2), spawn_key=(0,))))
    tallies = [(pulls.copy(), sums.copy()) for pulls, sums in Trials(played, arms, "step").tallies(times, rng)]
    for test, at in zip(judged.tests, first, strict=True):
        declared = [judge_by(test, played, len(arms))(*tally) for tally in tallies]
        place = next(place for place, arm in enumerate(declared) if arm >= 0)
        assert (at, declared[place]) == (times[place], 2)
    with pytest.raises(ParameterError, match="the coin test needs a fair coin, which ldp-kl-ucb\\+\\+ does not toss"):
        judge_by("coin", algorithm("ldp-kl-ucb++", 4.0), 3)
    with pytest.raises(ParameterError, match="ucb1 is judged by no test here"):
        judge_by("intervals", algorithm("ucb1"), 3)
