"""Decisions that need an allowance of the site's own backend."""

import asyncio
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from tests.server.crowds import Place

from ldpbandits.server.api import batches
from ldpbandits.server.api.messages import Batch, Decision, NewExperiment, NewKey, ResponseMessage, ShippedArm
from ldpbandits.server.api.refusals import Refusal
from ldpbandits.server.experiments.allowances import ALLOWANCE_LIFETIME_S
from ldpbandits.server.keys import Role
from ldpbandits.server.service import Service
from ldpbandits.spec.allowance import MAX_ALLOWANCE_CHARACTERS, read_allowance, sign_allowance
from ldpbandits.spec.protocol import Code
from ldpbandits.types import Arm

OTHER_KEY = "allowance-of-somebody-else-000000"


@pytest.fixture
def place() -> Iterator[Place]:
    """A service with one experiment that needs allowances."""
    made = Place()
    yield made
    made.service.close()


async def created(service: Service) -> str:
    """Make an allowance key and the experiment; return the key."""
    key = (await service.commands.rotate("allowance", NewKey())).key
    assert key is not None
    curator = {"mechanism": "bernoulli", "epsilon": 1}
    await service.commands.create(NewExperiment("one", ["a", "b"], curator, goal="earn", allowance_required=True))
    return key


def refused(service: Service, allowance: str | None) -> bool:
    """Tell whether a decision is refused for want of a valid allowance."""
    try:
        service.decide("one", allowance)
    except Refusal as refusal:
        return (refusal.status, refusal.code) == (403, Code.NOT_ALLOWED)
    return False


def test_a_stranger_without_an_allowance_gets_nothing(place: Place) -> None:
    """None, another key's, another experiment's, an expired one, one for years, and one with a letter changed."""

    async def play() -> None:
        service = place.service
        key = await created(service)
        soon = service.now + 600
        good = sign_allowance("one", key, expires_at=soon)
        bad = [
            None,
            "",
            "x" * MAX_ALLOWANCE_CHARACTERS,
            sign_allowance("one", OTHER_KEY, expires_at=soon),
            sign_allowance("two", key, expires_at=soon),
            sign_allowance("one", key, expires_at=service.now),
            sign_allowance("one", key, expires_at=service.now + ALLOWANCE_LIFETIME_S + 1),
            good.replace("one.", "two.", 1),
            good.replace(f".{soon}.", f".{soon + 1}.", 1),
            good[:-1] + ("0" if good[-1] != "0" else "1"),
            good.upper(),
            good + "\n",
        ]
        assert all(refused(service, each) for each in bad)
        assert not refused(service, good)
        with pytest.raises(Refusal, match="needs an allowance"):
            batches.decide(service, "one", Batch(2))

    asyncio.run(play())
    assert sum(record.decisions for record in place.service.experiments["one"].records) == 1


def test_an_allowance_that_is_sent_again_gets_the_same_decision(place: Place) -> None:
    """A reply that was lost costs nothing; after a restart another arm may come, but one response counts."""

    async def play() -> None:
        key = await created(place.service)
        allowance = sign_allowance("one", key, expires_at=place.service.now + 600)
        first = place.service.decide("one", allowance)
        assert place.service.decide("one", allowance) == first
        assert (await place.service.respond(ResponseMessage(first.ticket or "", 1.0))).status == "counted"
        decisions = {decision.arm: decision for decision in anew(place, allowance)}
        other = decisions[1 - first.arm]
        assert other.ticket != first.ticket
        assert (await place.service.respond(ResponseMessage(other.ticket or "", 1.0))).status == "duplicate"
        with pytest.raises(Refusal, match="another response to this ticket"):
            await place.service.respond(ResponseMessage(other.ticket or "", 0.0))

    asyncio.run(play())
    assert place.restart().experiments["one"].responses == 1


def anew(place: Place, allowance: str) -> Iterator[Decision]:
    """Ask again after each of some restarts, with the arms pulled unevenly in between."""
    for arm in (0, 1, 0, 1):
        service = place.restart()
        service.experiments["one"].agent.tally.add(Arm(arm), 50, 50.0)
        yield service.decide("one", allowance)


def test_its_ticket_lives_as_long_as_any_other(place: Place) -> None:
    """From the moment at which the allowance expires, so that it is the same ticket whenever it is asked for."""

    async def play() -> Decision:
        key = await created(place.service)
        return place.service.decide("one", sign_allowance("one", key, expires_at=place.service.now + 600))

    decision = asyncio.run(play())
    assert decision.expires_at == place.service.now + 600 + 3600
    assert decision.expires_in == 600 + 3600


def test_allowances_that_have_expired_are_forgotten(place: Place) -> None:
    """What is kept of them is bounded by what the site signs."""

    async def play() -> None:
        service = place.service
        key = await created(service)
        for _ in range(100):
            service.decide("one", sign_allowance("one", key, expires_at=service.now + 600))
        assert len(service.allowances) == 100
        place.clock += 600
        await service.forget()
        assert len(service.allowances) == 0

    asyncio.run(play())


def test_the_allowance_key_opens_nothing_and_is_rotated_like_others(place: Place) -> None:
    """A start makes none; an old one holds for its grace."""

    async def play() -> None:
        service = place.service
        assert Role.ALLOWANCE not in service.keys.new
        old = await created(service)
        new = (await service.commands.rotate("allowance", NewKey(grace=60))).key or ""
        assert service.role(old.encode()) is Role.ALLOWANCE
        assert not any(Role.ALLOWANCE.may(role) for role in (Role.ADMIN, Role.VIEWER, Role.CLIENT))
        expires_at = service.now + 600
        assert not refused(service, sign_allowance("one", old, expires_at=expires_at))
        place.clock += 60
        assert refused(service, sign_allowance("one", old, expires_at=expires_at))
        assert not refused(service, sign_allowance("one", new, expires_at=expires_at))

    asyncio.run(play())


def test_an_experiment_that_needs_allowances_needs_a_key_for_them(place: Place) -> None:
    """Nobody could take part otherwise: it is refused with the command to run."""
    curator = {"mechanism": "bernoulli", "epsilon": 1}
    with pytest.raises(Refusal, match="ldpbandits rotate allowance"):
        asyncio.run(place.service.commands.create(NewExperiment("one", ["a"], curator, allowance_required=True)))


def test_a_shipped_arm_needs_no_allowance(place: Place) -> None:
    """No answer is asked for, so there is nothing to guard."""

    async def play() -> Decision:
        await created(place.service)
        await place.service.commands.ship("one", ShippedArm("b"))
        return place.service.decide("one")

    assert asyncio.run(play()).name == "b"


def test_a_backend_in_another_language_signs_the_same(tmp_path: Path) -> None:
    """The lines that docs/allowances.md has for Node make an allowance that is read."""
    script = tmp_path / "sign.mjs"
    page = (Path(__file__).parents[2] / "docs" / "allowances.md").read_text(encoding="utf-8")
    lines = page.split("```js\n", 1)[1].split("```", 1)[0]
    script.write_text(f"{lines}\nconsole.log(allowance('one', '{OTHER_KEY}'));\n", encoding="utf-8")
    text = subprocess.run(["node", script], check=True, capture_output=True, text=True).stdout.strip()  # noqa: S607
    assert read_allowance(text, [sha256(OTHER_KEY.encode()).digest()]) is not None
    assert read_allowance(text, [sha256(b"another").digest()]) is None
