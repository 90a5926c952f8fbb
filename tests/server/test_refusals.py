"""What the server refuses: the status, a code for programs, a sentence for people, always as JSON."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.server.inprocess import Reply, ask
from tests.server.local import ADMIN, CLIENT, CURATOR, NEW, VIEWER, E, Local

import ldpbandits
from ldpbandits.errors import ParameterError
from ldpbandits.server.api.openapi import openapi
from ldpbandits.server.api.operations import OPERATIONS
from ldpbandits.server.experiments.limits import LARGEST_BODY_BYTES, MOST_ARMS
from ldpbandits.server.service import Service
from ldpbandits.server.store.sqlite.store import SqliteStore


def ticket(local: Local) -> str:
    """Get a ticket."""
    text: str = local("POST", f"{E}/decisions", {}, CLIENT).json["ticket"]
    return text


def respond(local: Local, text: str, value: float = 1) -> Reply:
    """Send a response."""
    return local("POST", "/v1/responses", {"ticket": text, "response": value}, CLIENT)


def changed(local: Local) -> Reply:
    """Reply a ticket twice, differently."""
    text = ticket(local)
    assert respond(local, text, 1).json == {"status": "counted"}
    return respond(local, text, 0)


def late(local: Local) -> Reply:
    """Reply a ticket in the second in which it expires."""
    text = ticket(local)
    local.now.seconds += 3600
    return respond(local, text)


def after(*paths: str) -> Callable[[Local], None]:
    """Make changes that succeed."""

    def prepare(local: Local) -> None:
        for path in paths:
            assert local("POST", f"{E}{path}").status == 200

    return prepare


def closed(local: Local) -> Reply:
    """Reply a ticket of an experiment that has been closed."""
    text = ticket(local)
    after("/close")(local)
    return respond(local, text)


def then(prepare: Callable[[Local], None], method: str, path: str, body: object = None) -> Callable[[Local], Reply]:
    """Ask after changes."""

    def act(local: Local) -> Reply:
        prepare(local)
        return local(method, path, body)

    return act


def full(local: Local) -> Reply:
    """Add one arm more than there may be."""
    records = local.service.experiments["headline"].records
    records += [records[0]] * (MOST_ARMS - len(records))
    return local("POST", f"{E}/arms", {"name": "red"})


REFUSALS: dict[str, tuple[Callable[[Local], Reply], int, str]] = {
    "no key": (lambda ask: ask("GET", "/v1/experiments", key=None), 401, "unauthorized"),
    "a wrong key": (lambda ask: ask("GET", "/v1/experiments", key="wrong-key-of-the-tests"), 401, "unauthorized"),
    "another scheme": (
        lambda ask: ask("GET", "/v1/experiments", key=None, Authorization=f"Basic {ADMIN}"),
        401,
        "unauthorized",
    ),
    "no key for devices": (lambda ask: ask("POST", f"{E}/decisions", {}, None), 401, "unauthorized"),
    "a key before the body": (lambda ask: ask("POST", "/v1/experiments", b"{" * 10, None), 401, "unauthorized"),
    "forged": (lambda ask: respond(ask, "A" * 64), 403, "forged"),
    "no such path": (lambda ask: ask("GET", "/v1/nothing"), 404, "not_found"),
    "the root": (lambda ask: ask("GET", "/"), 404, "not_found"),
    "another spelling": (lambda ask: ask("GET", "/v1/experiments/"), 404, "not_found"),
    "no such experiment": (lambda ask: ask("GET", "/v1/experiments/other"), 404, "not_found"),
    "no such export": (lambda ask: ask("GET", "/v1/experiments/other/responses.csv"), 404, "not_found"),
    "no decision": (lambda ask: ask("POST", "/v1/experiments/other/decisions"), 404, "not_found"),
    "no such arm": (lambda ask: ask("POST", f"{E}/arms/2/retire"), 404, "not_found"),
    "no number": (lambda ask: ask("POST", f"{E}/arms/-1/retire"), 404, "not_found"),
    "too long a number": (lambda ask: ask("POST", f"{E}/arms/{'9' * 5000}/retire"), 404, "not_found"),
    "no such key": (lambda ask: ask("POST", "/v1/keys/master/rotate"), 404, "not_found"),
    "changed": (changed, 409, "changed"),
    "exists": (lambda ask: ask("POST", "/v1/experiments", NEW), 409, "exists"),
    "arm exists": (lambda ask: ask("POST", f"{E}/arms", {"name": "blue"}), 409, "exists"),
    "arm was there": (then(after("/arms/0/retire"), "POST", f"{E}/arms", {"name": "blue"}), 409, "exists"),
    "last arm": (then(after("/arms/0/retire", "/arms/0/retire"), "POST", f"{E}/arms/1/retire"), 409, "last"),
    "full": (full, 409, "full"),
    "paused": (then(after("/pause"), "POST", f"{E}/decisions"), 409, "paused"),
    "resumed when closed": (then(after("/close", "/close"), "POST", f"{E}/resume"), 409, "closed"),
    "arm of a closed one": (then(after("/close"), "POST", f"{E}/arms", {"name": "red"}), 409, "closed"),
    "retired when closed": (then(after("/close"), "POST", f"{E}/arms/0/retire"), 409, "closed"),
    "key of the environment": (lambda ask: ask("POST", "/v1/keys/admin/rotate"), 409, "environment"),
    "decision of a closed one": (then(after("/close"), "POST", f"{E}/decisions"), 410, "closed"),
    "response of a closed one": (closed, 410, "closed"),
    "expired": (late, 410, "expired"),
    "too large": (lambda ask: ask("POST", "/v1/responses", b" " * (LARGEST_BODY_BYTES + 1)), 413, "too_large"),
    "impossible": (lambda ask: respond(ask, ticket(ask), 2), 422, "impossible"),
    "impossible range": (
        lambda ask: ask(
            "POST",
            "/v1/experiments",
            {**NEW, "name": "x", "curator": {**CURATOR, "transform": {"kind": "range", "low": 1, "high": 0}}},
        ),
        422,
        "invalid",
    ),
    "impossible default": (
        lambda ask: ask("POST", "/v1/experiments", {**NEW, "name": "x", "default_reward": 2}),
        422,
        "invalid",
    ),
    "equal arms": (
        lambda ask: ask("POST", "/v1/experiments", {**NEW, "name": "x", "arms": ["a", "a"]}),
        422,
        "invalid",
    ),
}

MALFORMED: list[tuple[str, object]] = [
    ("/v1/responses", b"{"),
    ("/v1/responses", b"\xff"),
    ("/v1/responses", b'{"ticket": "a", "response": NaN}'),
    ("/v1/responses", b'{"ticket": "a", "response": Infinity}'),
    ("/v1/responses", b'{"ticket": "a", "response": "1"}'),
    ("/v1/responses", b'{"ticket": "a", "response": true}'),
    ("/v1/responses", b'{"ticket": "\\ud800", "response": 1}'),
    ("/v1/responses", {"ticket": "a"}),
    ("/v1/responses", None),
    ("/v1/responses", {"ticket": "a", "response": 1, "reward": 1}),
    ("/v1/responses", []),
    ("/v1/experiments", {**NEW, "name": "Upper"}),
    ("/v1/experiments", {**NEW, "name": "line-break\n"}),
    ("/v1/experiments", {**NEW, "name": ""}),
    ("/v1/experiments", {**NEW, "name": "x" * 65}),
    ("/v1/experiments", {**NEW, "arms": []}),
    ("/v1/experiments", {**NEW, "arms": ["line-break\n"]}),
    ("/v1/experiments", {**NEW, "arms": ["\x00"]}),
    ("/v1/experiments", {**NEW, "arms": ["\x85"]}),
    ("/v1/experiments", {**NEW, "arms": ["right\u202eleft"]}),
    ("/v1/experiments", {**NEW, "arms": ["two\u2028lines"]}),
    ("/v1/experiments", {**NEW, "arms": [""]}),
    ("/v1/experiments", {**NEW, "arms": ["  "]}),
    ("/v1/experiments", {**NEW, "arms": ["zero\u200bwidth"]}),
    ("/v1/experiments", {**NEW, "arms": ["soft\u00adhyphen"]}),
    ("/v1/experiments", {**NEW, "arms": ["\ufeffmark"]}),
    ("/v1/experiments", {**NEW, "arms": ["\u3164"]}),
    ("/v1/experiments", {**NEW, "arms": ["\u200d"]}),
    (f"{E}/arms", {"name": "green\u2060"}),
    ("/v1/experiments", {**NEW, "arms": [str(number) for number in range(MOST_ARMS + 1)]}),
    ("/v1/experiments", {**NEW, "ticket_lifetime": 0}),
    ("/v1/experiments", {**NEW, "ticket_lifetime": 1.5}),
    ("/v1/experiments", {**NEW, "ticket_lifetime": 30 * 24 * 3600 + 1}),
    ("/v1/experiments", {**NEW, "default_reward": 1e101}),
    ("/v1/experiments", {**NEW, "curator": "bernoulli"}),
    ("/v1/experiments", {**NEW, "rule": 1}),
    (f"{E}/decisions", {"who": "me"}),
    ("/v1/keys/signing/rotate", {"grace": -1}),
]


INVALID: list[tuple[dict[str, object], str]] = [
    ({"curator": {"mechanism": "bernoulli", "epsilon": 0}}, "epsilon must be finite and > 0"),
    ({"curator": {"mechanism": "bernoulli", "epsilon": 0.001}}, "a server asks for an epsilon of at least 0.01"),
    ({"curator": {"mechanism": "bernoulli"}}, "lacks epsilon"),
    ({"curator": {"mechanism": "gauss", "epsilon": 1}}, "mechanism must be one of bernoulli, laplace"),
    ({"curator": {**CURATOR, "seed": 1}}, "has no seed"),
    ({"curator": {**CURATOR, "transform": {"kind": "real-line"}}}, "needs rewards in a range"),
    ({"curator": {"mechanism": "laplace", "epsilon": 1, "transform": {"kind": "real-line"}}}, "not for a real-line"),
    ({"curator": {**CURATOR, "transform": {"kind": "range", "low": 0, "high": 1e101}}}, "of size <= 1e+100"),
    ({"rule": {"kind": "ucb", "width": -1}}, "width must be finite and >= 0"),
    ({"rule": {"kind": "ucb", "width": 1e7}}, "of size <= 1e+06"),
    ({"rule": {"kind": "exp3"}}, "a rule's kind must be one of ucb, kl-ucb"),
    ({"rule": {"kind": "os:system"}}, "a rule's kind must be one of ucb"),
]


@pytest.mark.parametrize(("change", "told"), INVALID)
def test_a_curator_or_rule_that_there_is_not_is_invalid(local: Local, change: dict[str, object], told: str) -> None:
    """What no server asks for is 422, in a sentence that names what is right; no module is imported for a stranger."""
    reply = local("POST", "/v1/experiments", {**NEW, "name": "x", **change})
    assert (reply.status, reply.json["code"]) == (422, "invalid")
    assert told in reply.json["message"]


@pytest.mark.parametrize("depth", [100, 400, 900, 980, 2_000, 20_000])
@pytest.mark.parametrize("key", ["curator", "rule"])
def test_lists_in_lists_without_end_break_nothing(local: Local, key: str, depth: int) -> None:
    """A curator or rule that is nested as deep as a body allows is refused like any other nonsense."""
    kind = b'{"kind": "ucb", "mechanism": "bernoulli", "epsilon": '
    nested = kind + b"[" * depth + b"]" * depth + b"}"
    other = b'"curator": {"mechanism": "bernoulli", "epsilon": 1}, ' if key == "rule" else b""
    body = b'{"name": "x", "arms": ["a"], ' + other + b'"' + key.encode() + b'": ' + nested + b"}"
    reply = local("POST", "/v1/experiments", body)
    assert (reply.status, reply.json["code"]) in {(400, "malformed"), (422, "invalid")}


def test_a_curator_of_many_words_is_refused(local: Local) -> None:
    """It would be kept, and told to every device."""
    curator = {"mechanism": "bernoulli", "epsilon": 1, "words": "x" * 3_000}
    reply = local("POST", "/v1/experiments", {**NEW, "name": "x", "curator": curator})
    assert (reply.status, reply.json["code"]) == (422, "invalid")
    assert "at most 2000 characters" in reply.json["message"]


@pytest.mark.parametrize("case", REFUSALS)
def test_each_refusal_has_its_status_and_code(local: Local, case: str) -> None:
    """Every refusal is JSON with a code and a sentence, under the status that the protocol gives it."""
    act, status, code = REFUSALS[case]
    reply = act(local)
    assert (reply.status, reply.json["code"]) == (status, code)
    assert set(reply.json) == {"code", "message"}
    assert reply.json["message"]
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["access-control-allow-origin"] == "*"
    assert (reply.headers.get("www-authenticate") == "Bearer") == (status == 401)


@pytest.mark.parametrize(("path", "body"), MALFORMED)
def test_what_cannot_be_read_is_malformed(local: Local, path: str, body: object) -> None:
    """A body that is not of the declared type is 400, also one with a field too many, such as a reward."""
    reply = local("POST", path, body)
    assert (reply.status, reply.json["code"]) == (400, "malformed")


@pytest.mark.parametrize(
    "body", [b'{"ticket": "a", "response": 1e999}', b'{"ticket": "a", "response": 1' + b"0" * 999 + b"}"]
)
def test_a_number_that_no_float_holds_is_refused(local: Local, body: bytes) -> None:
    """Numbers beyond the floats are refused like any other nonsense, and break nothing."""
    assert local("POST", "/v1/responses", body).status in {400, 403}
    text = ticket(local).encode()
    assert local("POST", "/v1/responses", body.replace(b'"a"', b'"' + text + b'"')).status in {400, 422}


OF_TICKETS = {"/v1/responses", "/v1/responses/batch", "/v1/acceptances", "/v1/acceptances/batch"}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: f"{operation.method} {operation.path}")
def test_the_client_key_opens_what_devices_need_and_nothing_else(local: Local, operation: Any) -> None:
    """A client key on any other route is 403, whatever is asked; only offers, tickets and probes need no key."""
    path = operation.path.replace("{name}", "headline").replace("{arm}", "0").replace("{key}", "signing")
    open_to_all = {*OF_TICKETS, f"{E}/offer", "/healthz", "/readyz"}
    open_to_clients = path in {*open_to_all, f"{E}/decisions", f"{E}/decisions/batch"}
    reply = local(operation.method, path, None, CLIENT)
    assert (reply.status == 403 and reply.json["code"] == "forbidden") is not open_to_clients
    assert (local(operation.method, path, None, None).status == 401) == (path not in open_to_all)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: f"{operation.method} {operation.path}")
def test_a_viewer_reads_everything_and_changes_nothing(local: Local, operation: Any) -> None:
    """With a viewer's key every GET is answered but the list of keys; every change, and every decision, is 403."""
    path = operation.path.replace("{name}", "headline").replace("{arm}", "0").replace("{key}", "signing")
    status = local(operation.method, path, None, VIEWER).status
    is_open = operation.method == "GET" and path != "/v1/keys"  # who used which key, and when, is for admins
    assert (status == 200) == is_open
    assert (status == 403) == (not is_open and path not in OF_TICKETS)


