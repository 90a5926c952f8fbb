"""Batches of decisions or responses in one request: each item succeeds or fails alone."""

import asyncio
from collections.abc import Sequence

import msgspec

from ldpbandits.server.api.messages import Batch, BatchResult, Decision, ResponseBatch, ResponseMessage
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
    return await asyncio.gather(*(_respond(service, response) for response in batch.responses))


async def _respond(service: Service, response: msgspec.Raw) -> BatchResult:
    try:
        return BatchResult((await service.respond(_READER.read(response))).status)
    except Unavailable as error:
        service.meters.refuse("store", str(error))
        refusal = Refusal.unavailable()
    except Refusal as error:
        refusal = error
    return BatchResult("refused", refusal.code, refusal.message)
