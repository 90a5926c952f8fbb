"""Verdicts of duels for all that a reward or a response may be, and for several workers."""

import asyncio
import random
from typing import Any

import pytest
from tests.server.crowds import Place
from tests.server.several import Workers

from ldpbandits.agent.duels import Choice
from ldpbandits.server.api.messages import KnownArm, NewArm, NewExperiment, ResponseMessage, WarmStart
from ldpbandits.server.experiments.stopping import stop_decided
from ldpbandits.server.service import Service
from ldpbandits.spec.menu import Menu
from ldpbandits.spec.messages import Report
from ldpbandits.types import Arm

CURATORS: dict[str, dict[str, Any]] = {
    "stars": {"mechanism": "bernoulli", "epsilon": 4, "transform": {"kind": "range", "low": 1, "high": 5}},
    "sigmoid": {"mechanism": "bernoulli", "epsilon": 4, "transform": {"kind": "sigmoid"}},
    "threshold": {"mechanism": "bernoulli", "epsilon": 4, "transform": {"kind": "threshold", "theta": 9}},
    "menu": {"mechanism": "bernoulli", "epsilon": [1, 4]},
    "laplace": {"mechanism": "laplace", "epsilon": 4},
}


def new(curator: dict[str, Any], *arms: str, **settings: Any) -> NewExperiment:
    """Write down an experiment that may stop from its first second on."""
    return NewExperiment("one", list(arms), curator, **{"stop_after": 0, "responses_per_hour": 0} | settings)


async def visits(service: Service, means: tuple[float, ...], count: int, curator: Any = None) -> None:
    """Let visitors take part until it is stopped; the owner of each device picks an epsilon of the menu."""
    rng, menu = random.Random(2), Menu.from_json(curator or {"mechanism": "bernoulli", "epsilon": 4})
    service.experiments["one"].agent._random = random.Random(3)
    for _ in range(0, count, 50):
        if service.experiments["one"].status != "running":
            return
        messages = []
        for each in [service.decide("one") for _ in range(50)]:
            mechanism = rng.choice(menu.curators).mechanism
            value = float(rng.random() < means[each.arm])
            if mechanism.kind == "laplace":
                noise = round((rng.expovariate(4) - rng.expovariate(4)) * 2**20) / 2**20
                response = value + noise
            else:
                response = float(rng.random() < mechanism.response_mean(value))
            messages.append(ResponseMessage(each.ticket or "", response, mechanism.epsilon))
        await asyncio.gather(*map(service.respond, messages))
        await stop_decided(service)


def live(work: Any) -> Any:
    """Run it on a service of its own."""
    place = Place()
    try:
        return asyncio.run(work(place))
    finally:
        place.service.close()


@pytest.mark.parametrize("kind", CURATORS)
@pytest.mark.parametrize("missing", ["answered", "worst"])
def test_duels_decide_whatever_a_reward_and_a_response_are(kind: str, missing: str) -> None:
    """The better arm, drift-proof, with the difference in units of the rewards. Wrong with probability 5 %, ever."""

    async def play(place: Place) -> Report:
        await place.service.commands.create(new(CURATORS[kind], "A", "B", missing=missing))
        await visits(place.service, (0.3, 0.6), 4_000, CURATORS[kind])
        return await place.service.report("one")

    report = live(play)
    assert report.verdict is not None
    assert (report.status, report.verdict.kind, report.verdict.leader) == ("paused", "better", "B")
    assert report.verdict.drift_proof
    (found,) = report.comparisons
    width = 4 if kind == "stars" else 1
    assert 0.05 * width < found.difference < 0.7 * width
    assert found.low <= 0.3 * width <= found.high


def test_a_warm_start_informs_the_choice_and_proves_nothing() -> None:
    """Ten thousand responses that another experiment has brought are no evidence: they are of another time."""
    start = WarmStart(
        {"mechanism": "bernoulli", "epsilon": 4}, [KnownArm("A", 5_000, 1_500), KnownArm("B", 5_000, 3_500)]
    )

    async def play(place: Place) -> tuple[Report, Report]:
        await place.service.commands.create(
            new({"mechanism": "bernoulli", "epsilon": 4}, "A", "B", warm_start=start, stop_when_decided="never")
        )
        await stop_decided(place.service)
        before = await place.service.report("one")
        await visits(place.service, (0.6, 0.3), 1_000)
        return before, await place.service.report("one")

    before, after = live(play)
    assert before.verdict is not None
    assert (before.verdict.kind, before.verdict.evidence) == ("undecided", 1)
    assert after.verdict is not None
    assert (after.verdict.kind, after.verdict.leader) == ("better", "A")


