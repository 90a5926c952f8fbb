"""What the report lets an experimenter conclude, also when answers are missing."""

import asyncio
import random
from collections.abc import Iterator

import pytest
from tests.server.crowds import Place, answer, bits, new, visit

from ldpbandits.agent.inference.estimates import estimate_arm, share
from ldpbandits.agent.inference.missing import worst_case
from ldpbandits.agent.inference.separation import ALPHA
from ldpbandits.output.numbers import about
from ldpbandits.server.api.messages import Decision, NewArm
from ldpbandits.server.reports.conclusions import MANY_MISSING
from ldpbandits.server.reports.forecast import FEWEST_RESPONSES
from ldpbandits.spec.mechanisms import Bernoulli
from ldpbandits.spec.messages import Forecast, Report


@pytest.fixture
def place() -> Iterator[Place]:
    """A service of its own."""
    made = Place()
    yield made
    made.service.close()


def every(*modulus: int) -> Iterator[bool]:
    """Yield True once in so many, for ever, beginning with it."""
    while True:
        for number in modulus:
            yield True
            yield from [False] * (number - 1)


def test_the_missing_share_is_of_the_decisions_that_are_settled(place: Place) -> None:
    """Null before any is; those that are out do not count; then missing / (answered + missing), arm by arm."""
    service = place.service

    async def play() -> list[Report]:
        reports = [await service.commands.create(new("a", "b"))]
        await visit(service, 20, lambda decision: 1.0 if decision.arm else None)
        reports.append(await service.report("one"))
        place.expire()
        await visit(service, 4, lambda _: 0.0)
        reports.append(await service.report("one"))
        return reports

    reports = asyncio.run(play())
    assert [[arm.missing_share for arm in report.arms] for report in reports] == [
        [None, None],
        [None, 0.0],
        [10 / 14, 0.0],
    ]
    assert [arm.pending for arm in reports[1].arms] == [10, 0]
    assert [arm.missing for arm in reports[2].arms] == [10, 0]


def test_more_than_one_in_twenty_missing_is_warned_of(place: Place) -> None:
    """Above 5 % there is a sentence that names the arm, the share and the numbers; at 5 % there is none."""
    service = place.service
    skip = {0: every(20), 1: every(10)}

    async def play() -> Report:
        await service.commands.create(new("blue", "green"))
        await visit(service, 80, lambda decision: None if next(skip[decision.arm]) else 1.0)
        place.expire()
        return await service.report("one")

    report = asyncio.run(play())
    assert [arm.missing_share for arm in report.arms] == [MANY_MISSING, 0.1]
    (warning,) = report.warnings
    assert warning.startswith("green: 10 % of the answers are missing (4 of 40)")


def test_a_persistent_difference_in_missing_answers_is_named(place: Place) -> None:
    """Not while 20 of 200 against 4 of 200 may be chance; later it is named, with both arms and their shares."""
    service = place.service
    skip = {0: every(50), 1: every(10)}

    async def play() -> tuple[Report, Report]:
        await service.commands.create(new("blue", "green"))
        reports = []
        for visitors in (400, 1600):
            await visit(service, visitors, lambda decision: None if next(skip[decision.arm]) else 1.0)
            place.expire()
            reports.append(await service.report("one"))
        return reports[0], reports[1]

    early, late = asyncio.run(play())
    for report in (early, late):
        assert [arm.missing_share for arm in report.arms] == pytest.approx([0.02, 0.1], rel=0.05)
    assert not any("chance" in warning for warning in early.warnings)
    (warning,) = (warning for warning in late.warnings if "chance" in warning)
    assert warning.startswith("more answers are missing for green (10 %) than for blue (2 %), which chance does not ")


def test_a_new_arm_whose_tickets_are_still_out_is_not_said_to_differ(place: Place) -> None:
    """Of an old arm 10 % are missing; of the new one nothing can be missing yet: that is no difference."""
    service = place.service
    skip = every(10)

    async def play() -> Report:
        await service.commands.create(new("old"))
        await visit(service, 1000, lambda _: None if next(skip) else 1.0)
        place.expire()
        await service.commands.add_arm("one", NewArm("new"))
        await visit(service, 1000, lambda _: None if next(skip) else 1.0)
        return await service.report("one")

    report = asyncio.run(play())
    assert [arm.missing_share for arm in report.arms] == pytest.approx([0.1, 0.0], rel=0.05)
    assert report.arms[1].pulls > 800
    assert not any("chance" in warning for warning in report.warnings)


def test_the_worst_interval_is_that_of_all_who_have_not_answered(place: Place) -> None:
    """It is `worst_case` with the missing and those that are out; with neither it is the interval itself."""
    service = place.service

    async def play() -> Report:
        await service.commands.create(new("a", "b"))
        await visit(service, 400, lambda decision: float(decision.arm))
        await visit(service, 40, lambda decision: 1.0 if decision.arm else None)
        place.expire()
        await visit(service, 20, lambda decision: 1.0 if decision.arm else None)
        return await service.report("one")

    report = asyncio.run(play())
    menu, tallies = service.experiments["one"].menu, service.experiments["one"].arms
    unanswered = [arm.missing + arm.pending for arm in report.arms]
    assert [arm.missing for arm in report.arms] == [20, 0]
    assert unanswered[0] > 20
    assert unanswered[1] == 0
    for arm, tally, count in zip(report.arms, tallies, unanswered, strict=True):
        known = estimate_arm(tally, menu, alpha=share(ALPHA, arm.arm))
        worst = worst_case(known, tally, menu, count)
        assert (arm.worst_low, arm.worst_high) == (worst.low, worst.high)
    assert report.arms[0].worst_high > report.arms[0].high
    assert (report.arms[1].worst_low, report.arms[1].worst_high) == (report.arms[1].low, report.arms[1].high)


