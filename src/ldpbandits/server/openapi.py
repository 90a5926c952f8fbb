"""The OpenAPI page, made from the operations and the types of their messages."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import msgspec

from ldpbandits.server.keys import Role
from ldpbandits.server.messages import NAME_PATTERN, Problem
from ldpbandits.server.operations import Operation

_REF = "#/components/schemas/{name}"

_SENTENCES = {
    400: "the body is not what is asked for",
    401: "no valid key",
    403: "a client key where the admin key is needed, or a forged ticket",
    404: "there is no such thing",
    409: "it contradicts what is already there",
    410: "it is too late: expired, or closed",
    413: "the body is too large",
    422: "understood, but impossible",
    503: "nothing was changed: send the same again",
}

_PARAMETERS: dict[str, dict[str, Any]] = {
    "name": {"type": "string", "pattern": NAME_PATTERN},
    "arm": {"type": "integer", "minimum": 0, "maximum": 65535},
    "role": {"type": "string", "enum": ["admin", "client", "signing"]},
}


def openapi(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return the page as JSON-able data: every path, its messages and its refusals."""
    types = [Problem, *(o.body for o in operations if o.body), *(o.reply for o in operations if not _is_text(o))]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    schema = dict(zip(map(str, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _describe(operation, schema)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "ldpbandits agent server",
            "version": version("ldpbandits"),
            "description": "Hands out arms and counts each private response exactly once. It never sees a reward.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _is_text(operation: Operation) -> bool:
    return isinstance(operation.reply, str)


def _describe(operation: Operation, schema: dict[str, Any]) -> dict[str, Any]:
    refusals = set(operation.refusals)
    if operation.role is not None:
        refusals |= {401}
    if operation.role is Role.ADMIN:
        refusals |= {403}
    if operation.body is not None:
        refusals |= {400, 413}
    if operation.method == "POST" or operation.role is None:
        refusals |= {503}
    media = operation.reply if _is_text(operation) else "application/json"
    content = {"type": "string"} if _is_text(operation) else schema[str(operation.reply)]
    replies: dict[str, Any] = {
        str(operation.status): {"description": operation.summary, "content": {media: {"schema": content}}}
    }
    for status in sorted(refusals):
        problem = {"application/json": {"schema": schema[str(Problem)]}}
        replies[str(status)] = {"description": _SENTENCES[status], "content": problem}
    described: dict[str, Any] = {
        "summary": operation.summary,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": pattern}
            for name, pattern in _PARAMETERS.items()
            if f"{{{name}}}" in operation.path
        ],
        "responses": replies,
    }
    if operation.role is not None:
        described["security"] = [{"key": []}]
    if operation.body is not None:
        required = any(field.required for field in msgspec.structs.fields(operation.body))
        described["requestBody"] = {
            "required": required,
            "content": {"application/json": {"schema": schema[str(operation.body)]}},
        }
    return described
