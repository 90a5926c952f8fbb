"""Arms for which no response is asked: those of an experiment that is over, and those that are shown again."""

from typing import TYPE_CHECKING, Any

import pytest
from tests.device.conftest import watch_posts

from ldpbandits import LimitError, Limits, Range, ServerError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.device.conftest import Clock, Device, FakeAgent

ASKED = ("ticket", "curator", "default", "report_after", "expires_at", "expires_in")
SHIPPED = {"arm": 1, "name": "green", "sticky": 0, **dict.fromkeys(ASKED)}


class Unreadable:
    """A reward that must not be touched."""

    def __float__(self) -> float:
        """Complain."""
        raise AssertionError("somebody looked at the reward")

    __repr__ = __bool__ = __index__ = __float__  # type: ignore[assignment]


def test_a_shipped_experiment_asks_for_nothing(agent: "FakeAgent", device: "Device", drawn: list[int]) -> None:
    """There is an arm to show; nothing is charged, drawn, kept or sent, and nothing is done with the reward."""
    agent.script = [(200, SHIPPED)] * 2
    client = device()
    pull = client.decide()
    assert (pull.arm, pull.name, pull.ticket, pull.epsilon, pull.report_at) == (1, "green", None, 0, None)
    assert pull.observe(Unreadable()) is False  # type: ignore[arg-type]
    assert pull.observe(1) is False
    assert client.decide() == pull  # and it is asked for each time
    assert client.pulls() == []
    assert client.spent() == 0
    client.close()
    assert drawn == []
    assert len(agent.requests) == 2


def test_a_shipped_experiment_needs_no_room_in_the_budget(agent: "FakeAgent", device: "Device") -> None:
    """It is for everyone, also for those who have spent all that they may."""
    client = device(limits=Limits(Range(0, 1), 0.5, 0.5))
    client.decide()
    with pytest.raises(LimitError):
        client.decide()
    agent.offer = {"status": "shipped", "shipped": {"arm": 1, "name": "green"}}
    assert client.decide().arm == 1


@pytest.mark.parametrize("name", [*ASKED[1:], "sticky"])
def test_a_decision_without_a_ticket_that_asks_for_something(agent: "FakeAgent", device: "Device", name: str) -> None:
    """Half a question is nonsense."""
    value = {"mechanism": "bernoulli", "epsilon": 0.5} if name == "curator" else 1000 if name == "expires_in" else 1
    agent.script = [(200, {**SHIPPED, name: value})]
    with pytest.raises(ServerError, match="has no ticket, and still asks for a response") as caught:
        device().decide()
    assert caught.value.code == "unreadable"


def test_a_decision_that_forgets_its_ticket_is_not_a_shipped_one(agent: "FakeAgent", device: "Device") -> None:
    """That no response is asked for must be said."""
    agent.script = [(200, {"arm": 1, "name": "green"})]
    with pytest.raises(ServerError):
        device().decide()


def decisions(agent: "FakeAgent") -> int:
    """How often an arm was asked for."""
    return sum(request.path.endswith("/decisions") for request in agent.requests)


def test_a_sticky_arm_is_shown_again_without_asking(agent: "FakeAgent", device: "Device", clock: "Clock") -> None:
    """The same pull while it is open, then the arm alone; after its time, the agent is asked again."""
    agent.decision["sticky"] = 1000
    client = device()
    pull = client.decide()
    assert client.decide() == pull
    assert client.decide().observe(1) is True
    again = client.decide()
    assert (again.arm, again.name, again.ticket, again.epsilon) == (1, "green", None, 0)
    assert again.observe(Unreadable()) is False  # type: ignore[arg-type]
    clock.wait(300)
    assert client.flush().acknowledged == 1
    clock.wait(699)
    assert client.decide() == again
    assert decisions(agent) == 1
    assert client.spent() == 0.5
    agent.decision |= {"arm": 0, "name": "blue"}
    clock.wait(1)
    assert client.decide().name == "blue"
    assert decisions(agent) == 2
    assert len(agent.counted) == 1


@pytest.mark.parametrize("end", ["moment", "leave"])
def test_a_sticky_arm_whose_pull_is_over_is_shown_alone(
    agent: "FakeAgent", device: "Device", clock: "Clock", end: str
) -> None:
    """No reward came: its one response is that of the default, and later showings ask for none."""
    agent.decision["sticky"] = 1000
    client = device()
    client.decide()
    if end == "leave":
        client.leave()
    else:
        clock.wait(300)
    assert client.decide().ticket is None
    client.flush()
    assert len(agent.counted) == 1


def test_a_sticky_arm_is_kept_on_the_device(agent: "FakeAgent", device: "Device", path: "Path") -> None:
    """It outlives a restart, and belongs to its agent and experiment."""
    agent.decision["sticky"] = 1000
    first = device()
    pull = first.decide()
    first.close(keep=True)
    assert device().decide() == pull
    for other in (device("colour"), device(url=f"{agent.url}/other")):
        assert other.decide().ticket not in {None, pull.ticket}
    assert decisions(agent) == 3


def test_a_sticky_arm_is_not_kept_for_ever_by_a_clock_that_is_set_back(
    agent: "FakeAgent", device: "Device", clock: "Clock"
) -> None:
    """Its time has a beginning, too."""
    agent.decision["sticky"] = 1000
    client = device()
    client.decide()
    clock.now -= 1e6
    client.decide()
    assert decisions(agent) == 2


def test_of_two_who_ask_together_one_arm_is_shown(agent: "FakeAgent", device: "Device") -> None:
    """What another thread or process has begun to show meanwhile is shown here too, and only that is charged."""
    agent.decision["sticky"] = 1000
    client, other = device(), device()
    pulls: list[Any] = []
    watch_posts(client, after=lambda: pulls.append(other.decide()))
    assert [client.decide()] == pulls
    assert client.spent() == 0.5
    client.close()
    assert agent.counted == {}  # it is the other's to send
    assert other.leave().acknowledged == 1


def test_a_refused_arm_does_not_stick(agent: "FakeAgent", device: "Device") -> None:
    """What the owner does not allow is asked for again, not shown."""
    agent.decision |= {"sticky": 1000, "curator": {"mechanism": "bernoulli", "epsilon": 2}}
    client = device()
    for _ in range(2):
        with pytest.raises(LimitError):
            client.decide()
    assert (decisions(agent), len(agent.offers)) == (0, 2)
