"""Whatever an agent does, nothing that leaves a device depends on the reward, but for the response itself.

In each session of a device a fair coin picks one reward or the other, for each of its pulls. Somebody who sees all that
left, but for the responses, learns from the first half of the sessions what goes with which side of the coin, and
guesses the coins of the second. If nothing depends on the reward, each guess is right with probability 1/2, whatever
the rule. At epsilon 1e-6, where responses say next to nothing, they are looked at too.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from json import dumps, loads
from math import nan
from pathlib import Path
from typing import Any

import pytest
from tests.device.simulated import LIMITS, Agent, Make, Reply, Reward, Sent, World, session

from ldpbandits import AsyncClient, Client, Limits, Range, Sigmoid, Threshold
from ldpbandits.device import async_client
from ldpbandits.device import client as client_module
from ldpbandits.device.client import leave_deadline

SESSIONS = 48
"""Half to learn from, half to guess."""
PAIRS: list[tuple[Reward, Reward]] = [(0, 1), (None, 1), (0.4, 7), (nan, 1)]
"""A pull each: no or yes; nothing or yes; in range or out of range; not a number or yes."""


def masked(sent: Sent) -> tuple[bytes, bytes]:
    """Return head and body of a request without its response, and without how long its response is."""
    found = re.search(rb'"response": ([^,}]+)', sent.body)
    if found is None:
        return sent.head, sent.body
    length = b"Content-Length: %d" % (len(sent.body) - len(found[1]))
    return re.sub(rb"Content-Length: \d+", length, sent.head), sent.body.replace(found[0], b'"response": ...')


def tickets(sent: list[Sent]) -> list[str]:
    """The tickets that were answered, in the order in which they were."""
    return [request.message["ticket"] for request in sent if b"/responses" in request.head]


def first_times(sent: list[Sent]) -> dict[str, float]:
    """When each ticket was first answered."""
    times: dict[str, float] = {}
    for request in sent:
        if b"/responses" in request.head:
            times.setdefault(request.message["ticket"], round(request.time, 6))
    return times


FEATURES: dict[str, Callable[[list[Sent]], Hashable]] = {
    "existence": lambda sent: tuple(sorted(set(tickets(sent)))),
    "number": len,
    "time": lambda sent: tuple(round(request.time, 6) for request in sent),
    "first time": lambda sent: tuple(first_times(sent).items()),
    "size": lambda sent: tuple(sum(map(len, masked(request))) for request in sent),
    "order": lambda sent: tuple(tickets(sent)),
    "headers": lambda sent: tuple(masked(request)[0] for request in sent),
    "connections": lambda sent: tuple(request.connection for request in sent),
    "everything": lambda sent: tuple((round(request.time, 6), request.connection, masked(request)) for request in sent),
}
RESPONSES: dict[str, Callable[[list[Sent]], Hashable]] = {
    "responses": lambda sent: tuple(request.body for request in sent),
    "everything and the responses": lambda sent: tuple((round(each.time, 6), each.head, each.body) for each in sent),
}


def alarms(sessions: list[list[Sent]], coins: list[bool], features: dict[str, Any]) -> dict[str, int]:
    """Return the features by which all coins of the second half are guessed, and how many those are.

    By chance that happens with probability 2^-24 = 6e-8 for each feature.
    """
    half, found = len(sessions) // 2, {}
    for name, feature in features.items():
        seen = [feature(sent) for sent in sessions]
        heads: Counter[Hashable] = Counter()
        for value, coin in zip(seen[:half], coins[:half], strict=True):
            heads[value] += 1 if coin else -1
        right = sum((heads[value] > 0) == coin for value, coin in zip(seen[half:], coins[half:], strict=True))
        if right == half:
            found[name] = right
    return found


def play(
    patch: pytest.MonkeyPatch,
    kind: Callable[[], Agent],
    pairs: Sequence[tuple[Reward, Reward]] = PAIRS,
    limits: Limits = LIMITS,
    make: Make = Client,
) -> tuple[list[list[Sent]], list[bool]]:
    """Play sessions with a pull for each pair, and the reward that the coin says."""
    rng = random.Random(7)
    coins = [rng.random() < 0.5 for _ in range(SESSIONS)]
    sessions = [
        session(patch, World(kind(), seed), [pair[coin] for pair in pairs], make, limits)
        for seed, coin in enumerate(coins)
    ]
    return sessions, coins


class Changing(Agent):
    """Asks for something else each time; every other decision is one that the owner does not allow."""

    def decide(self) -> Reply:
        """Change the range, the epsilon, the default, the arm and the moment."""
        odd = self.issued % 2
        self.decision |= {
            "arm": self.issued,
            "curator": {
                "mechanism": "bernoulli",
                "epsilon": [1e-6, 1.0][odd],
                "transform": {"kind": "range", "low": [0.5, 0][odd], "high": [1.5, 1][odd]},
            },
            "default": [0.5, 1][odd],
            "report_after": [3, 100][odd],
        }
        return super().decide()


class Replaying(Agent):
    """Hands out one ticket again and again."""

    def decide(self) -> Reply:
        """Count from the start."""
        self.issued = 0
        return super().decide()


class Answering(Agent):
    """Answers responses as it is told, one after the other, and then as it should."""

    def __init__(self, *replies: Reply, **changes: Any) -> None:
        """Answer so."""
        super().__init__(**changes)
        self.replies = list(replies)

    def respond(self, message: dict[str, Any]) -> Reply:
        """Say what comes next."""
        return self.replies.pop(0) if self.replies else super().respond(message)


class Deciding(Agent):
    """Answers every second request for an arm as it is told."""

    def __init__(self, reply: Reply, **changes: Any) -> None:
        """Answer so."""
        super().__init__(**changes)
        self.reply = reply

    def decide(self) -> Reply:
        """Take turns."""
        honest = super().decide()
        return honest if self.issued % 2 else self.reply


class Accepting(Agent):
    """Answers acceptances as it is told, one after the other, and then as it should."""

    def __init__(self, *replies: Reply, **changes: Any) -> None:
        """Answer so."""
        super().__init__(**changes)
        self.replies = list(replies)

    def accept(self, message: dict[str, Any]) -> Reply:
        """Say what comes next."""
        return self.replies.pop(0) if self.replies else super().accept(message)


class Offering(Agent):
    """Offers something else each second time, or nothing."""

    def __init__(self, reply: Reply) -> None:
        """Offer this."""
        super().__init__()
        self.reply, self.offered = reply, 0

    def offer(self) -> Reply:
        """Take turns."""
        self.offered += 1
        return super().offer() if self.offered % 2 else self.reply


class Reading(Agent):
    """Behaves by what it reads in responses: a one must be sent again."""

    def respond(self, message: dict[str, Any]) -> Reply:
        """Refuse what is not zero, for a while."""
        self.answered += 1
        return Reply({}, 503) if message["response"] > 0 and self.answered < 5 else Reply({"status": "counted"})


def ctb(epsilon: float | list[float] = 1.0, **transform: Any) -> dict[str, Any]:
    """Ask for bits."""
    return {"mechanism": "bernoulli", "epsilon": epsilon, **({"transform": transform} if transform else {})}


def offered(agent: Agent) -> dict[str, Any]:
    """Return what an agent offers."""
    said: dict[str, Any] = loads(dumps(agent.offer().body))
    return said


NULL = {**dict.fromkeys(("ticket", "curator", "default", "report_after", "expires_at", "expires_in")), "sticky": 0}
AGENTS: dict[str, Callable[[], Agent]] = {
    "honest": Agent,
    "a range that a reward of 0 is not in": lambda: Agent(
        curator=ctb(1e-6, kind="range", low=0.5, high=1.5), default=1
    ),
    "a default of 1": lambda: Agent(default=1),
    "a default in the middle": lambda: Agent(default=0.3, curator={"mechanism": "laplace", "epsilon": 1.0}),
    "next to no epsilon": lambda: Agent(curator=ctb(1e-6)),
    "several epsilons": lambda: Agent(curator=ctb([1e-6, 0.5, 1.0, 4.0])),
    "a ticket that ends soon": lambda: Agent(expires_in=1, report_after=0.5),
    "a moment that comes with the reward": lambda: Agent(report_after=7.0),
    "a moment just after the reward": lambda: Agent(report_after=7.01),
    "a moment that nobody lives to see": lambda: Agent(report_after=3e6, expires_in=3.1e6),
    "at once": lambda: Agent(report_after=0),
    "nearly at once": lambda: Agent(report_after=1e-9),
    "no moment": lambda: Agent(report_after=None),
    "sticky": lambda: Agent(sticky=1000),
    "an arm that there is not": lambda: Agent(arm=2**31 - 1, name=""),
    "changes its mind": Changing,
    "replays a ticket": Replaying,
    "null tickets": lambda: Deciding(Reply({"arm": 1, "name": "green", **NULL})),
    "half a null ticket": lambda: Deciding(Reply({**Agent.decision, "ticket": None})),
    "slow to decide": lambda: Deciding(Reply({"ticket": "late", **Agent.decision}, delay=9.9)),
    "never decides": lambda: Deciding(Reply({}, delay=1e9)),
    "a decision that is cut off": lambda: Deciding(Reply({"ticket": "t", **Agent.decision}, cut=60)),
    "a huge decision": lambda: Deciding(Reply(b'{"arm": "' + b"x" * (1 << 21) + b'"}')),
    "slow to answer": lambda: Answering(*[Reply({"status": "counted"}, delay=9.9)] * 4),
    "never answers": lambda: Answering(*[Reply({"status": "counted"}, delay=1e9)] * 9),
    "cuts its answers": lambda: Answering(*[Reply({"status": "counted"}, cut=n) for n in (0, 1, 20, 45)]),
    "huge answers": lambda: Answering(*[Reply(b"x" * (1 << 21)), Reply(b"[" * (1 << 20))]),
    "is busy": lambda: Answering(*[Reply({}, 503)] * 5),
    "says no": lambda: Answering(*[Reply({"code": "expired", "message": "late"}, 410)] * 2),
    "says no to the key": lambda: Answering(*[Reply({"code": "unauthorized"}, 401)] * 3),
    "a login page": lambda: Answering(*[Reply(b"<html>")] * 3),
    "is busy with acceptances": lambda: Accepting(*[Reply({}, 503)] * 5),
    "takes no acceptance": lambda: Accepting(*[Reply({"code": "expired", "message": "late"}, 410)] * 2),
    "never takes an acceptance": lambda: Accepting(*[Reply({"status": "accepted"}, delay=1e9)] * 9),
    "cuts its acceptances": lambda: Accepting(*[Reply({"status": "accepted"}, cut=n) for n in (0, 1, 20, 45)]),
    "offers something else": lambda: Offering(Reply({**offered(Agent()), "default": 1})),
    "hides its offer": lambda: Offering(Reply({}, 503)),
}


def test_the_level_is_as_stated() -> None:
    """Of all features and agents together, a false alarm has probability below 2e-5; and seeds are fixed."""
    assert 2.0 ** -(SESSIONS // 2) * len(FEATURES) * len(AGENTS) < 2e-5


@pytest.mark.parametrize("name", AGENTS)
def test_no_feature_tells_the_reward(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Whether something is sent, when, how much, in which order, with which headers, how often, on how many lines.

    False alarm: 9 * 2^-24 = 5e-7 for each agent; seeds are fixed.
    """
    sessions, coins = play(monkeypatch, AGENTS[name])
    assert alarms(sessions, coins, FEATURES) == {}
    assert all(sessions)


