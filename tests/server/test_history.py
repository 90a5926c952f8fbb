"""The history of an experiment: what was known after so many responses."""

import asyncio
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from tests.server.crowds import Place, answer, bits, new
from tests.server.inprocess import ask

from ldpbandits import UCB, estimate
from ldpbandits.agent.inference.estimates import estimate_arm, share
from ldpbandits.agent.inference.separation import ALPHA
from ldpbandits.server.api.app import application
from ldpbandits.server.api.messages import NewArm, NewExperiment
from ldpbandits.server.experiments.definition import define
from ldpbandits.server.experiments.history import MOST_MOMENTS, Moment, Trail, replay
from ldpbandits.server.experiments.settings import Settings
from ldpbandits.server.reports import report as report_module
from ldpbandits.server.store import CellTotal, StoredResponse
from ldpbandits.spec.menu import Menu
from ldpbandits.spec.messages import History


@pytest.fixture
def place() -> Iterator[Place]:
    """A service of its own."""
    made = Place()
    yield made
    made.service.close()


def walk(responses: int, step: int = 1) -> tuple[Trail, int]:
    """Add moments as a server does, after commits of so many responses; return the trail, and how many were added."""
    trail, added = Trail(Moment(0, ())), 0
    for number in range(step, responses + 1, step):
        if number >= trail.due:
            trail.add(Moment(number, (CellTotal(1, 0, 0, number, 0),)))
            added += 1
    return trail, added


