"""Sessions of the console, in memory, by the hash of their token; each ends with its key.

A session also ends when its owner signs out, after some hours, and when the server does. Where there are several
workers, sessions are in the store too, and valid at all workers.
"""

import json
from dataclasses import dataclass
from hashlib import sha256
from secrets import token_urlsafe

from ldpbandits.server.keys import Holder, Role
from ldpbandits.server.peers.peers import Peers
from ldpbandits.server.service import Service

SESSION_LIFETIME_S = 12 * 3600
"""Seconds after which a session expires."""

MOST_PER_KEY = 1000
"""Sessions opened with one key; of more, the oldest of that key end. No key can end the sessions of another."""


@dataclass(frozen=True)
class Session:
    """A session: the role of its key, the key's hash, and the site of the sign-in."""

    hashed: bytes
    """The hash of the session's token."""
    role: Role
    key: bytes
    origin: str
    csrf: str
    expires_at: int
    name: str = ""
    """The name that a proxy sent; empty for the session of a key."""


class Sessions:
    """The open sessions of this worker.

    Wrong keys are neither counted nor slowed down: a limit that all share would let anybody keep an admin out, and a
    key that the server makes has 192 random bits. An attacker can guess at the API as well.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._sessions: dict[bytes, Session] = {}

    async def open(self, key: bytes, origin: str) -> str | None:
        """Return the token of a new session for the holder of the key with this hash; None for keys of devices."""
        return await self._open(self._service.keys.holder(key, self._service.now), origin)

    async def open_for(self, name: str, origin: str) -> str | None:
        """Return the token of a new session for somebody whom the proxy names; None for one without any right."""
        return await self._open(self._proxied(name), origin, name)

    async def _open(self, holder: Holder | None, origin: str, name: str = "") -> str | None:
        if holder is None or not holder.role.may(Role.VIEWER):
            return None
        self._prune(holder.key)
        token, until = token_urlsafe(32), self._service.now + SESSION_LIFETIME_S
        session = Session(_hash(token), holder.role, holder.key, origin, token_urlsafe(24), until, name)
        self._sessions[session.hashed] = session
        if self._service.peers is not None:
            await self._service.peers.put(session.hashed, _to_note(session), session.expires_at)
        return token

    async def find(self, token: str) -> Session | None:
        """Return the session of this token, None when it has ended."""
        await self._service.refresh_keys()
        if token and self._service.peers is not None:
            await self._ask_others(_hash(token), self._service.peers)
        return self.known(token)

    def known(self, token: str) -> Session | None:
        """Return the session of this token as far as this worker knows."""
        session = self._sessions.get(_hash(token))
        return session if session is not None and self.holds(session) else None

    async def is_known(self, session: Session) -> bool:
        """Tell whether a session goes on, also as far as other workers know."""
        await self._service.refresh_keys()
        if self._service.peers is not None:
            await self._ask_others(session.hashed, self._service.peers)
        return self.holds(session)

    async def _ask_others(self, hashed: bytes, sharing: Peers) -> None:
        """Take over a session that was opened elsewhere, and drop one that was ended elsewhere."""
        note = await sharing.find(hashed)
        if note is None:
            self._sessions.pop(hashed, None)
        else:
            self._sessions[hashed] = _from_note(hashed, note)

    def holds(self, session: Session) -> bool:
        """Tell whether a session goes on: it has not ended, and neither has its key."""
        if session.hashed not in self._sessions or self._service.now >= session.expires_at:
            return False
        holder = self.holder(session)
        return holder is not None and holder.role is session.role

    def holder(self, session: Session) -> Holder | None:
        """Return whose session it is, with the present rights; None when the key has ended."""
        if session.name:
            return self._proxied(session.name)
        return self._service.keys.holder(session.key, self._service.now)

    def _proxied(self, name: str) -> Holder | None:
        proxy = self._service.proxy
        return None if proxy is None else proxy.holder(name, self._service.keys)

    async def end(self, session: Session) -> None:
        """End a session at all workers."""
        self._sessions.pop(session.hashed, None)
        if self._service.peers is not None:
            await self._service.peers.take(session.hashed)

    def _prune(self, key: bytes) -> None:
        """Drop the sessions that have ended, and the oldest of this key if it has too many."""
        self._sessions = {hashed: session for hashed, session in self._sessions.items() if self.holds(session)}
        same = [hashed for hashed, session in self._sessions.items() if session.key == key]
        for hashed in same[: max(0, len(same) - MOST_PER_KEY + 1)]:
            del self._sessions[hashed]


def _hash(token: str) -> bytes:
    return sha256(token.encode()).digest()


def _to_note(session: Session) -> bytes:
    key = session.key.hex()
    fields = [session.role.value, key, session.origin, session.csrf, session.expires_at, session.name]
    return json.dumps(fields).encode()


def _from_note(hashed: bytes, note: bytes) -> Session:
    role, key, *rest = json.loads(note)
    return Session(hashed, Role(role), bytes.fromhex(key), *rest)
