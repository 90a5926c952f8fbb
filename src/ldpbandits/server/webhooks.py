"""Webhooks: tell another server that an experiment was decided, has stopped itself, or needs to be looked at.

They follow the change log, which has a line for each of these: a line is sent until the receiver takes it, in the order
of the log, so at least once. Where workers share a store, one of them sends at a time, by a lease. Requests are signed
as Standard Webhooks asks (standardwebhooks.com): receivers find libraries that verify them. They never have a response.
"""

import asyncio
import json
import logging
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from hmac import digest
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ldpbandits.errors import ParameterError, ServerError
from ldpbandits.net import ServerAddress, reporting_failures
from ldpbandits.server.process.clock import elapsed
from ldpbandits.server.store import Store
from ldpbandits.spec.messages import Change

if TYPE_CHECKING:
    from ldpbandits.server.service import Service

WEBHOOK_SECRET_VARIABLE = "LDPBANDITS_WEBHOOK_SECRET"  # noqa: S105 - the name of a variable
SECRET_PREFIX = "whsec_"  # noqa: S105 - of every secret of this standard
SHORTEST_SECRET_BYTES, LONGEST_SECRET_BYTES = 24, 64

REQUEST_TIMEOUT_S = 5.0
LEASE_S = 60
"""Seconds for which a worker that sends keeps others from it; one that is killed meanwhile is waited for."""
LONGEST_PAUSE_S = 900
MOST_DOUBLINGS = 10
MOST_AT_ONCE = 100
"""Lines that are read at a time."""

DECIDED, WARNING = "decided", "warning"
"""Lines of the change log about what the server itself has noticed."""

_STOPS = {"pause", "ship"}
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Receiver:
    """The server that is told, and the secret by which it knows us."""

    url: str = field(repr=False)
    address: ServerAddress
    path: str = field(repr=False)
    secret: bytes = field(repr=False)

    @classmethod
    def of(cls, url: str, secrets: Mapping[str, str]) -> "Receiver | None":
        """Check the options; return None where no URL is set. No error quotes the secret."""
        secret = secrets.get(WEBHOOK_SECRET_VARIABLE, "")
        if not url and not secret:
            return None
        if not url:
            raise ParameterError(f"{WEBHOOK_SECRET_VARIABLE} is set without webhook_url: there is nobody to tell")
        parts = urlsplit(url)
        address = ServerAddress.from_url(parts._replace(path="", query="").geturl())
        query = f"?{parts.query}" if parts.query else ""
        return cls(url, address, f"{parts.path or '/'}{query}", _secret_bytes(secret))

    @property
    def name(self) -> str:
        """The name of this receiver in the store, which does not show its URL: that may hold a token."""
        return sha256(f"{self.url}".encode()).hexdigest()

    def send(self, change: Change, now: int) -> None:
        """Send a line of the change log; raise ServerError unless the receiver takes it (any status 2xx)."""
        body = encode(change)
        headers = {"Content-Type": "application/json", **signature_headers(self.secret, change.number, now, body)}
        with reporting_failures("the receiver of webhooks"):
            connection = self.address.connection()
            try:
                with connection.exchange(monotonic() + REQUEST_TIMEOUT_S, "POST", self.path, body, headers) as reply:
                    status = reply.status
            finally:
                connection.close()
        if status // 100 != 2:  # noqa: PLR2004 - the class of success
            raise ServerError(f"the receiver of webhooks answered {status}", status=status)


def _secret_bytes(secret: str) -> bytes:
    """Decode a secret of the form whsec_BASE64."""
    try:
        found = (
            b64decode(secret.removeprefix(SECRET_PREFIX), validate=True) if secret.startswith(SECRET_PREFIX) else b""
        )
    except ValueError:
        found = b""
    if not SHORTEST_SECRET_BYTES <= len(found) <= LONGEST_SECRET_BYTES:
        told = f"{WEBHOOK_SECRET_VARIABLE} of the form {SECRET_PREFIX} and the base64 of"
        raise ParameterError(f"webhook_url needs {told} {SHORTEST_SECRET_BYTES} to {LONGEST_SECRET_BYTES} random bytes")
    return found


def signature_headers(secret: bytes, number: int, now: int, body: bytes) -> dict[str, str]:
    """Return the headers of Standard Webhooks: an id that stays the same with every try, the time, and the signature.

    >>> signature_headers(bytes(24), 7, 1700000000, b"{}")["webhook-signature"]
    'v1,S+siloqaz1rGwvMp7RMxOnX0UYUOVRZcyTD3iCwLpAU='
    """
    identity = f"change_{number}"
    signed = b64encode(digest(secret, f"{identity}.{now}.".encode() + body, "sha256")).decode()
    return {"webhook-id": identity, "webhook-timestamp": f"{now}", "webhook-signature": f"v1,{signed}"}


def kind_of(change: Change) -> str | None:
    """Return the type of the webhook of a line; None where nobody is told of it."""
    if change.what in {DECIDED, WARNING}:
        return f"experiment.{change.what}"
    return "experiment.stopped" if change.who == "server" and change.what in _STOPS else None


def encode(change: Change) -> bytes:
    """Return the body of the webhook of a line."""
    told = {"experiment": change.experiment, "what": change.what, "detail": change.detail, "number": change.number}
    moment = datetime.fromtimestamp(change.at, UTC).isoformat().replace("+00:00", "Z")
    return json.dumps({"type": kind_of(change), "timestamp": moment, "data": told}).encode()


class Webhooks:
    """Sends the lines of the change log that somebody is to be told of."""

    def __init__(self, service: "Service", store: Store, receiver: Receiver) -> None:
        """Send to this receiver; where it is a new one, only what happens from now on."""
        self._service, self._store, self._receiver = service, store, receiver
        self._sent = -1
        """The last line that is known to have been sent; -1 before the store was asked."""
        self._failures, self._retry_at = 0, 0.0

    async def deliver(self) -> None:
        """Send what is due, the oldest line first, unless another worker does."""
        run = self._service.committer.run
        if elapsed() < self._retry_at:
            return
        if self._sent >= 0 and not await run(self._store.changes_after, self._sent, 1):
            return
        now = self._service.now
        sent = await run(self._store.lease_webhook, self._receiver.name, now, now + LEASE_S)
        if sent is None:
            return
        pause = 0
        for change in await run(self._store.changes_after, sent, MOST_AT_ONCE):
            if kind_of(change) is not None:
                pause = await self._send(change)
                if pause:
                    break
                await run(self._store.move_webhook, change.number, self._service.now + LEASE_S)
            sent = change.number
        self._sent = sent
        await run(self._store.move_webhook, sent, self._service.now + pause)

    async def _send(self, change: Change) -> int:
        """Send a line; return the seconds until the next try, 0 if it was taken."""
        try:
            await asyncio.to_thread(self._receiver.send, change, self._service.now)
        except ServerError as error:
            pause = min(1 << min(self._failures, MOST_DOUBLINGS), LONGEST_PAUSE_S)
            self._failures += 1
            self._retry_at = elapsed() + pause
            _log.warning("%s; next try in %d s", error, pause, extra={"event": "webhook"})
            return pause
        self._failures = 0
        return 0
