"""A device takes part: within its owner's limits, with one response a pull, and with nothing else on the wire."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ldpbandits import (
    Client,
    Flushed,
    LedgerError,
    LimitError,
    Limits,
    ParameterError,
    Range,
    RealLine,
    RewardError,
    ServerError,
    TicketError,
)
from ldpbandits.device.ledger import Ledger
from ldpbandits.device.outbox import Outbox

if TYPE_CHECKING:
    from tests.device.conftest import Clock, Device, FakeAgent

CTB_50 = {"mechanism": "bernoulli", "epsilon": 50.0}
"""The response is the reward, but once in e^50."""
UNIT = Range(0, 1)


def test_a_pull_from_its_arm_to_its_count(agent: "FakeAgent", device: "Device") -> None:
    """Decide, observe, leave: the agent has counted a response that its curator can give, and nothing is left to do."""
    client = device()
    pull = client.decide()
    assert (pull.arm, pull.name, pull.ticket, pull.epsilon) == (1, "green", "ticket-1", 0.5)
    assert client.pulls() == [pull]
    assert pull.observe(1) is True
    assert client.pulls() == []
    assert client.leave() == Flushed(acknowledged=1, waiting=0, refused=())
    assert agent.counted["ticket-1"] in {0.0, 1.0}
    assert client.flush() == Flushed(acknowledged=0, waiting=0, refused=())


def test_only_two_paths_and_no_sign_of_who_asks(agent: "FakeAgent", device: "Device") -> None:
    """Requests have what HTTP itself needs: no cookie, no user agent, no field but the protocol's.

    A decision is asked for with the key; a response goes without, since its ticket is all that is needed.
    """
    agent.decision["curator"] = {"mechanism": "laplace", "epsilon": 1.0, "transform": {"kind": "range", "high": 10}}
    client = device("head/line ü", url=f"{agent.url}/shop/", limits=Limits(Range(0, 10), 1, 10))
    client.decide().observe(7.12345)
    client.leave()
    asked, told = agent.requests
    assert asked.path == "/shop/v1/experiments/head%2Fline%20%C3%BC/decisions"
    assert asked.body == b"{}"
    assert told.path == "/shop/v1/responses"
    assert json.loads(told.body).keys() == {"ticket", "response", "epsilon"}
    assert asked.headers["Authorization"] == "Bearer client-key"
    for request, more in ((asked, {"Authorization"}), (told, set())):
        assert set(request.headers) == {"Host", "Accept-Encoding", "Content-Length", "Content-Type"} | more
        assert request.headers["Accept-Encoding"] == "identity"
        assert b"7.12345" not in request.body
    assert asked.connection == told.connection


def test_of_several_epsilons_the_largest_within_the_limits_is_picked(agent: "FakeAgent", device: "Device") -> None:
    """It is picked and charged with the arm, before there is a reward; each try to send the response names it."""
    agent.decision["curator"] = {**CTB_50, "epsilon": [0.25, 1, 4]}
    client = device(limits=Limits(UNIT, epsilon=1, budget=2.5))
    picked = []
    for _ in range(4):
        before = client.spent()
        pull = client.decide()
        assert client.spent() == before + pull.epsilon
        agent.script = [(503, {"code": "retry", "message": "later"})]
        pull.observe(1)
        assert client.leave().waiting == 1
        assert client.flush(now=time.time() + 400).acknowledged == 1
        assert {json.loads(body)["epsilon"] for body in agent.bodies(str(pull.ticket))} == {pull.epsilon}
        picked.append(pull.epsilon)
    assert picked == [1, 1, 0.25, 0.25]
    with pytest.raises(LimitError, match=r"epsilon = 0\.25 on top of the 2\.5 spent"):
        client.decide()


def test_an_owner_may_name_one_of_the_epsilons(agent: "FakeAgent", device: "Device") -> None:
    """One that is not offered, or is beyond the limits, costs nothing."""
    agent.decision["curator"] = {**CTB_50, "epsilon": [0.25, 1, 4]}
    client = device(limits=Limits(UNIT, epsilon=1, budget=10))
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
        with pytest.raises(ServerError, match="asks for an unknown curator"):
            client.decide()
    assert client.spent() == 0


def test_a_reward_is_never_written(device: "Device", path: Path) -> None:
    """Neither the ledger nor a file beside it holds the reward: not as text, and not as a float."""
    client = device(limits=Limits(UNIT, 50, 100))
    client.decide().observe(0.7123456789)
    client.decide()
    for file in path.parent.iterdir():
        content = file.read_bytes()
        assert b"0.7123" not in content
        assert b"\x3f\xe6\xcb" not in content  # the first bytes of that double


@pytest.mark.parametrize(
    ("change", "limits", "sentence"),
    [
        ({"curator": {"mechanism": "bernoulli", "epsilon": 2}}, Limits(UNIT, 1, 10), "asks for epsilon = 2 a response"),
        ({}, Limits(UNIT, 1, 0.4), "on top of the 0 spent is too much"),
        ({"report_after": 0}, Limits(UNIT, 1, 10), "responses at once, which reveals when a reward came"),
        (
            {},
            Limits(Range(0, 2), 1, 10),
            r"rewards by Range\(low=0.0, high=1.0\); .* allows Range\(low=0.0, high=2.0\)",
        ),
        (
            {"curator": {"mechanism": "laplace", "epsilon": 1, "transform": {"kind": "real-line"}}},
            Limits(UNIT, 1, 10),
            r"rewards by RealLine\(\)",
        ),
    ],
)
def test_an_agent_that_asks_for_too_much(
    agent: "FakeAgent", device: "Device", drawn: list[int], change: dict[str, Any], limits: Limits, sentence: str
) -> None:
    """It is refused in a clear sentence; nothing is drawn, charged or sent, and no pull is open."""
    agent.decision |= change
    client = device(limits=limits)
    with pytest.raises(LimitError, match=sentence):
        client.decide()
    assert client.pulls() == []
    assert client.spent() == 0
    assert client.flush(now=1e12).acknowledged == 0
    assert drawn == []
    assert agent.requests == []  # the offer was enough: no ticket was taken


def test_the_real_line_with_the_owners_word(agent: "FakeAgent", device: "Device") -> None:
    """With rewards=RealLine() any finite reward may be observed, as it is: there is nothing to clip to."""
    agent.decision["curator"] = {"mechanism": "laplace", "epsilon": 1, "transform": {"kind": "real-line"}}
    client = device(limits=Limits(RealLine(), 1, 10))
    pull = client.decide()
    with pytest.raises(RewardError, match="must be finite"):
        pull.observe(10**400)
    assert pull.observe(1e6) is True
    client.leave()
    assert agent.counted["ticket-1"] == pytest.approx(1e6, abs=100)


def test_the_budget_holds_over_clients_experiments_and_agents(
    agent: "FakeAgent", device: "Device", clock: "Clock", drawn: list[int]
) -> None:
    """All that share a ledger share its budget; a pull is charged when it is accepted, and time alone gives it back."""
    limits = Limits(UNIT, 1, 1)
    clients = [device(limits=limits), device("colour", limits=limits), device(url=f"{agent.url}/other", limits=limits)]
    pulls = [client.decide() for client in clients[:2]]
    assert clients[2].spent() == 1
    assert len(drawn) == 2
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


def test_a_pull_is_observed_by_its_own_experiment_only(agent: "FakeAgent", device: "Device", drawn: list[int]) -> None:
    """A client neither draws for nor sends the ticket of another agent or experiment of the same ledger."""
    pull = device().decide()
    drawn.clear()
    for stranger in (device("colour"), device(url=f"{agent.url}/other")):
        assert stranger.pulls() == []
        with pytest.raises(TicketError, match="belongs to another device or experiment"):
            stranger.observe(str(pull.ticket), 1)
        stranger.flush(now=1e12)
    assert drawn == []
    assert len(agent.requests) == 1
    assert pull.observe(1)


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
    with pytest.raises(LedgerError):
        client.flush(now=1e12)
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
        Client(url, "headline", key="k", limits=Limits(UNIT, 1, 1), ledger=path)
    assert not path.exists()


@pytest.mark.parametrize("key", ["", "a\nb", "kéy"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_shown(key: str, path: Path) -> None:
    """A key is a secret of sorts: the error says the rule only."""
    with pytest.raises(
        ParameterError, match=r"^a key must not be empty, and is made of ASCII letters, digits and signs$"
    ):
        Client("http://a", "headline", key=key, limits=Limits(UNIT, 1, 1), ledger=path)
