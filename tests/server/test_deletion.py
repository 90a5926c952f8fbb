"""Experiments of very many responses are deleted piece by piece: counting goes on, and a crash leaves nothing."""

import asyncio
import json
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.server.inprocess import ask
from tests.server.local import NEW, E, Local
from tests.server.store_contract import answer, exported

from ldpbandits.server.store import Answer, Definition, Event, Outcome, Store, Unavailable, committer
from ldpbandits.server.store.integrity import verify
from ldpbandits.server.store.opening import open_dump, open_store
from ldpbandits.server.store.postgres import changes as postgres_changes
from ldpbandits.server.store.sqlite import store as sqlite
from ldpbandits.server.store.sqlite.store import SqliteStore
from ldpbandits.spec.messages import Change

RESPONSES = 7
LATER = int(time.time()) + 3600


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A new database, whose deletions look at two rows at a time."""
    monkeypatch.setattr(sqlite, "ERASED_ROWS", 2)
    monkeypatch.setattr(postgres_changes, "ERASED_ROWS", 2)
    if request.param == "sqlite":
        return str(tmp_path / "agent.db")
    return str(request.getfixturevalue("postgres").new())


def start(store: Store, name: str) -> int:
    """Create an experiment whose responses are bits."""
    transform = {"kind": "range", "low": 0, "high": 1}
    curator = json.dumps({"mechanism": "bernoulli", "epsilon": 1.0, "transform": transform})
    definition = Definition(name, curator, '{"kind": "kl-ucb"}', '{"report_after": 0}', 3600, 0.0, 1_000)
    return store.create(definition, ("a", "b")).number


def response(nonce: int, experiment: int) -> Answer:
    """Answer the ticket of this nonce."""
    return answer(nonce, 1, experiment=experiment, expires_at=LATER)


def fill(store: Store) -> tuple[int, int]:
    """Create two experiments whose responses come in turn; return their numbers."""
    kept, gone = start(store, "kept"), start(store, "gone")
    for nonce in range(RESPONSES):
        store.count([response(2 * nonce, kept), response(2 * nonce + 1, gone)], [Event(gone, 0, "decision", 1)])
    return kept, gone


def check(database: str, responses: int) -> None:
    """Read the books: all agrees, and there are as many responses, each with its nonce."""
    with open_dump(database) as books:
        found = verify(books)
    assert not found.damage
    assert (found.responses, found.nonces) == (responses, responses)


def test_counting_goes_on_while_an_experiment_is_deleted(database: str) -> None:
    """After each piece the deleted one is gone, with its name and events; others count; the books agree throughout."""
    with closing(open_store(database)) as store:
        kept, gone = fill(store)
        check(database, 2 * RESPONSES)
        pieces, is_left, counted = 0, True, RESPONSES
        while is_left:
            is_left, pieces = store.delete(gone), pieces + 1
            assert [each.definition.name for each in store.experiments()] == ["kept"]
            assert {event.experiment for event in store.events()} <= {kept}
            outcomes, _ = store.count([response(100 + pieces, kept), response(200 + pieces, gone)])
            assert outcomes == [Outcome.COUNTED, Outcome.CLOSED]
            counted += 1
            check(database, counted)
        assert pieces > RESPONSES / 2
        assert exported(store, gone) == []
        assert len(exported(store, kept)) == counted
        assert start(store, "gone") > gone


def test_the_name_is_free_from_the_first_piece_on(database: str) -> None:
    """An experiment of the same name is another one, and is not touched by what is left of the deletion."""
    with closing(open_store(database)) as store:
        _, gone = fill(store)
        assert store.delete(gone)
        again = start(store, "gone")
        store.count([response(1000, again)])
        while store.delete(gone):
            pass
        assert len(exported(store, again)) == 1
        assert [each.number for each in store.experiments()][1:] == [again]


@pytest.mark.parametrize("pieces", range(1, 10))
def test_what_a_crash_leaves_of_a_deletion_is_removed_by_the_next_start(database: str, pieces: int) -> None:
    """However far it came, the experiment is not there any more, the books agree, and `forget` removes the rest."""
    with closing(open_store(database)) as store:
        kept, gone = fill(store)
        for _ in range(pieces):
            assert store.delete(gone)
    with closing(open_store(database)) as store:
        assert [each.number for each in store.experiments()] == [kept]
        check(database, RESPONSES)
        while store.forget(0, 500):
            check(database, RESPONSES)
        assert exported(store, gone) == []
        assert not store.delete(gone), "there is nothing left to delete"
        check(database, RESPONSES)
        assert store.count([response(0, kept), response(500, kept)])[0] == [Outcome.DUPLICATE, Outcome.COUNTED]


def test_a_piece_that_fails_is_removed_later(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first piece on the experiment is gone: a disk that is full then is no error, and the rest goes later."""
    monkeypatch.setattr(sqlite, "ERASED_ROWS", 2)
    for _ in range(RESPONSES):
        assert local.respond(local.decide()["ticket"]) == (200, "counted")
    calls, delete = 0, SqliteStore.delete

    def fails(store: SqliteStore, experiment: int, *, log: Change | None = None) -> bool:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise Unavailable("full")
        return delete(store, experiment, log=log)

    monkeypatch.setattr(SqliteStore, "delete", fails)
    assert local("DELETE", E).status == 200
    store = local.service._store
    assert isinstance(store, SqliteStore)
    assert store.file.rows("SELECT count(*) FROM responses") == [(RESPONSES,)]
    local.do(local.service.forget())
    assert store.file.rows("SELECT count(*) FROM responses") == store.file.rows("SELECT count(*) FROM nonces") == [(0,)]


def test_a_response_does_not_wait_for_the_end_of_a_deletion(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that comes while an experiment is deleted is counted before that has ended."""
    monkeypatch.setattr(sqlite, "ERASED_ROWS", 2)
    assert committer.LARGEST_BATCH > RESPONSES
    assert local("POST", "/v1/experiments", {**NEW, "name": "other"}).status == 201
    for _ in range(5 * RESPONSES):
        assert local.respond(local.decide()["ticket"]) == (200, "counted")
    ticket, order = local.decide("other")["ticket"], []

    async def race() -> None:
        async def done(name: str, method: str, path: str, body: object = None, key: str | None = None) -> None:
            assert (await ask(local.app, method, path, body, key=key)).status == 200
            order.append(name)

        deleting = asyncio.create_task(done("deletion", "DELETE", E, key="admin-key-of-the-tests"))
        await asyncio.sleep(0)
        await done("response", "POST", "/v1/responses", {"ticket": ticket, "response": 1})
        await deleting

    local.do(race())
    assert order == ["response", "deletion"]