def test_a_method_that_is_not_there_is_405_and_says_which_are(local: Local) -> None:
    """Allow names every method of the path, also where there are two."""
    for path, allow in (
        ("/v1/experiments", "GET, HEAD, OPTIONS, POST"),
        (E, "DELETE, GET, HEAD, OPTIONS"),
        ("/v1/responses", "OPTIONS, POST"),
        ("/openapi.json", "GET, HEAD, OPTIONS"),
    ):
        reply = local("PUT", path)
        assert (reply.status, reply.json["code"], reply.headers["allow"]) == (405, "method_not_allowed", allow)
    assert local("GET", "/v1/responses").status == 405


def test_any_page_may_take_part(local: Local) -> None:
    """The preflight of a browser is answered without a key, and lets Authorization and Content-Type pass."""
    reply = local("OPTIONS", "/v1/responses", None, None, Origin="https://shop.example")
    assert (reply.status, reply.body) == (204, b"")
    assert reply.headers["access-control-allow-origin"] == "*"
    assert "POST" in reply.headers["access-control-allow-methods"]
    assert reply.headers["access-control-allow-headers"] == "Authorization, Content-Type"
    assert "access-control-allow-credentials" not in reply.headers


def test_a_preflight_allows_the_methods_of_its_path(local: Local) -> None:
    """A page may delete an experiment with DELETE, as any other client."""
    reply = local("OPTIONS", "/v1/experiments/headline", None, None, Origin="https://shop.example")
    assert reply.headers["access-control-allow-methods"] == "DELETE, GET, HEAD, OPTIONS"


