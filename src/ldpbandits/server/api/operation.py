"""An operation of the HTTP interface: its path, role, message and reply."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import CoroutineType
from typing import Any, Literal, TypeAlias

from ldpbandits.server.experiments.commands import Commands
from ldpbandits.server.experiments.limits import LARGEST_BODY_BYTES
from ldpbandits.server.keys import Role
from ldpbandits.server.service import Service

PathValues: TypeAlias = Mapping[str, Any]
Handler: TypeAlias = Callable[[Any, PathValues, Any], Any]
"""Called with the service, or for a change with the commands of the caller; the path's values; and the message."""


@dataclass(frozen=True)
class Text:
    """A reply that is not JSON, in chunks."""

    media_type: str
    pieces: Iterable[str]


@dataclass(frozen=True)
class Operation:
    """One operation of the HTTP interface."""

    method: Literal["GET", "POST", "DELETE"]
    path: str
    summary: str
    handler: Handler
    reply: Any
    """The type of the reply, or its media type when it is not JSON."""
    role: Role | None = Role.ADMIN
    body: Any = None
    status: int = 200
    refusals: tuple[int, ...] = ()
    is_paced: bool = False
    """Whether concurrent callers share a reply, and computing replies takes a bounded share of the processor."""
    largest: int = LARGEST_BODY_BYTES
    """The largest body in bytes."""
    query: tuple[str, ...] = ()
    """The parameters that may follow a question mark, each a whole number; None for one that is left out."""

    @cached_property
    def name(self) -> str:
        """The operation's name in metrics: its path as in the OpenAPI document, without names of experiments."""
        return f"{self.method} {self.path}"

    @property
    def is_change(self) -> bool:
        """Tell whether this is an experimenter's change; changes run one at a time."""
        return self.role in {Role.ADMIN, Role.EDITOR} and self.method != "GET"

    async def run(self, of: Service | Commands, parameters: PathValues, body: object) -> Any:  # noqa: ANN401 - any message
        """Call the handler, and await its reply if needed."""
        result = self.handler(of, parameters, body)
        return await result if isinstance(result, CoroutineType) else result
