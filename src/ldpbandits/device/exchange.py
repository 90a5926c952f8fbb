"""What a client asks of its agent, apart from how it waits for the reply.

Whatever needs a reply is written once, as steps: a generator that works on the ledger, yields a request, and goes on
with the reply, or with the ServerError that is thrown in. `Client` waits in between; `AsyncClient` lets others run.
"""

from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from ldpbandits.errors import ServerError
from ldpbandits.types import Epsilon, Response

T = TypeVar("T")

Message: TypeAlias = Mapping[str, str | Response | Epsilon]
"""What may leave a device: text, and private responses. A Reward, or a number that nobody privatised, does not fit."""
Reply: TypeAlias = Mapping[str, Any]
"""What an agent says: anything."""


@dataclass(frozen=True, slots=True)
class Request:
    """A message to the agent."""

    path: str
    message: Message
    with_key: bool = True
    patience: float | None = None
    """How many seconds the reply may take, where that is less than the timeout."""


Steps: TypeAlias = Generator[Request, Reply, T]
"""Steps whose result is a T. Between two requests they may wait for the ledger, but for nothing else."""


@dataclass(frozen=True, slots=True)
class Result(Generic[T]):
    """What steps have come to, at their end."""

    value: T


def advance(steps: Steps[T], said: Reply | ServerError | None) -> Request | Result[T]:
    """Go on with what the agent has said, to the next request or to the end; None is for the first step."""
    try:
        if isinstance(said, ServerError):
            return steps.throw(said)
        return next(steps) if said is None else steps.send(said)
    except StopIteration as end:
        return Result(end.value)


class Post(Protocol):
    """What sends a message and waits for the reply."""

    def __call__(self, path: str, message: Message, *, with_key: bool, patience: float | None) -> Reply:
        """Return what the agent says; a refusal is raised."""


def run(steps: Steps[T], post: Post) -> T:
    """Go through the steps, and wait for the agent's reply at each request."""
    said: Reply | ServerError | None = None
    with closing(steps):
        while isinstance(reached := advance(steps, said), Request):
            try:
                said = post(reached.path, reached.message, with_key=reached.with_key, patience=reached.patience)
            except ServerError as error:
                said = error
    return reached.value
