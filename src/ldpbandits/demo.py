"""A real server and a crowd of simulated devices with real curators, over HTTP, on this machine.

The server is a process of its own and sees nothing but what devices send. Here, where both sides meet, we also know how
often each headline is really liked, and can look on as the agent finds out.
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
"""How often each headline is really liked: known to nobody but this simulation."""

AT_ONCE = 8
"""So many devices take part at the same time."""

TRIES = 60
"""So often a device looks, twice a second, whether all its responses have arrived."""

ReportJson: TypeAlias = Mapping[str, Any]
"""What the server says about an experiment."""


@dataclass(frozen=True)
class DemoServer:
    """A running server, and the keys to it."""

    url: str
    admin: str
    client: str

    @property
    def report_url(self) -> str:
        """Where all about the experiment is to be seen."""
        return f"{self.url}/v1/experiments/headlines"

    def ask(self, path: str, message: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401 - JSON
        """Ask as the experimenter."""
        return Admin(self.url, self.admin).ask("GET" if message is None else "POST", path, message)

    def console_link(self) -> str:
        """Return a link that opens the console once, within a few minutes."""
        return f"{self.url}/{self.ask('/v1/console/links', {})['path']}"

    def create(self, epsilon: float) -> None:
        """Create the experiment."""
        curator = {"mechanism": "bernoulli", "epsilon": epsilon}
        new = {"name": "headlines", "arms": list(LIKED), "curator": curator, "responses_per_hour": 0}
        self.ask("/v1/experiments", new)  # the crowd comes within seconds

    def report(self) -> ReportJson:
        """Return all about the experiment."""
        report: ReportJson = self.ask("/v1/experiments/headlines")
        return report


@contextmanager
def running() -> Iterator[DemoServer]:
    """Start a server with a database that is gone afterwards."""
    keys = {role: f"{role}-{token_urlsafe(24)}" for role in ("admin", "client")}
    # What is meant for a server of the user's own is not for this one.
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
    with ThreadPoolExecutor(AT_ONCE) as crowd:
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
    """Be one device: show what the agent says, see whether the user likes it, leave. Its owner allows just that.

    Who leaves sends a response, liked or not: nobody waits here for the moment at which it would be sent otherwise.
    """
    user = random.SystemRandom()
    ledger = Ledger(":memory:")
    with Client(agent.url, "headlines", key=agent.client, limits=limits, ledger=ledger, background=False) as client:
        for _ in range(pulls):
            pull = client.decide()
            pull.observe(user.random() < LIKED[pull.name])
            client.leave()
        for _ in range(TRIES):  # on a busy machine the server may take longer than a user has patience to leave
            if not client.flush().waiting:
                break
            sleep(0.5)
    ledger.close()
