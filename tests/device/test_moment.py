"""A response is sent at a moment that was known before there was a reward, and is there before the moment comes."""

import json
from typing import TYPE_CHECKING, Any

import pytest

from ldpbandits import Limits, Range, RewardError, TicketError

if TYPE_CHECKING:
    from tests.device.conftest import Clock, Device, FakeAgent

CTB_50 = {"mechanism": "bernoulli", "epsilon": 50.0}
"""The response is the reward, but once in e^50."""
LIMITS = Limits(Range(0, 1), 50, 1000)
AT_ONCE = Limits(Range(0, 1), 50, 1000, at_once=True)


@pytest.mark.parametrize("reward", [None, 0, 1, 0.5, -7, 10**400], ids=str)
def test_nothing_is_sent_before_the_moment_and_the_response_then(
    agent: "FakeAgent", device: "Device", clock: "Clock", reward: Any
) -> None:
    """Whatever the reward, and without one: no request is made until report_after has passed, and then one is."""
    client = device()
    pull = client.decide()
    assert pull.report_at == clock.now + 300
    clock.wait(299)
    assert reward is None or pull.observe(reward) is True
    assert client.flush().acknowledged == 0
    assert len(agent.requests) == 1
    clock.wait(1)
    assert client.flush().acknowledged == 1
    assert len(agent.requests) == 2
    assert client.flush(now=1e12).acknowledged == 0


@pytest.mark.parametrize(("reward", "response"), [(None, 1), (0, 0), (1, 1)])
def test_the_response_to_a_reward_takes_the_place_of_that_to_the_default(
    agent: "FakeAgent", device: "Device", clock: "Clock", reward: float | None, response: float
) -> None:
    """At epsilon 50 one sees which is which: the default is 1 here."""
    agent.decision |= {"curator": CTB_50, "default": 1}
    client = device(limits=LIMITS)
    pull = client.decide()
    assert reward is None or pull.observe(reward)
    clock.wait(300)
    client.flush()
    assert agent.counted == {"ticket-1": response}


def test_a_pull_has_its_response_when_it_is_accepted(agent: "FakeAgent", device: "Device", drawn: list[int]) -> None:
    """It is drawn and written down with the charge: at the moment nothing is drawn, with a reward or without."""
    client = device()
    client.decide().observe(1)
    client.decide()
    assert len(drawn) == 3
    assert client.flush(now=1e12).acknowledged == 2
    assert len(drawn) == 3


def test_a_reward_after_the_moment_is_refused(
    agent: "FakeAgent", device: "Device", clock: "Clock", drawn: list[int]
) -> None:
    """Before the response is sent, while it cannot be sent, and after: a TicketError, and nothing is drawn."""
    client = device()
    pull, again = client.decide(), device()
    clock.wait(300)
    drawn.clear()
    assert client.pulls() == []
    agent.script = [(503, {})]
    for act in (lambda: None, client.flush):
        act()
        for observe in (pull.observe, lambda reward: again.observe("ticket-1", reward)):
            with pytest.raises(TicketError, match="the reporting moment of this pull has passed"):
                observe(1)
    clock.wait(400)
    assert client.flush().acknowledged == 1
    with pytest.raises(TicketError, match="unknown pull: its response was sent"):
        pull.observe(1)
    assert len(drawn) == 1  # a word for how long to wait
    assert len(agent.bodies("ticket-1")) == 2


def test_a_second_reward_is_refused(agent: "FakeAgent", device: "Device", drawn: list[int]) -> None:
    """The first one counts: the second is not even looked at."""
    agent.decision["curator"] = CTB_50
    client = device(limits=LIMITS)
    pull = client.decide()
    pull.observe(1)
    drawn.clear()
    for observe in (pull.observe, lambda reward: client.observe("ticket-1", reward)):
        with pytest.raises(TicketError, match="this pull has had its reward"):
            observe(0)
    with pytest.raises(TicketError, match="belongs to another device or experiment"):
        client.observe("never seen", 0)
    assert drawn == []
    client.leave()
    assert agent.counted == {"ticket-1": 1.0}


