"""The HTTP interface as a table: each operation with its path, role, message and reply.

Routes and the OpenAPI document are both generated from it.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from types import CoroutineType
from typing import Any, Literal, TypeAlias

from ldpbandits.server.api import batches
from ldpbandits.server.api.messages import (
    AcceptanceBatch,
    AcceptanceMessage,
    Accepted,
    Batch,
    BatchResult,
    ConsoleLink,
    Counted,
    Decision,
    DecisionRequest,
    Health,
    Key,
    NewArm,
    NewExperiment,
    NewKey,
    Nothing,
    OfferMessage,
    ResponseBatch,
    ResponseMessage,
    ShippedArm,
)
from ldpbandits.server.experiments.commands import Commands
from ldpbandits.server.experiments.limits import LARGEST_BODY_BYTES, LARGEST_EXPERIMENT_BYTES
from ldpbandits.server.keys import Role
from ldpbandits.server.process import metrics
from ldpbandits.server.service import Service
from ldpbandits.server.store import Status, Unavailable
from ldpbandits.spec.messages import Change, History, Report, Summary, Tallies
from ldpbandits.spec.protocol import ACCEPTANCES, BATCH, DECISIONS, EXPERIMENT, OFFER, RESPONSES

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
        return self.role is Role.ADMIN

    async def run(self, of: Service | Commands, parameters: PathValues, body: object) -> Any:  # noqa: ANN401 - any message
        """Call the handler, and await its reply if needed."""
        result = self.handler(of, parameters, body)
        return await result if isinstance(result, CoroutineType) else result


async def _ready(service: Service, _: PathValues, __: None) -> Health:
    await service.ready()
    return Health()


async def _metrics(service: Service, _: PathValues, __: None) -> Text:
    with suppress(Unavailable):  # this worker's own metrics matter most while the database is away
        await service.refresh_all()
    return Text(metrics.MEDIA_TYPE, [await metrics.text(service)])


async def _export(service: Service, path: PathValues, _: None) -> Text:
    return Text("text/csv", await service.export(path["name"]))


async def _export_in_order(service: Service, path: PathValues, _: None) -> Text:
    return Text("text/csv", await service.export(path["name"], in_order=True))


async def _link(commands: Commands, _: PathValues, __: Nothing) -> ConsoleLink:
    return ConsoleLink(f"console/enter/{await commands.new_link()}")


def _number(text: str) -> int:
    """Parse the number of an arm; return -1, which no arm has, when it is invalid."""
    return int(text) if len(text) <= LONGEST_NUMBER and text.isascii() and text.isdigit() else -1


def _status(status: Status) -> Handler:
    return lambda commands, path, _: commands.set_status(path["name"], status)


LONGEST_NUMBER = 5

OPERATIONS = (
    # The operations of devices come first, so that their lookup is fast.
    Operation(
        "POST",
        RESPONSES,
        "count a private response",
        lambda service, _, body: service.respond(body),
        Counted,
        None,  # the ticket is enough: it is signed, and a key that every page has would add nothing
        ResponseMessage,
        refusals=(403, 409, 410, 422),
    ),
    Operation(
        "POST",
        DECISIONS,
        "ask which arm to pull",
        lambda service, path, body: service.decide(path["name"], body.allowance),
        Decision,
        Role.CLIENT,
        DecisionRequest,
        refusals=(403, 404, 409, 410),
    ),
    Operation(
        "POST",
        ACCEPTANCES,
        "count a pull as accepted: without a response it is missing from then on",
        lambda service, _, body: service.accept(body),
        Accepted,
        None,  # as for responses
        AcceptanceMessage,
        refusals=(403, 410),
    ),
    Operation(
        "GET",
        OFFER,
        "show what a device will be asked for, before it asks; the same for everybody",
        lambda service, path, _: service.offer(path["name"]),
        OfferMessage,
        None,
        refusals=(404,),
    ),
    Operation(
        "POST",
        ACCEPTANCES + BATCH,
        "count up to 100 accepted pulls, each as if it had come alone",
        lambda service, _, body: batches.accept(service, body),
        list[BatchResult],
        None,
        AcceptanceBatch,
    ),
    Operation(
        "POST",
        RESPONSES + BATCH,
        "count up to 100 private responses, each as if it had come alone",
        lambda service, _, body: batches.respond(service, body),
        list[BatchResult],
        None,
        ResponseBatch,
    ),
    Operation(
        "POST",
        DECISIONS + BATCH,
        "ask up to 100 times which arm to pull",
        lambda service, path, body: batches.decide(service, path["name"], body),
        list[Decision],
        Role.CLIENT,
        Batch,
        refusals=(404, 409, 410),
    ),
    Operation(
        "POST",
        "/v1/experiments",
        "create an experiment",
        lambda commands, _, body: commands.create(body),
        Report,
        body=NewExperiment,
        status=201,
        refusals=(409, 422),
        largest=LARGEST_EXPERIMENT_BYTES,
    ),
    Operation(
        "GET",
        "/v1/experiments",
        "list the experiments",
        lambda service, _, __: service.summaries(),
        list[Summary],
        Role.VIEWER,
    ),
    Operation(
        "GET",
        EXPERIMENT,
        "show an experiment: the estimate of each arm, and the best arm",
        lambda service, path, _: service.report(path["name"]),
        Report,
        Role.VIEWER,
        refusals=(404,),
    ),
    Operation(
        "POST",
        f"{EXPERIMENT}/pause",
        "stop assigning arms; responses still outstanding count",
        _status("paused"),
        Report,
        body=Nothing,
        refusals=(404, 409),
    ),
    Operation(
        "POST",
        f"{EXPERIMENT}/resume",
        "assign arms again",
        _status("running"),
        Report,
        body=Nothing,
        refusals=(404, 409),
    ),
    Operation(
        "POST",
        f"{EXPERIMENT}/close",
        "end an experiment for good",
        _status("closed"),
        Report,
        body=Nothing,
        refusals=(404, 409),
    ),
    Operation(
        "POST",
        f"{EXPERIMENT}/ship",
        "assign one arm to everybody, and collect no more responses; resume takes it back",
        lambda commands, path, body: commands.ship(path["name"], body),
        Report,
        body=ShippedArm,
        refusals=(404, 409),
    ),
    Operation(
        "POST",
        f"{EXPERIMENT}/forgive",
        "forgive the missing answers so far: missing counts start anew",
        lambda commands, path, _: commands.forgive(path["name"]),
        Report,
        body=Nothing,
        refusals=(404,),
    ),
    Operation(
        "DELETE",
        EXPERIMENT,
        "remove an experiment and all its responses",
        lambda commands, path, _: commands.delete(path["name"]),
        Summary,
        refusals=(404,),
    ),
    Operation(
        "POST",
        f"{EXPERIMENT}/arms",
        "add an arm",
        lambda commands, path, body: commands.add_arm(path["name"], body),
        Report,
        body=NewArm,
        status=201,
        refusals=(404, 409),
    ),
    Operation(
        "POST",
        f"{EXPERIMENT}/arms/{{arm}}/retire",
        "stop assigning an arm; its number is not used again",
        lambda commands, path, _: commands.retire_arm(path["name"], _number(path["arm"])),
        Report,
        body=Nothing,
        refusals=(404, 409),
    ),
    Operation(
        "GET",
        f"{EXPERIMENT}/history",
        "show the estimates of each arm by number of responses, at up to 200 moments",
        lambda service, path, _: service.history(path["name"]),
        History,
        Role.VIEWER,
        refusals=(404,),
    ),
    Operation(
        "GET",
        f"{EXPERIMENT}/log",
        "show who changed the experiment, the newest 100 changes first; a deleted one has its log",
        lambda service, path, _: service.changes(path["name"], path["before"]),
        list[Change],
        Role.VIEWER,
        refusals=(400, 404),
        query=("before",),
    ),
    Operation(
        "GET",
        "/v1/log",
        "show who changed experiments and keys, the newest 100 changes first",
        lambda service, query, _: service.changes(None, query["before"]),
        list[Change],
        Role.VIEWER,
        refusals=(400,),
        query=("before",),
    ),
    Operation(
        "GET",
        f"{EXPERIMENT}/responses.csv",
        "export the responses, shuffled",
        _export,
        "text/csv",
        Role.VIEWER,
        refusals=(404, 409, 410),
    ),
    Operation(
        "GET",
        f"{EXPERIMENT}/responses-in-order.csv",
        "export the responses, in the order in which they were counted",
        _export_in_order,
        "text/csv",
        Role.VIEWER,
        refusals=(404, 409, 410),
    ),
    Operation(
        "GET",
        f"{EXPERIMENT}/tallies",
        "export the tallies",
        lambda service, path, _: service.tallies(path["name"]),
        Tallies,
        Role.VIEWER,
        refusals=(404, 409),
    ),
    Operation(
        "POST",
        "/v1/keys/{role}/rotate",
        "make a new admin, viewer, client or allowance key, or signing secret",
        lambda commands, path, body: commands.rotate(path["role"], body),
        Key,
        body=NewKey,
        refusals=(404, 409),
    ),
    Operation(
        "POST",
        "/v1/console/links",
        "make a link that opens the console once, within a few minutes",
        _link,
        ConsoleLink,
        body=Nothing,
        status=201,
    ),
    Operation(
        "GET",
        "/metrics",
        "show metrics for Prometheus: counts, times and sizes",
        _metrics,
        "text/plain",
        Role.VIEWER,
        is_paced=True,
    ),
    Operation("GET", "/healthz", "say whether the server is alive", lambda _, __, ___: Health(), Health, role=None),
    Operation(
        "GET", "/readyz", "say whether the server can write; if not, send requests elsewhere", _ready, Health, role=None
    ),
)
