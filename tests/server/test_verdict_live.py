"""A real server, real devices, and a level that moves: the experiment decides rightly and pauses by itself."""

from math import sin
from pathlib import Path
from random import Random

import pytest
from tests.server.postgres_server import Postgres
from tests.server.running import running
from tests.server.threaded import until

from ldpbandits import Admin, Client, Ledger, Limits, Range, ServerError

LIMITS = Limits(rewards=Range(0, 1), epsilon=4, budget=4)
MOST_VISITS = 2_000


def visit(url: str, key: str, random: Random, level: float) -> None:
    """Take part as one device with a ledger of its own; B is better by 0.4 at every level."""
    ledger = Ledger(":memory:")
    try:
        with Client(url, "headline", key=key, limits=LIMITS, ledger=ledger, background=False) as client:
            pull = client.decide()
            pull.observe(float(random.random() < level + (0.4 if pull.name == "B" else 0.0)))
    finally:
        ledger.close()


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_real_devices_are_decided_rightly_while_the_level_moves(tmp_path: Path, postgres: Postgres, store: str) -> None:
    """B is declared, drift-proof, and the server pauses the experiment: a wrong verdict has probability 5 % at most."""
    database = postgres.new() if store == "postgres" else str(tmp_path / "agent.db")
    random = Random(1)
    with running(tmp_path, database=database) as server:
        admin = Admin(server.url, server.keys["admin"])
        admin.create("headline", ["A", "B"], epsilon=4, stop_after=0, responses_per_hour=0)
        for number in range(MOST_VISITS):
            try:
                visit(server.url, server.keys["client"], random, 0.3 + 0.25 * sin(number / 30))
            except ServerError as error:
                assert error.code == "paused"  # noqa: PT017 - the server stopped it between two visits
                break
        until(lambda: admin.show("headline").status == "paused")  # the check for stopping runs every few seconds
        report = admin.show("headline")
    assert report.status == "paused"
    assert report.verdict is not None
    assert (report.verdict.kind, report.verdict.leader, report.verdict.drift_proof) == ("better", "B", True)
