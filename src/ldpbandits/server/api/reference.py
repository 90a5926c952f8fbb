"""The reference of the HTTP interface as data, from its OpenAPI document; /docs and the docs site render it."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from textwrap import dedent
from typing import Any, TypeAlias

from ldpbandits.server.api.operation import Operation
from ldpbandits.server.keys import Role

Schema: TypeAlias = Mapping[str, Any]

GROUPS: dict[str, tuple[str, Callable[[Operation], bool]]] = {
    "Devices": (
        "With the client key, which may be public; offers, acceptances and responses need none.",
        lambda each: each.role is Role.CLIENT or (each.role is None and each.path.startswith("/v1/")),
    ),
    "Reading": ("With the viewer key or the admin key.", lambda each: each.role is Role.VIEWER),
    "Changing": (
        "With the admin key; what changes one experiment, also with the key of an editor of it.",
        lambda each: each.role in {Role.ADMIN, Role.EDITOR},
    ),
    "Health": ("Without a key.", lambda each: each.role is None and not each.path.startswith("/v1/")),
}
"""The sections: which key their requests need, and which requests they have. Each request is in one of them."""

SENSIBLE = 1e15
IN_PATHS = {"name": "headline", "arm": "0", "key": "anna"}
"""The examples of path parameters."""


@dataclass(frozen=True)
class Part:
    """A piece of a type in words; with an anchor, it is a message of this page."""

    text: str
    anchor: str = ""


@dataclass(frozen=True)
class Field:
    """One field of a message."""

    name: str
    type: tuple[Part, ...]
    is_needed: bool
    default: str
    meaning: str


@dataclass(frozen=True)
class Message:
    """A message: its fields, or the kinds that it may be of."""

    name: str
    meaning: str
    fields: tuple[Field, ...]
    kinds: tuple["Message", ...]


@dataclass(frozen=True)
class Request:
    """An operation of the API, with an example call."""

    method: str
    path: str
    summary: str
    body: tuple[Part, ...]
    role: Role | None
    status: str
    reply: tuple[Part, ...]
    refusals: tuple[tuple[str, str], ...]
    call: str


def requests(operations: Iterable[Operation], described: Schema) -> dict[str, list[Request]]:
    """Return the requests of each section."""
    return {
        title: [_request(operation, described) for operation in operations if is_in(operation)]
        for title, (_, is_in) in GROUPS.items()
    }


def messages(described: Schema) -> list[Message]:
    """Return the messages of all requests and replies."""
    return [_message(name, schema) for name, schema in described["components"]["schemas"].items()]


def example(schema: Schema, described: Schema) -> Any:  # noqa: ANN401 - JSON
    """Return a value that fits a schema, with the fields that are needed."""
    if "$ref" in schema or "anyOf" in schema:
        known = described["components"]["schemas"]
        return example(known[_name(schema)] if "$ref" in schema else schema["anyOf"][0], described)
    listed = [*schema.get("examples", ()), *schema.get("enum", ())]
    if listed:
        return listed[0]
    if schema.get("type") == "object":
        known, needed = schema.get("properties", {}), schema.get("required", ())
        return {name: known[name].get("const") or example(known[name], described) for name in needed}
    if schema.get("type") == "array":
        return [example(schema["items"], described)] if schema.get("minItems") else []
    if schema.get("type") in {"integer", "number"}:
        return min(max(1, schema.get("minimum", 1)), schema.get("maximum", 1))
    return "..."


def _request(operation: Operation, described: Schema) -> Request:
    told = described["paths"][operation.path][operation.method.lower()]
    body = told.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    ((status, reply), *refusals) = told["responses"].items()
    ((media, content),) = reply["content"].items()
    return Request(
        operation.method,
        operation.path,
        operation.summary,
        () if body is None else tuple(_type(body)),
        operation.role,
        status,
        tuple(_type(content["schema"])) if media == "application/json" else (Part(media),),
        tuple((code, refusal["description"]) for code, refusal in refusals),
        _call(operation, None if body is None else example(body, described)),
    )


def _call(operation: Operation, body: Any) -> str:  # noqa: ANN401 - JSON
    """Return a command that makes a request."""
    lines = [f'curl "$LDPBANDITS_URL{operation.path.format(**IN_PATHS)}"']
    if operation.method != "GET":
        lines[0] += f" -X {operation.method}"
    if operation.role is not None:
        role = Role.ADMIN if operation.role is Role.EDITOR else operation.role
        lines.append(f'-H "Authorization: Bearer ${role.variable}"')
    if body:
        lines.append(f"-d '{json.dumps(body)}'")
    return " \\\n  ".join(lines)


def _message(name: str, schema: Schema) -> Message:
    fields = tuple(_fields(schema))
    kinds = tuple(_message(_kind(each), each) for each in schema.get("anyOf", ()))
    return Message(name, dedent("    " + schema.get("description", "")).strip(), fields, kinds)


def _kind(schema: Schema) -> str:
    """Return the name of one of several kinds: that of its mechanism, transform or rule."""
    return next((str(each["const"]) for each in schema.get("properties", {}).values() if "const" in each), "")


def _fields(schema: Schema) -> Iterator[Field]:
    needed = schema.get("required", ())
    for name, each in schema.get("properties", {}).items():
        default = "" if each.get("default") is None else json.dumps(each["default"])
        yield Field(name, tuple(_type(each)), name in needed, default, each.get("description", ""))


def _type(schema: Schema) -> Iterator[Part]:
    """Describe a type in words."""
    if "$ref" in schema:
        yield Part(_name(schema), _name(schema))
    elif "anyOf" in schema:
        for number, each in enumerate(schema["anyOf"]):
            if number:
                yield Part(" or ")
            yield from _type(each)
    elif "const" in schema or "enum" in schema:
        yield Part(" or ".join(json.dumps(each) for each in schema.get("enum", [schema.get("const")])))
    elif schema.get("type") == "array":
        yield Part("list of ")
        yield from _type(schema["items"])
    else:
        yield Part(f"{schema.get('type', 'anything')}{_bounds(schema)}")


def _name(schema: Schema) -> str:
    """Return the name of the message that a schema refers to."""
    return str(schema["$ref"]).rpartition("/")[2]


def _bounds(schema: Schema) -> str:
    """Describe the limits of a number, such as " ≥ 1 and ≤ 3,600", without unreachable ones."""
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    said = [f" {sign} {schema[name]:,.10g}" for name, sign in signs.items() if abs(schema.get(name, inf)) < SENSIBLE]
    return " and".join(said)
