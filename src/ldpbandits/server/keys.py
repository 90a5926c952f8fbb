"""Keys: who may do what. Only their hashes are kept; a key is shown once, when it is made."""

from collections.abc import Mapping
from enum import Enum
from hashlib import sha256
from secrets import token_bytes, token_urlsafe

from ldpbandits.errors import ParameterError
from ldpbandits.server.store import Store
from ldpbandits.server.tickets import Signer

SECRET_VARIABLE = "LDPBANDITS_SIGNING_SECRET"  # noqa: S105 - the name of a variable
SHORTEST = 16


class Role(Enum):
    """An admin may do everything, a client only what devices do. The client key may be public."""

    ADMIN = "admin"
    CLIENT = "client"

    @property
    def variable(self) -> str:
        """The environment variable that may hold the key of this role."""
        return f"LDPBANDITS_{self.name}_KEY"


class Keys:
    """The keys that hold now, from the environment or else from the database."""

    def __init__(self, store: Store, environment: Mapping[str, str]) -> None:
        """Make the keys and the signing secret that are neither in the environment nor in the database."""
        self._store = store
        self._given = {role: _long(environment, role.variable) for role in Role if role.variable in environment}
        self._secret = _long(environment, SECRET_VARIABLE) if SECRET_VARIABLE in environment else None
        if len(set(self._given.values())) < len(self._given):
            raise ParameterError("the admin key and the client key must differ")
        self.made: dict[Role, str] = {}
        known = {role for (role,) in store.rows("SELECT role FROM keys WHERE valid_until IS NULL")}
        for role in Role:
            if role not in self._given and role.value not in known:
                self.made[role] = self._make(role)
        if self._secret is None and not store.rows("SELECT id FROM secrets"):
            self._new_secret()
        self._load()

    def role(self, key: bytes, now: float) -> Role | None:
        """Return whose key this is. The lookup is by hash: how long it takes says nothing about the key."""
        role, valid_until = self._roles.get(sha256(key).digest(), (None, None))
        return role if valid_until is None or now < valid_until else None

    def is_given(self, role: Role) -> bool:
        """Tell whether the key of this role comes from the environment, where we cannot change it."""
        return role in self._given

    @property
    def is_secret_given(self) -> bool:
        """Tell whether the signing secret comes from the environment."""
        return self._secret is not None

    def rotate(self, role: Role, now: int, grace: int) -> str:
        """Make a new key; none before it holds for more than another `grace` seconds."""
        key = self._make(role, now, grace)
        self._load()
        return key

    def rotate_secret(self, now: int, grace: int) -> None:
        """Sign with a new secret; what any before it has signed holds for no more than another `grace` seconds."""
        self._new_secret(now, grace)
        self._load()

    def prune(self, now: int) -> None:
        """Remove the keys and secrets that no longer hold."""
        with self._store.transaction() as connection:
            connection.execute("DELETE FROM keys WHERE valid_until <= ?", (now,))
            connection.execute("DELETE FROM secrets WHERE valid_until <= ?", (now,))
        self._load()

    def _make(self, role: Role, now: int = 0, grace: int = 0) -> str:
        key = f"{role.value}-{token_urlsafe(24)}"
        with self._store.transaction() as connection:
            connection.execute(
                "UPDATE keys SET valid_until = min(coalesce(valid_until, ?1), ?1) WHERE role = ?2",
                (now + grace, role.value),
            )
            # Those that have ended go at once: else they would hold again when the clock goes back.
            connection.execute("DELETE FROM keys WHERE valid_until <= ?", (now,))
            connection.execute("INSERT INTO keys VALUES (?, ?, NULL)", (_hash(key), role.value))
        return key

    def _new_secret(self, now: int = 0, grace: int = 0) -> None:
        with self._store.transaction() as connection:
            connection.execute("UPDATE secrets SET valid_until = min(coalesce(valid_until, ?1), ?1)", (now + grace,))
            connection.execute("DELETE FROM secrets WHERE valid_until <= ?", (now,))
            connection.execute("INSERT INTO secrets (secret) VALUES (?)", (token_bytes(32),))

    def _load(self) -> None:
        """Read everything anew; each is put in place whole, since the event loop looks at it from another thread."""
        stored = self._store.rows("SELECT hash, role, valid_until FROM keys")
        roles: dict[bytes, tuple[Role, int | None]] = {
            hashed: (Role(role), valid_until) for hashed, role, valid_until in stored if Role(role) not in self._given
        }
        self._roles = roles | {_hash(key): (role, None) for role, key in self._given.items()}
        if self._secret is not None:
            self.signer = Signer({0: self._secret.encode()})
        else:
            secrets = self._store.rows("SELECT id, secret, valid_until FROM secrets")
            self.signer = Signer(
                {number: secret for number, secret, _ in secrets},
                {number: until for number, _, until in secrets if until is not None},
            )


def _hash(key: str) -> bytes:
    return sha256(key.encode()).digest()


def _long(environment: Mapping[str, str], variable: str) -> str:
    if len(environment[variable]) < SHORTEST:
        raise ParameterError(f"{variable} must have at least {SHORTEST} characters")
    return environment[variable]
