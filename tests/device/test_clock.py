"""Clocks are set back and ahead: nothing is lost, drawn anew or held for ever by that, and no budget is freed twice."""

import time
from typing import TYPE_CHECKING

import pytest

from ldpbandits import Ledger, LimitError, Limits, Range

if TYPE_CHECKING:
    from tests.device.conftest import Clock, Device, FakeAgent

YEARS = 10 * 365 * 24 * 3600.0


@pytest.mark.parametrize("back", [20, 3600, YEARS])
def test_a_clock_that_is_set_back_does_not_delay_a_moment(
    agent: "FakeAgent", device: "Device", clock: "Clock", back: float
) -> None:
    """The client that decided knows by another clock when the moment has come; 20 seconds back cost no reward."""
    client = device()
    pull = client.decide()
    clock.wait(100)
    clock.now -= back
    assert back > 60 + 100 or pull.observe(1)
    clock.wait(199)
    assert client.flush().acknowledged == (0 if back == 20 else 1)
    clock.wait(1)
    client.flush()
    assert len(agent.counted) == 1
    assert client.flush(now=1e12).acknowledged == 0
    assert len(agent.bodies("ticket-1")) == 1


def test_the_thread_knows_when_by_both_clocks(device: "Device", clock: "Clock") -> None:
    """It sleeps until the first of the two says that a moment has come."""
    client = device()
    client.decide()
    clock.wait(100)
    assert client._seconds_until_due() == pytest.approx(200, abs=1)
    clock.now -= 120
    assert client._seconds_until_due() == pytest.approx(200, abs=1)
    clock.now += 250
    assert client._seconds_until_due() == pytest.approx(70, abs=1)


@pytest.mark.parametrize("back", [3600, YEARS])
def test_after_a_restart_no_moment_lies_years_ahead(
    agent: "FakeAgent", device: "Device", clock: "Clock", back: float
) -> None:
    """Who finds a pull that was accepted later than now knows that the clock was set back, and sends it at once."""
    device().decide()
    clock.now -= back
    again = device()
    assert again.pulls() == []
    assert again.flush().acknowledged == 1
    assert len(agent.bodies("ticket-1")) == 1


def test_a_clock_that_is_set_ahead_sends_early_and_once(agent: "FakeAgent", device: "Device", clock: "Clock") -> None:
    """What was observed is what is sent; back again, it is not sent anew."""
    agent.decision["curator"] = {"mechanism": "bernoulli", "epsilon": 50.0}
    client = device(limits=Limits(Range(0, 1), 50, 1000))
    client.decide().observe(1)
    clock.now += YEARS
    assert client.flush().acknowledged == 1
    clock.now -= YEARS
    assert client.flush(now=1e12).acknowledged == 0
    assert agent.counted == {"ticket-1": 1.0}


def test_a_try_that_lies_years_ahead_is_not_waited_for(agent: "FakeAgent", device: "Device", clock: "Clock") -> None:
    """A response that could not be sent while the clock was ahead is sent when it is right again."""
    client = device()
    client.decide()
    clock.now += YEARS
    agent.script = [(503, {})]
    assert client.flush().waiting == 1
    clock.now -= YEARS
    assert client.flush().acknowledged == 1
    assert len(set(agent.bodies("ticket-1"))) == 1


def test_no_reward_changes_what_has_left_though_the_moment_lies_ahead_again(
    agent: "FakeAgent", device: "Device", clock: "Clock", drawn: list[int]
) -> None:
    """Set ahead, sent in vain, set back: the response that may have been seen is the last."""
    client = device()
    pull = client.decide()
    clock.now += 400
    agent.script = [(503, {})]
    client.flush()
    clock.now -= 400
    drawn.clear()
    with pytest.raises(Exception, match="its reward can no longer be observed"):
        pull.observe(1)
    assert drawn == []
    assert client.pulls() == []


def test_a_response_that_is_held_back_leaves_within_a_window(
    agent: "FakeAgent", device: "Device", clock: "Clock"
) -> None:
    """While the clock was years ahead, something left: what is dated then counts for one window, and not for years."""
    limits = Limits(Range(0, 1), 0.5, 0.5, window=100)
    client = device(limits=limits)
    client.decide()
    clock.now += YEARS
    assert client.flush().acknowledged == 1
    client.decide()
    clock.now -= YEARS
    assert client.flush().waiting == 1
    clock.wait(99)
    assert client.flush().waiting == 1
    clock.wait(1)
    assert client.flush().acknowledged == 1
    client.decide()
    assert client.leave().waiting == 1


def test_a_clock_that_starts_in_1970_frees_nothing(device: "Device", clock: "Clock") -> None:
    """A device that has no clock at its start and gets one later has spent what it has spent."""
    limits = Limits(Range(0, 1), 0.5, 0.5, window=1000)
    client = device(limits=limits)
    client.decide()
    right = clock.now
    for now in (0.0, right + 10):
        clock.now = now
        with pytest.raises(LimitError):
            client.decide()
    clock.now = right + 1000
    client.decide()


def test_what_is_dated_ahead_counts_for_a_window_from_when_it_is_seen() -> None:
    """And no longer: a clock that was once wrong by years does not stop a device for years."""
    ledger = Ledger(":memory:")
    with ledger.database.transaction() as transaction:
        transaction.execute("INSERT INTO spent (accepted_at, epsilon) VALUES (1e9, 1)")
    assert ledger.spent(now=5e8, window=100) == 1
    assert ledger.spent(now=5e8 + 99, window=100) == 1
    assert ledger.spent(now=5e8 + 100, window=100) == 0
    assert ledger.spent(now=1e9 + 50, window=100) == 1
    assert ledger.spent(now=1e9 + 100, window=100) == 0
    ledger.close()


def test_the_real_clocks_are_used(device: "Device") -> None:
    """The tests above set clocks of their own."""
    before = time.time()
    pull = device().decide()
    assert pull.report_at is not None
    assert before + 300 <= pull.report_at <= time.time() + 300
