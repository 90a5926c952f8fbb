"""A device takes part: within its owner's limits, with one response a pull, and with nothing else on the wire."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

import pytest

from ldpbandits import (
    Client,
    Flushed,
    LedgerError,
    LimitError,
    Limits,
    ParameterError,
    RewardError,
    ServerError,
    TicketError,
)
from ldpbandits.device.ledger import Ledger
from ldpbandits.device.outbox import Outbox
from ldpbandits.types import Response

if TYPE_CHECKING:
    from tests.device.conftest import Clock, Device, FakeAgent

CTB_50 = {"mechanism": "bernoulli", "epsilon": 50.0}
"""The response is the reward, but once in e^50."""


def test_a_pull_from_its_arm_to_its_count(agent: "FakeAgent", device: "Device") -> None:
    """Decide, observe: the agent has counted a response that its curator can give, and nothing is left to do."""
    client = device()
    pull = client.decide()
    assert (pull.arm, pull.name, pull.ticket) == (1, "green", "ticket-1")
    assert client.pulls() == [pull]
    assert pull.observe(1) is True
    assert agent.counted["ticket-1"] in {0.0, 1.0}
    assert client.pulls() == []
    assert client.flush() == Flushed(acknowledged=0, waiting=0, refused=())


def test_only_two_paths_and_no_sign_of_who_asks(agent: "FakeAgent", device: "Device") -> None:
    """Requests have the key and what HTTP itself needs: no cookie, no user agent, no field but the protocol's."""
    agent.decision["curator"] = {"mechanism": "laplace", "epsilon": 1.0, "transform": {"kind": "range", "high": 10}}
    client = device("head/line ü", url=f"{agent.url}/shop/")
    client.decide().observe(7.12345)
    asked, told = agent.requests
    assert asked.path == "/shop/v1/experiments/head%2Fline%20%C3%BC/decisions"
    assert asked.body == b"{}"
    assert told.path == "/shop/v1/responses"
    assert json.loads(told.body).keys() == {"ticket", "response", "epsilon"}
    for request in agent.requests:
        names = {"Host", "Accept-Encoding", "Content-Length", "Authorization", "Content-Type"}
        assert set(request.headers) == names
        assert request.headers["Authorization"] == "Bearer client-key"
        assert request.headers["Accept-Encoding"] == "identity"
        assert b"7.12345" not in request.body
    assert asked.connection == told.connection


def test_of_several_epsilons_the_largest_within_the_limits_is_picked(agent: "FakeAgent", device: "Device") -> None:
    """It is picked and charged with the arm, before there is a reward; each try to send the response names it."""
    agent.decision["curator"] = {**CTB_50, "epsilon": [0.25, 1, 4]}
    client = device(limits=Limits(epsilon=1, budget=2.5))
    picked = []
    for _ in range(4):
        before = client.spent()
        pull = client.decide()
        assert client.spent() == before + pull.epsilon
        agent.script = [(503, {"code": "retry", "message": "later"})]
        assert pull.observe(1) is False
        assert client.flush(now=time.time() + 400).acknowledged == 1
        assert {json.loads(body)["epsilon"] for body in agent.bodies(pull.ticket)} == {pull.epsilon}
        picked.append(pull.epsilon)
    assert picked == [1, 1, 0.25, 0.25]
    with pytest.raises(LimitError, match=r"epsilon = 0\.25 on top of the 2\.5 spent"):
        client.decide()


def test_an_owner_may_name_one_of_the_epsilons(agent: "FakeAgent", device: "Device") -> None:
    """One that is not offered, or is beyond the limits, costs nothing."""
    agent.decision["curator"] = {**CTB_50, "epsilon": [0.25, 1, 4]}
    client = device(limits=Limits(epsilon=1, budget=10))
    assert client.decide(epsilon=0.25).epsilon == 0.25
    for epsilon, told in ((0.5, r"offers epsilon = 0\.25, 1, 4, and not 0\.5"), (4, "allows 1")):
        with pytest.raises(LimitError, match=told):
            client.decide(epsilon=epsilon)
    assert client.spent() == 0.25