@pytest.mark.parametrize("make", [Client, AsyncClient])
@pytest.mark.parametrize("name", AGENTS)
def test_with_the_same_noise_all_is_the_same_whatever_the_reward(
    monkeypatch: pytest.MonkeyPatch, name: str, make: Make
) -> None:
    """More than by statistics: for each seed, all that leaves but the response is equal to the byte and microsecond."""
    for seed in range(2):
        rewards: list[Reward] = [None, 0, 1, 0.4, 7, nan]
        seen = {
            FEATURES["everything"](session(monkeypatch, World(AGENTS[name](), seed), [reward] * 2, make))
            for reward in rewards
        }
        assert len(seen) == 1


@pytest.mark.parametrize("make", [Client, AsyncClient])
@pytest.mark.parametrize("name", AGENTS)
def test_nobody_can_tell_a_reward_by_name_from_one_by_ticket(
    monkeypatch: pytest.MonkeyPatch, name: str, make: Make
) -> None:
    """With the same noise all that leaves but the response is equal, so the tests above hold for both."""
    rewards: list[Reward] = [1, None, 0.4]
    both = [
        FEATURES["everything"](session(monkeypatch, World(AGENTS[name](), 1), rewards, make, by_name=by_name))
        for by_name in (False, True)
    ]
    assert both[0] == both[1]


