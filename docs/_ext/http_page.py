"""The reference of the HTTP interface, from the page that a server has at `/openapi.json`."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from ldpbandits.server.api.openapi import openapi
from ldpbandits.server.api.operations import OPERATIONS
from pieces import cell, code, table

Schema: TypeAlias = Mapping[str, Any]


def http_page() -> str:
    """Return a section for every request, and one for every message, with all its fields."""
    page = openapi(OPERATIONS)
    keys = {(each.method, each.path): each.role for each in OPERATIONS}
    requests = [
        _request(method.upper(), path, request, keys[method.upper(), path])
        for path, methods in page["paths"].items()
        for method, request in methods.items()
    ]
    messages = [_message(name, schema) for name, schema in page["components"]["schemas"].items()]
    parts = ["## Requests", *requests, "## Refusals", _refusals(page), "## Messages", *messages]
    return "\n\n".join(parts)


def _request(method: str, path: str, request: Schema, role: Any) -> str:  # noqa: ANN401 - a Role, or None
    facts = [f"Key: {'none' if role is None else role.value}."]
    body = request.get("requestBody")
    if body is not None:
        facts.append(f"Body: {_type(body['content']['application/json']['schema'])}.")
    refusals = []
    for status, reply in request["responses"].items():
        ((media, content),) = reply["content"].items()
        if int(status) < 400:  # noqa: PLR2004 - where errors begin
            what = _type(content["schema"]) if media == "application/json" else code(media)
            facts.append(f"Reply: {status}, {what}.")
        else:
            refusals.append(status)
    told = cell(request["summary"])
    facts.append(f"[Refusals](#refusals): {', '.join(refusals)}.")
    return f"### {method} {path}\n\n{told[0].upper()}{told[1:]}.\n\n{' '.join(facts)}"


def _refusals(page: Schema) -> str:
    """Return what each status means; the body of every refusal is a Problem."""
    replies = [each["responses"] for methods in page["paths"].values() for each in methods.values()]
    told = {status: reply["description"] for each in replies for status, reply in each.items() if status >= "400"}
    rows = [(status, cell(told[status])) for status in sorted(told)]
    return f"The body of a refusal is a [Problem](#problem).\n\n{table(('status', 'means'), rows)}"


def _message(name: str, schema: Schema) -> str:
    parts = [f"### {name}"]
    if "description" in schema:
        parts.append(cell(schema["description"]))
    if "anyOf" in schema:
        kinds = [_kind(each) for each in schema["anyOf"]]
        parts.append(table(("kind", "other fields", "what it is"), kinds))
    elif schema.get("properties"):
        needed = schema.get("required", ())
        rows = [
            (code(field), _type(each), "yes" if field in needed else _default(each), cell(each.get("description", "")))
            for field, each in schema["properties"].items()
        ]
        parts.append(table(("field", "type", "required", "meaning"), rows))
    return "\n\n".join(parts)


def _kind(schema: Schema) -> tuple[str, str, str]:
    """Return the row of one kind of mechanism, transform or rule."""
    kind = next(each["const"] for each in schema["properties"].values() if "const" in each)
    others = [code(name) for name, each in schema["properties"].items() if "const" not in each]
    return code(kind), ", ".join(others), cell(schema["description"])


def _default(schema: Schema) -> str:
    return f"no: {code(str(schema['default']))}" if schema.get("default") is not None else "no"


def _type(schema: Schema) -> str:
    """Return a type in words, with links to the messages that it is made of."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(each) for each in schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(code(str(each)) for each in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    return "".join((str(schema.get("type", "anything")), *_bounds(schema)))


def _bounds(schema: Schema) -> Iterator[str]:
    names = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    for name, sign in names.items():
        if name in schema:
            yield f" {cell(sign)} {schema[name]:,g}"
