"""Keys and their roles. Only hashes of keys are stored; a key is shown once, when it is new."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from hashlib import sha256
from secrets import token_bytes, token_urlsafe
from typing import cast

from ldpbandits.errors import ParameterError
from ldpbandits.server.experiments.tickets import Signer
from ldpbandits.server.store import Store, StoredHolder, Unavailable
from ldpbandits.spec.messages import Change, KeyReport, KeyRole

SECRET_VARIABLE = "LDPBANDITS_SIGNING_SECRET"  # noqa: S105 - the name of a variable
HOLDER_PATTERN = r"^[a-z0-9][a-z0-9@._+-]{0,99}(?!\n)$"
"""Names of people and machines; addresses of email fit."""

SHORTEST = 16
DAY_S = 86_400
SHORTEST_SECRET = 32
"""Minimum bytes of a signing secret: the holder of a ticket can try secrets offline."""


class Role(Enum):
    """An admin may do everything, a viewer read everything, a client what devices do. The client key may be public.

    An editor reads everything, and changes the experiments that its holder is given; it is for named holders only.

    The allowance key opens nothing: a site's backend signs with it who may ask for a decision. There is none until an
    admin makes one.
    """

    ADMIN = "admin"
    EDITOR = "editor"
    VIEWER = "viewer"
    CLIENT = "client"
    ALLOWANCE = "allowance"

    def may(self, needed: "Role") -> bool:
        """Tell whether this role includes the rights of that one."""
        return self in {needed, Role.ADMIN} or (self is Role.EDITOR and needed is Role.VIEWER)

    @property
    def variable(self) -> str:
        """The environment variable that may hold the key of this role."""
        return f"LDPBANDITS_{self.name}_KEY"


@dataclass(frozen=True)
class Holder:
    """The holder of a key: the name that the change log shows, and what it may do."""

    name: str
    role: Role
    key: bytes = field(default=b"", repr=False)
    """The hash of the key."""
    experiments: tuple[str, ...] = ()
    """The names of the experiments that an editor may change; they need not exist yet."""

    def may_change(self, experiment: str) -> bool:
        """Tell whether this holder may create, change and delete the experiment of this name."""
        return self.role is Role.ADMIN or (self.role is Role.EDITOR and experiment in self.experiments)


SERVER = Holder("server", Role.ADMIN)
"""The server itself, which stops experiments that are decided, and makes the first keys."""

SHARED_ROLES = (Role.ADMIN, Role.VIEWER, Role.CLIENT, Role.ALLOWANCE)
"""The roles that have a key of their own name, which the environment may set."""

_SHARED_NAMES = frozenset(role.value for role in SHARED_ROLES)

NAMED_ROLES = (Role.ADMIN, Role.EDITOR, Role.VIEWER)
"""The roles of named holders."""

RESERVED_NAMES = frozenset({*(role.value for role in Role), SERVER.name, "signing"})
"""Names that no holder has: in the change log they mean something else."""

FIRST_ROLES = (Role.ADMIN, Role.VIEWER, Role.CLIENT)
"""The roles whose keys the first start creates."""


class Keys:
    """The valid keys, from the environment or else from the store."""

    def __init__(
        self,
        store: Store,
        environment: Mapping[str, str],
        keep: Callable[[Mapping[Role, str]], Mapping[Role, str]] = lambda keys: keys,
        now: int = 0,
    ) -> None:
        """Create the keys and the signing secret that are neither in the environment nor in the store.

        `keep` is handed new keys before any of them holds, and returns those that are to hold.
        """
        self._store = store
        self._used: set[str] = set()
        """The names of the keys that were used here since the last `write_uses`."""
        self._noted: dict[str, int] = {}
        """The day of the last use of each name, as far as it was written from here."""
        self._fixed, self._listed = from_environment(environment)
        self.new: dict[Role, str] = {}
        """The keys that this start has created, which are shown once and cannot be read later."""
        stored = store.keys()
        known = {key.role for key in stored if key.valid_until is None}
        due = [role for role in FIRST_ROLES if role not in self._fixed and role.value not in known]
        if due:
            self.new = dict(keep({role: _new_key(role) for role in due}))
        for role, key in self.new.items():
            log = Change(now, SERVER.name, "rotate-key", detail=f"{role.value}, at the first start")
            store.rotate_key(role.value, _hash(key), now=0, grace=0, log=log)
        if not self._listed and not store.secrets():
            log = Change(now, SERVER.name, "rotate-secret", detail="at the first start")
            store.rotate_secret(token_bytes(32), now=0, grace=0, log=log)
        self.reload()

    def role(self, key: bytes, now: float) -> Role | None:
        """Return the role of this key. The lookup is by hash: its duration reveals nothing about the key."""
        return self.role_of_hash(sha256(key).digest(), now)

    def role_of_hash(self, hashed: bytes, now: float) -> Role | None:
        """Return the role of the key with this hash, or None when it is not valid now."""
        holder = self.holder(hashed, now)
        return None if holder is None else holder.role

    def holder(self, hashed: bytes, now: float) -> Holder | None:
        """Return the holder of the key with this hash, or None when it is not valid now."""
        holder, valid_until = self._holders.get(hashed, (None, None))
        return holder if valid_until is None or now < valid_until else None

    def hash_of(self, role: Role) -> bytes:
        """Return the hash of the newest shared key of this role."""
        return next(hashed for hashed, (of, until) in self._holders.items() if of.name == role.value and until is None)

    def hashes(self, role: Role, now: float) -> list[bytes]:
        """Return the hashes of the valid keys of this role."""
        holders = self._holders.items()
        return [hashed for hashed, (of, until) in holders if of.role is role and (until is None or now < until)]

    def is_fixed(self, role: Role) -> bool:
        """Tell whether the key of this role comes from the environment, where we cannot change it."""
        return role in self._fixed

    @property
    def is_secret_fixed(self) -> bool:
        """Tell whether the signing secrets come from the environment, where we cannot change them."""
        return bool(self._listed)

    def named(self, name: str) -> StoredHolder | None:
        """Return the holder of this name, or None when there is none."""
        return self._named.get(name)

    def note_use(self, holder: Holder) -> None:
        """Note that a key was used; this writes nothing."""
        self._used.add(holder.name)

    def write_uses(self, now: int) -> None:
        """Write the days of use that are not written yet: of each key once a day; of no name without a key."""
        day, used = now // DAY_S, self._used
        self._used = set()
        due = {name for name in tuple(used) if self._noted.get(name) != day and self._is_key(name)}
        if due:
            try:
                self._store.note_uses(due, day)
            except BaseException:
                self._used |= due
                raise
            self._noted |= dict.fromkeys(due, day)

    def _is_key(self, name: str) -> bool:
        """Tell whether there is a key of this name; a proxy may name people without one."""
        return name in self._named or name in _SHARED_NAMES

    def reports(self, now: int) -> list[KeyReport]:
        """Return all keys that are valid, without the keys themselves: shared ones first, then by name."""
        self.write_uses(now)
        uses = {name: f"{datetime.fromtimestamp(day * DAY_S, UTC):%F}" for name, day in self._store.key_uses().items()}
        valid = {of.name for of, until in self._holders.values() if until is None or now < until}
        shared = [
            KeyReport(role.value, role.value, last_used=uses.get(role.value), is_fixed=role in self._fixed)
            for role in SHARED_ROLES
            if role.value in valid
        ]
        named = [
            KeyReport(name, cast("KeyRole", stored.role), stored.experiments, stored.added_at, uses.get(name))
            for name, stored in sorted(self._named.items())
        ]
        return [*shared, *named]

    def add(self, holder: StoredHolder, *, log: Change | None = None) -> str:
        """Store a new holder with a key, and return the key."""
        key = _new_key(Role(holder.role))
        self._store.put_holder(holder, _hash(key), log=log)
        with suppress(Unavailable):  # as for `rotate`
            self.reload()
        return key

    def change(self, holder: StoredHolder, *, log: Change | None = None) -> None:
        """Change what a holder may do; the key stays the same."""
        self._store.put_holder(holder, log=log)
        self.reload()

    def remove(self, name: str, *, log: Change | None = None) -> None:
        """Remove a holder with its keys."""
        self._store.remove_holder(name, log=log)
        self.reload()

    def rotate(self, role: Role, now: int, grace: int, *, name: str | None = None, log: Change | None = None) -> str:
        """Create a new key of a role, or of the holder of this name; earlier keys expire within `grace` seconds."""
        key = _new_key(role)
        self._store.rotate_key(name or role.value, _hash(key), now, grace, log=log)
        with suppress(Unavailable):  # the key is valid and shown this once; it is reloaded within a minute
            self.reload()
        return key

    def rotate_secret(self, now: int, grace: int, *, log: Change | None = None) -> None:
        """Sign with a new secret; tickets of earlier ones are valid for another `grace` seconds at most."""
        self._store.rotate_secret(token_bytes(32), now, grace, log=log)
        self.reload()

    def prune(self, now: int) -> None:
        """Remove the expired keys and secrets."""
        self._store.prune(now)
        self.reload()

    def reload(self) -> None:
        """Reload all keys and secrets; each mapping is replaced atomically, since the event loop reads it meanwhile."""
        keys = self._store.keys()
        self._named = {stored.name: stored for stored in self._store.holders()}
        self._noted = {name: day for name, day in self._noted.items() if self._is_key(name)}
        roles = {role.value: role for role in SHARED_ROLES if role not in self._fixed}
        holders: dict[bytes, tuple[Holder, int | None]] = {}
        for key in keys:
            if key.role in self._named:
                stored = self._named[key.role]
                holder = Holder(stored.name, Role(stored.role), key.hash, stored.experiments)
                holders[key.hash] = holder, key.valid_until
            elif key.role in roles:
                holders[key.hash] = Holder(key.role, roles[key.role], key.hash), key.valid_until
        fixed = {_hash(key): role for role, key in self._fixed.items()}
        self._holders = holders | {hashed: (Holder(role.value, role, hashed), None) for hashed, role in fixed.items()}
        if self._listed:
            self.signer = Signer.of_list(self._listed, self._store.identity)
        else:
            secrets = self._store.secrets()
            self.signer = Signer(
                {secret.number: secret.secret for secret in secrets},
                {secret.number: secret.valid_until for secret in secrets if secret.valid_until is not None},
                identity=self._store.identity,
            )


def from_environment(environment: Mapping[str, str]) -> tuple[dict[Role, str], list[bytes]]:
    """Return the keys and the signing secrets of the environment; refuse invalid ones."""
    keys = {role: _long(environment, role.variable) for role in SHARED_ROLES if role.variable in environment}
    if len(set(keys.values())) < len(keys):
        raise ParameterError("the keys of different roles must differ")
    return keys, _secrets(environment[SECRET_VARIABLE]) if SECRET_VARIABLE in environment else []


def _new_key(role: Role) -> str:
    return f"{role.value}-{token_urlsafe(24)}"


def _hash(key: str) -> bytes:
    return sha256(key.encode()).digest()


def _long(environment: Mapping[str, str], variable: str) -> str:
    """Return a key of the environment. No error quotes it."""
    key = environment[variable]
    if len(key) < SHORTEST:
        raise ParameterError(f"{variable} must have at least {SHORTEST} characters")
    if not (key.isascii() and key.isprintable() and key == key.strip()):
        told = "no space at an end, no line break, only ASCII"
        raise ParameterError(f"{variable} must fit in an HTTP header: {told}")
    return key


def _secrets(text: str) -> list[bytes]:
    """Parse the signing secrets of the environment, the newest first. No error quotes them."""
    secrets = [secret.encode("utf-8", "surrogateescape") for secret in re.split(r"[,\s]+", text) if secret]
    if not secrets:
        raise ParameterError(f"{SECRET_VARIABLE} is set, and empty: put a secret there or unset it")
    for place, secret in enumerate(secrets, 1):
        if len(secret) < SHORTEST_SECRET:
            told = f"each secret in {SECRET_VARIABLE} must have at least {SHORTEST_SECRET} bytes"
            raise ParameterError(
                f"{told}, number {place} of {len(secrets)} has {len(secret)} (commas or spaces separate them)"
            )
    return secrets
