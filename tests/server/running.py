"""A real server in a process of its own, for as long as a block lasts."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.server.inprocess import Reply

PATIENCE = 120.0
"""Seconds, for a machine that is busy with other things; nothing here takes that long."""

SERVE = (sys.executable, "-m", "ldpbandits", "serve")
HEADLINE = {
    "name": "headline",
    "arms": ["blue", "green"],
    "curator": {"mechanism": "bernoulli", "epsilon": 1},
    "goal": "earn",
}


@dataclass
class Running:
    """A server that runs."""

    process: subprocess.Popen[bytes]
    log: Path
    host: str
    port: int
    keys: dict[str, str]

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://{self.host}:{self.port}"

    def printed(self) -> str:
        """Return all that it has printed."""
        return self.log.read_text()

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        role: str | None = "admin",
        headers: dict[str, str] | None = None,
        source: str = "127.0.0.1",
    ) -> Reply:
        """Send one request, with the key of this role."""
        connection = HTTPConnection(self.host, self.port, timeout=PATIENCE, source_address=(source, 0))
        given = {} if role is None else {"Authorization": f"Bearer {self.keys[role]}"}
        try:
            raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
            connection.request(method, path, raw, {**given, **(headers or {})})
            with closing(connection.getresponse()) as reply:
                return Reply(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read())
        finally:
            connection.close()

    def decide(self, name: str = "headline") -> Any:
        """Ask for an arm."""
        reply = self.ask("POST", f"/v1/experiments/{name}/decisions", role="client")
        assert reply.status == 200, reply
        return reply.json

    def respond(self, ticket: str, response: float) -> Reply:
        """Send a response."""
        return self.ask("POST", "/v1/responses", {"ticket": ticket, "response": response}, role="client")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to stop; return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


@contextmanager
def running(
    folder: Path,
    *,
    before: Sequence[str] = (),
    serve: Sequence[str] = SERVE,
    options: Sequence[str] = (),
    database: Path | str | None = None,
    environment: dict[str, str] | None = None,
    keys: dict[str, str] | None = None,
) -> Iterator[Running]:
    """Run a server on a database in this folder, from there; `before` is put before the command, options after it."""
    log = folder / f"log-{time.monotonic_ns()}"
    command = [*before, *serve, "--port", "0", "--database", str(database or folder / "agent.db"), *options]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LDPBANDITS_")}
    clean["LDPBANDITS_KEYS_FILE"] = str(log.with_name(f"{log.name}-keys"))  # stderr is no terminal
    with (
        log.open("wb") as file,
        subprocess.Popen(
            command, stdout=file, stderr=file, cwd=folder, env={**clean, **(environment or {})}
        ) as process,
    ):
        try:
            host, port = _address(process, log)
            yield Running(process, log, host, port, {**(keys or {}), **_new_keys(log)})
        finally:
            process.kill()


def _new_keys(log: Path) -> dict[str, str]:
    """Return the keys that this start has made, by role: from its file, or as another command shows them."""
    written = log.with_name(f"{log.name}-keys")
    found = re.findall(r"LDPBANDITS_(\w+)_KEY=(\S+)", written.read_text() if written.exists() else "")
    shown = re.findall(r"(\w+) key: +(\S+)", log.read_text())
    return {role.lower(): key for role, key in (*found, *shown)}


def _address(process: subprocess.Popen[bytes], log: Path) -> tuple[str, int]:
    """Wait until the server says where it is."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        said = re.search(r"server at http://([^:]+):(\d+), .*\n", log.read_text())
        if said is not None:
            return said[1], int(said[2])
        if process.poll() is not None:
            break
        time.sleep(0.02)
    raise AssertionError(f"the server did not start: {log.read_text()}")
