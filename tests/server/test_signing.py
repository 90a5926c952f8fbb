"""Whose ticket is whose: secrets in a list that changes, and databases that share a secret."""

import hmac
import sqlite3
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest
from tests.server.memory_store import Memory, MemoryStore

from ldpbandits.errors import ParameterError
from ldpbandits.server.experiments.tickets import Signer, Ticket, new_nonce
from ldpbandits.server.keys import SECRET_VARIABLE, Keys
from ldpbandits.server.store.sqlite.schema import MIGRATIONS, migrate
from ldpbandits.server.store.sqlite.store import SqliteStore
from ldpbandits.types import Arm

OLD, NEW, NEWEST = (f"{word}-secret-of-more-than-32-bytes" for word in ("old", "new", "newest"))
TICKET = Ticket(1, Arm(0), 5_000_000_000, new_nonce())


def signer(store: MemoryStore, secrets: str) -> Signer:
    """Start on a store, with these secrets in the environment."""
    return Keys(store, {SECRET_VARIABLE: secrets}).signer


@pytest.mark.parametrize("rival", [None, Arm(0), Arm(255), Arm(65_534)])
def test_the_rival_travels_in_the_ticket(rival: Arm | None) -> None:
    """A ticket has the same length with and without a rival, and is read as it was signed."""
    keys = signer(MemoryStore(), OLD)
    text = keys.sign(TICKET._replace(rival=rival))
    assert (len(text), keys.read(text)) == (64, TICKET._replace(rival=rival))


def test_tickets_of_the_version_before_are_still_read() -> None:
    """A ticket that was out when the server was upgraded has no rival, and keeps its nonce of 15 bytes."""
    secret, identity, nonce = OLD.encode(), bytes(16), bytes(range(15))
    keys = Signer({1: secret}, identity=identity)
    body = struct.pack(">BHIHQ15s", 2, 1, 7, 3, 5_000_000_000, nonce)
    mac = hmac.digest(hmac.digest(secret, identity, "sha256"), body, "sha256")[:16]
    assert keys.read(urlsafe_b64encode(body + mac).decode()) == Ticket(7, Arm(3), 5_000_000_000, nonce, None)
    newer = bytes([4]) + body[1:]
    mac = hmac.digest(hmac.digest(secret, identity, "sha256"), newer, "sha256")[:16]
    assert keys.read(urlsafe_b64encode(newer + mac).decode()) is None


def test_two_databases_with_one_secret_do_not_take_each_others_tickets() -> None:
    """A ticket is good on the database that signed it, also after a restart, and forged on another."""
    memory = Memory()
    text = signer(MemoryStore(memory), OLD).sign(TICKET)
    assert signer(MemoryStore(memory), OLD).read(text) == TICKET
    assert signer(MemoryStore(), OLD).read(text) is None


def test_two_databases_with_one_stored_secret_do_not_either() -> None:
    """A secret that was copied into another database signs nothing for the first."""
    one, two = MemoryStore(), MemoryStore()
    keys = Keys(one, {})
    two.rotate_secret(one.secrets()[0].secret, 0, 0)
    assert (one.secrets(), one.identity == two.identity) == (two.secrets(), False)
    text = keys.signer.sign(TICKET)
    assert keys.signer.read(text) == TICKET
    assert Keys(two, {}).signer.read(text) is None


def test_new_databases_differ(tmp_path: Path) -> None:
    """Each database that is made has an identity of its own, and so has one that is upgraded."""
    identities = set()
    for name in ("one", "two"):
        with closing(SqliteStore(tmp_path / f"{name}.db")) as store:
            identities.add(store.identity)
    with closing(sqlite3.connect(tmp_path / "old.db", isolation_level=None)) as connection:
        migrate(connection, MIGRATIONS[:3])
    with closing(SqliteStore(tmp_path / "old.db")) as store:
        identities.add(store.identity)
    assert [len(identity) for identity in identities] == [16] * 3


@pytest.mark.parametrize("between", [",", " ", ", ", "\n", " ,\t"])
def test_secrets_are_rotated_by_a_list_with_the_newest_first(between: str) -> None:
    """The first signs; all are known; one that is taken off the list ends; where in the list it was does not matter."""
    store = MemoryStore()
    old = signer(store, OLD).sign(TICKET)
    both = signer(store, f"{NEW}{between}{OLD}")
    new = both.sign(TICKET)
    assert both.read(old) == both.read(new) == TICKET
    assert new != old
    three = signer(store, between.join((NEWEST, NEW, OLD)))
    assert three.read(old) == three.read(new) == three.read(three.sign(TICKET)) == TICKET
    assert signer(store, NEW).read(new) == TICKET
    assert signer(store, NEW).read(old) is None
    assert signer(store, OLD).read(new) is None


