"""A crowd of several epsilons in the lab: the same choices as live, and less regret than the smallest epsilon has."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldpbandits import Agent, ParameterError, Response
from ldpbandits.agent.rules import IMED, KLUCB, KLUCBPlus, Rule
from ldpbandits.cli import main
from ldpbandits.lab.algorithms import Algorithm, algorithm, algorithms_from_json, mixed, with_rule
from ldpbandits.lab.engine.mixed import compile_mixed_steps
from ldpbandits.lab.experiments import Experiment, simulate
from ldpbandits.lab.mix import Mix
from ldpbandits.lab.rewards import parse_arms
from ldpbandits.theory.bounds import exact_constant, mixed_constant

MIX = Mix.parse("0.5:0.25,2:0.75")
ARMS = ["bernoulli(0.9)", "bernoulli(0.6)", "uniform(0,1)"]


@pytest.mark.parametrize("rule", [KLUCB(), KLUCBPlus(), IMED()], ids=lambda rule: rule.kind)
def test_the_lab_plays_what_is_deployed(rule: Rule) -> None:
    """Round by round, the compiled loop pulls the arm that a live agent with the same cells selects."""
    arms = [law for text in ARMS for law in parse_arms(text)]
    advance = compile_mixed_steps(Algorithm("played", rule, MIX), MIX, arms)
    rng = np.random.default_rng(1)
    pulls, cells = np.zeros(3), np.zeros((3, 4))
    live = Agent(rule, 3, curator=MIX.menu)
    for t in range(300):
        expected = live.select()
        before = cells.copy()
        advance(rng, pulls, cells, t, t + 1)
        (arm,) = np.flatnonzero((cells - before).any(axis=1))
        assert arm == expected, t
        (level,) = np.flatnonzero((cells - before)[arm, ::2])
        bit = (cells - before)[arm, 2 * level + 1]
        live.update(expected, Response(float(bit)), epsilon=MIX.menu.epsilons[level])


def test_epsilons_are_picked_by_their_shares_and_bits_have_their_chances() -> None:
    """One arm, 40,000 rounds: shares and means within 4.9 standard errors; false alarm below 1e-5."""
    (arm,) = parse_arms("uniform(0,0.4)")
    advance = compile_mixed_steps(Algorithm("played", IMED(), MIX), MIX, [arm])
    pulls, cells, rounds = np.zeros(1), np.zeros((1, 4)), 40_000
    advance(np.random.default_rng(2), pulls, cells, 0, rounds)
    for level, (share, curator) in enumerate(zip(MIX.shares, MIX.menu.curators, strict=True)):
        n, ones = cells[0, 2 * level : 2 * level + 2]
        assert abs(n / rounds - share) < 4.9 * np.sqrt(share * (1 - share) / rounds)
        chance = curator.mechanism.response_mean(0.2)
        assert abs(ones / n - chance) < 4.9 * np.sqrt(chance * (1 - chance) / n)


def test_a_mix_is_between_its_epsilons() -> None:
    """Its regret is well below that of the smallest epsilon alone; its constant is between those of both."""
    arms = ["bernoulli(0.9)", "4*bernoulli(0.7)"]
    regret = {
        what: simulate(played, arms, 5_000, trials=20, seed=1).mean_regret[-1]
        for what, played in {
            "small": algorithm("ldp-imed", 0.5),
            "mix": mixed("ldp-imed", Mix.parse("0.5:0.25,2:0.75")),
            "large": algorithm("ldp-imed", 2),
        }.items()
    }
    assert regret["large"] < 1.2 * regret["mix"] < 0.8 * regret["small"]
    means = [0.9, 0.7, 0.7]
    exact = mixed_constant(means, means, {0.5: 0.25, 2: 0.75})
    assert exact_constant(means, 2) < exact < exact_constant(means, 0.5)
    assert mixed_constant(means, means, {2: 1.0}) == pytest.approx(exact_constant(means, 2), rel=1e-12)
    harmonic = 1 / (0.25 / exact_constant(means, 0.5) + 0.75 / exact_constant(means, 2))
    assert exact == pytest.approx(harmonic, rel=1e-12)  # information adds up: two equal gaps


def test_a_mix_is_data(tmp_path: Path) -> None:
    """It goes through JSON and through a file, by name and as a rule with a curator."""
    played = mixed("ldp-kl-ucb++", MIX)
    assert algorithms_from_json(json.loads(json.dumps(played.to_json()))) == [played]
    assert with_rule(IMED(), MIX).curator == MIX
    (unnamed,) = algorithms_from_json({"curator": MIX.to_json(), "name": "mine"})
    assert unnamed.rule == KLUCBPlus()
    experiment = Experiment(tuple(ARMS), (played,), 50, trials=2, seed=3)  # type: ignore[arg-type]
    path = tmp_path / "experiment.json"
    path.write_text(json.dumps(experiment.to_json()))
    assert Experiment.from_file(path) == experiment
    assert experiment.play()[0].engine == "step"
    assert main(["simulate", str(path), "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "results.csv").exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "a mix is written as"),
        ("1", "a mix is written as"),
        ("1:a", "a mix is written as"),
        ("1:1", "a mix has two epsilons or more"),
        ("1:0.5,2:0.4", "must add up to 1, got 0.9"),
        ("1:1.5,2:-0.5", "must be > 0"),
        ("1:0.5,1:0.5", "must rise"),
        ("-1:0.5,1:0.5", "epsilon must be finite and > 0"),
        (",".join(f"{n}:0.1" for n in range(1, 11)), "from 1 to 8 epsilons"),
    ],
)
def test_a_mix_that_is_none_is_refused_in_one_line(text: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """By `Mix.parse`, and on the command line with exit code 2."""
    with pytest.raises(ParameterError, match=told):
        Mix.parse(text)
    flags = ["simulate", "--algorithm", "ldp-imed", "--arm", "bernoulli(0.5)", "--horizon", "10"]
    assert main([*flags, f"--epsilon-mix={text}"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--algorithm", "ldp-imed", "--epsilon", "1", "--epsilon-mix", "1:0.5,2:0.5"], "give one or the other"),
        (["--algorithm", "ldp-ucb-l", "--epsilon-mix", "1:0.5,2:0.5"], "for the bits of CTB"),
        (["--algorithm", "imed", "--epsilon-mix", "1:0.5,2:0.5"], "for the bits of CTB"),
        (["--algorithm", "ldp-ucb-b", "--epsilon-mix", "1:0.5,2:0.5"], "for responses of one epsilon"),
        (["--algorithm", "ldp-imed", "--epsilon-mix", "1:0.5,2:0.5", "--engine", "leap"], "cannot leap"),
    ],
)
def test_what_does_not_go_with_a_mix(flags: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line says why."""
    assert main(["simulate", *flags, "--arm", "bernoulli(0.5)", "--horizon", "10"]) == 2
    printed = capsys.readouterr().err
    assert told in printed
    assert printed.count("\n") == 1