def test_the_openapi_document_needs_no_installed_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source tree on the path is enough: the version is that of the package itself."""

    def fail(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", fail)
    assert openapi(OPERATIONS)["info"]["version"] == ldpbandits.__version__


def test_an_unknown_experiment_is_named(local: Local) -> None:
    """The refusal repeats the name, so that a misspelling shows."""
    reply = local("GET", "/v1/experiments/haedline")
    assert (reply.status, reply.json["message"]) == (404, "there is no experiment named 'haedline'")


def test_the_scheme_of_a_key_may_be_written_in_any_case(local: Local) -> None:
    """HTTP says that 'bearer' and 'Bearer' are the same."""
    assert local("GET", "/v1/experiments", None, None, Authorization=f"bearer {ADMIN}").status == 200


def test_whole_numbers_may_have_a_point(local: Local) -> None:
    """In JSON 60.0 is a whole number: a lifetime may be written so."""
    made = local("POST", "/v1/experiments", {**NEW, "name": "other", "ticket_lifetime": 60.0})
    assert (made.status, made.json["ticket_lifetime"]) == (201, 60)


def test_a_fault_of_ours_is_500_and_leaves_nobody_waiting(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    """Should counting fail in a way nobody thought of, those who wait are told."""
    text = ticket(local)
    broken = "_use_nonce"
    monkeypatch.setattr(SqliteStore, broken, lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):  # the server logs it, and has already answered
        local.do(
            asyncio.wait_for(ask(local.app, "POST", "/v1/responses", {"ticket": text, "response": 1}, key=CLIENT), 5)
        )
    monkeypatch.undo()
    assert respond(local, text).json == {"status": "counted"}


def test_a_ticket_for_an_arm_that_is_gone_is_forged(local: Local) -> None:
    """After a restore from an older copy a ticket may name an arm that we do not have: refused, and nobody waits."""
    assert local("POST", f"{E}/arms", {"name": "red"}).status == 201
    texts = [ticket(local) for _ in range(3)]
    local.service.experiments["headline"].records.pop()
    assert [respond(local, text).status for text in texts] == [200, 200, 403]


def test_keys_from_the_environment_are_long_and_differ(tmp_path: Path) -> None:
    """A key of fewer than 16 characters is refused, and one key for both roles."""
    for number, name in enumerate(("LDPBANDITS_ADMIN_KEY", "LDPBANDITS_CLIENT_KEY")):
        store = SqliteStore(tmp_path / f"{number}.db")
        with pytest.raises(ParameterError, match=f"{name} must have at least 16 characters"):
            Service(store, {name: "x" * 15})
        store.close()
    store = SqliteStore(tmp_path / "same.db")
    with pytest.raises(ParameterError, match="must differ"):
        Service(store, {"LDPBANDITS_ADMIN_KEY": "x" * 16, "LDPBANDITS_CLIENT_KEY": "x" * 16})
    store.close()


@pytest.mark.parametrize("end", ["\n", "\nand", " ", "\t", "\N{LATIN SMALL LETTER E WITH ACUTE}", "\udcff", "\0"])
def test_a_key_that_no_header_can_hold_is_refused(tmp_path: Path, end: str) -> None:
    """It would hold for nobody, and whoever has it would wonder why; the error does not show it."""
    with closing(SqliteStore(tmp_path / "agent.db")) as store:
        with pytest.raises(ParameterError, match="must fit in an HTTP header") as refused:
            Service(store, {"LDPBANDITS_ADMIN_KEY": "sesame" * 3 + end})
        assert "sesame" not in str(refused.value)


def test_openapi_has_every_route(local: Local) -> None:
    """/openapi.json needs no key, and describes every operation, its refusals and its messages."""
    page = msgspec.json.decode(local("GET", "/openapi.json", key=None).body)
    described = {(method.upper(), path) for path, methods in page["paths"].items() for method in methods}
    assert described == {(operation.method, operation.path) for operation in OPERATIONS}
    for operation in OPERATIONS:
        said = page["paths"][operation.path][operation.method.lower()]["responses"]
        assert set(map(str, operation.refusals)) | {str(operation.status)} <= set(said)