@pytest.mark.parametrize(
    "epsilon", [[], [1, 0.5], [1, 1], [0.5, None], ["a"], [-1, 1], [[1]], {}, [n / 10 for n in range(1, 10)]], ids=str
)
def test_a_menu_that_makes_no_sense_costs_nothing(agent: "FakeAgent", device: "Device", epsilon: object) -> None:
    """It is nonsense of the agent's; so is a choice of epsilons for responses that are not bits."""
    client = device()
    for curator in ({**CTB_50, "epsilon": epsilon}, {"mechanism": "laplace", "epsilon": [0.5, 1]}):
        agent.decision["curator"] = curator
        with pytest.raises(ServerError, match="a curator that there is not"):
            client.decide()
    assert client.spent() == 0


def test_a_reward_is_never_written(device: "Device", path: Path) -> None:
    """Neither the ledger nor a file beside it holds the reward: not as text, and not as a float."""
    client = device(limits=Limits(50, 100))
    client.decide().observe(0.7123456789)
    client.decide()
    for file in path.parent.iterdir():
        content = file.read_bytes()
        assert b"0.7123" not in content
        assert b"\x3f\xe6\xcb" not in content  # the first bytes of that double


@pytest.mark.parametrize(
    ("curator", "limits", "sentence"),
    [
        ({"mechanism": "bernoulli", "epsilon": 2}, Limits(1, 10), "asks for epsilon = 2 a response"),
        ({"mechanism": "bernoulli", "epsilon": 0.5}, Limits(1, 0.4), "on top of the 0 spent is too much"),
        ({"mechanism": "laplace", "epsilon": 1, "transform": {"kind": "real-line"}}, Limits(1, 10), "real line"),
    ],
)
def test_an_agent_that_asks_for_too_much(
    agent: "FakeAgent", device: "Device", drawn: list[int], curator: dict[str, Any], limits: Limits, sentence: str
) -> None:
    """It is refused in a clear sentence; nothing is drawn, charged or sent, and no pull is open."""
    agent.decision["curator"] = curator
    client = device(limits=limits)
    with pytest.raises(LimitError, match=sentence):
        client.decide()
    assert client.pulls() == []
    assert client.spent() == 0
    assert client.flush(now=1e12).acknowledged == 0
    assert drawn == []
    assert len(agent.requests) == 1


def test_the_real_line_with_the_owners_word(agent: "FakeAgent", device: "Device") -> None:
    """With real_line=True any finite reward may be observed."""
    agent.decision["curator"] = {"mechanism": "laplace", "epsilon": 1, "transform": {"kind": "real-line"}}
    assert device(limits=Limits(1, 10, real_line=True)).decide().observe(1e6) is True
    assert agent.counted["ticket-1"] == pytest.approx(1e6, abs=100)


def test_the_budget_holds_over_clients_experiments_and_agents(
    agent: "FakeAgent", device: "Device", clock: "Clock", drawn: list[int]
) -> None:
    """All that share a ledger share its budget; a pull is charged when it is accepted, and time alone gives it back."""
    limits = Limits(1, 1)
    clients = [device(limits=limits), device("colour", limits=limits), device(url=f"{agent.url}/other", limits=limits)]
    pulls = [client.decide() for client in clients[:2]]
    assert clients[2].spent() == 1
    assert drawn == []
    for client in clients:
        with pytest.raises(LimitError, match="on top of the 1 spent"):
            client.decide()
    for pull in pulls:
        pull.observe(1)
    with pytest.raises(LimitError):
        clients[2].decide()
    clock.now += limits.window - 1
    with pytest.raises(LimitError):
        clients[2].decide()
    clock.now += 1
    clients[2].decide()


