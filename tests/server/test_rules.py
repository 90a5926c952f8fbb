"""Every rule that is registered runs an experiment on a live server."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from tests.spec.kind_contract import example

from ldpbandits import CuratorSpec, Rule
from ldpbandits.agent.duels import Design
from ldpbandits.agent.rules import RULES, ldp_ucb_b, ldp_ucb_l, rule_to_json
from ldpbandits.server.api.messages import NewExperiment, ResponseMessage
from ldpbandits.server.service import Service
from ldpbandits.server.store.sqlite.store import SqliteStore
from ldpbandits.spec.messages import Report

CURATORS: list[dict[str, Any]] = [
    {"mechanism": "bernoulli", "epsilon": 4.0},
    {"mechanism": "laplace", "epsilon": 1.0},
    {"mechanism": "bernoulli", "epsilon": 1.0},  # for rules that are made for one epsilon
]


def curator_for(rule: Rule) -> dict[str, Any]:
    """Return the first of these curators whose responses the rule takes."""
    refusal = getattr(rule, "refusal", lambda _: None)
    return next(spec for spec in CURATORS if refusal(CuratorSpec.from_json(spec)) is None)


@pytest.mark.parametrize("kind", list(RULES), ids=lambda kind: kind.kind)
def test_a_registered_rule_runs_an_experiment(tmp_path: Path, kind: Any) -> None:
    """It is announced as it is, finds the better of two arms, and knows the same after a restart."""
    rule = example(kind)
    curator = curator_for(rule)
    rng = random.Random(5)

    async def play(service: Service) -> Report:
        await service.commands.create(NewExperiment("one", ["worse", "better"], curator, rule_to_json(rule)))
        for _ in range(40):
            decisions = [service.decide("one") for _ in range(10)]
            bits = [float(rng.random() < (0.2, 0.8)[decision.arm]) for decision in decisions]
            messages = [ResponseMessage(each.ticket or "", bit) for each, bit in zip(decisions, bits, strict=True)]
            await asyncio.gather(*map(service.respond, messages))
        return await service.report("one")

    service = Service(SqliteStore(tmp_path / "agent.db"))
    try:
        report = asyncio.run(play(service))
    finally:
        service.close()
    assert report.rule == rule_to_json(rule)
    assert report.best is not None
    assert report.best.name == "better"
    assert report.arms[1].pulls > (220 if rule.design is Design.ADAPTIVE else 150)
    before = service.experiments["one"].agent.tally
    again = Service(SqliteStore(tmp_path / "agent.db"))
    try:
        assert again.experiments["one"].rule == rule
        after = again.experiments["one"].agent.tally
        assert (after.pulls, after.means) == (before.pulls, before.means)
    finally:
        again.close()


@pytest.mark.parametrize(
    ("curator", "asked", "rule"),
    [
        (CURATORS[0], None, {"kind": "kl-ucb++"}),
        (CURATORS[0], "paper", rule_to_json(ldp_ucb_b())),
        ({"mechanism": "bernoulli", "epsilon": [1, 4]}, None, {"kind": "kl-ucb++"}),
        (CURATORS[1], None, {"kind": "kl-ucb++-laplace", "epsilon": 1.0}),
        ({"mechanism": "laplace", "epsilon": 0.5}, None, {"kind": "kl-ucb++-laplace-clip", "epsilon": 0.5}),
        (CURATORS[1], "paper", rule_to_json(ldp_ucb_l(1.0))),
    ],
)
def test_an_experiment_gets_the_default_rule_or_the_papers_by_name(
    tmp_path: Path, curator: dict[str, Any], asked: Any, rule: dict[str, Any]
) -> None:
    """The report names the rule itself, and it stays that of the experiment."""
    for _ in range(2):
        service = Service(SqliteStore(tmp_path / "agent.db"))
        try:
            if not service.experiments:
                goal: Any = "earn" if asked is None else None
                asyncio.run(service.commands.create(NewExperiment("one", ["a", "b"], curator, asked, goal=goal)))
            assert asyncio.run(service.report("one")).rule == rule
        finally:
            service.close()