@pytest.mark.parametrize(("responses", "step"), [(3, 1), (199, 1), (5_000, 1), (100_000, 7), (100_000, 1_000)])
def test_a_trail_has_at_most_200_moments_evenly_spaced_from_the_first_to_now(responses: int, step: int) -> None:
    """The first and the present one are there, no gap is larger than 2 spacings, and there are 100 if there can be."""
    trail, _ = walk(responses, step)
    shown = trail.moments(Moment(responses, ()), MOST_MOMENTS)
    numbers = [moment.responses for moment in shown]
    assert (numbers[0], numbers[-1]) == (0, responses)
    assert numbers == sorted(set(numbers))
    assert min(MOST_MOMENTS // 2, responses // step) <= len(numbers) <= MOST_MOMENTS
    gaps = [later - earlier for earlier, later in pairwise(numbers)]
    assert max(gaps) <= 2 * max(trail.spacing, step)


def test_moments_are_taken_rarely() -> None:
    """Of 100,000 commits about 100 for each doubling look at the totals; the others compare two numbers."""
    _, added = walk(100_000)
    assert added < MOST_MOMENTS * 7


def test_fewer_moments_are_some_of_the_others_and_stay_the_same_for_long() -> None:
    """With at most 30 of them, those of a later history are, but for the last, among those of an earlier one."""
    earlier, later = walk(12_000)[0], walk(12_700)[0]
    few, few_later = (trail.moments(Moment(now, ()), 30) for trail, now in ((earlier, 12_000), (later, 12_700)))
    assert 15 <= len(few) <= 30
    assert few[0].responses == 0
    assert {moment.responses for moment in few} <= {m.responses for m in earlier.moments(few[-1], MOST_MOMENTS)}
    known = {moment.responses for moment in few}
    assert sum(moment.responses not in known for moment in few_later[:-1]) <= 2


def test_a_moment_is_found_by_its_responses() -> None:
    """The last one that had no more; before the first there is the first."""
    trail = Trail(Moment(10, ()))
    for number in (11, 15, 20):
        trail.add(Moment(number, ()))
    assert [trail.at(number).responses for number in (3, 10, 14.5, 15, 99)] == [10, 10, 11, 15, 20]


def rows(count: int) -> list[StoredResponse]:
    """Make some responses, with gaps in their numbers."""
    rng = random.Random(1)
    return [StoredResponse(3 * n, rng.randrange(3), rng.randrange(2), rng.randrange(2)) for n in range(count)]


def test_replayed_moments_are_those_that_were_kept() -> None:
    """From responses in pieces the same trail comes as was kept while they were counted, on top of what was known."""
    known = {(arm, cell): (10 * arm, 4 * arm) for arm in range(3) for cell in range(2)}
    sums = {key: list(value) for key, value in known.items()}
    responses = rows(3_000)

    def now() -> Moment:
        cells = tuple(CellTotal(7, *key, pulls, total) for key, (pulls, total) in sums.items() if pulls)
        return Moment(sum(cell.pulls for cell in cells), cells)

    start = now()
    kept = {start.responses: start}
    for response in responses:
        sums[response.arm, response.cell][0] += 1
        sums[response.arm, response.cell][1] += response.value
        kept[now().responses] = now()
    pieces = [responses[begin : begin + 500] for begin in range(0, 3_000, 500)]
    more = [StoredResponse(99_999, 0, 1, 0)] * 5  # counted after the end
    trail = replay([*pieces, more], 3_000, now(), levels=2, read_of=lambda _: 0)
    found = trail.moments(now(), MOST_MOMENTS)
    assert len(found) > MOST_MOMENTS // 2
    assert [sorted(moment.cells) for moment in found] == [sorted(kept[moment.responses].cells) for moment in found]
    assert found[0].responses == start.responses == 60


def check(history: History, wanted: list[tuple[int, float]], curator: Any) -> None:
    """Compare every seventh moment of a history with what the responses say, in their order; also the last."""
    assert history.responses[-1] == len(wanted)
    for arm in history.arms:
        for place, responses in list(enumerate(history.responses))[::-7]:
            mine = [value for number, value in wanted[:responses] if number == arm.arm]
            known = estimate(len(mine), sum(mine), curator, alpha=share(ALPHA, arm.arm))
            shown = (arm.pulls[place], arm.mean[place], arm.low[place], arm.high[place])
            assert shown == (len(mine), known.mean, known.low, known.high)


def test_the_history_is_what_was_known_and_the_same_after_a_restart(place: Place) -> None:
    """Estimates and intervals are those of the responses up to each moment, before, after, and after more of them."""
    wanted = [
        (place, value) for pair in zip(bits(60, 90), bits(90, 60), strict=True) for place, value in enumerate(pair)
    ]

    async def play() -> None:
        await place.service.commands.create(new("a", "b"))
        for arm, value in wanted[:250]:
            await answer(place.service, {arm: [value]})
        before = await place.service.history("one")
        check(before, wanted[:250], new("a").curator)
        service = place.restart()
        after = await service.history("one")
        check(after, wanted[:250], new("a").curator)
        assert (before.name, before.responses) == ("one", after.responses)
        for arm, value in wanted[250:]:
            await answer(service, {arm: [value]})
        check(await service.history("one"), wanted, new("a").curator)

    asyncio.run(play())


def test_what_is_counted_while_the_past_is_read_is_in_the_history(place: Place) -> None:
    """Responses that come after the restart, and before anybody asks, are there once."""

    async def play() -> History:
        await place.service.commands.create(new("a", "b"))
        await answer(place.service, {0: bits(30, 30)}, together=1)
        service = place.restart()
        await answer(service, {1: bits(20, 20)}, together=1)
        return await service.history("one")

    wanted = [(0, value) for value in bits(30, 30)] + [(1, value) for value in bits(20, 20)]
    check(asyncio.run(play()), wanted, new("a").curator)


def test_the_past_is_read_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the first who asks for a report or a history after a restart; a new experiment has no past to be read."""
    service = place.service
    asyncio.run(service.commands.create(new("a", "b")))
    asyncio.run(answer(service, {0: [1.0]}))
    service = place.restart()
    read: list[int] = []
    export = service._store.export

    def counted(experiment: int, rows: int) -> Any:
        read.append(experiment)
        return export(experiment, rows)

    monkeypatch.setattr(service._store, "export", counted)

    async def ask_all() -> None:
        await asyncio.gather(*(service.history("one") for _ in range(3)), service.report("one"))

    asyncio.run(ask_all())
    assert read == [1]


def test_it_begins_at_what_was_known_at_the_start(place: Place) -> None:
    """Totals that an experiment was created with count from its first moment on, also after a restart."""
    service = place.service
    known = [CellTotal(0, 0, 0, 1000, 400), CellTotal(0, 1, 0, 500, 300)]
    definition = define(new("a", "b"), Menu.from_json(new("a").curator), UCB(1e6), 1_000)
    settings = msgspec.structs.replace(Settings.from_json(definition.settings), warm_pulls=(1000, 500))
    service._store.create(replace(definition, settings=settings.to_json()), ["a", "b"], known)

    async def play() -> list[History]:
        histories = [await place.restart().history("one")]
        await answer(place.service, {1: bits(10, 0)}, together=1)
        histories.append(await place.service.history("one"))
        histories.append(await place.restart().history("one"))
        report = await place.service.report("one")
        assert [arm.warm_pulls for arm in report.arms] == [1000, 500]
        assert [arm.missing_share for arm in report.arms] == [None, 0.0]
        return histories

    first, second, third = asyncio.run(play())
    assert first.responses == [1500]
    assert second == third
    assert second.responses == list(range(1500, 1511))
    assert [arm.pulls[0] for arm in second.arms] == [1000, 500]
    assert second.arms[0].mean[0] == estimate(1000, 400, new("a").curator).mean


def test_an_arm_that_was_added_later_is_unknown_before(place: Place) -> None:
    """At the moments before it there are no pulls, no mean, and the whole range."""

    async def play() -> History:
        await place.service.commands.create(new("a", "b"))
        await answer(place.service, {0: bits(5, 5)}, together=1)
        await place.service.commands.add_arm("one", NewArm("c"))
        await answer(place.service, {2: bits(5, 5)}, together=1)
        return await place.service.history("one")

    history = asyncio.run(play())
    added = history.arms[2]
    assert (added.name, added.pulls[:11], added.mean[10]) == ("c", [0] * 11, None)
    assert (added.low[10], added.high[10], added.pulls[-1]) == (0, 1, 10)


def test_a_history_takes_few_intervals_and_the_next_one_fewer(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten arms: no more than INTERVALS; asked again, none; after a response, one."""
    worked: list[int] = []

    def counted(*args: Any, **options: Any) -> Any:
        worked.append(1)
        return estimate_arm(*args, **options)

    monkeypatch.setattr(report_module, "estimate_arm", counted)

    async def play() -> list[int]:
        found = []
        await place.service.commands.create(new(*"abcdefghij"))
        for response in bits(30, 30):
            await answer(place.service, {arm: [response] for arm in range(10)}, together=1000)
        for wanted in ([], [], [1.0]):
            worked.clear()
            await answer(place.service, {3: wanted})
            await place.service.history("one")
            found.append(len(worked))
        return found

    first, again, after = asyncio.run(play())
    assert 300 < first <= report_module.INTERVALS_PER_HISTORY
    assert (again, after) == (0, 1)


def test_with_many_arms_or_a_menu_there_are_fewer_moments(place: Place) -> None:
    """200 for two arms, fewer for more of them, and never less than 10."""
    most: list[int] = []
    for arms, epsilon in ((2, 1.0), (10, 1.0), (10, [1, 2]), (256, 1.0)):
        curator = {"mechanism": "bernoulli", "epsilon": epsilon}
        asyncio.run(
            place.service.commands.create(NewExperiment(f"e{len(most)}", [str(n) for n in range(arms)], curator))
        )
        most.append(report_module.most_moments(place.service.experiments[f"e{len(most)}"]))
    assert most == [200, 120, 30, 10]


def test_who_may_see_it(place: Place) -> None:
    """Viewers and admins may; clients may not; of an experiment that is deleted, or never was, there is none."""
    service = place.service
    keys = {role.value: key for role, key in service.keys.new.items()}
    path = "/v1/experiments/one/history"

    async def play() -> list[int]:
        app = application(service)
        await service.commands.create(new("a", "b"))
        await answer(service, {0: [1.0]})
        replies = [await ask(app, "GET", path, key=keys[role]) for role in ("viewer", "admin", "client")]
        assert replies[0].json == {
            "name": "one",
            "responses": [0, 1],
            "arms": [
                {"arm": 0, "name": "a", "pulls": [0, 1], "mean": [None, replies[0].json["arms"][0]["mean"][1]]}
                | {"low": [0, 0], "high": [1, 1]},
                {"arm": 1, "name": "b", "pulls": [0, 0], "mean": [None, None], "low": [0, 0], "high": [1, 1]},
            ],
            "leader": None,
            "evidence": [],
            "needed": None,
        }
        await service.commands.delete("one")
        replies.append(await ask(app, "GET", path, key=keys["viewer"]))
        return [reply.status for reply in replies]

    assert asyncio.run(play()) == [200, 200, 403, 404]
