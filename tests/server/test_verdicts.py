"""Verdicts of a live server: which arm is better, with which promise, kept for good, and what an experiment ends on."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec import structs
from tests.server.crowds import LIFETIME, Place
from tests.server.inprocess import ask
from tests.server.postgres_server import Postgres

from ldpbandits.agent.rules import Duels
from ldpbandits.server.api.app import application
from ldpbandits.server.api.messages import AcceptanceMessage, NewArm, NewExperiment, ResponseMessage
from ldpbandits.server.api.refusals import Refusal
from ldpbandits.server.experiments.settings import NewExpectation, NewRamp, Settings
from ldpbandits.server.experiments.stopping import stop_decided
from ldpbandits.server.service import Service
from ldpbandits.server.store.postgres.store import PostgresStore
from ldpbandits.server.store.sqlite.store import SqliteStore
from ldpbandits.spec.mechanisms import Bernoulli
from ldpbandits.spec.messages import History, Report

CURATOR = {"mechanism": "bernoulli", "epsilon": 4}
MENU = {"mechanism": "bernoulli", "epsilon": [1, 4]}
T = TypeVar("T")


def new(*arms: str, **settings: object) -> NewExperiment:
    """Write down an experiment that may stop from its first second on."""
    first: dict[str, object] = {"stop_after": 0, "responses_per_hour": 0, "ticket_lifetime": LIFETIME}
    return NewExperiment("one", list(arms), **{"curator": CURATOR} | first | settings)  # type: ignore[arg-type]


async def visits(service: Service, count: int, mean: Callable[[int, int], float], seed: int = 1) -> int:
    """Let visitors take part until there are enough of them, or it is stopped; `mean` is of an arm at a moment."""
    rng, chance = random.Random(seed), Bernoulli(4.0).response_mean
    service.experiments["one"].agent._random = random.Random(seed + 1000)  # the same coins in each run
    for start in range(0, count, 50):
        if service.experiments["one"].status != "running":
            return start
        asked = [service.decide("one") for _ in range(50)]
        sent = [
            ResponseMessage(each.ticket or "", float(rng.random() < chance(mean(each.arm, start + place))))
            for place, each in enumerate(asked)
        ]
        await asyncio.gather(*map(service.respond, sent))
        await stop_decided(service)
    return count


def steady(*means: float) -> Callable[[int, int], float]:
    """Return means that stay what they are."""
    return lambda arm, _: means[arm]


def live(work: Callable[[Place], Awaitable[T]]) -> T:
    """Run it on a service of its own."""
    place = Place()
    try:
        return asyncio.run(work(place))  # type: ignore[arg-type]
    finally:
        place.service.close()


def test_a_new_experiment_decides_by_duels_and_pauses() -> None:
    """Without a rule or a goal: duels, paused at the verdict, which says the difference, the lift and the promise."""

    async def play(place: Place) -> Report:
        made = await place.service.commands.create(new("A", "B"))
        assert (made.rule, made.settings.goal, made.settings.may_add_arms) == ({"kind": "duels"}, "decide", False)
        assert made.settings.stop_when_decided == "pause"
        await visits(place.service, 4_000, steady(0.3, 0.6))
        return await place.service.report("one")

    report = live(play)
    verdict = report.verdict
    assert verdict is not None
    assert (report.status, verdict.kind, verdict.leader, verdict.drift_proof) == ("paused", "better", "B", True)
    assert verdict.evidence >= verdict.needed == 40
    assert verdict.responses == report.responses
    (found,) = report.comparisons
    assert 0 < found.low < found.difference < found.high
    assert found.lift is not None
    assert found.lift_low is not None
    assert 0 < found.lift_low < found.lift
    assert verdict.sentence.startswith("B is better than A by ")
    assert "this holds although traffic rises and falls" in verdict.sentence
    assert report.best is not None
    assert report.best.separated


def test_a_verdict_is_kept_when_the_loser_is_retired_and_after_a_restart() -> None:
    """The kind, the leader and the number of responses at which it was reached stay; later answers change nothing."""

    async def play(place: Place) -> list[Report]:
        service = place.service
        await service.commands.create(new("A", "B"))
        await visits(service, 4_000, steady(0.3, 0.6))
        reports = [await service.report("one"), await service.commands.retire_arm("one", 0)]
        await service.write_events()
        service = place.restart()
        reports.append(await service.report("one"))
        await service.commands.set_status("one", "running")
        await visits(service, 100, steady(0.3, 0.1))
        return [*reports, await service.report("one")]

    first, *later = live(play)
    assert first.verdict is not None
    for report in later:
        assert report.verdict is not None
        assert (report.verdict.kind, report.verdict.leader) == ("better", "B")
        assert report.verdict.responses == first.verdict.responses
        assert "decided" not in str(report.rejected)
    assert later[-1].status == "running"


@pytest.mark.parametrize(("accepts", "status"), [(False, "running"), (True, "paused")])
def test_a_verdict_of_an_adaptive_rule_stops_only_if_its_risk_is_accepted(accepts: bool, status: str) -> None:  # noqa: FBT001
    """The sentence says what it rests on; to ask for a stop without accepting that is refused in one line."""

    async def play(place: Place) -> Report:
        service, ending = place.service, "pause" if accepts else "never"
        with pytest.raises(Refusal, match="needs accept_drift_risk"):
            await service.commands.create(new("A", "B", goal="earn", stop_when_decided="pause"))
        made = new("A", "B", goal="earn", stop_when_decided=ending, accept_drift_risk=accepts)
        await service.commands.create(made)
        await visits(service, 4_000, steady(0.2, 0.8))
        return await service.report("one")

    report = live(play)
    assert report.verdict is not None
    assert (report.status, report.verdict.kind, report.verdict.drift_proof) == (status, "better", False)
    assert "this holds if the means stayed what they were" in report.verdict.sentence


def test_no_gain_and_harm_end_it_too() -> None:
    """Paused once no arm is better than the control by what matters, or one is worse by more than is accepted."""

    async def play(place: Place) -> tuple[Report, Report]:
        service = place.service
        await service.commands.create(new("A", "B", worth=0.3))
        await visits(service, 6_000, steady(0.5, 0.5))
        none = await service.report("one")
        await service.commands.delete("one")
        await service.commands.create(new("A", "B", "C", harm=0.1, rule={"kind": "equal"}))
        await visits(service, 6_000, lambda arm, _: (0.6, 0.6, 0.1)[arm])
        return none, await service.report("one")

    none, harm = live(play)
    assert none.verdict is not None
    assert (none.status, none.verdict.kind) == ("paused", "no-gain")
    assert none.verdict.sentence.startswith("No arm is better than A by 30 points or more.")
    assert harm.verdict is not None
    assert (harm.status, harm.verdict.kind) == ("paused", "harm")
    assert harm.verdict.sentence.startswith("C is worse than ")


def test_a_better_arm_is_told_after_no_gain_that_matters() -> None:
    """Both are true of 30 % and 40 % with worth = 0.3: who goes on after no gain learns which arm is better."""

    async def play(place: Place) -> list[Report]:
        service = place.service
        await service.commands.create(new("A", "B", worth=0.3, stop_when_decided="never"))
        reports = []
        for count in (600, 6_000):
            await visits(service, count, steady(0.3, 0.4))
            reports.append(await service.report("one"))
        await service.commands.retire_arm("one", 0)
        return [*reports, await service.report("one")]

    verdicts = [report.verdict for report in live(play)]
    assert [each.kind for each in verdicts if each is not None] == ["no-gain", "better", "better"]
    assert verdicts[1] is not None
    assert verdicts[1].leader == "B"


def test_forged_answers_make_it_wait_and_a_plan_makes_it_sooner() -> None:
    """The same visitors: with forged = 0.1 a verdict takes more of them, with the planned gain no more."""

    async def count(place: Place, **settings: object) -> int:
        await place.service.commands.create(new("A", "B", **settings))
        taken = await visits(place.service, 10_000, steady(0.3, 0.6), seed=4)
        assert place.service.experiments["one"].status == "paused"
        return taken

    plain = live(count)
    forged = live(lambda place: count(place, forged=0.1))
    planned = live(lambda place: count(place, expect=NewExpectation(0.3, 0.3)))
    assert planned <= plain < forged


def test_settings_that_make_no_sense_are_refused_in_one_line() -> None:
    """An impossible plan, no such control, a goal or a plan without a coin, criteria without a test, one more arm."""

    async def play(place: Place) -> list[str]:
        told = []
        wrong: list[dict[str, object]] = [
            {"expect": NewExpectation(0.9, 0.3)},
            {"control": "C"},
            {"worth": 2.0},
            {"goal": "decide", "rule": {"kind": "kl-ucb++"}},
            {"rule": {"kind": "kl-ucb++"}, "expect": NewExpectation(0.3, 0.1)},
            {"rule": {"kind": "ucb", "width": 7.0}, "curator": {"mechanism": "laplace", "epsilon": 1}, "forged": 0.01},
            {"rule": {"kind": "kl-ucb++"}, "curator": MENU, "missing": "worst", "forged": 0.01},
            {"curator": MENU, "missing": "worst", "harm": 0.1},
        ]
        for settings in wrong:
            with pytest.raises(Refusal) as refused:
                await place.service.commands.create(new("A", "B", **settings))
            told.append(refused.value.message)
        await place.service.commands.create(new("A", "B"))
        with pytest.raises(Refusal) as refused:
            await place.service.commands.add_arm("one", NewArm("C"))
        return [*told, refused.value.message]

    told = live(play)
    words = ("expect", "control", "worth", "goal earn", "fair coin", "forged needs", "forged with", "harm with")
    for sentence, word in zip(told, (*words, "may_add_arms"), strict=True):
        assert word in sentence
        assert "\n" not in sentence


def test_unequal_shares_of_missing_answers_withhold_the_verdict() -> None:
    """Where whether people answer depends on the arm, those who answered are not like everybody."""

    async def play(place: Place) -> Report:
        service = place.service
        await service.commands.create(new("A", "B", stop_when_decided="never"))
        for number in range(1_200):
            made = service.decide("one")
            if made.arm == 0 or number % 2:
                bit = float(number % 10 < (3, 9)[made.arm])
                await service.respond(ResponseMessage(made.ticket or "", bit))
            else:
                await service.accept(AcceptanceMessage(made.ticket or ""))
        place.expire()
        return await service.report("one")

    report = live(play)
    assert report.verdict is not None
    assert report.verdict.kind == "undecided"
    assert report.verdict.evidence > report.verdict.needed
    assert report.verdict.sentence.startswith("The verdict is withheld: more answers are missing for B")


def test_settings_of_earlier_versions_keep_what_they_have() -> None:
    """The old name is read; such an experiment still stops, earns, takes new arms, and counts the missing at worst."""
    told = Settings.from_json('{"report_after": 300, "stop_when_separated": "ship", "first_arms": 2}')
    assert (told.stop_when_decided, told.accept_drift_risk, told.goal) == ("ship", True, "earn")
    assert (told.may_add_arms, told.missing) == (True, "worst")
    assert Settings.from_json(told.to_json()) == told


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_level_that_moves_does_not_deceive_the_duels(tmp_path: Path, postgres: Postgres, kind: str) -> None:
    """By HTTP, on both stores: all means rise and fall by 0.4 together, and the better arm is found. Seeded.

    The coin test declares a wrong arm with probability at most 0.05.
    """
    url = postgres.new() if kind == "postgres" else None
    store = SqliteStore(tmp_path / "agent.db") if url is None else PostgresStore(url)
    rng, chance = random.Random(3), Bernoulli(4.0).response_mean

    def mean(arm: int, moment: int) -> float:
        return (0.2 if moment // 200 % 2 else 0.6) + (0.15 if arm else 0.0)

    async def play(service: Service) -> Report:
        app, key = application(service), "the-admin-key-of-this-test"
        body = {"name": "one", "arms": ["A", "B"], "curator": CURATOR, "stop_after": 0, "responses_per_hour": 0}
        made = await ask(app, "POST", "/v1/experiments", body, key=key)
        assert (made.status, made.json["rule"]) == (201, {"kind": Duels.kind})
        for start in range(0, 6_000, 100):
            asked = await ask(app, "POST", "/v1/experiments/one/decisions/batch", {"count": 100}, key=key)
            if asked.status == 409:
                break
            sent = [
                {"ticket": each["ticket"], "response": float(rng.random() < chance(mean(each["arm"], start + place)))}
                for place, each in enumerate(asked.json)
            ]
            counted = await ask(app, "POST", "/v1/responses/batch", {"responses": sent}, key=key)
            assert {each["status"] for each in counted.json} == {"counted"}
            await stop_decided(service)
        return await service.report("one")

    with closing(Service(store, {"LDPBANDITS_ADMIN_KEY": "the-admin-key-of-this-test"})) as service:
        report = asyncio.run(play(service))
    assert report.verdict is not None
    assert (report.status, report.verdict.kind, report.verdict.leader) == ("paused", "better", "B")
    assert report.verdict.drift_proof


def test_a_ramp_under_equal_shares_compares_only_arms_that_could_be_drawn() -> None:
    """While a new arm has less traffic, draws among the settled arms say nothing about it."""

    async def play(place: Place) -> set[tuple[int, int]]:
        service = place.service
        made = new("A", "B", rule={"kind": "equal"}, may_add_arms=True, ramp=NewRamp(0.2, 1_000))
        await service.commands.create(made)
        await service.commands.add_arm("one", NewArm("C"))
        await visits(service, 300, steady(0.5, 0.5, 0.5))
        duels = service.experiments["one"].agent.duels
        assert duels is not None
        return set(duels.cells)

    found = live(play)
    assert {(0, 1), (1, 1)} <= found <= {(0, 1), (1, 1), (0, 2), (1, 2), (2, 2)}


@pytest.mark.parametrize(
    "rule", [{"kind": "duels"}, {"kind": "equal"}, {"kind": "kl-ucb++"}, {"kind": "duels-laplace"}]
)
def test_the_history_has_the_evidence_of_the_verdict_also_after_a_restart(rule: dict[str, object]) -> None:
    """At the last moment it is that of the report; a replay of the responses finds the same numbers again."""
    is_laplace = rule["kind"] == "duels-laplace"
    curator = {"mechanism": "laplace", "epsilon": 2} if is_laplace else CURATOR
    settings: dict[str, object] = {"rule": rule | {"epsilon": 2} if is_laplace else rule, "stop_when_decided": "never"}

    async def play(place: Place) -> list[tuple[History, Report]]:
        service = place.service
        await service.commands.create(structs.replace(new("A", "B", "C", **settings), curator=curator))
        await visits(service, 500, steady(0.3, 0.5, 0.6))
        before = await service.history("one"), await service.report("one")
        await service.write_events()
        service = place.restart()
        return [before, (await service.history("one"), await service.report("one"))]

    (history, report), (again, _) = live(play)
    assert report.verdict is not None
    assert history.evidence[-1] == pytest.approx(report.verdict.evidence)
    assert (history.leader, history.needed) == (report.best and report.best.arm, report.verdict.needed)
    assert history.evidence[0] == 1
    told = dict(zip(history.responses, history.evidence, strict=True))
    both = [pair for pair in zip(again.responses, again.evidence, strict=True) if pair[0] in told]
    assert len(both) >= 5
    for responses, evidence in both:
        assert told[responses] == pytest.approx(evidence)


def test_an_arm_that_is_answered_less_is_not_declared_before_its_tickets_expire() -> None:
    """Equal arms, and three answers in ten to B are late: the zeros that are missing must not make B the better arm.

    No ticket has expired yet, so that no answer is missing; the numbers of answers tell that the coin is not fair.
    """

    async def play(place: Place) -> Report:
        service, rng = place.service, random.Random(3)
        await service.commands.create(new("A", "B", stop_when_decided="never"))
        service.experiments["one"].agent._random = random.Random(8)
        for _ in range(0, 4_000, 50):
            asked = [service.decide("one") for _ in range(50)]
            sent = [each for each in asked if each.arm == 0 or rng.random() < 0.7]
            messages = [ResponseMessage(each.ticket or "", float(rng.random() < 0.5)) for each in sent]
            await asyncio.gather(*map(service.respond, messages))
            await stop_decided(service)
        return await service.report("one")

    report = live(play)
    assert report.verdict is not None
    assert report.verdict.evidence > report.verdict.needed
    assert (report.verdict.kind, report.verdict.responses) == ("undecided", None)
    assert report.verdict.sentence.startswith("The verdict is withheld: more answers have come for A than for B")
    assert any("more answers have come for A" in warning for warning in report.warnings)