@pytest.mark.parametrize("name", AGENTS)
def test_nobody_can_tell_one_client_from_the_other(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """With the same noise both send the same bytes on the same connections, and at the same times, to 0.1 seconds."""
    both = [session(monkeypatch, World(AGENTS[name](), 1), [1, None, 0.4], make) for make in (Client, AsyncClient)]
    seen = [[(request.connection, request.head, request.body) for request in sent] for sent in both]
    assert seen[0] == seen[1]
    times = [[request.time for request in sent] for sent in both]
    assert times[0] == pytest.approx(times[1], abs=0.1)


def test_at_a_small_epsilon_not_even_the_responses_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does what an agent does because of them. To guess by four responses is right at most 1/2 + 1e-6 of the time.

    False alarm: 11 * 2^-24 = 7e-7; seeds are fixed.
    """
    sessions, coins = play(monkeypatch, lambda: Reading(curator=ctb(1e-6)))
    assert alarms(sessions, coins, FEATURES | RESPONSES) == {}


@pytest.mark.parametrize(
    ("curator", "rewards"),
    [
        (ctb(1.0, kind="sigmoid"), Sigmoid()),
        (ctb(1.0, kind="threshold", theta=0.5), Threshold),
        ({"mechanism": "laplace", "epsilon": 1.0, "transform": {"kind": "range", "low": -1, "high": 2}}, Range(-1, 2)),
    ],
)
def test_no_transform_tells_the_reward(monkeypatch: pytest.MonkeyPatch, curator: Any, rewards: Any) -> None:
    """Whatever stands before the mechanism, out of range or not: only the response differs. False alarm as above."""
    limits = Limits(rewards, epsilon=1, budget=100)
    sessions, coins = play(monkeypatch, lambda: Agent(curator=curator), limits=limits)
    assert alarms(sessions, coins, FEATURES) == {}
    assert len(first_times(sessions[0])) == len(PAIRS)


def is_yes(reward: Any) -> bool:
    """Tell one reward from the other, in a client that should not."""
    return bool(reward >= 0.5)


class SendsAtOnce(Client):
    """Sends as soon as there is a reward."""

    def _respond(self, ticket: str, reward: Any, clip: bool) -> bool:  # noqa: FBT001 - as Client has it
        kept = super()._respond(ticket, reward, clip)
        self._leave(leave_deadline())
        return kept


class SendsWhatIsInRange(Client):
    """As devices were: a reward out of range is an error and its pull stays open; the others are sent at once."""

    def _respond(self, ticket: str, reward: Any, clip: bool) -> bool:  # noqa: ARG002, FBT001 - as above
        kept = super()._respond(ticket, reward, clip=False)
        self._leave(leave_deadline())
        return kept


class SendsRewardsOnly(Client):
    """Has no answer where there was no reward."""

    def _send_due(self, now: float | None = None) -> int:
        for entry in self._outbox.entries():
            if not entry.is_observed and entry.is_over(client_module.time.time()):  # type: ignore[attr-defined]
                self._outbox.done(entry.ticket)
        return super()._send_due(now)


class SaysMore(Client):
    """Adds a header for a yes."""

    def _respond(self, ticket: str, reward: Any, clip: bool) -> bool:  # noqa: FBT001 - as above
        if is_yes(reward):
            self._connection._key["X-Happy"] = "yes"
        return super()._respond(ticket, reward, clip)


class Reconnects(Client):
    """Hangs up after a yes, and needs a new connection."""

    def _respond(self, ticket: str, reward: Any, clip: bool) -> bool:  # noqa: FBT001 - as above
        if is_yes(reward):
            self._connection._connection.close()
        return super()._respond(ticket, reward, clip)


class Hesitates(Client):
    """Sends the response to a yes a little later."""

    def _respond(self, ticket: str, reward: Any, clip: bool) -> bool:  # noqa: FBT001 - as above
        kept = super()._respond(ticket, reward, clip)
        if is_yes(reward):
            self._report_times[ticket] += 0.001
            with self._ledger.database.transaction() as transaction:
                transaction.execute("UPDATE pulls SET report_at = report_at + 0.001 WHERE ticket = ?", (ticket,))
            self._wake()
        return kept


class Jumps(Client):
    """Sends the newest first if it is a yes."""

    def _entries(self) -> Any:
        entries = super()._entries()
        return entries[::-1] if any(entry.is_observed and is_yes(entry.response) for entry in entries) else entries


LEAKS: list[tuple[type[Client], tuple[Reward, Reward], set[str]]] = [
    (SendsAtOnce, (None, 1), {"time", "first time"}),
    (SendsWhatIsInRange, (0.4, 7), {"time", "first time"}),
    (SendsRewardsOnly, (None, 1), {"existence", "number"}),
    (SaysMore, (0, 1), {"headers", "size"}),
    (Reconnects, (0, 1), {"connections"}),
    (Hesitates, (0, 1), {"time", "first time"}),
    (Jumps, (None, 1), {"order"}),
]


@pytest.mark.parametrize("make", [Client, AsyncClient])
@pytest.mark.parametrize(("leaky", "pair", "features"), LEAKS, ids=lambda part: getattr(part, "__name__", None))
def test_a_client_that_leaks_is_found(
    monkeypatch: pytest.MonkeyPatch,
    leaky: type[Client],
    pair: tuple[Reward, Reward],
    features: set[str],
    make: Make,
) -> None:
    """The test above can fail: each of these gives the reward away by another feature, and is caught by it."""
    limits = Limits(Range(0, 1), epsilon=50, budget=1000)
    # Where the order is looked at, there is one: both responses are sent when the app ends.
    moments = {"report_after": 3e6, "expires_in": 3.1e6} if "order" in features else {}
    monkeypatch.setattr(async_client, "Client", leaky)
    leaks: Make = leaky if make is Client else make
    sessions, coins = play(monkeypatch, lambda: Agent(curator=ctb(50.0), **moments), [pair, pair], limits, leaks)
    found = alarms(sessions, coins, FEATURES)
    assert features | {"everything"} <= found.keys()


def test_the_pages_say_how_many_agents(root: Path) -> None:
    """As many as are played."""
    for page in ("README.md", "docs/python.md", "docs/asyncio.md"):
        assert f" {len(AGENTS)} hostile agents" in " ".join((root / page).read_text(encoding="utf-8").split())


@pytest.mark.parametrize("make", [Client, AsyncClient])
def test_everything_is_seen(monkeypatch: pytest.MonkeyPatch, make: Make) -> None:
    """The simulated world shows all that leaves in an honest session of two pulls, in full."""
    sent = session(monkeypatch, World(Agent(), 0), [1, None], make)
    assert [request.head.split()[1] for request in sent] == [
        b"/v1/experiments/one/offer",
        b"/v1/experiments/one/decisions",
        b"/v1/acceptances",
        b"/v1/experiments/one/decisions",
        b"/v1/acceptances",
        b"/v1/responses",
        b"/v1/responses",
    ]
    assert [round(request.time) for request in sent] == [0, 0, 0, 50, 50, 300, 350]
    assert [request.connection for request in sent] == [1] * 7
    assert loads(sent[2].body).keys() == {"ticket"}
    assert loads(sent[5].body).keys() == {"ticket", "response", "epsilon"}
    assert [b"Authorization" in request.head for request in sent] == [number in {1, 3} for number in range(7)]
