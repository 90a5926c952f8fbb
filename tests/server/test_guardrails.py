"""Whatever the rule says, the traffic of an experiment keeps to its guardrails.

Shares are those of N = 20,000 independent decisions. By Hoeffding's inequality such a share is further than 0.02 from
its probability, to one side, with probability at most e^(-2 N 0.02^2) = 1.2e-7; seeds are fixed besides.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ldpbandits import Agent, ldp_ucb_b
from ldpbandits.agent.tally import ArmTally, Tally
from ldpbandits.server.api.messages import NewArm, NewExperiment, ResponseMessage
from ldpbandits.server.api.refusals import Refusal
from ldpbandits.server.experiments.guardrails import Guardrails
from ldpbandits.server.experiments.settings import NewRamp, Settings
from ldpbandits.server.service import Service
from ldpbandits.server.store.sqlite.store import SqliteStore
from ldpbandits.spec.messages import Report

DECISIONS = 20_000
MARGIN = 0.02
CURATOR = {"mechanism": "bernoulli", "epsilon": 1}


def settings(**guardrails: Any) -> Settings:
    """Return the settings of an experiment that was created with two arms."""
    return Settings(report_after=300, first_arms=2, **guardrails)


def shares(asked: Settings, *arms: ArmTally) -> list[float]:
    """Return how much of the traffic each arm gets from a rule that always wants the best of them.

    The tally stands still: no response comes, and what is handed out is taken back.
    """
    agent = Agent(ldp_ucb_b(), len(arms))
    agent.tally = Tally(arms)
    guardrails, handed = Guardrails(asked, Random(1)), Counter[int]()
    for _ in range(DECISIONS):
        arm = agent.issue(guardrails.among(agent.tally))
        agent.take_back(arm)
        handed[arm] += 1
    return [handed[arm] / DECISIONS for arm in range(len(arms))]


def arm(pulls: int, mean: float, *, retired: bool = False) -> ArmTally:
    """Return the tally of an arm."""
    return ArmTally(pulls, pulls * mean, retired=retired)


GOOD, BAD = arm(10_000, 0.9), arm(10_000, 0.1)


def near(wanted: float) -> Any:
    """Allow for chance."""
    return pytest.approx(wanted, abs=MARGIN)


def test_the_rule_alone_starves_a_bad_arm() -> None:
    """Without guardrails there are none, and the bad arm gets nothing: the tests below can fail."""
    assert Guardrails.of(settings()) is None
    assert shares(settings(), BAD, GOOD) == [0, 1]


def test_each_arm_in_use_gets_its_minimum_share() -> None:
    """However bad it is; the best arm gets all the rest, and a retired one nothing."""
    retired = arm(10_000, 0.1, retired=True)
    asked = settings(minimum_share=0.2)
    assert shares(asked, BAD, retired, GOOD, BAD) == [near(0.2), 0, near(0.6), near(0.2)]


def test_with_a_minimum_share_of_one_in_k_all_traffic_is_equal() -> None:
    """There is nothing left for the rule."""
    assert shares(settings(minimum_share=1 / 3), BAD, GOOD, BAD) == [near(1 / 3)] * 3


def test_during_the_warm_up_traffic_is_equal() -> None:
    """As long as one of the first arms in use lacks responses; then the rule takes over at once."""
    asked = settings(warm_up=50)
    assert shares(asked, arm(49, 0.1), GOOD) == [near(0.5), near(0.5)]
    assert shares(asked, arm(50, 0.1), GOOD) == [0, 1]
    assert shares(asked, arm(49, 0.1, retired=True), GOOD) == [0, 1]


def test_an_arm_that_is_added_does_not_start_the_warm_up_again() -> None:
    """It is for the first arms; one that comes while it goes on takes part in it."""
    asked = settings(warm_up=50)
    assert shares(asked, GOOD, BAD, BAD) == [1, 0, 0]
    assert shares(asked, arm(0, 0), GOOD, arm(0, 0)) == [near(1 / 3)] * 3


def test_new_arms_get_the_share_of_the_ramp_at_most() -> None:
    """Together, also where the rule wants nothing else; the rule chooses the rest among the others."""
    asked = settings(ramp=NewRamp(0.1, 100))
    assert shares(asked, BAD, GOOD, arm(5, 1.0)) == [0, near(0.9), near(0.1)]
    one, other = shares(asked, BAD, GOOD, arm(5, 1.0), arm(5, 0.99))[2:]
    assert one + other == near(0.1)


def test_the_rule_may_give_new_arms_less_than_the_ramp() -> None:
    """It is a cap, not a quota: a new arm that the rule does not want gets nothing."""
    assert shares(settings(ramp=NewRamp(0.3, 100_000)), BAD, GOOD, BAD) == [0, 1, 0]


def test_the_ramp_ends_for_an_arm_that_has_its_responses() -> None:
    """From then on it is an arm like the others; first arms are never under it."""
    better = arm(10_000, 0.95)
    assert shares(settings(ramp=NewRamp(0.1, 10_001)), BAD, GOOD, better) == [0, near(0.9), near(0.1)]
    assert shares(settings(ramp=NewRamp(0.1, 10_000)), BAD, GOOD, better) == [0, 0, 1]
    assert shares(settings(ramp=NewRamp(0.1, 100_000)), BAD, GOOD) == [0, 1]


def test_where_all_arms_are_new_nobody_is_spared() -> None:
    """With the first arms retired the ramp has nothing to protect."""
    gone = arm(5, 0.9, retired=True)
    assert shares(settings(ramp=NewRamp(0.1, 100)), gone, gone, arm(50, 1.0), arm(50, 0.0)) == [0, 0, 1, 0]


def test_the_ramp_caps_the_minimum_share() -> None:
    """Settled arms get theirs in full; new ones too while it fits under the ramp, else the ramp in equal parts."""
    asked = settings(minimum_share=0.1, ramp=NewRamp(0.3, 100))
    assert shares(asked, BAD, GOOD, arm(50, 0.0)) == [near(0.1), near(0.8), near(0.1)]
    assert shares(asked, BAD, GOOD, arm(5, 1.0)) == [near(0.1), near(0.6), near(0.3)]
    tight = settings(minimum_share=0.2, ramp=NewRamp(0.1, 100))
    assert shares(tight, BAD, GOOD, arm(5, 1.0)) == [near(0.2), near(0.7), near(0.1)]
    assert shares(tight, BAD, GOOD, arm(5, 1.0), arm(5, 0.0)) == [near(0.2), near(0.7), near(0.05), near(0.05)]


def test_the_warm_up_keeps_to_the_ramp() -> None:
    """New arms get no more than the ramp allows, and the first ones share the rest equally."""
    asked = settings(warm_up=50, minimum_share=0.01, ramp=NewRamp(0.1, 100))
    assert shares(asked, arm(0, 0), GOOD, arm(0, 0)) == [near(0.45), near(0.45), near(0.1)]
    loose = settings(warm_up=50, ramp=NewRamp(0.8, 100))
    assert shares(loose, arm(0, 0), GOOD, arm(0, 0)) == [near(1 / 3)] * 3


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A service on a database of its own."""
    made = Service(SqliteStore(tmp_path / "agent.db"))
    yield made
    made.close()


