"""A crowd of devices that send while servers are killed, and the books: what they were told against what is kept."""

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from threading import Event, Thread
from typing import Any

from ldpbandits.agent.laplace_rules import mean_excess
from ldpbandits.server.experiments.tickets import Signer, Ticket, new_nonce
from ldpbandits.types import Arm

ENVIRONMENT = {
    "LDPBANDITS_ADMIN_KEY": "admin-key-of-this-test",
    "LDPBANDITS_CLIENT_KEY": "client-key-of-this-test",
    "LDPBANDITS_SIGNING_SECRET": "the-signing-secret-of-this-test-of-kills",
}
EXPERIMENTS = (
    {
        "name": "bits",
        "arms": ["a", "b", "c"],
        "curator": {"mechanism": "bernoulli", "epsilon": 1},
        "rule": {"kind": "duels"},
    },
    {
        "name": "steps",
        "arms": ["a", "b"],
        "curator": {"mechanism": "laplace", "epsilon": 0.5},
        "rule": {"kind": "duels-laplace", "epsilon": 0.5},
    },
    {
        "name": "menu",
        "arms": ["a", "b"],
        "curator": {"mechanism": "bernoulli", "epsilon": [0.5, 2]},
        "rule": {"kind": "equal"},
    },
)
MENU = [0.5, 2]
DEVICES = 6
ACCEPTING = 0.5
"""The share of devices that send an acceptance; some of them then fall silent."""
SILENT = 0.2
"""The share of devices that never answer."""


@dataclass
class Crowd:
    """Devices that send responses, some of them twice at once, each again until it is acknowledged."""

    address: tuple[str, int]
    identity: bytes
    """That of the database: tickets are signed with it."""
    asks: bool = False
    """In the first experiment devices ask which arm to pull; everywhere else they have tickets of their own making."""
    stop: Event = field(default_factory=Event)
    acknowledged: dict[bytes, tuple[int, int, int, int]] = field(default_factory=dict)
    """By nonce: experiment, arm, cell and value, in units. Each device writes only its own."""
    waiting: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    """By nonce: experiment and arm of an accepted pull that never gets a response."""
    decided: Counter[int] = field(default_factory=Counter)
    """By arm, the decisions that devices have got."""
    unknown: int = 0
    """How often a device does not know whether a decision was made for it."""

    @contextmanager
    def working(self) -> Iterator[None]:
        """Send until the block ends, and then until all that was sent is acknowledged."""
        devices = [Thread(target=self._work, args=(random.Random(number),)) for number in range(DEVICES)]
        for device in devices:
            device.start()
        try:
            yield
        finally:
            self.stop.set()
            for device in devices:
                device.join()

    def wait_for(self, acknowledged: int) -> None:
        """Wait until so many are acknowledged: on a machine that is busy with other things it takes its time."""
        give_up = time.monotonic() + 120
        while len(self.acknowledged) < acknowledged and time.monotonic() < give_up:
            time.sleep(0.05)

    def _work(self, rng: random.Random) -> None:
        signer = Signer.of_list([ENVIRONMENT["LDPBANDITS_SIGNING_SECRET"].encode()], self.identity)
        while not self.stop.is_set():
            experiment, level = rng.choice((1, 2, 3)), 0
            value = rng.randrange(-3 << 20, 3 << 20) if experiment == 2 else rng.randrange(2)
            if experiment == 1 and self.asks:
                text = self._decide()
                if text is None:
                    continue
                ticket = signer.read(text)
                assert ticket is not None
                self.decided[ticket.arm] += 1
                if rng.random() < SILENT:
                    continue
            else:
                arms = 3 if experiment == 1 else 2
                arm, rival = rng.randrange(arms), rng.choice((None, *map(Arm, range(arms))))
                ticket = Ticket(experiment, Arm(arm), int(time.time()) + 3600, new_nonce(), rival)
                text = signer.sign(ticket)
            if rng.random() < ACCEPTING:
                while not self._send({"ticket": text}, rng.choice((1, 2)), "/v1/acceptances"):
                    time.sleep(0.01)
                if rng.random() < SILENT:
                    self.waiting[ticket.nonce] = (experiment, ticket.arm)
                    continue
            message: dict[str, object] = {"ticket": text, "response": value / 2**20 if experiment == 2 else value}
            if experiment == 3:
                level = rng.randrange(2)
                message["epsilon"] = MENU[level]
            while not self._send(message, copies=rng.choice((1, 2))):
                time.sleep(0.01)
            # A response is kept by epsilon and by rival: those of the duels are not lost or doubled either.
            cell = level + (len(MENU) if experiment == 3 else 1) * (0 if ticket.rival is None else ticket.rival + 1)
            self.acknowledged[ticket.nonce] = (experiment, ticket.arm, cell, value)

    def _decide(self) -> str | None:
        """Ask for an arm; None when there is no answer, or a refusal for now."""
        connection = HTTPConnection(*self.address, timeout=20)
        try:
            connection.request("POST", "/v1/experiments/bits/decisions", "{}", _bearer("CLIENT"))
            with closing(connection.getresponse()) as reply:
                said = json.loads(reply.read())
        except (OSError, HTTPException):
            self.unknown += 1
            return None
        finally:
            connection.close()
        assert reply.status in {200, 503}, said
        return str(said["ticket"]) if reply.status == 200 else None

    def _send(self, message: object, copies: int, path: str = "/v1/responses") -> bool:
        """Tell whether any copy was acknowledged; copies are under way at the same time."""
        body = json.dumps(message)
        connections = [HTTPConnection(*self.address, timeout=20) for _ in range(copies)]
        done = False
        for connection in connections:
            try:
                connection.request("POST", path, body, _bearer("CLIENT"))
            except (OSError, HTTPException):
                connection.close()
        for connection in connections:
            try:
                with closing(connection.getresponse()) as reply:
                    said = json.loads(reply.read())
                assert reply.status in {200, 503}, said
                done |= reply.status == 200
            except (OSError, HTTPException):
                pass
            finally:
                connection.close()
        return done


