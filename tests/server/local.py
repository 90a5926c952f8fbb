"""The application on a database of its own, asked from a test that waits for each answer; its clock stands still."""

import asyncio
from http import HTTPStatus
from pathlib import Path
from typing import Any

from tests.server.inprocess import Reply, ask

from ldpbandits.server.api.app import application
from ldpbandits.server.service import Service
from ldpbandits.server.store.sqlite.store import SqliteStore

ADMIN, VIEWER, CLIENT = (f"{role}-key-of-the-tests" for role in ("admin", "viewer", "client"))
KEYS = {"LDPBANDITS_ADMIN_KEY": ADMIN, "LDPBANDITS_VIEWER_KEY": VIEWER, "LDPBANDITS_CLIENT_KEY": CLIENT}
CURATOR = {"mechanism": "bernoulli", "epsilon": 1}
NEW = {"name": "headline", "arms": ["blue", "green"], "curator": CURATOR, "goal": "earn"}
E = "/v1/experiments/headline"


class Now:
    """A clock that stands where it is put."""

    seconds = 1_000_000

    def __call__(self) -> float:
        """Tell the time."""
        return self.seconds


class Local:
    """The application, asked from a test that waits for each answer."""

    def __init__(self, path: Path, environment: dict[str, str] | None = None) -> None:
        """Start on a new database."""
        self.now = Now()
        self.service = Service(SqliteStore(path), KEYS if environment is None else environment, now=self.now)
        self.app = application(self.service)
        self._loop = asyncio.new_event_loop()

    def __call__(self, method: str, path: str, body: object = None, key: str | None = ADMIN, **headers: str) -> Reply:
        """Ask."""
        asking = ask(self.app, method, path, body, key=key, headers=headers)
        return self._loop.run_until_complete(asking)

    def decide(self, name: str = "headline") -> Any:
        """Ask for an arm, as a device does."""
        reply = self("POST", f"/v1/experiments/{name}/decisions", {}, CLIENT)
        assert reply.status == 200, reply
        return reply.json

    def respond(self, ticket: str, response: float = 1, **more: Any) -> tuple[int, str]:
        """Send a response, as a device does; return the status and what the server says."""
        reply = self("POST", "/v1/responses", {"ticket": ticket, "response": response, **more}, None)
        return reply.status, reply.json["status" if reply.status == HTTPStatus.OK else "code"]

    def do(self, work: Any) -> Any:
        """Wait for something else."""
        return self._loop.run_until_complete(work)

    def close(self) -> None:
        """Leave nothing behind, once the server has nothing left to do."""
        while self.service.committer._work is not None:
            self.do(asyncio.sleep(0))
        self.service.close()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