def test_mixes_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """`simulate --epsilon-mix` plays each rule that takes several; `bounds --epsilon-mix` has their constant."""
    for name in ("ldp-imed", "ldp-kl-ucb++", "ldp-ts", "ldp-imed-t(0.5)"):
        flags = ["--algorithm", name, "--epsilon-mix", "0.2:0.2,1:0.5,4:0.3", "--horizon", "100", "--trials", "2"]
        assert main(["simulate", *flags, "--arm", "uniform(0,1)", "--arm", "bernoulli(0.7)", "--json"]) == 0
        told: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert told["algorithm"] == f"{name}, epsilon 0.2:0.2,1:0.5,4:0.3"
    flags = ["--epsilon", "1", "--epsilon-mix", "0.2:0.2,1:0.5,4:0.3", "--horizon", "1e5", "--json"]
    assert main(["bounds", *flags, "--arm", "bernoulli(0.9)", "--arm", "bernoulli(0.5)"]) == 0
    told = json.loads(capsys.readouterr().out)
    constants = {bound["name"]: bound["per_log_t"] for bound in told["bounds"]}
    assert constants["exact constant, own epsilons"] == mixed_constant(
        [0.9, 0.5], [0.9, 0.5], {0.2: 0.2, 1: 0.5, 4: 0.3}
    )
    assert main(["bounds", *flags, "--theta", "0", "--arm", "gaussian(0.9,1)", "--arm", "gaussian(0.1,1)"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert "exact constant, own epsilons, of P(reward > 0)" in {bound["name"] for bound in told["bounds"]}
