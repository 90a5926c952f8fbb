"""A server on each store, asked from a test that waits for each answer; its clock stands where it is put."""

import asyncio
from collections.abc import Awaitable
from typing import Any

from tests.server.inprocess import Reply, ask
from tests.server.local import ADMIN, KEYS

from ldpbandits.server.api.app import application
from ldpbandits.server.service import Service
from ldpbandits.server.store import Store

NOW = 1_000_000
SETTINGS = {name: key for name, key in KEYS.items() if name != "LDPBANDITS_CLIENT_KEY"}
"""The client key is made by the server, so that it can be rotated."""


class Server:
    """A server on a store, asked from a test that waits; its clock stands still."""

    def __init__(self, store: Store) -> None:
        """Start it."""
        self.now = NOW
        self.service = Service(store, SETTINGS, now=lambda: self.now)
        self.app = application(self.service)
        self._loop = asyncio.new_event_loop()

    def __call__(self, method: str, path: str, body: object = None, key: str = ADMIN) -> Reply:
        """Ask."""
        reply: Reply = self.do(ask(self.app, method, path, body, key=key))
        return reply

    def do(self, work: Awaitable[Any]) -> Any:
        """Wait for something."""
        return self._loop.run_until_complete(work)

    def close(self) -> None:
        """Leave nothing behind."""
        self.service.close()
        self.do(self._loop.shutdown_default_executor())
        self._loop.close()
