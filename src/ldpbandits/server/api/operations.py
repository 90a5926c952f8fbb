"""The HTTP interface as a table: each operation with its path, role, message and reply.

Routes and the OpenAPI document are both generated from it.
"""

from contextlib import suppress

from ldpbandits.server.api import batches
from ldpbandits.server.api.key_messages import KeyRights, NewHolder
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
    NewMetadata,
    Nothing,
    OfferMessage,
    ResponseBatch,
    ResponseMessage,
    ShippedArm,
)
from ldpbandits.server.api.operation import Handler, Operation, PathValues, Text
from ldpbandits.server.experiments.commands import Commands
from ldpbandits.server.experiments.limits import LARGEST_EXPERIMENT_BYTES
from ldpbandits.server.keys import Role
from ldpbandits.server.process import metrics
from ldpbandits.server.service import Service
from ldpbandits.server.store import Status, Unavailable
from ldpbandits.spec.messages import Change, History, KeyReport, Report, Summary, Tallies
from ldpbandits.spec.protocol import ACCEPTANCES, BATCH, DECISIONS, EXPERIMENT, OFFER, RESPONSES


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
        Role.EDITOR,
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
        Role.EDITOR,
        body=Nothing,
        refusals=(404, 409),
    ),
    Operation(
        "POST",
        f"{EXPERIMENT}/resume",
        "assign arms again",
        _status("running"),
        Report,
        Role.EDITOR,
        body=Nothing,
        refusals=(404, 409),
    ),
    Operation(
        "POST",
        f"{EXPERIMENT}/close",
        "end an experiment for good",
        _status("closed"),
        Report,
        Role.EDITOR,
        body=Nothing,
        refusals=(404, 409),
    ),
    Operation(
        "POST",
        f"{EXPERIMENT}/ship",
        "assign one arm to everybody, and collect no more responses; resume takes it back",
        lambda commands, path, body: commands.ship(path["name"], body),
        Report,
        Role.EDITOR,
        body=ShippedArm,
        refusals=(404, 409),
    ),
    Operation(
        "POST",
        f"{EXPERIMENT}/describe",
        "change title, description, hypothesis, owner, link and planned end",
        lambda commands, path, body: commands.describe(path["name"], body),
        Report,
        Role.EDITOR,
        body=NewMetadata,
        refusals=(404, 422),
    ),
    Operation(
        "POST",
        f"{EXPERIMENT}/forgive",
        "forgive the missing answers so far: missing counts start anew",
        lambda commands, path, _: commands.forgive(path["name"]),
        Report,
        Role.EDITOR,
        body=Nothing,
        refusals=(404,),
    ),
    Operation(
        "DELETE",
        EXPERIMENT,
        "remove an experiment and all its responses",
        lambda commands, path, _: commands.delete(path["name"]),
        Summary,
        Role.EDITOR,
        refusals=(404,),
    ),
    Operation(
        "POST",
        f"{EXPERIMENT}/arms",
        "add an arm",
        lambda commands, path, body: commands.add_arm(path["name"], body),
        Report,
        Role.EDITOR,
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
        Role.EDITOR,
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
        "GET",
        "/v1/keys",
        "list the keys, never the keys themselves: name, role, experiments, and the day of the last use",
        lambda service, _, __: service.key_reports(),
        list[KeyReport],
    ),
    Operation(
        "POST",
        "/v1/keys",
        "make a key for a person or a machine",
        lambda commands, _, body: commands.add_key(body),
        Key,
        body=NewHolder,
        status=201,
        refusals=(409, 422),
        largest=LARGEST_EXPERIMENT_BYTES,
    ),
    Operation(
        "POST",
        "/v1/keys/{key}",
        "change what the key of a person or a machine may do",
        lambda commands, path, body: commands.change_key(path["key"], body),
        KeyReport,
        body=KeyRights,
        refusals=(404, 409, 422),
        largest=LARGEST_EXPERIMENT_BYTES,
    ),
    Operation(
        "DELETE",
        "/v1/keys/{key}",
        "remove the key of a person or a machine",
        lambda commands, path, _: commands.remove_key(path["key"]),
        KeyReport,
        refusals=(404, 409),
    ),
    Operation(
        "POST",
        "/v1/keys/{key}/rotate",
        "make a new key: admin, viewer, client, allowance or that of a name; or a new signing secret",
        lambda commands, path, body: commands.rotate(path["key"], body),
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