def test_a_reward_out_of_range_is_clipped_unless_told_otherwise(
    agent: "FakeAgent", device: "Device", drawn: list[int]
) -> None:
    """With clip=False it is an error, the pull stays open, and a right reward may still come, or the default goes."""
    agent.decision["curator"] = CTB_50
    client = device(limits=LIMITS)
    clipped, corrected, silent = client.decide(), client.decide(), client.decide()
    assert clipped.observe(9) is True
    drawn.clear()
    for pull in (corrected, silent):
        with pytest.raises(RewardError, match="must lie in the declared range"):
            pull.observe(9, clip=False)
        with pytest.raises(RewardError, match="not NaN"):
            pull.observe(float("nan"))
        with pytest.raises(RewardError, match="must be a number"):
            pull.observe("1")  # type: ignore[arg-type]
    assert drawn == []
    assert client.pulls() == [corrected, silent]
    assert client.observe("ticket-2", 1, clip=False) is True
    client.leave()
    assert agent.counted == {"ticket-1": 1.0, "ticket-2": 1.0, "ticket-3": 0.0}


def test_at_once_only_with_the_owners_word(agent: "FakeAgent", device: "Device", clock: "Clock") -> None:
    """With report_after 0 and at_once=True a response is sent when the reward comes, and the default near the end."""
    agent.decision |= {"curator": CTB_50, "report_after": 0, "expires_in": 600}
    client = device(limits=AT_ONCE)
    observed, silent = client.decide(), client.decide()
    assert observed.observe(1) is True
    assert agent.counted == {"ticket-1": 1.0}
    assert silent.report_at == clock.now + 540
    clock.wait(500)
    assert client.flush().acknowledged == 1
    assert len(agent.requests) == 3
    clock.wait(40)
    with pytest.raises(TicketError, match="moment of this pull has passed"):
        silent.observe(1)
    assert client.flush().acknowledged == 1
    assert agent.counted == {"ticket-1": 1.0, "ticket-2": 0.0}


def test_who_allows_at_once_still_waits_for_a_moment(agent: "FakeAgent", device: "Device") -> None:
    """It is a leave to send at once, not a wish to."""
    client = device(limits=Limits(Range(0, 1), 1, 10, at_once=True))
    client.decide().observe(1)
    assert len(agent.requests) == 1


@pytest.mark.parametrize(("lifetime", "early"), [(100, 10), (600, 60), (6000, 60), (0.5, 0.05)])
def test_where_rewards_are_sent_at_once_the_default_goes_before_the_ticket_ends(
    agent: "FakeAgent", device: "Device", clock: "Clock", lifetime: float, early: float
) -> None:
    """A tenth of the life before its end, at most a minute."""
    agent.decision |= {"expires_in": lifetime, "report_after": 0}
    pull = device(limits=AT_ONCE).decide()
    assert pull.report_at == pytest.approx(clock.now + lifetime - early)


def test_what_cannot_be_sent_at_once_is_kept(agent: "FakeAgent", device: "Device", clock: "Clock") -> None:
    """observe() does not tell what the agent said: flush() does, once."""
    agent.decision["report_after"] = 0
    client = device(limits=AT_ONCE)
    refused, lost = client.decide(), client.decide()
    agent.script = [(410, {"code": "expired", "message": "too late"}), (503, {})]
    assert refused.observe(1) is True
    assert lost.observe(1) is True
    told = client.flush()
    assert (told.acknowledged, told.waiting) == (0, 1)
    assert [error.code for error in told.refused] == ["expired"]
    clock.wait(1)
    told = client.flush()
    assert (told.acknowledged, told.waiting, told.refused) == (1, 0, ())


def test_all_that_is_sent_looks_the_same(agent: "FakeAgent", device: "Device", clock: "Clock") -> None:
    """With a reward or without: the same order as accepted, the same size, the same keys."""
    client = device()
    pulls = [client.decide() for _ in range(6)]
    for number in (4, 1, 3):
        pulls[number].observe(number % 2)
    clock.wait(300)
    assert client.flush().acknowledged == 6
    bodies = [request.body for request in agent.requests[6:]]
    assert [json.loads(body)["ticket"] for body in bodies] == [pull.ticket for pull in pulls]
    assert len({len(body) for body in bodies}) == 1


def test_pulls_outlive_a_restart_until_their_moment(agent: "FakeAgent", device: "Device", clock: "Clock") -> None:
    """After a crash a new client has the pulls and observes them; those whose moment has passed are sent."""
    crashed = device()
    agent.decision["report_after"] = 100
    early = crashed.decide()
    agent.decision["report_after"] = 300
    late = crashed.decide()
    clock.wait(100)
    again = device()
    assert again.pulls() == [late]
    assert again.flush().acknowledged == 1
    assert [pull.observe(1) for pull in again.pulls()] == [True]
    assert agent.counted.keys() == {early.ticket}
    clock.wait(200)
    assert again.flush().acknowledged == 1
    assert agent.counted.keys() == {early.ticket, late.ticket}
