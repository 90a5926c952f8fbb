"""The offer comes first: a device that will not take part takes no ticket, and one that does says so."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ldpbandits import LimitError, Limits, Range, ServerError

if TYPE_CHECKING:
    from tests.device.conftest import Clock, Device, FakeAgent

UNIT = Range(0, 1)
OLD = b'{"code": "not_found", "message": "not found: see /docs"}'
"""What a server before offers answers, as this one does for a path that it does not know."""


def decisions(agent: "FakeAgent") -> int:
    """How often an arm was asked for."""
    return sum(request.path.endswith("/decisions") for request in agent.requests)


def test_a_device_whose_budget_is_used_up_takes_no_ticket(agent: "FakeAgent", device: "Device") -> None:
    """It reads the offer, which needs no key and says nothing of it, and is refused here: nothing can be missing."""
    client = device(limits=Limits(UNIT, 0.5, 0.5))
    client.decide().observe(1)
    with pytest.raises(LimitError, match=r"on top of the 0\.5 spent"):
        client.decide()
    assert decisions(agent) == 1
    for request in agent.offers:
        assert request.path == "/v1/experiments/headline/offer"
        assert set(request.headers) == {"Host", "Accept-Encoding"}


def test_a_decision_that_asks_for_more_than_the_offer_is_refused(agent: "FakeAgent", device: "Device") -> None:
    """Though the limits allow it: the offer is read again, past all caches, and nothing is charged."""
    agent.offer = {"max_age": 60}
    client = device(limits=Limits(UNIT, 1, 10))
    client.decide()
    before = client.spent()
    agent.decision["curator"] = {"mechanism": "bernoulli", "epsilon": 1}
    agent.offer |= {"curator": {"mechanism": "bernoulli", "epsilon": 0.5}}
    with pytest.raises(ServerError, match="asks for something else than its offer") as caught:
        client.decide()
    assert caught.value.code == "unreadable"
    assert client.spent() == before
    assert [request.headers["Cache-Control"] for request in agent.offers] == [None, "no-cache"]
    assert len(agent.accepted) == 1


def test_an_offer_that_has_changed_is_read_again(agent: "FakeAgent", device: "Device") -> None:
    """If the new one agrees with the decision, the pull is accepted."""
    agent.offer = {"max_age": 60}
    client = device(limits=Limits(UNIT, 1, 10))
    client.decide()
    agent.decision["report_after"] = 100
    assert client.decide().ticket is not None
    assert len(agent.offers) == 2


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"retired": [1]}, 1),
        ({"status": "shipped", "shipped": {"arm": 0, "name": "blue"}}, 0),
        ({"status": "paused"}, "paused"),
        ({"status": "closed"}, "closed"),
    ],
)
def test_a_kept_arm_follows_the_offer(
    agent: "FakeAgent", device: "Device", change: dict[str, Any], shown: int | str
) -> None:
    """Retire, ship, pause and close reach a returning device; a resumed experiment does not bring the arm back."""
    agent.decision["sticky"] = 1000
    client = device()
    first = client.decide()
    assert client.decide() == first
    assert decisions(agent) == 1
    agent.offer = change
    if isinstance(shown, str):
        with pytest.raises(ServerError) as caught:
            client.decide()
        assert caught.value.code == shown
        assert decisions(agent) == 1
    else:
        pull = client.decide()
        assert pull.arm == shown
        assert (pull.ticket is None) == (decisions(agent) == 1) == ("shipped" in change)
    agent.offer = {}
    client.decide()
    assert decisions(agent) == 2


def test_a_kept_arm_is_shown_while_the_agent_cannot_be_reached(agent: "FakeAgent", device: "Device") -> None:
    """Without a kept arm it is the error of the connection."""
    agent.decision["sticky"] = 1000
    client, other = device(), device("other")
    first = client.decide()
    agent.close()
    assert client.decide() == first
    with pytest.raises(ServerError, match="cannot be reached"):
        other.decide()


@pytest.mark.parametrize("body", [b'{"code": "method_not_allowed", "message": "no"}', b"<html>not found</html>", OLD])
def test_a_server_without_offers_must_be_updated(agent: "FakeAgent", device: "Device", body: bytes) -> None:
    """One clear error, and no ticket is taken; an experiment that there is not is told apart."""
    agent.offered = lambda: (404, body)  # type: ignore[method-assign]
    with pytest.raises(ServerError, match="update it to this version"):
        device().decide()
    agent.offered = lambda: (404, {"code": "not_found", "message": "there is no such"})  # type: ignore[method-assign]
    with pytest.raises(ServerError) as caught:
        device().decide()
    assert caught.value.code == "not_found"
    assert decisions(agent) == 0


def test_an_accepted_pull_says_so_at_once_and_once(agent: "FakeAgent", device: "Device") -> None:
    """Before there is a reward, with the ticket alone and without the key."""
    client = device()
    ticket = client.decide().ticket
    (request,) = agent.acceptances
    assert json.loads(request.body) == {"ticket": ticket}
    assert "Authorization" not in request.headers
    client.flush()
    assert len(agent.acceptances) == 1


def test_an_acceptance_is_tried_again_until_it_is_acknowledged(
    agent: "FakeAgent", device: "Device", clock: "Clock"
) -> None:
    """With a backoff, and after a restart; a refusal for good ends it, and so does the response."""
    replies: list[tuple[int, object]] = [(503, {"code": "retry"}), (503, {"code": "retry"}), (200, {"status": "odd"})]
    agent.accept = lambda ticket: replies.pop(0) if replies else (410, {"code": "expired", "message": "late"})  # type: ignore[method-assign]  # noqa: ARG005
    client = device()
    client.decide()
    assert len(agent.acceptances) == 1
    client.flush()
    assert len(agent.acceptances) == 1  # it is not time yet
    clock.wait(3)
    client.flush()
    assert len(agent.acceptances) == 2
    again = device()
    again.flush()
    again.flush()
    clock.wait(60)
    again.flush()
    assert len(agent.acceptances) == 4
    clock.wait(60)
    again.flush()
    assert len(agent.acceptances) == 4


def test_a_response_that_has_left_needs_no_acceptance(agent: "FakeAgent", device: "Device", clock: "Clock") -> None:
    """It implies one."""
    agent.accept = lambda ticket: (503, {"code": "retry"})  # type: ignore[method-assign]  # noqa: ARG005
    client = device()
    client.decide().observe(1)
    client.leave()
    clock.wait(600)
    client.flush()
    assert len(agent.acceptances) == 1
    assert len(agent.counted) == 1


def test_a_reward_is_observed_by_the_experiment_alone(agent: "FakeAgent", device: "Device", path: Path) -> None:
    """The newest pull that awaits one gets it, also in another process; without one, nothing happens."""
    client = device()
    assert client.observe_latest(1) is False
    first, second = client.decide(), client.decide()
    other = device()
    assert other.observe_latest(1) is True
    assert [pull.ticket for pull in client.pulls()] == [first.ticket]
    assert client.observe_latest(0) is True
    assert client.observe_latest(1) is False
    assert second.ticket is not None
    assert agent.counted == {}