def test_the_charge_is_on_disk_before_the_arm_is_known(agent: "FakeAgent", device: "Device", path: Path) -> None:
    """When decide() returns, another process sees the charge and the open pull."""
    client = device()
    pull = client.decide()
    other = Ledger(path)
    assert other.spent(time.time(), 60) == 0.5
    assert [entry.ticket for entry in Outbox(other, agent.url, "headline").entries()] == [pull.ticket]
    other.close()


def test_a_second_observation_is_an_error_and_draws_nothing(device: "Device", drawn: list[int]) -> None:
    """Sent or not, a response is the last: the ticket's second reward is not even looked at."""
    client = device()
    sent, unsent = client.decide(), client.decide()
    sent.observe(1)
    client._outbox.answer(unsent.ticket, Response(1.0), 0)
    before = len(drawn)
    for pull in (sent, unsent):
        with pytest.raises(TicketError, match="has had its response"):
            pull.observe(0.5)
    with pytest.raises(TicketError):
        client.observe("never seen", 0.5)
    assert len(drawn) == before


def test_a_pull_is_observed_by_its_own_experiment_only(agent: "FakeAgent", device: "Device", drawn: list[int]) -> None:
    """A client neither draws for nor sends the ticket of another agent or experiment of the same ledger."""
    pull = device().decide()
    for stranger in (device("colour"), device(url=f"{agent.url}/other")):
        assert stranger.pulls() == []
        with pytest.raises(TicketError, match="not of this device and experiment"):
            stranger.observe(pull.ticket, 1)
        stranger.flush(now=1e12)
    assert drawn == []
    assert len(agent.requests) == 1
    assert pull.observe(1)


def test_open_pulls_outlive_a_restart(agent: "FakeAgent", device: "Device") -> None:
    """A new client on the same ledger has the pulls, and observes them."""
    client = device()
    pulls = [client.decide(), client.decide()]
    client.close()
    again = device()
    assert again.pulls() == pulls
    assert [pull.observe(1) for pull in again.pulls()] == [True, True]
    assert agent.counted.keys() == {"ticket-1", "ticket-2"}


def test_no_reward_in_time_the_default_is_privatised_and_sent(agent: "FakeAgent", device: "Device") -> None:
    """When a tenth of a ticket's life is left, or a minute, and not before; after that the reward is too late."""
    agent.decision |= {"curator": CTB_50, "default": 1, "expires_in": 100}
    client = device(limits=Limits(50, 200))
    pull = client.decide()
    due = client._outbox.find(pull.ticket).due
    assert client.flush(now=due - 0.01).acknowledged == 0
    assert client.pulls() == [pull]
    flushed = client.flush(now=due)
    assert (flushed.acknowledged, flushed.waiting, flushed.refused) == (1, 0, ())
    assert agent.counted == {"ticket-1": 1.0}
    with pytest.raises(TicketError):
        pull.observe(0)
    assert len(agent.requests) == 2


@pytest.mark.parametrize(("lifetime", "early"), [(100, 10), (600, 60), (6000, 60), (0.5, 0.05)])
def test_the_default_is_due_before_the_ticket_ends(
    agent: "FakeAgent", device: "Device", clock: "Clock", lifetime: float, early: float
) -> None:
    """A tenth of the life before its end, at most a minute."""
    agent.decision["expires_in"] = lifetime
    client = device()
    due = client._outbox.find(client.decide().ticket).due
    assert due == pytest.approx(clock.now + lifetime - early)


def test_the_default_is_drawn_once(agent: "FakeAgent", device: "Device", drawn: list[int]) -> None:
    """A default that could not be sent is repeated, not drawn anew."""
    agent.decision |= {"curator": {"mechanism": "laplace", "epsilon": 1.0}, "expires_in": 1}
    client = device()
    client.decide()
    agent.script = [(503, {}), (503, {})]
    for i in range(3):
        client.flush(now=1e12 * (i + 1))
    bodies = agent.bodies("ticket-1")
    assert len(bodies) == 3
    assert len(set(bodies)) == 1
    assert sum(count > 8 for count in drawn) == 1  # the others are one word each, for how long to wait


