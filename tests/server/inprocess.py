"""The real application without a network: requests go to it as ASGI messages."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message


@dataclass(frozen=True)
class Reply:
    """What the application answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, read."""
        return json.loads(self.body)


async def ask(
    app: ASGIApp,
    method: str,
    path: str,
    body: object = None,
    *,
    key: str | None = None,
    headers: dict[str, str] | None = None,
) -> Reply:
    """Send one request; a body that is not bytes is sent as JSON. What follows a question mark is the query."""
    path, _, query = path.partition("?")
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    given = {**(headers or {}), **({} if key is None else {"Authorization": f"Bearer {key}"})}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    messages: list[Message] = [{"type": "http.request", "body": raw, "more_body": False}]
    answered: list[Message] = []

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        answered.append(message)

    await app(scope, receive, send)
    start, *rest = answered
    text = b"".join(message.get("body", b"") for message in rest)
    return Reply(start["status"], {name.decode(): value.decode() for name, value in start["headers"]}, text)
