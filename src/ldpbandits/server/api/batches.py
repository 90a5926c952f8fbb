"""Batches of decisions, acceptances or responses in one request: each item succeeds or fails alone."""

import asyncio
from collections.abc import Awaitable, Sequence

import msgspec

from ldpbandits.server.api.messages import (
    AcceptanceBatch,
    AcceptanceMessage,
    Accepted,
    Batch,
    BatchResult,
    Counted,
    Decision,
    ResponseBatch,
    ResponseMessage,
)
from ldpbandits.server.api.reader import Reader
from ldpbandits.server.api.refusals import Refusal
from ldpbandits.server.service import Service
from ldpbandits.server.store import Unavailable

_READER = Reader(ResponseMessage)


def decide(service: Service, name: str, batch: Batch) -> list[Decision]:
    """Assign `batch.count` arms, each with its own ticket; refuse where each needs an allowance."""
    return [service.decide(name) for _ in range(int(batch.count))]


async def respond(service: Service, batch: ResponseBatch) -> Sequence[BatchResult]:
    """Count each response exactly once, in shared commits; return when all are on disk."""
    return await asyncio.gather(*(_result(service, _respond(service, response)) for response in batch.responses))


async def accept(service: Service, batch: AcceptanceBatch) -> Sequence[BatchResult]:
    """Count each accepted pull exactly once, in shared commits; return when all are on disk."""
    accepted = (service.accept(AcceptanceMessage(ticket)) for ticket in batch.tickets)
    return await asyncio.gather(*(_result(service, each) for each in accepted))


async def _respond(service: Service, response: msgspec.Raw) -> Counted:
    return await service.respond(_READER.read(response))


async def _result(service: Service, item: Awaitable[Counted | Accepted]) -> BatchResult:
    try:
        return BatchResult((await item).status)
    except Unavailable as error:
        service.meters.refuse("store", str(error))
        refusal = Refusal.unavailable()
    except Refusal as error:
        refusal = error
    return BatchResult("refused", refusal.code, refusal.message)