def _bearer(role: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {ENVIRONMENT[f'LDPBANDITS_{role}_KEY']}"}


@dataclass(frozen=True)
class Books:
    """What the crowd was told, and what the database holds, by experiment, arm and cell."""

    acknowledged: dict[tuple[int, int, int], tuple[int, int]]
    responses: dict[tuple[int, int, int], tuple[int, int]]
    tallies: dict[tuple[int, int, int], tuple[int, int]]
    nonces: int
    waiting: tuple[Counter[tuple[int, int]], Counter[tuple[int, int]]]
    """Accepted pulls without a response, by experiment and arm: as the crowd knows them, and as they are counted."""
    is_read: bool
    """What the rule of the second experiment reads of its responses adds up to what is kept."""

    @property
    def has_lost(self) -> bool:
        """Whether responses, or accepted pulls that wait for one, were acknowledged and are not counted."""
        known, counted = self.waiting
        told, kept = (sum(count for count, _ in each.values()) for each in (self.acknowledged, self.tallies))
        return kept < told or counted.total() < known.total()

    @property
    def agree(self) -> bool:
        """Acknowledged = nonces = responses = pulls, and the sums are equal to the bit; so are acceptances."""
        known, counted = self.waiting
        count = sum(count for count, _ in self.acknowledged.values()) + known.total()
        agree = self.acknowledged == self.responses == self.tallies and known == counted
        return agree and self.nonces == count and self.is_read


def reading(value: int) -> int:
    """What the default rule of the second experiment reads of a response, in units of 2^-20, as responses are."""
    excess = round(mean_excess(0.5) * 2**20)
    return -excess if value < 0 else 2**20 + excess if value > 2**20 else value


_RESPONSES = (
    "SELECT experiment, arm, cell, count(*), CAST(sum(value) AS bigint) FROM responses GROUP BY experiment, arm, cell"
)
_TALLIES = (
    "SELECT experiment, arm, cell, CAST(sum(pulls) AS bigint), CAST(sum(total) AS bigint)"
    " FROM cells WHERE cell >= 0 GROUP BY experiment, arm, cell"
)
_WAITING = "SELECT experiment, arm, CAST(sum(total) AS bigint) FROM cells WHERE cell = -1 GROUP BY experiment, arm"
_READ = "SELECT arm, CAST(sum(read) AS bigint) FROM cells WHERE experiment = 2 AND cell >= 0 GROUP BY arm"


def audited(crowd: Crowd, rows: Callable[[str], list[Any]]) -> Books:
    """Read the books; `rows` asks the database."""
    acknowledged: dict[tuple[int, int, int], tuple[int, int]] = {}
    for experiment, arm, cell, value in crowd.acknowledged.values():
        count, total = acknowledged.get((experiment, arm, cell), (0, 0))
        acknowledged[experiment, arm, cell] = (count + 1, total + value)
    by_cell = [{row[:3]: row[3:] for row in rows(sql)} for sql in (_RESPONSES, _TALLIES)]
    values, read = rows("SELECT arm, value FROM responses WHERE experiment = 2"), dict(rows(_READ))
    readings = {arm: sum(reading(value) for one, value in values if one == arm) for arm in read}
    ((nonces,),) = rows("SELECT count(*) FROM nonces")
    waiting = Counter(crowd.waiting.values()), Counter({tuple(row[:2]): row[2] for row in rows(_WAITING) if row[2]})
    return Books(acknowledged, by_cell[0], by_cell[1], nonces, waiting, is_read=readings == read)


def create(address: tuple[str, int]) -> None:
    """Create the experiments."""
    connection = HTTPConnection(*address, timeout=20)
    for experiment in EXPERIMENTS:
        connection.request("POST", "/v1/experiments", json.dumps(experiment), _bearer("ADMIN"))
        reply = connection.getresponse()
        assert reply.status == 201, reply.read()
        reply.read()
    connection.close()