def steady(service: Service, seed: int) -> None:
    """Draw from a seed."""
    experiment = service.experiments["one"]
    experiment.guardrails = Guardrails(experiment.settings, Random(seed))


async def play(service: Service, decisions: int) -> list[int]:
    """Answer so many decisions: arm 1 is always liked, others never; return how often each arm was handed out."""
    handed = [0] * len(service.experiments["one"].records)
    for _ in range(decisions):
        decision = service.decide("one")
        handed[decision.arm] += 1
        await service.respond(ResponseMessage(decision.ticket or "", float(decision.arm == 1)))
    return handed


def test_an_experiment_keeps_to_its_guardrails(service: Service) -> None:
    """Warm-up, then the minimum share, and a ramp for the arm that comes: all of it is public in the report.

    600 decisions: a share of probability 0.2 is below 0.1, or one of at most 0.1 is above 0.2, with probability at most
    e^(-2 600 0.1^2) = 6e-6.
    """
    new = NewExperiment(
        "one",
        ["bad", "good"],
        CURATOR,
        minimum_share=0.2,
        warm_up=50,
        ramp=NewRamp(0.1, 1000),
        ticket_lifetime=60,
        goal="earn",
    )

    async def live() -> tuple[list[int], list[int], list[int], Report]:
        await service.commands.create(new)
        steady(service, 1)
        warm = [0, 0]
        while min(warm) < 50:
            warm = [was + now for was, now in zip(warm, await play(service, 1), strict=True)]
        later = await play(service, 600)
        await service.commands.add_arm("one", NewArm("late"))
        return warm, later, await play(service, 600), await service.report("one")

    warm, later, ramped, report = asyncio.run(live())
    assert max(warm) < 110  # else at most 49 of 159 fair draws were of one arm: 2e-5, by Hoeffding's inequality
    assert 60 < later[0] < 180
    assert ramped[0] > 60
    assert 0 < ramped[2] < 120
    shown = report.settings
    assert (shown.minimum_share, shown.warm_up, shown.first_arms) == (0.2, 50, 2)
    assert shown.ramp is not None
    assert (shown.ramp.share, shown.ramp.responses) == (0.1, 1000)


def test_a_restart_goes_on_where_the_warm_up_was(tmp_path: Path) -> None:
    """What is left of it follows from the responses that are on disk."""
    path = tmp_path / "agent.db"
    tallies = []
    for decisions in (0, 30, 200):
        service = Service(SqliteStore(path))
        try:
            if not decisions:
                asyncio.run(
                    service.commands.create(NewExperiment("one", ["bad", "good"], CURATOR, warm_up=40, goal="earn"))
                )
                continue
            steady(service, 2)
            tallies.append(asyncio.run(play(service, decisions)))
        finally:
            service.close()
    assert 5 < tallies[0][0] < 25  # of 30 fair draws: else 4e-4, and the seed is fixed
    assert tallies[0][0] + tallies[1][0] < 60


def test_more_arms_than_there_is_room_for_are_refused(service: Service) -> None:
    """At the creation and later; a retired arm makes room."""

    def refused(work: Any) -> tuple[int, str, str]:
        with pytest.raises(Refusal) as caught:
            asyncio.run(work)
        return caught.value.status, caught.value.code, caught.value.message

    new = NewExperiment("one", ["a", "b", "c"], CURATOR, minimum_share=0.4, goal="earn")
    told = "minimum_share = 0.4 leaves room for 2 arms in use, got 3"
    assert refused(service.commands.create(new)) == (422, "invalid", told)
    asyncio.run(service.commands.create(NewExperiment("one", ["a", "b"], CURATOR, minimum_share=0.4, goal="earn")))
    assert refused(service.commands.add_arm("one", NewArm("c"))) == (409, "full", told)
    asyncio.run(service.commands.retire_arm("one", 0))
    assert len(asyncio.run(service.commands.add_arm("one", NewArm("c"))).arms) == 3
    asyncio.run(
        service.commands.create(NewExperiment("ten", list("abcdefghij"), CURATOR, minimum_share=0.1, goal="earn"))
    )
    assert service.decide("ten").arm in range(10)
