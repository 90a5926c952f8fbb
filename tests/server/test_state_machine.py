"""Whatever is sent, in whatever order and at whatever time of a clock that jumps, each response is counted once."""

import asyncio
import os
import shutil
import sqlite3
import tempfile
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable
from contextlib import closing
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.server.inprocess import Reply, ask
from tests.server.model import Model, ModelArm, ModelExperiment, Ticket, full_hour

from ldpbandits.agent.duels import Design
from ldpbandits.agent.inference import estimates
from ldpbandits.server import service
from ldpbandits.server.api.app import application
from ldpbandits.server.experiments.tickets import Signer
from ldpbandits.server.experiments.tickets import Ticket as RealTicket
from ldpbandits.server.service import Service
from ldpbandits.server.store.sqlite.store import SqliteStore
from ldpbandits.types import Arm

LONG = os.environ.get("LDPBANDITS_FAULTS") == "1"
SETTINGS = settings(
    max_examples=250 if LONG else 50,
    stateful_step_count=100 if LONG else 50,
    deadline=None,
    derandomize=not LONG,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
ADMIN = "admin-key-of-the-tests"
ENVIRONMENT = {"LDPBANDITS_ADMIN_KEY": ADMIN, "LDPBANDITS_VIEWER_KEY": "viewer-key-of-the-tests"}
START = 1_000_000
LIFETIMES = (30, 1000)
EPSILON = 2.0

T = TypeVar("T")
names = st.sampled_from(["first", "second"])
mechanisms = st.sampled_from(["bernoulli", "laplace"])
designs = st.sampled_from(["duels", "adaptive", "equal"])
RULES: dict[tuple[str, str], dict[str, object]] = {
    ("bernoulli", "adaptive"): {"kind": "kl-ucb++"},
    ("bernoulli", "duels"): {"kind": "duels"},
    ("bernoulli", "equal"): {"kind": "equal"},
    ("laplace", "adaptive"): {"kind": "kl-ucb++-laplace", "epsilon": EPSILON},
    ("laplace", "duels"): {"kind": "duels-laplace", "epsilon": EPSILON},
    ("laplace", "equal"): {"kind": "equal-laplace", "epsilon": EPSILON},
}
picks = st.integers(0, 10_000)
"""Chooses among what there is: an index, modulo."""
graces = st.sampled_from([None, 100, None, 3, 100, 0])
_TALLIES = "SELECT arm, sum(pulls), sum(total) FROM cells WHERE experiment = ? AND cell >= 0 GROUP BY arm ORDER BY arm"
_RESPONSES = "SELECT arm, count(*), sum(value) FROM responses WHERE experiment = ? GROUP BY arm ORDER BY arm"


def rival_in(text: str) -> int | None:
    """Read the rival out of a ticket, which is signed but not secret."""
    rival = int.from_bytes(urlsafe_b64decode(text)[9:11])
    return None if rival == 0xFFFF else rival


class Life(RuleBasedStateMachine):
    """The life of a server, beside a model of it."""

    def __init__(self) -> None:
        """Start a server on a new database."""
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="ldpbandits-"))
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(service, "NONCES_PER_DELETION", 2)
        self.patch.setattr(estimates, "estimate", cache(estimates.estimate))  # the same question again and again
        self.loop = asyncio.new_event_loop()
        self.model = Model(START)
        self.open()
        (first,) = self.service.keys.new.values()
        self.model.keys[first] = None
        self.all_keys = [first]

    def open(self) -> None:
        """Open the database. Nobody cuts the power here, so that the disk need not be waited for."""
        store = SqliteStore(self.folder / "agent.db")
        store.file.connection.execute("PRAGMA synchronous = OFF")
        self.service = Service(store, ENVIRONMENT, now=lambda: self.model.clock + 0.5)
        self.app = application(self.service)

    def close(self) -> None:
        """End the server, once it has nothing left to do."""
        while self.service.committer._work is not None:
            self.do(asyncio.sleep(0))
        self.service.close()

    def teardown(self) -> None:
        """Leave nothing behind."""
        self.close()
        self.do(self.loop.shutdown_default_executor())
        self.loop.close()
        self.patch.undo()
        shutil.rmtree(self.folder)

    def do(self, work: Awaitable[T]) -> T:
        """Wait for something."""
        return self.loop.run_until_complete(work)

    def ask(self, method: str, path: str, body: object = None, *, key: str = ADMIN) -> Reply:
        """Ask the application, as an admin."""
        return self.do(ask(self.app, method, path, body, key=key))

    @property
    def client_key(self) -> str:
        """The newest client key."""
        return next(key for key, until in self.model.keys.items() if until is None)

    def pick(self, number: int) -> Ticket:
        """Choose a ticket; small numbers stand for the newest ones."""
        return self.model.tickets[-1 - number % len(self.model.tickets)]

    def send(self, text: str, value: float) -> tuple[int, str]:
        """Send a response; return the status and what the server says."""
        reply = self.ask("POST", "/v1/responses", {"ticket": text, "response": value}, key=self.client_key)
        return reply.status, reply.json["status" if reply.status == 200 else "code"]

    def change(self, path: str, body: object = None, *, expect: int = 200) -> None:
        """Make a change as an admin."""
        assert self.ask("POST", path, body).status == expect

    @initialize(
        mechanism=mechanisms,
        design=designs,
        lifetime=st.sampled_from(LIFETIMES),
        arms=st.integers(1, 3),
        two=st.booleans(),
    )
    def start(self, mechanism: str, design: str, lifetime: int, arms: int, two: bool) -> None:  # noqa: FBT001 - drawn
        """There are one or two experiments, and tickets are out."""
        self.create("first", mechanism, design, lifetime, arms)
        self.decide("first", 3)
        if two:
            self.create("second", "bernoulli", "duels", LIFETIMES[0], 2)
            self.decide("second", 2)

    @rule(name=names, mechanism=mechanisms, design=designs, lifetime=st.sampled_from(LIFETIMES), arms=st.integers(1, 3))
    def create(self, name: str, mechanism: str, design: str, lifetime: int, arms: int) -> None:
        """A name can be taken once."""
        made = [f"arm {number}" for number in range(arms)]
        body = {
            "name": name,
            "arms": made,
            "curator": {"mechanism": mechanism, "epsilon": EPSILON},
            "rule": RULES[mechanism, design],
            "may_add_arms": True,
            "stop_when_decided": "never",
            "ticket_lifetime": lifetime,
        }
        known = self.model.experiments
        self.change("/v1/experiments", body, expect=409 if name in known else 201)
        if name not in known:
            cap = None if mechanism == "bernoulli" else ceil(28 / EPSILON * 2**20)
            number = self.number_of_new(name)
            known[name] = ModelExperiment(number, cap, lifetime, [ModelArm(arm) for arm in made])

    def number_of_new(self, _: str) -> int:
        """Return the number of a new experiment: as many as there ever were, and one."""
        return len(self.model.experiments) + len(self.model.deleted) + 1

    @rule(name=names, what=st.sampled_from(["resume", "pause", "close"]), really=st.integers(0, 2))
    def set_status(self, name: str, what: str, really: int) -> None:
        """Pausing can be undone; closing, which is rarer, cannot."""
        what = "resume" if what == "close" and really == 0 else what
        experiment = self.model.experiments.get(name)
        status = {"pause": "paused", "resume": "running", "close": "closed"}[what]
        refused = experiment is not None and experiment.status == "closed" != status
        self.change(f"/v1/experiments/{name}/{what}", expect=404 if experiment is None else 409 if refused else 200)
        if experiment is not None and not refused:
            experiment.status, experiment.shipped = status, None

    @rule(name=names, arm=st.integers(0, 4), by_name=st.booleans())
    def ship(self, name: str, arm: int, by_name: bool) -> None:  # noqa: FBT001 - drawn
        """Any arm that is not retired can be shipped, unless the experiment is closed."""
        experiment, path = self.model.experiments.get(name), f"/v1/experiments/{name}/ship"
        known = [] if experiment is None else [each.name for each in experiment.arms]
        body = {"arm": (known[arm] if arm < len(known) else "no arm") if by_name else arm}
        if experiment is None or (arm >= len(known) and experiment.status != "closed"):
            self.change(path, body, expect=404)
        elif experiment.status == "closed" or experiment.arms[arm].retired:
            self.change(path, body, expect=409)
        else:
            self.change(path, body)
            experiment.status, experiment.shipped = "shipped", arm

    @rule(name=names, really=st.integers(0, 3))
    def delete(self, name: str, really: int) -> None:
        """A deleted experiment is gone with its responses; deleting is rare."""
        if really == 0:
            reply = self.ask("DELETE", f"/v1/experiments/{name}")
            assert reply.status == (200 if name in self.model.experiments else 404)
            if name in self.model.experiments:
                self.model.delete(name)

    @rule(name=names, arm=st.integers(0, 5))
    def add_arm(self, name: str, arm: int) -> None:
        """A new arm gets the next number; a name that was ever used is refused."""
        experiment, new = self.model.experiments.get(name), f"arm {arm}"
        if experiment is None:
            self.change(f"/v1/experiments/{name}/arms", {"name": new}, expect=404)
        elif experiment.status == "closed" or new in {known.name for known in experiment.arms}:
            self.change(f"/v1/experiments/{name}/arms", {"name": new}, expect=409)
        else:
            self.change(f"/v1/experiments/{name}/arms", {"name": new}, expect=201)
            experiment.arms.append(ModelArm(new))

    @rule(name=names, arm=st.integers(0, 4))
    def retire_arm(self, name: str, arm: int) -> None:
        """Any arm but the last, and one that everybody gets, can be retired, and again."""
        experiment, path = self.model.experiments.get(name), f"/v1/experiments/{name}/arms/{arm}/retire"
        if experiment is None or (arm >= len(experiment.arms) and experiment.status != "closed"):
            self.change(path, expect=404)
        elif experiment.status == "closed" or experiment.shown == [arm] or experiment.shipped == arm:
            self.change(path, expect=409)
        else:
            self.change(path)
            experiment.arms[arm].retired = True

    @rule(name=names, count=st.integers(1, 4))
    def decide(self, name: str, count: int) -> None:
        """An arm that is not retired is handed out, with a ticket that holds for as long as was said."""
        experiment = self.model.experiments.get(name)
        for _ in range(count):
            reply = self.ask("POST", f"/v1/experiments/{name}/decisions", {}, key=self.client_key)
            if experiment is not None and experiment.shipped is not None:
                assert (reply.status, reply.json["arm"], reply.json["ticket"]) == (200, experiment.shipped, None)
                return
            if experiment is None or experiment.status != "running":
                said = 404 if experiment is None else {"paused": 409, "closed": 410}[experiment.status]
                assert reply.status == said
                return
            made, expires_at = reply.json, self.model.now + experiment.lifetime
            arm = experiment.arms[made["arm"]]
            assert (reply.status, arm.retired, made["name"], made["expires_at"]) == (200, False, arm.name, expires_at)
            rival = rival_in(made["ticket"])
            known = self.service.experiments[name].agent.duels
            is_duel = known is not None and known.design is Design.DUELS
            assert rival is None if known is None or len(experiment.shown) == 1 else rival is not None
            assert not is_duel or rival is None or rival in {*experiment.shown} - {made["arm"]}
            self.model.decided(Ticket(made["ticket"], name, made["arm"], expires_at, self.model.newest, rival))

    @rule(name=names, values=st.lists(st.integers(0, 1), min_size=1, max_size=3))
    def take_part(self, name: str, values: list[int]) -> None:
        """Ask for an arm and answer at once, as most devices do."""
        for value in values:
            known = len(self.model.tickets)
            self.decide(name, 1)
            for ticket in self.model.tickets[known:]:
                sent = value * self.model.experiments[name].unit
                assert self.send(ticket.text, sent) == self.model.respond(ticket, value) == (200, "counted")

    @precondition(lambda self: self.model.tickets)
    @rule(numbers=st.lists(picks, min_size=1, max_size=3), is_batch=st.booleans())
    def accept(self, numbers: list[int], is_batch: bool) -> None:  # noqa: FBT001 - drawn
        """An acceptance counts once, before the response, and alone or in a batch."""
        drawn = [self.pick(number) for number in numbers]
        if is_batch:
            expected = [self.model.accept(ticket)[1] for ticket in drawn]
            reply = self.ask("POST", "/v1/acceptances/batch", {"tickets": [ticket.text for ticket in drawn]})
            assert [each["code"] or each["status"] for each in reply.json] == expected
            return
        for ticket in drawn:
            reply = self.ask("POST", "/v1/acceptances", {"ticket": ticket.text})
            told = reply.status, reply.json["status" if reply.status == 200 else "code"]
            assert told == self.model.accept(ticket)

    @precondition(lambda self: self.model.tickets)
    @rule(number=picks, share=st.floats(0, 1), again=st.booleans())
    def respond(self, number: int, share: float, again: bool) -> None:  # noqa: FBT001 - drawn
        """A possible response: counted, or a duplicate, changed, late, closed, unknown."""
        ticket = self.pick(number)
        experiment = self.model.of(ticket)
        least, most = experiment.limits
        value = ticket.value if again and ticket.value is not None else round(least + share * (most - least))
        assert self.send(ticket.text, value * experiment.unit) == self.model.respond(ticket, value)

    @precondition(lambda self: self.model.tickets)
    @rule(numbers=st.lists(st.tuples(picks, st.integers(0, 1)), min_size=2, max_size=6))
    def respond_together(self, numbers: list[tuple[int, int]]) -> None:
        """Responses that share a commit, duplicates and changed ones among them: the first of each ticket counts."""
        drawn = [(self.pick(number), value) for number, value in numbers]
        drawn.append(drawn[0])
        expected = [self.model.respond(ticket, value) for ticket, value in drawn]

        async def send_all() -> list[Reply]:
            messages = [
                {"ticket": ticket.text, "response": value * self.model.of(ticket).unit} for ticket, value in drawn
            ]
            asking = (ask(self.app, "POST", "/v1/responses", body, key=self.client_key) for body in messages)
            return await asyncio.gather(*asking)

        replies = self.do(send_all())
        assert [(r.status, r.json["status" if r.status == 200 else "code"]) for r in replies] == expected

    @precondition(lambda self: self.model.tickets)
    @rule(numbers=st.lists(st.tuples(picks, st.integers(0, 1)), min_size=1, max_size=6))
    def respond_in_a_batch(self, numbers: list[tuple[int, int]]) -> None:
        """The same, in one request."""
        drawn = [(self.pick(number), value) for number, value in numbers]
        expected = [self.model.respond(ticket, value)[1] for ticket, value in drawn]
        sent = [{"ticket": ticket.text, "response": value * self.model.of(ticket).unit} for ticket, value in drawn]
        reply = self.ask("POST", "/v1/responses/batch", {"responses": sent})
        assert [each["code"] or each["status"] for each in reply.json] == expected

    @precondition(lambda self: self.model.tickets)
    @rule(number=picks, kind=st.integers(0, 5))
    def respond_impossibly(self, number: int, kind: int) -> None:
        """What no curator gives is refused: off the grid, beyond the cap, huge."""
        ticket = self.pick(number)
        experiment = self.model.of(ticket)
        least, most = experiment.limits
        beyond = ((most + 1) * experiment.unit, (least - 1) * experiment.unit)
        value = (*beyond, 1e300, -1e300, 0.5 * experiment.unit, experiment.unit + 2.0**-40)[kind]
        assert self.send(ticket.text, value) == self.model.respond(ticket, None)

    @precondition(lambda self: self.model.tickets)
    @rule(number=picks, kind=st.integers(0, 9), bit=st.integers(0, 48 * 8 - 1), value=st.integers(0, 1))
    def forge(self, number: int, kind: int, bit: int, value: int) -> None:
        """A ticket that differs from ours in anything, or is signed by another, is refused."""
        ticket = self.pick(number)
        text, raw = ticket.text, bytearray(urlsafe_b64decode(ticket.text))
        raw[bit // 8] ^= 1 << bit % 8
        experiment = self.model.of(ticket).number
        other = Signer({ticket.secret: b"another secret, of another server"}, identity=bytes(16))
        forged = (
            urlsafe_b64encode(raw).decode(),
            text[: bit % len(text)],
            text + text[bit % len(text)],
            text + "=",
            " " + text,
            text + "\n",
            text[:-1] + "\u00e9",
            text.replace("-", "+").replace("_", "/") if {"-", "_"} & set(text) else "",
            text[: bit % len(text)] + "\n" + text[bit % len(text) + 1 :],
            other.sign(RealTicket(experiment, Arm(ticket.arm), ticket.expires_at, bytes(raw[17:32]))),
        )[kind]
        self.model.forged += 1
        assert self.send(forged, float(value)) == (403, "forged")

    @rule(grace=graces)
    def rotate_client_key(self, grace: int | None) -> None:
        """There is a new key; the old ones hold for the grace, as the invariant below checks."""
        reply = self.ask("POST", "/v1/keys/client/rotate", {"grace": grace})
        assert reply.status == 200
        self.model.rotate_key(reply.json["key"], grace or 0)
        self.all_keys.append(reply.json["key"])

    @rule(grace=graces, later=st.sampled_from([0, 2, 3]), number=picks)
    def rotate_signing_secret(self, grace: int | None, later: int, number: int) -> None:
        """There is a new secret; tickets of the old ones hold for the grace."""
        self.change("/v1/keys/signing/rotate", {"grace": grace})
        self.model.rotate_secret(grace)
        self.clock_forward(later)
        self.the_report_says_what_happened()
        if self.model.tickets:
            self.respond(number, 0.0, again=True)

    @rule(seconds=st.sampled_from([1, 2, 3, 4, 5, 30, 1000]))
    def clock_forward(self, seconds: int) -> None:
        """Time passes, or the clock jumps."""
        self.model.clock += seconds

    @rule(seconds=st.sampled_from([1, 2, 3, 5, 60, 2000]))
    def clock_back(self, seconds: int) -> None:
        """The clock jumps back."""
        self.model.clock = max(START // 2, self.model.clock - seconds)

    @rule()
    def forget(self) -> None:
        """What is no longer needed is removed."""
        self.do(self.service.forget())
        self.model.forget()

    @precondition(lambda self: self.model.nonces)
    @rule(number=picks, seconds=st.sampled_from([-1, 0, 10_000_000]), restart=st.booleans(), share=st.integers(0, 1))
    def counted_forgotten_and_back(self, number: int, seconds: int, restart: bool, share: int) -> None:  # noqa: FBT001
        """A ticket is used, its nonce removed while the clock is ahead; the clock is set right, and it comes."""
        ticket = self.model.nonces[number % len(self.model.nonces)]
        was_counted = ticket.value is not None  # or accepted alone: then the response may still count
        before = self.model.clock
        self.model.clock = max(before, ticket.expires_at + seconds)
        self.the_report_says_what_happened()
        self.forget()
        self.model.clock = before
        if restart:
            self.restart()
        unit = self.model.of(ticket).unit
        told = self.send(ticket.text, share * unit)
        assert told == self.model.respond(ticket, share)
        assert not was_counted or told != (200, "counted")

    @rule()
    def restart(self) -> None:
        """The server ends and starts again on the same database; it makes no new key."""
        self.close()
        self.open()
        assert not self.service.keys.new
        self.model.restart()

    @invariant()
    def the_report_says_what_happened(self) -> None:
        """Per arm pulls, pending, missing and decisions are the model's, as are the counts of what was refused."""
        self.model.expire()
        for name, experiment in self.model.experiments.items():
            made = self.ask("GET", f"/v1/experiments/{name}").json
            shown = [
                (
                    arm["name"],
                    arm["retired"],
                    arm["pulls"],
                    arm["pending"],
                    arm["missing"] + arm["unaccepted"],
                    arm["decisions"],
                )
                for arm in made["arms"]
            ]
            assert shown == [
                (arm.name, arm.retired, arm.pulls, *self.model.shown(name, n)) for n, arm in enumerate(experiment.arms)
            ]
            waiting = [self.model.waiting(name, number) for number in range(len(experiment.arms))]
            assert [arm["accepted"] - arm["pulls"] for arm in made["arms"]] == waiting
            if self.model.adds_up:
                assert all(pulls + out + missing == decisions for _, _, pulls, out, missing, decisions in shown)
            kinds = ("expired", "impossible", "changed", "closed", "duplicate")
            expected = {kind: experiment.rejected[kind] for kind in kinds}
            assert made["rejected"] == {**expected, "forged": self.model.forged}
            assert (made["status"], made["shipped"]) == (experiment.status, experiment.shipped)
            assert (made["status"], made["responses"]) == (experiment.status, sum(a.pulls for a in experiment.arms))

    @invariant()
    def tallies_are_exact(self) -> None:
        """On disk, in the table of responses, in memory and in the export the sums are the model's to the last unit."""
        for name, experiment in self.model.experiments.items():
            expected = [(number, arm.pulls, arm.total) for number, arm in enumerate(experiment.arms)]
            exported = self.ask("GET", f"/v1/experiments/{name}/tallies").json
            assert [(arm["arm"], arm["pulls"], arm["total"]) for arm in exported["arms"]] == expected
            assert exported["unit"] == experiment.unit
            self.duels_are_exact(name, experiment, exported["arms"])
            key = (experiment.number,)
            for sql in (_TALLIES, _RESPONSES):
                assert self.disk(sql, key) == [row for row in expected if row[1]]
            agent = self.service.experiments[name].agent
            pending = sum(self.model.shown(name, number)[0] for number in range(len(experiment.arms)))
            assert agent.t == sum(arm.pulls for arm in experiment.arms) + pending
            self.knows_what_is_out(name, experiment)

    def duels_are_exact(self, name: str, experiment: ModelExperiment, exported: list[dict[str, Any]]) -> None:
        """By pair of arms the agent and the export have the sums of the model, after a restart and a poll, too."""
        duels = [
            (number, rival, *sums) for number, arm in enumerate(experiment.arms) for rival, sums in arm.duels.items()
        ]
        told = [
            (
                row["arm"],
                duel["rival"],
                duel["by_epsilon"][0]["pulls"],
                duel["by_epsilon"][0]["total"],
            )
            for row in exported
            for duel in row["duels"]
        ]
        assert told == sorted(duels)
        agent = self.service.experiments[name].agent
        known = {} if agent.duels is None else agent.duels.cells
        if agent.bound_rule.reading is None:
            assert {(*key, *cells) for key, cells in known.items()} == set(duels)
        else:
            assert {(*key, cells[0]) for key, cells in known.items()} == {row[:3] for row in duels}

    def knows_what_is_out(self, name: str, experiment: ModelExperiment) -> None:
        """What was handed out since the start is known to the ticket."""
        is_open = sum(self.model.open(name, number) for number in range(len(experiment.arms)))
        assert self.service.experiments[name].open.total == is_open

    @invariant()
    def no_nonce_is_removed_too_early(self) -> None:
        """The nonces on disk are those of the model: all whose ticket is not yet refused by its expiry."""
        rows = self.disk("SELECT expires_at FROM nonces ORDER BY expires_at")
        assert [expires_at for (expires_at,) in rows] == sorted(map(full_hour, self.model.nonces))
        could_come = [t for t in self.model.tickets if t.value is not None and t.expires_at > self.model.now]
        assert len(rows) >= len(could_come)

    @invariant()
    def keys_hold_as_long_as_they_should(self) -> None:
        """A key that has ended is refused, whatever the clock says."""
        for key in self.all_keys[-3:]:
            status = self.ask("POST", "/v1/experiments/nothing/decisions", {}, key=key).status
            assert status == (404 if self.model.is_valid(key) else 401)

    def disk(self, sql: str, values: tuple[object, ...] = ()) -> list[tuple[int, ...]]:
        """Read what is on disk, as somebody else would."""
        with closing(sqlite3.connect(f"file:{self.folder}/agent.db?mode=ro", uri=True)) as connection:
            return connection.execute(sql, values).fetchall()


def test_whatever_happens_the_server_and_the_model_agree() -> None:
    """Each response counts once, for its arm, or is refused for the right reason, and nothing is lost on the way."""
    run_state_machine_as_test(Life, settings=SETTINGS)
