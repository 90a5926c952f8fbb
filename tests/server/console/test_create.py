"""The form for a new experiment: it makes what the API would, explains epsilon, and gives back what was typed."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from urllib.parse import urlencode

import msgspec
import pytest
from tests.server.console.browsing import Browser, browser, text

from ldpbandits.server.api.messages import NewExperiment, ResponseMessage
from ldpbandits.server.console.create import FIRST, message
from ldpbandits.server.service import Service
from ldpbandits.spec.mechanisms import MECHANISMS

TYPED = {**FIRST, "name": "headline", "arms": " Blue skies \r\n\r\nRain, at last\r\n"}


def run(service: Service, life: Callable[[Browser], Awaitable[None]]) -> None:
    """Live as an admin."""

    async def whole() -> None:
        visitor = browser(service)
        await visitor.sign_in("admin")
        await visitor.visit("new")
        await life(visitor)

    asyncio.run(whole())


def test_a_few_words_make_an_experiment(service: Service) -> None:
    """A name, arms and an epsilon are enough; the page of the new experiment opens and says so."""

    async def life(visitor: Browser) -> None:
        reply = await visitor.submit("new", TYPED)
        assert reply.status == 200
        assert visitor.url.endswith("/console/experiments/headline?done=create")
        assert "The experiment is created, and running." in text(visitor.page)
        report = await service.report("headline")
        assert [arm.name for arm in report.arms] == ["Blue skies", "Rain, at last"]
        assert report.curator["epsilon"] == 1
        assert (report.settings.report_after, report.rule["kind"]) == (25, "duels")

    run(service, life)


def test_an_experiment_may_start_from_what_another_has_exported(service: Service) -> None:
    """The tallies that the console gives away are what its form takes; the page says how many came along."""

    async def life(visitor: Browser) -> None:
        await visitor.submit("new", TYPED)
        for _ in range(6):
            await service.respond(ResponseMessage(service.decide("headline").ticket or "", 1.0))
        tallies = (await visitor.send("GET", "headline/tallies.json")).body.decode()
        await visitor.visit("../new")
        await visitor.submit("new", {**TYPED, "name": "next", "warm_start": tallies})
        report = await service.report("next")
        assert (report.responses, sum(arm.warm_pulls for arm in report.arms)) == (6, 6)
        for arm in report.arms:
            assert f"{arm.pulls} {arm.warm_pulls} of them from a warm start" in text(visitor.page)

    run(service, life)


def test_every_field_is_what_the_api_calls_by_that_name(service: Service) -> None:
    """All of the form, filled in, is the message that an experimenter would send, and the server takes it."""
    full = {
        **TYPED,
        "epsilon": "4, 0.2 1",
        "transform": "range",
        "low": "1",
        "high": "5",
        "default_reward": "2.5",
        "report_after": "60",
        "ticket_lifetime": "600",
        "sticky": "86400",
        "rule": "imed",
        "minimum_share": "5",
        "warm_up": "40",
        "ramp_share": "10",
        "ramp_responses": "100",
        "stop_when_decided": "pause",
        "stop_after": "12",
        "responses_per_hour": "500",
        "allowance_required": "yes",
        "accept_drift_risk": "yes",
        "expect_baseline": "2",
        "expect_gain": "0.5",
        "worth": "0.1",
        "harm": "0.2",
        "forged": "1",
        "may_add_arms": "yes",
        "title": "Blue or green?",
        "owner": "anna",
    }
    wanted = {
        "name": "headline",
        "arms": ["Blue skies", "Rain, at last"],
        "curator": {
            "mechanism": "bernoulli",
            "epsilon": [0.2, 1, 4],
            "transform": {"kind": "range", "low": 1, "high": 5},
        },
        "default_reward": 2.5,
        "report_after": 60,
        "ticket_lifetime": 600,
        "sticky": 86400,
        "rule": {"kind": "imed"},
        "minimum_share": 0.05,
        "warm_up": 40,
        "ramp": {"share": 0.1, "responses": 100},
        "stop_when_decided": "pause",
        "stop_after": 12 * 3600,
        "responses_per_hour": 500,
        "allowance_required": True,
        "accept_drift_risk": True,
        "expect": {"baseline": 2, "gain": 0.5},
        "worth": 0.1,
        "harm": 0.2,
        "forged": 0.01,
        "may_add_arms": True,
        "metadata": {"title": "Blue or green?", "owner": "anna"},
    }
    assert message({name: value.strip() for name, value in full.items()}) == wanted
    assert msgspec.convert(wanted, NewExperiment).name == "headline"

    async def life(visitor: Browser) -> None:
        await visitor.submit("new", full)
        assert "expect needs a rule with a fair coin" in text(visitor.page)
        earning = full | {"expect_baseline": "", "expect_gain": ""}
        await visitor.submit("new", earning)
        assert "ldpbandits rotate allowance" in text(visitor.page)
        assert (await visitor.submit("new", earning | {"allowance_required": ""})).status == 200
        assert "Sticky arm a device keeps its arm for 1 day" in text(visitor.page)
        assert "Warm-up equal traffic until each arm has 40 responses" in text(visitor.page)
        assert "above 500 responses an hour the experiment pauses itself" in text(visitor.page)
        assert "Earliest stop 12 hours after its creation" in text(visitor.page)
        assert "Harm an arm that is worse than Blue skies by more than 0.2 is a verdict" in text(visitor.page)

    run(service, life)


@pytest.mark.parametrize(
    ("fields", "transform"),
    [
        ({"transform": "sigmoid"}, {"kind": "sigmoid"}),
        ({"transform": "threshold", "theta": "0.9"}, {"kind": "threshold", "theta": 0.9}),
    ],
)
def test_rewards_need_no_range(service: Service, fields: dict[str, str], transform: dict[str, object]) -> None:
    """Behind a sigmoid or a threshold they may be any number; the range is then not looked at."""

    async def life(visitor: Browser) -> None:
        await visitor.submit("new", {**TYPED, **fields, "low": "not a number", "rule": "paper"})
        report = await service.report("headline")
        assert report.curator["transform"] == transform
        assert report.rule["kind"] == "ucb"

    run(service, life)


WRONG = [
    ({"name": "Not a Name"}, "name must be at most 64 lower-case letters", 400),
    ({"arms": ""}, "arms must be", 400),
    ({"arms": "same\nsame"}, "different names", 422),
    ({"epsilon": "much"}, "epsilon must be a number, got 'much'", 422),
    ({"epsilon": ""}, "epsilon is needed", 422),
    ({"epsilon": "0.001"}, "at least 0.01", 422),
    ({"high": "-1"}, "low < high", 422),
    ({"report_after": "4000"}, "report_after must be at most 3240", 422),
    ({"minimum_share": "200"}, "minimum_share must be", 400),
    ({"ramp_share": "10"}, "ramp_responses must be a number", 422),
    ({"default_reward": "7"}, "the default reward must lie in the declared range", 422),
    ({"rule": "no-such"}, "no-such", 422),
    ({"warm_start": "{broken"}, "warm_start must be the JSON that an experiment exports as its tallies", 422),
    ({"warm_start": "[]"}, "warm_start must be", 400),
    ({"mechanism": "no-such"}, "no-such", 422),
    ({"transform": "real-line", "mechanism": "laplace"}, "real-line", 422),
    ({"name": "taken"}, "there is already an experiment taken", 409),
]


@pytest.mark.parametrize(("fields", "sentence", "status"), WRONG)
def test_what_is_wrong_is_said_and_nothing_is_lost(
    service: Service, fields: dict[str, str], sentence: str, status: int
) -> None:
    """The form comes back with a sentence and with all that was typed; nothing is created."""

    async def life(visitor: Browser) -> None:
        assert (await visitor.submit("new", {**TYPED, "name": "taken"})).status == 200
        await visitor.visit("../new")
        typed = {**TYPED, **fields}
        reply = await visitor.submit("new", typed)
        assert reply.status == status
        (problem,) = re.findall(r'(?s)<p class="problem" role="alert" id="problem">(.*?)</p>', visitor.page)
        assert sentence in text(problem)
        assert [*service.experiments] == ["taken"]
        assert f'value="{typed["name"]}"' in visitor.page
        assert f">{typed['arms'].replace(chr(13), '').strip()}</textarea>" in visitor.page
        assert ("<details open" in visitor.page) == (
            not {"minimum_share", "ramp_share", "rule", "warm_start"}.isdisjoint(fields)
        )

    run(service, life)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"epsilon": "1"},
            ["at most 2.7 times surer", "which is 73 %", "chance of 27 %", "For example: to find"],
        ),
        (
            {"epsilon": "1", "expect_baseline": "0.04", "expect_gain": "0.02"},
            ["an arm has 6 % instead of 4 %", "about 120,000 responses", "19 times as many as without privacy"],
        ),
        ({"epsilon": "1 2", "low": "1", "high": "5", "expect_baseline": "2", "expect_gain": "1"}, ["3 instead of 2"]),
        ({"epsilon": "1", "expect_baseline": "0.9", "expect_gain": "0.3"}, ["at most 2.7 times surer"]),
        ({"epsilon": "0.1"}, ["at most 1.1 times surer", "which is 52 %", "chance of 48 %"]),
        ({"epsilon": "10"}, ["at most 22,026 times surer", "which is >99.99 %"]),
        ({"epsilon": "0.5 2"}, ["epsilon 0.5", "epsilon 2", "at most 1.6 times surer", "at most 7.4 times surer"]),
        ({"epsilon": "1", "mechanism": "laplace"}, ["at most 2.7 times surer", "about as large as 1."]),
        ({"epsilon": "x"}, ["epsilon must be a number, got 'x'"]),
        ({"epsilon": "-1"}, ["epsilon must be finite and > 0"]),
        ({"epsilon": "99"}, ["epsilon"]),
    ],
)
def test_epsilon_is_explained_while_it_is_typed(service: Service, asked: dict[str, str], said: list[str]) -> None:
    """The part of the page that says what epsilon means can be asked for by itself, for whatever was typed."""

    async def life(visitor: Browser) -> None:
        reply = await visitor.send("GET", f"epsilon?{urlencode(asked)}")
        assert reply.status == 200
        shown = text(reply.body.decode())
        assert all(words in shown for words in said), shown

    run(service, life)


def test_every_plain_mechanism_and_rule_can_be_chosen(service: Service) -> None:
    """All that are registered and need no numbers of their own, whoever has registered them."""

    async def life(visitor: Browser) -> None:
        options = {
            name: re.findall(r'<option value="([^"]*)"', found)
            for name, found in re.findall(r'(?s)<select id="(\w+)"(.*?)</select>', visitor.page)
        }
        assert options["mechanism"] == [kind.kind for kind in MECHANISMS]
        assert {"", "paper", "kl-ucb++", "imed", "thompson"} <= set(options["rule"])
        assert "ucb" not in options["rule"], "it needs a width"

    run(service, life)


def test_a_hundred_people_show_how_many_bits_are_flipped(service: Service) -> None:
    """Of a hundred dots as many are filled as answer 1: 27 and 73 at epsilon 1."""

    async def life(visitor: Browser) -> None:
        crowds = re.findall(r"(?s)<svg viewBox.*?</svg>", visitor.page)
        assert [crowd.count('class="one"') for crowd in crowds] == [27, 73]
        assert [crowd.count("<circle") for crowd in crowds] == [100, 100]

    run(service, life)
