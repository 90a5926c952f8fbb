"""A reward costs few transactions of the ledger, and each that writes waits for the disk once."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from ldpbandits import Client

if TYPE_CHECKING:
    from tests.device.conftest import Device

SPENDING = ("INSERT", "UPDATE", "DELETE")


def transactions(client: Client, work: Callable[[], object]) -> tuple[int, int]:
    """Return how many transactions this work begins, and how many of them have a statement that may write."""
    statements: list[str] = []
    connection = client._ledger.database._connection
    connection.set_trace_callback(lambda statement: statements.append(statement.strip().upper()))
    work()
    connection.set_trace_callback(None)
    writing, is_writing = 0, False
    for statement in statements:
        is_writing = is_writing or statement.startswith(SPENDING)
        if statement.startswith("COMMIT"):
            writing += is_writing
            is_writing = False
    return sum(statement.startswith("BEGIN") for statement in statements), writing


@pytest.mark.parametrize("kind", ["Client"])
@pytest.mark.parametrize("ending", ["leave", "flush"])
def test_a_reward_costs_seven_transactions_of_which_five_may_write(device: "Device", ending: str) -> None:
    """Read the sticky arm, check, charge, list for the acceptance, observe, report and take, forget what has arrived.

    The check of the budget writes only after the clock was set, and acceptances never do.
    """
    client = device()

    def answer_once() -> None:
        assert client.decide().observe(1) is True
        flushed = client.leave() if ending == "leave" else client.flush(now=time.time() + 86_400)
        assert flushed.acknowledged == 1

    answer_once()
    begun, writing = transactions(client, answer_once)
    assert begun <= (8 if ending == "flush" else 7)
    assert writing <= 5