def test_with_missing_answers_at_worst_those_that_are_out_count(place: Place) -> None:
    """200 answers to each arm tell them apart; not with 50 more of each that are out, nor when these are missing."""
    service = place.service

    async def play() -> list[Report]:
        await service.commands.create(new("a", "b"))
        await answer(service, {0: bits(60, 140), 1: bits(140, 60)})
        reports = [await service.report("one")]
        await visit(service, 100, lambda _: None)
        reports.append(await service.report("one"))
        place.expire()
        reports.append(await service.report("one"))
        return reports

    for report, expected in zip(asyncio.run(play()), (True, False, False), strict=True):
        assert report.best is not None
        assert report.arms[1].low > report.arms[0].high
        assert report.best.separated is expected
        assert report.forecast.separated is expected


def test_a_page_on_which_only_those_who_click_answer_tells_nothing_wrong(place: Place) -> None:
    """20 % against 60 % click, and nobody else answers: worst intervals hold both, nothing is separated; warnings.

    The intervals of the answers alone hold neither. So it is before and after the tickets have expired. Seeded.
    """
    service, rng, rates = place.service, random.Random(5), [0.2, 0.6]
    chance = Bernoulli(2.0).response_mean(1.0)

    def only_clicks(decision: Decision) -> float | None:
        return float(rng.random() < chance) if rng.random() < rates[decision.arm] else None

    async def play() -> list[Report]:
        await service.commands.create(new("a", "b"))
        await visit(service, 1500, only_clicks)
        reports = [await service.report("one")]
        place.expire()
        reports.append(await service.report("one"))
        return reports

    for report in asyncio.run(play()):
        assert report.best is not None
        assert not report.best.separated
        for arm, rate in zip(report.arms, rates, strict=True):
            assert arm.low > rate
            assert arm.worst_low <= rate <= arm.worst_high
    assert len(report.warnings) == 3


def test_responses_that_fit_no_mean_separate_nothing(place: Place) -> None:
    """An arm whose responses are all 1 refutes every mean: that is warned of, and concluded from in no way."""

    async def play() -> Report:
        await place.service.commands.create(new("a", "b"))
        await answer(place.service, {0: bits(100, 100), 1: bits(300, 0)})
        return await place.service.report("one")

    report = asyncio.run(play())
    assert report.best is not None
    assert (report.best.name, report.best.separated) == ("b", False)
    assert report.warnings == ["b: no mean fits its responses: some are not those of this curator"]
    assert report.forecast.more_responses is None
    assert "no mean fits" in report.forecast.sentence


async def forecast(place: Place, wanted: dict[int, list[float]]) -> Forecast:
    """Count these responses, and return the forecast."""
    await answer(place.service, dict(wanted))
    return (await place.service.report("one")).forecast


def test_a_forecast_says_how_many_more_responses_it_takes(place: Place) -> None:
    """No responses, too few, a number in words and digits, and 0 when separated; about as many as foretold."""

    async def play() -> list[Forecast]:
        begin = await place.service.commands.create(new("a", "b"))
        few = await forecast(place, {0: bits(5, 5), 1: bits(5, 14)})
        some = await forecast(place, {0: bits(145, 145), 1: bits(115, 166)})
        assert some.more_responses is not None
        half = some.more_responses // 4
        more = await forecast(place, {0: bits(half // 2, half // 2), 1: bits(half * 2 // 5, half * 3 // 5)})
        done = await forecast(place, {0: bits(half, half), 1: bits(half * 4 // 5, half * 6 // 5)})
        return [begin.forecast, few, some, more, done]

    begin, few, some, more, done = asyncio.run(play())
    assert (begin.more_responses, begin.sentence) == (None, "there are no responses yet")
    assert few.more_responses is None
    assert few.sentence == "not decided yet: too few responses to say more (a has 10)"
    assert FEWEST_RESPONSES == 20
    assert 300 < (some.more_responses or 0) < 3_000
    assert f"about {about(some.more_responses or 0)} more responses at the present traffic" in some.sentence
    assert some.more_responses is not None
    assert 0.3 < (more.more_responses or 0) / some.more_responses < 0.7
    assert (done.separated, done.more_responses) == (True, 0)
    assert done.sentence.startswith("a is better than b by ")


def test_what_cannot_be_foretold_has_its_reason(place: Place) -> None:
    """One arm in use, or equal means: null, and a sentence."""

    async def play() -> list[Forecast]:
        service = place.service
        await service.commands.create(new("a"))
        found = [await forecast(place, {0: bits(100, 100)})]
        await service.commands.add_arm("one", NewArm("b"))
        found.append(await forecast(place, {1: bits(100, 100)}))
        await answer(service, {0: bits(400, 0)})
        found.append((await service.report("one")).forecast)
        return found

    alone, equal, apart = asyncio.run(play())
    assert not any(each.separated for each in (alone, equal))
    assert [each.more_responses for each in (alone, equal)] == [None, None]
    assert alone.sentence == "not decided yet: there is only one arm in use"
    assert "more than a billion responses" in equal.sentence
    assert apart.separated
