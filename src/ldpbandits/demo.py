"""A real server and a crowd of simulated devices with real curators, over HTTP, on this machine.

The server is a process of its own and sees only the responses that devices send. The demo also knows how often users
like each headline, and compares this truth with the agent's estimates.
"""

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from secrets import token_urlsafe
from time import sleep
from typing import Any, TypeAlias

from ldpbandits.admin.admin import Admin
from ldpbandits.device.client import Client
from ldpbandits.device.ledger import Ledger
from ldpbandits.device.limits import Limits
from ldpbandits.errors import DatabaseError
from ldpbandits.spec.transforms import Range

LIKED = {"Weather": 0.2, "Sports": 0.35, "Politics": 0.25, "Science": 0.7, "Travel": 0.4}
"""The share of users who like each headline: known to this simulation only."""

CONCURRENT_DEVICES = 8
"""Devices that take part at the same time."""

FLUSH_TRIES = 60
"""Flushes of a device, two a second, until the server has acknowledged all its responses."""

ReportJson: TypeAlias = Mapping[str, Any]
"""The report of an experiment, as JSON."""


@dataclass(frozen=True)
class DemoServer:
    """A running server, and the keys to it."""

    url: str
    admin: str
    client: str

    @property
    def report_url(self) -> str:
        """The URL of the report of the experiment."""
        return f"{self.url}/v1/experiments/headlines"

    def ask(self, path: str, message: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401 - JSON
        """Send a request with the admin key, and return the reply."""
        return Admin(self.url, self.admin).ask("GET" if message is None else "POST", path, message)

    def console_link(self) -> str:
        """Return a link that opens the console once, within a few minutes."""
        return f"{self.url}/{self.ask('/v1/console/links', {})['path']}"

    def create(self, epsilon: float) -> None:
        """Create the experiment, without a limit on responses per hour: the crowd comes within seconds.

        An arm does not stick: each device of the crowd takes part several times.
        """
        curator = {"mechanism": "bernoulli", "epsilon": epsilon}
        new = {"name": "headlines", "arms": list(LIKED), "curator": curator, "responses_per_hour": 0, "sticky": 0}
        self.ask("/v1/experiments", new)

    def report(self) -> ReportJson:
        """Return the report of the experiment."""
        report: ReportJson = self.ask("/v1/experiments/headlines")
        return report


@contextmanager
def running() -> Iterator[DemoServer]:
    """Start a server on a temporary database, and stop it when the block ends."""
    keys = {role: f"{role}-{token_urlsafe(24)}" for role in ("admin", "client")}
    # Variables that configure a server of the user do not apply to this one.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LDPBANDITS_")}
    environment = clean | {f"LDPBANDITS_{role.upper()}_KEY": key for role, key in keys.items()}
    with tempfile.TemporaryDirectory(prefix="ldpbandits-demo-") as folder:
        command = [sys.executable, "-m", "ldpbandits", "serve", "--port", "0", "--database", f"{folder}/agent.db"]
        server = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)  # noqa: S603 - ourselves
        try:
            words = (server.stderr.readline() if server.stderr else "").split()
            url = next((word.rstrip(",") for word in words if word.startswith("http://")), None)
            if url is None:
                raise DatabaseError("the server did not start: " + " ".join(words))
            yield DemoServer(url, keys["admin"], keys["client"])
        finally:
            server.terminate()
            server.communicate()


def play(
    agent: DemoServer, devices: int, pulls: int, epsilon: float, watch: Callable[[ReportJson], None] | None = None
) -> ReportJson:
    """Let every device take part; call `watch` with a report now and then; return the last report."""
    limits = Limits(rewards=Range(0, 1), epsilon=epsilon, budget=epsilon * pulls)
    with ThreadPoolExecutor(CONCURRENT_DEVICES) as crowd:
        visits = {crowd.submit(visit, agent, limits, pulls) for _ in range(devices)}
        try:
            while visits:
                done, visits = wait(visits, timeout=0.5)
                for each in done:
                    each.result()
                if watch:
                    watch(agent.report())
        except BaseException:
            crowd.shutdown(cancel_futures=True)
            raise
    return agent.report()


def visit(agent: DemoServer, limits: Limits, pulls: int) -> None:
    """Run one device: show the assigned arm, observe whether the user likes it, leave. Its limits allow no more.

    A device that leaves sends its response at once, liked or not, instead of at its reporting moment.
    """
    user = random.SystemRandom()
    ledger = Ledger(":memory:")
    with Client(agent.url, "headlines", key=agent.client, limits=limits, ledger=ledger, background=False) as client:
        for _ in range(pulls):
            pull = client.decide()
            pull.observe(user.random() < LIKED[pull.name])
            client.leave()
        for _ in range(FLUSH_TRIES):  # on a busy machine the server may need longer than the timeout of `leave`
            if not client.flush().waiting:
                break
            sleep(0.5)
    ledger.close()
