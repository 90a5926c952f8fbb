"""The budget bounds what leaves in a window, too: responses that were hoarded do not leave together."""

from typing import TYPE_CHECKING, Any

import pytest
from tests.device.conftest import watch_posts

from ldpbandits import Limits, Range
from ldpbandits.device.limits import DAY_S

if TYPE_CHECKING:
    from tests.device.conftest import Clock, Device, FakeAgent

MONTH_S = 30 * DAY_S


def daily(budget: float = 1.0) -> Limits:
    """Allow so much a day."""
    return Limits(Range(0, 1), epsilon=1, budget=budget, window=DAY_S)


def ask(agent: "FakeAgent", epsilon: float, report_after: float = 10 * DAY_S) -> None:
    """Let the agent ask for this epsilon, on tickets that hold for a month."""
    curator = {"mechanism": "bernoulli", "epsilon": epsilon}
    agent.decision |= {"curator": curator, "report_after": report_after, "expires_in": MONTH_S}


def responses(agent: "FakeAgent") -> int:
    """How many requests there were with a response."""
    return sum(request.path.endswith("/responses") for request in agent.requests)


def test_ten_daily_pulls_leave_one_a_day(agent: "FakeAgent", device: "Device", clock: "Clock") -> None:
    """Ten pulls of epsilon 1, accepted on ten days under a budget of 1 a day, all due on the tenth: one goes a day."""
    ask(agent, 1.0)
    client, first = device(limits=daily()), clock.now
    for day in range(10):
        clock.now = first + day * DAY_S
        agent.decision["report_after"] = 10 * DAY_S + first - clock.now
        client.decide()
    clock.now = first + 10 * DAY_S
    for day in range(10):
        clock.now = first + (10 + day) * DAY_S
        assert (client.flush().acknowledged, responses(agent)) == (1, day + 1)
        clock.now += DAY_S - 1
        assert (client.flush().waiting, responses(agent)) == (9 - day, day + 1)
    assert list(agent.counted) == [f"ticket-{number}" for number in range(1, 11)]


def test_the_thread_knows_when_there_is_room(agent: "FakeAgent", device: "Device", clock: "Clock") -> None:
    """It looks again when the first response ceases to count, and every five minutes."""
    ask(agent, 1.0)
    client = device(limits=daily(1.0))
    client.decide()
    assert client.leave().acknowledged == 1
    clock.wait(DAY_S - 100)
    client._ledger.database._connection.execute("UPDATE spent SET accepted_at = 0")  # as if both were from before
    client.decide()
    assert client.leave().waiting == 1
    assert client._seconds_until_due() == pytest.approx(100, abs=1)
    clock.wait(100)
    assert client.flush().acknowledged == 1


def test_a_retry_counts_once(agent: "FakeAgent", device: "Device", clock: "Clock") -> None:
    """What may have been seen already is free to go again, and counts from when it first left."""
    ask(agent, 0.5)
    client = device(limits=daily(0.5))
    client.decide()
    agent.script = [(503, {})] * 3
    client.leave()
    first = clock.now
    for tries in (2, 3):
        clock.wait(400)
        assert (client.flush().waiting, responses(agent)) == (1, tries)
    clock.now = first + DAY_S
    client.decide()
    assert client.leave().acknowledged == 2


def hoard(agent: "FakeAgent", device: "Device", clock: "Clock", epsilons: list[float]) -> Any:
    """Accept pulls of these epsilons when nothing counts, after one that has just left with epsilon 0.5."""
    client = device(limits=daily(100))
    ask(agent, 0.5)
    client.decide()
    client.leave()
    for epsilon in epsilons:
        ask(agent, epsilon, report_after=1)
        client.decide()
    client.close(keep=True)
    clock.wait(1)
    return device(limits=daily())


def test_the_oldest_goes_first(agent: "FakeAgent", device: "Device", clock: "Clock") -> None:
    """A smaller one that would fit in the place of an older waits too: the order tells nothing but the order."""
    client = hoard(agent, device, clock, [1.0, 0.25])
    assert client.flush().waiting == 2
    clock.wait(DAY_S)
    assert client.flush().acknowledged == 1
    assert list(agent.counted) == ["ticket-1", "ticket-2"]
    clock.wait(DAY_S)
    assert client.flush().acknowledged == 1


def test_one_that_never_fits_holds_up_nobody(agent: "FakeAgent", device: "Device", clock: "Clock") -> None:
    """Its owner has since allowed less than it costs: it stays, and the others go."""
    client = hoard(agent, device, clock, [1.0, 0.25])
    client.close(keep=True)
    strict = device(limits=Limits(Range(0, 1), 1, 0.9, window=DAY_S))
    assert strict.flush().acknowledged == 1
    assert list(agent.counted) == ["ticket-1", "ticket-3"]
    clock.wait(300)
    assert strict.flush().waiting == 1
    assert strict._seconds_until_due() == pytest.approx(300, abs=1)


def test_the_budget_for_leaving_is_one_for_all_experiments(
    agent: "FakeAgent", device: "Device", clock: "Clock"
) -> None:
    """What another experiment sent takes room."""
    clients = [device(name, limits=daily(100)) for name in ("headline", "colour")]
    ask(agent, 1.0, report_after=1)
    for client in clients:
        client.decide()
        client.close(keep=True)
    clock.wait(1)
    first, second = (device(name, limits=daily()) for name in ("headline", "colour"))
    assert first.flush().acknowledged == 1
    assert second.flush().waiting == 1
    clock.wait(DAY_S)
    assert second.flush().acknowledged == 1


def test_what_leaves_is_noted_before_its_first_byte(agent: "FakeAgent", device: "Device") -> None:
    """A crash while it is sent, or a ledger that cannot be written: it counts as seen, or is not sent."""
    client = device()
    client.decide()
    noted: list[float | None] = []

    def look(*_: object) -> None:
        with client._ledger.database.transaction() as transaction:
            noted.extend(row[0] for row in transaction.execute("SELECT left_at FROM spent"))

    watch_posts(client, before=look)
    client.leave()
    (left_at,) = noted
    assert left_at is not None


@pytest.mark.parametrize(("epsilon", "budget", "times"), [(0.1, 1, 10), (0.07, 0.7, 10), (0.3, 0.9, 3), (0.1, 0.99, 9)])
def test_what_adds_up_to_the_budget_leaves(
    agent: "FakeAgent", device: "Device", epsilon: float, budget: float, times: int
) -> None:
    """Ten times 0.1 leave together under a budget of 1, however floats round; one more does not."""
    ask(agent, epsilon, report_after=1)
    generous = device(limits=daily(100))
    for _ in range(times + 1):
        generous.decide()
    generous.close(keep=True)
    told = device(limits=daily(budget)).flush(now=1e12)
    assert (told.acknowledged, told.waiting) == (times, 1)
