"""An experiment that has had visitors."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from math import exp
from typing import Any

from tests.server.console.browsing import HEADLINE

from ldpbandits.server.api.messages import NewExperiment, ResponseMessage
from ldpbandits.server.service import Service


def run(service: Service, life: Callable[[Service], Awaitable[None]], **changes: Any) -> None:
    """Live with an experiment `headline`."""

    async def whole() -> None:
        await service.commands.create(NewExperiment(**{**HEADLINE, **changes}))
        await life(service)

    asyncio.run(whole())


async def answer(
    service: Service, rates: dict[str, float], count: int, *, name: str = "headline", seed: int = 1
) -> None:
    """Let so many visitors like each arm as often as said, and answer by CTB of epsilon 1."""
    rng, honest = random.Random(seed), 1 / (1 + exp(-1.0))
    messages = []
    for _ in range(count):
        decision = service.decide(name)
        bit = (rng.random() < rates[decision.name]) == (rng.random() < honest)
        messages.append(ResponseMessage(decision.ticket or "", float(bit)))
        if len(messages) == 50:
            await asyncio.gather(*map(service.respond, messages))
            messages.clear()
    await asyncio.gather(*map(service.respond, messages))