def test_a_listed_secret_is_not_taken_for_a_stored_one() -> None:
    """A store's secrets sign nothing while the environment has some, and the numbers of the two never meet."""
    store = MemoryStore()
    stored = Keys(store, {}).signer.sign(TICKET)
    listed = signer(store, OLD).sign(TICKET)
    assert signer(store, OLD).read(stored) is None
    assert Keys(store, {}).signer.read(listed) is None
    number = [int.from_bytes(urlsafe_b64decode(text)[1:3]) for text in (stored, listed)]
    assert number[0] < 1 << 15 <= number[1]


def colliding() -> tuple[str, str]:
    """Find two secrets of one number: after a few hundred there are some."""
    numbers: dict[bytes, str] = {}
    for place in count():
        secret = f"{place:032}"
        number = urlsafe_b64decode(Signer.of_list([secret.encode()], bytes(16)).sign(TICKET))[1:3]
        if number in numbers:
            return numbers[number], secret
        numbers[number] = secret
    raise AssertionError


def refusal(secrets: str) -> str:
    """Start with secrets that are refused; return the line that says why, which shows none of them."""
    with pytest.raises(ParameterError) as error:
        signer(MemoryStore(), secrets)
    line = str(error.value)
    assert "\n" not in line
    assert not [word for word in secrets.replace(",", " ").split() if word in line]
    return line


def test_a_secret_is_long() -> None:
    """Each has 32 bytes at least, of whatever letters; the error says which has not, and shows none."""
    assert "at least 32 bytes, number 2 of 2 has 31 (commas or spaces separate them)" in refusal(f"{NEW},{'x' * 31}")
    assert "number 1 of 3 has 9" in refusal("correct-h orse-batt ery-staple")
    for nothing in ("", " , "):
        assert "is set, and empty" in refusal(nothing)
    assert signer(MemoryStore(), "\u00e9" * 16).sign(TICKET)
    assert signer(MemoryStore(), "\udcff" * 32).sign(TICKET)  # no UTF-8 in the environment


def test_secrets_that_tickets_cannot_tell_apart_are_refused() -> None:
    """The same secret twice, and two of one number: the error says which, and shows none."""
    assert "secrets 1 and 3 of the list are the same" in refusal(f"{OLD} {NEW} {OLD}")
    assert "secrets 2 and 3 of the list have the same number in tickets" in refusal(" ".join((NEW, *colliding())))


def test_numbers_of_secrets_outgrow_the_room_in_a_ticket(tmp_path: Path) -> None:
    """After 65,535 rotations the next secret signs tickets, and those that the last one has signed are still read."""
    with closing(SqliteStore(tmp_path / "agent.db")) as store:
        last = Keys(store, {})
        store.file.connection.execute("UPDATE secrets SET id = 65535")
        store.file.connection.execute("UPDATE sqlite_sequence SET seq = 65535 WHERE name = 'secrets'")
        last.reload()
        before = last.signer.sign(TICKET)
        last.rotate_secret(now=0, grace=60)
        assert max(secret.number for secret in store.secrets()) == 65_536
        assert last.signer.read(last.signer.sign(TICKET)) == last.signer.read(before) == TICKET
        assert last.signer.read(before, now=60) is None


def test_secrets_whose_numbers_look_alike_in_tickets_are_told_apart() -> None:
    """Of secrets whose numbers have the same last 16 bits each reads its own tickets, until it ends."""
    secrets, identity = {1: OLD.encode(), 65_537: NEW.encode()}, b"1" * 16
    both = Signer(secrets, {1: 60}, identity=identity)
    old, new = Signer({1: secrets[1]}, identity=identity), Signer({65_537: secrets[65_537]}, identity=identity)
    text = both.sign(TICKET)
    assert (new.read(text), old.read(text)) == (TICKET, None)
    assert both.read(text) == both.read(old.sign(TICKET), now=59) == TICKET
    assert both.read(old.sign(TICKET), now=60) is None