def frames(traceback: TracebackType | None) -> Iterator[FrameType]:
    """Every frame of a traceback but the first, which is the test's own."""
    while traceback is not None and (traceback := traceback.tb_next) is not None:
        yield traceback.tb_frame


@pytest.mark.parametrize("reward", [7.12345, -7.12345, "7.12345", 712345])
def test_a_reward_that_is_refused_leaves_the_pull_open_and_is_nowhere_to_be_seen(
    device: "Device", drawn: list[int], reward: Any
) -> None:
    """Neither the message nor a variable of any frame that an error collector would collect holds the reward."""
    pull = device().decide()
    with pytest.raises(RewardError, match="a reward must") as caught:
        pull.observe(reward)
    error = caught.value
    seen = [repr(frame.f_locals) for frame in frames(error.__traceback__)]
    assert len(seen) >= 3
    assert not any("12345" in text for text in [str(error), repr(error.args), *seen])
    assert error.__context__ is None
    assert drawn == []
    assert pull.observe(1) is True


def test_other_errors_do_not_show_the_reward_either(agent: "FakeAgent", device: "Device") -> None:
    """Nor do the errors of the ledger and of the server."""
    client = device()
    pull, refused = client.decide(), client.decide()
    pull.observe(1)
    agent.script = [(410, {"code": "expired", "message": "too late"})]
    for call, kind in ((pull.observe, TicketError), (refused.observe, ServerError)):
        with pytest.raises(kind) as caught:
            call(0.712345)
        assert not any("12345" in repr(frame.f_locals) for frame in frames(caught.value.__traceback__))


def test_clip_is_passed_on(agent: "FakeAgent", device: "Device") -> None:
    """With clip=True a reward out of range counts as the nearest one in range."""
    agent.decision["curator"] = CTB_50
    device(limits=Limits(50, 50)).decide().observe(9, clip=True)
    assert agent.counted["ticket-1"] == 1.0


def test_without_a_ledger_nothing_is_asked_drawn_or_sent(agent: "FakeAgent", device: "Device", path: Path) -> None:
    """A damaged file or a place that cannot be written stops everything."""
    path.write_bytes(b"not a ledger" * 100)
    with pytest.raises(LedgerError):
        device()
    with pytest.raises(LedgerError):
        device(ledger=path / "beneath a file")
    assert agent.requests == []


def test_a_charge_or_response_that_cannot_be_written_stops_there(agent: "FakeAgent", device: "Device") -> None:
    """On a full disk no arm is returned and no response sent; later both go on."""
    client = device()
    pull = client.decide()
    client._ledger.database._connection.execute("PRAGMA query_only = ON")
    with pytest.raises(LedgerError):
        client.decide()
    with pytest.raises(LedgerError):
        pull.observe(1)
    assert agent.counted == {}
    client._ledger.database._connection.execute("PRAGMA query_only = OFF")
    assert client.spent() == 0.5
    assert pull.observe(1) is True


@pytest.mark.parametrize(
    "url",
    [
        "",
        "agent.example",
        "ftp://agent.example",
        "http://",
        "http://a:99999",
        "http://[::1",
        "http://u:p@a",
        "http://a?b",
    ],
)
def test_a_url_that_is_none_is_refused_before_a_ledger_is_made(url: str, path: Path) -> None:
    """The error says what a URL looks like."""
    with pytest.raises(ParameterError, match=r"looks like https://agent\.example"):
        Client(url, "headline", key="k", limits=Limits(1, 1), ledger=path)
    assert not path.exists()


@pytest.mark.parametrize("key", ["", "a\nb", "kéy"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_shown(key: str, path: Path) -> None:
    """A key is a secret of sorts: the error says the rule only."""
    with pytest.raises(ParameterError, match=r"^a key is not empty, and made of ASCII letters, digits and signs$"):
        Client("http://a", "headline", key=key, limits=Limits(1, 1), ledger=path)