def test_arms_that_are_added_later_keep_the_level() -> None:
    """With may_add_arms the first K need (K + 1) / 0.05, the j-th later one j (j + 1) times that: 5 % in all."""

    async def play(place: Place) -> list[float]:
        service = place.service
        await service.commands.create(new({"mechanism": "bernoulli", "epsilon": 4}, "A", "B", may_add_arms=True))
        for name in "CDE":
            await service.commands.add_arm("one", NewArm(name))
        told = []
        for best in range(5):
            means = [0.1] * 5
            means[best] = 0.9
            experiment = service.experiments["one"]
            experiment.agent = type(experiment.agent)(experiment.rule, 5, curator=experiment.menu)
            for arm in range(5):
                for rival in range(5):
                    if arm != rival:
                        experiment.agent.count(Choice(Arm(arm), Arm(rival)), 100, round(100 * means[arm]))
            report = await service.report("one")
            assert report.verdict is not None
            told.append(report.verdict.needed)
        return told

    needed = live(play)
    assert needed == [60, 60, 120, 360, 720]
    assert sum(1 / each for each in needed) <= 0.05


def test_several_workers_keep_one_verdict(workers: Workers) -> None:
    """Each checks by itself; the earliest verdict counts at all of them, also at one that starts later."""

    async def play() -> list[tuple[str, str | None, int | None, str]]:
        await workers.create(
            NewExperiment(
                "one", ["A", "B"], {"mechanism": "bernoulli", "epsilon": 4}, stop_after=0, responses_per_hour=0
            )
        )
        rng = random.Random(5)
        for number in range(600):
            worker = workers.all[number % 2]
            await worker.refresh("one")
            if worker.experiments["one"].status != "running":
                break
            made = worker.decide("one")
            await worker.respond(ResponseMessage(made.ticket or "", float(rng.random() < (0.15, 0.85)[made.arm])))
            if number % 40 == 39:
                await workers.look()
                found = await worker.report_worker.verdict(worker.experiments["one"])
                worker.experiments["one"].keep_verdict(found.kept)
        await workers.look()
        reports = [await worker.report("one") for worker in workers.all]
        later = Service(type(workers.all[0]._store)(workers.url), now=lambda: 1_000_000.0)  # type: ignore[call-arg]
        await later.refresh("one")
        reports.append(await later.report("one"))
        later.close()
        told = [(report.verdict, report.status) for report in reports]
        return [(each.kind, each.leader, each.responses, status) for each, status in told if each is not None]

    told = asyncio.run(play())
    assert len(told) == 3
    assert len(set(told)) == 1
    assert told[0][:2] == ("better", "B")


def test_several_workers_take_one_look(workers: Workers) -> None:
    """Hidden at both until one of them has taken it; then the same verdict at both, of the responses of both."""

    async def play() -> list[list[Report]]:
        curator = {"mechanism": "bernoulli", "epsilon": 4}
        await workers.create(new(curator, "A", "B", one_look=80, stop_when_decided="never"))
        for number in range(90):
            worker = workers.all[number % 2]
            await worker.refresh("one")
            made = worker.decide("one")
            await worker.respond(ResponseMessage(made.ticket or "", float(made.arm)))
        await workers.look()
        before = [await worker.report("one") for worker in workers.all]
        for worker in workers.all:
            await stop_decided(worker)
        await workers.look()
        return [before, [await worker.report("one") for worker in workers.all]]

    before, after = asyncio.run(play())
    assert [(report.responses, report.best) for report in before] == [(90, None)] * 2
    assert {arm.mean for report in before for arm in report.arms} == {None}
    assert after[0].verdict == after[1].verdict
    assert after[0].comparisons == after[1].comparisons
    assert after[0].verdict is not None
    assert (after[0].verdict.kind, after[0].verdict.responses) == ("better", 80)
