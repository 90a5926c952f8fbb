"""What an experimenter is shown is what the responses say."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ldpbandits import CuratorSpec, Range, Response, Sigmoid, estimate
from ldpbandits.agent.inference.estimates import share
from ldpbandits.agent.inference.separation import ALPHA
from ldpbandits.server.api.messages import NewArm, NewExperiment, ResponseMessage
from ldpbandits.server.experiments.tickets import Ticket, new_nonce
from ldpbandits.server.service import Service
from ldpbandits.server.store.sqlite.store import SqliteStore
from ldpbandits.spec.mechanisms import Bernoulli, Laplace
from ldpbandits.spec.messages import Report
from ldpbandits.types import Arm

CURATORS = [
    CuratorSpec(Bernoulli(1.0)).to_json(),
    CuratorSpec(Bernoulli(4.0), Range(-2.0, 5.0)).to_json(),
    CuratorSpec(Laplace(2.0), Sigmoid()).to_json(),
]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A service on a database of its own."""
    made = Service(SqliteStore(tmp_path / "agent.db"))
    yield made
    made.close()


async def count(service: Service, name: str, wanted: dict[int, list[float]]) -> None:
    """Count these responses of each arm, whatever the agent would have handed out."""
    number = service.experiments[name].number
    for arm, responses in wanted.items():
        for response in responses:
            ticket = Ticket(number, Arm(arm), service.now + 100, new_nonce())
            await service.respond(ResponseMessage(service.keys.signer.sign(ticket), response))


@pytest.mark.parametrize("curator", CURATORS)
def test_each_arm_has_its_estimate_and_its_share(service: Service, curator: dict[str, Any]) -> None:
    """Mean and interval are those of `estimate` with the arm's share of alpha; decisions, shares and pending add up."""
    wanted: dict[int, list[float]] = {0: [1.0] * 30 + [0.0] * 10, 1: [1.0] * 5 + [0.0] * 20, 2: []}

    async def play() -> Report:
        await service.commands.create(NewExperiment("one", ["a", "b", "c"], curator, goal="earn"))
        await count(service, "one", wanted)
        for _ in range(10):
            decision = service.decide("one")
        await service.respond(ResponseMessage(decision.ticket or "", 0.0))
        wanted[decision.arm].append(0.0)
        return await service.report("one")

    report = asyncio.run(play())
    for arm in report.arms:
        responses = wanted[arm.arm]
        expected = estimate(len(responses), sum(map(Response, responses)), curator, alpha=share(ALPHA, arm.arm))
        assert (arm.pulls, arm.mean, arm.low, arm.high) == (len(responses), expected.mean, expected.low, expected.high)
        assert arm.decisions == arm.pulls + arm.pending
        assert arm.share == arm.decisions / 75
    assert sum(arm.pending for arm in report.arms) == 9
    assert report.responses == 66
    assert report.confidence == 1 - ALPHA
    assert report.best is not None
    assert (report.best.arm, report.best.name) == (0, "a")


def test_the_shares_of_alpha_never_add_up_to_more_than_alpha() -> None:
    """However many arms are added: the sum over all that there can be stays below ALPHA."""
    assert sum(share(ALPHA, arm) for arm in range(100_000)) < ALPHA
    assert share(ALPHA, 0) == ALPHA / 2


def test_an_arm_that_is_added_moves_no_interval(service: Service) -> None:
    """The intervals that were shown before are shown again."""

    async def play() -> tuple[Report, Report]:
        await service.commands.create(NewExperiment("one", ["a", "b"], CURATORS[0], goal="earn"))
        await count(service, "one", {0: [1.0] * 50, 1: [0.0] * 50})
        before = await service.report("one")
        return before, await service.commands.add_arm("one", NewArm("c"))

    before, after = asyncio.run(play())
    assert [(arm.low, arm.high) for arm in after.arms[:2]] == [(arm.low, arm.high) for arm in before.arms]


def test_separated_means_that_it_is_decided(service: Service) -> None:
    """Not from 10 responses an arm; from 310, yes; not while an added arm is unknown; again when that is retired."""

    async def play() -> list[bool]:
        await service.commands.create(NewExperiment("one", ["a", "b"], CURATORS[0], goal="earn"))
        found = []
        for times in (1, 10, 10, 10):
            less, more = [0.0] * 7 + [1.0] * 3, [0.0] * 3 + [1.0] * 7
            await count(service, "one", {0: less * times, 1: more * times})
            report = await service.report("one")
            assert report.best is not None
            assert report.best.name == "b"
            assert report.verdict is not None
            assert report.best.separated is (report.verdict.kind == "better")
            assert report.best.separated is (report.verdict.evidence >= report.verdict.needed)
            found.append(report.best.separated)
        added = await service.commands.add_arm("one", NewArm("c"))
        retired = await service.commands.retire_arm("one", 2)
        for report in (added, retired):
            assert report.best is not None
            found.append(report.best.separated)
        return found

    found = asyncio.run(play())
    assert found[0] is False
    assert found[3:] == [True, False, True]
