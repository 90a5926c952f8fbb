"""A server that leaves the epsilon to the owners of devices counts each response by the epsilon it was drawn with."""

import asyncio
import csv
import io
import random
import sqlite3
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ldpbandits.server.api.messages import NewExperiment, ResponseMessage
from ldpbandits.server.api.refusals import Refusal
from ldpbandits.server.service import Service
from ldpbandits.server.store import StoredArm
from ldpbandits.server.store.sqlite.schema import MIGRATIONS, migrate
from ldpbandits.server.store.sqlite.store import SqliteStore
from ldpbandits.spec.mechanisms import response_mean
from ldpbandits.spec.messages import Report

EPSILONS = [0.5, 1.0, 4.0]
MENU: dict[str, Any] = {"mechanism": "bernoulli", "epsilon": EPSILONS}
NEW = NewExperiment("one", ["worse", "better"], MENU, {"kind": "kl-ucb++"})


def on_a_server(path: Path, play: Callable[[Service], Coroutine[Any, Any, Any]]) -> Any:
    """Run a server for as long as this plays."""
    service = Service(SqliteStore(path))
    try:
        return asyncio.run(play(service))
    finally:
        service.close()


def refused(code: str) -> Any:
    """Expect a refusal of this code."""
    return pytest.raises(Refusal, check=lambda refusal: refusal.code == code)


def test_responses_of_several_epsilons_are_counted_apart_and_learnt_from(tmp_path: Path) -> None:
    """The better arm is found; tallies, export and report agree; after a restart all of it is as it was."""
    rng = random.Random(2)
    picked: list[float] = []

    async def play(service: Service) -> Report:
        await service.commands.create(NEW)
        for _ in range(600):
            decision = service.decide("one")
            assert (decision.curator or {})["epsilon"] == EPSILONS
            epsilon = rng.choice(EPSILONS)
            bit = float(rng.random() < response_mean((0.2, 0.8)[decision.arm], epsilon))
            await service.respond(ResponseMessage(decision.ticket or "", bit, epsilon))
            picked.append(epsilon)
        return await service.report("one")

    report = on_a_server(tmp_path / "agent.db", play)
    assert report.best is not None
    assert report.best.name == "better"
    assert report.arms[1].pulls > 400
    assert report.arms[1].low < 0.8 < report.arms[1].high
    assert "that the owner of the device picks: 0.5, 1, 4" in report.guarantee

    async def read(service: Service) -> tuple[Report, Any, str]:
        return (
            await service.report("one"),
            await service.tallies("one"),
            "".join(await service.export("one", in_order=True)),
        )

    again, tallies, text = on_a_server(tmp_path / "agent.db", read)
    assert [(arm.pulls, arm.mean, arm.low) for arm in again.arms] == [
        (arm.pulls, arm.mean, arm.low) for arm in report.arms
    ]
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [float(row["epsilon"]) for row in rows] == picked
    for arm in tallies.arms:
        for counted in arm.by_epsilon:
            bits = [
                float(row["response"])
                for row in rows
                if (int(row["arm"]), float(row["epsilon"])) == (arm.arm, counted.epsilon)
            ]
            assert (len(bits), sum(bits)) == (counted.pulls, counted.total)


def test_a_response_names_an_epsilon_of_the_menu_and_stays_with_it(tmp_path: Path) -> None:
    """Without one, or with another, it is impossible; the same bit again by another epsilon is a changed response."""

    async def play(service: Service) -> None:
        await service.commands.create(NEW)
        await service.commands.create(NewExperiment("plain", ["a"], {"mechanism": "bernoulli", "epsilon": 1}))
        ticket = service.decide("one").ticket or ""
        for epsilon in (None, 2.0, -1.0, float("inf")):
            with refused("impossible"):
                await service.respond(ResponseMessage(ticket, 1.0, epsilon))
        assert (await service.respond(ResponseMessage(ticket, 1.0, 4.0))).status == "counted"
        assert (await service.respond(ResponseMessage(ticket, 1.0, 4.0))).status == "duplicate"
        for epsilon in (0.5, 1.0):
            with refused("changed"):
                await service.respond(ResponseMessage(ticket, 1.0, epsilon))
        plain = service.decide("plain").ticket or ""
        with refused("impossible"):
            await service.respond(ResponseMessage(plain, 1.0, 2.0))
        assert (await service.respond(ResponseMessage(plain, 1.0))).status == "counted"
        assert (await service.respond(ResponseMessage(plain, 1.0, 1.0))).status == "duplicate"

    on_a_server(tmp_path / "agent.db", play)


@pytest.mark.parametrize(
    ("curator", "rule", "told"),
    [
        ({**MENU, "epsilon": []}, None, "from 1 to 8 epsilons"),
        ({**MENU, "epsilon": [1, 0.5]}, None, "must rise"),
        ({**MENU, "epsilon": [0.001, 1]}, None, "at least 0.01"),
        ({**MENU, "epsilon": [n / 10 for n in range(1, 10)]}, None, "from 1 to 8 epsilons"),
        ({"mechanism": "laplace", "epsilon": [1, 2]}, None, "for bits"),
        (MENU, {"kind": "ucb", "width": 1}, "one epsilon"),
        (MENU, "paper", "one epsilon"),
    ],
)
def test_a_menu_that_nobody_can_answer_is_not_created(
    tmp_path: Path, curator: dict[str, Any], rule: Any, told: str
) -> None:
    """The refusal says why in one line, and nothing is kept."""

    async def play(service: Service) -> None:
        with pytest.raises(Refusal, match=told):
            await service.commands.create(NewExperiment("one", ["a"], curator, rule))
        assert await service.summaries() == []

    on_a_server(tmp_path / "agent.db", play)


def test_a_database_from_before_there_were_cells_is_taken_up_as_it_was(tmp_path: Path) -> None:
    """Experiments, totals, responses and their order stay; what is counted next is added to them."""
    path = tmp_path / "agent.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, MIGRATIONS[:1])
        connection.execute(
            "INSERT INTO experiments VALUES (1, 'old', ?, ?, 60, 0, 'running', 0)",
            ('{"mechanism": "bernoulli", "epsilon": 1.0}', '{"kind": "ucb", "width": 1.0}'),
        )
        connection.execute("INSERT INTO arms VALUES (1, 0, 'a', 0, 3, 2), (1, 1, 'b', 1, 0, 0)")
        connection.execute("INSERT INTO responses VALUES (1, 1, 0, 1), (2, 1, 0, 0), (3, 1, 0, 1)")

    async def play(service: Service) -> list[tuple[int, int]]:
        before = [(arm.pulls, arm.total) for arm in (await service.tallies("old")).arms]
        assert before == [(3, 2), (0, 0)]
        await service.respond(ResponseMessage(service.decide("old").ticket or "", 1.0))
        assert "".join(await service.export("old")).count("\n") == 5
        return [(arm.pulls, arm.total) for arm in (await service.tallies("old")).arms]

    assert on_a_server(path, play) == [(4, 3), (0, 0)]
    store = SqliteStore(path)
    try:
        assert [(arm.name, arm.retired) for arm in store.experiments()[0].arms] == [("a", False), ("b", True)]
        assert isinstance(store.experiments()[0].arms[0], StoredArm)
    finally:
        store.close()
