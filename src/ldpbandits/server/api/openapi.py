"""The OpenAPI document, generated from the operations and the types of their messages."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from typing import Any

import msgspec

from ldpbandits.agent.rules import RULES
from ldpbandits.checks import LARGEST_EPSILON
from ldpbandits.server.api.messages import NAME_PATTERN, Problem
from ldpbandits.server.api.operation import Operation
from ldpbandits.server.experiments.limits import LARGEST, LARGEST_PARAMETER, SMALLEST_EPSILON
from ldpbandits.server.keys import HOLDER_PATTERN
from ldpbandits.spec.mechanisms import MECHANISMS
from ldpbandits.spec.menu import MAX_MENU_EPSILONS
from ldpbandits.spec.registry import Registry
from ldpbandits.spec.transforms import TRANSFORMS

_REF = "#/components/schemas/{name}"
_REFS = {"curator": {"$ref": _REF.format(name="Curator")}, "rule": {"$ref": _REF.format(name="Rule")}}

_SENTENCES = {
    400: "the body is malformed",
    401: "no valid key",
    403: "a valid key that may not do this, or a forged ticket",
    404: "not found",
    409: "a conflict with the present state",
    410: "too late: expired, or closed",
    413: "the body is too large",
    422: "understood, but impossible",
    429: "rate limit exceeded: retry the same request later",
    503: "the database may or may not have the change: retry the same request",
}

_PARAMETERS: dict[str, dict[str, Any]] = {
    "name": {"type": "string", "pattern": NAME_PATTERN},
    "arm": {"type": "integer", "minimum": 0, "maximum": 65535},
    "key": {"type": "string", "pattern": HOLDER_PATTERN},
}


def openapi(operations: Sequence[Operation], prefix: str = "") -> dict[str, Any]:
    """Return the document as JSON-able data: the server's prefix, every path, its messages and its refusals."""
    types = [Problem, *(o.body for o in operations if o.body), *(o.reply for o in operations if not _is_text(o))]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    schema = dict(zip(map(str, types), schemas, strict=True))
    for component in components.values():  # the types of replies do not say which objects are curators and rules
        properties = component.get("properties", {})
        properties |= {name: ref for name, ref in _REFS.items() if properties.get(name) == {"type": "object"}}
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _describe(operation, schema)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "ldpbandits agent server",
            "version": sys.modules["ldpbandits"].__version__,  # to import it here would import devices too
            "description": "Hands out arms and counts each private response exactly once. It never sees a reward.",
        },
        **({"servers": [{"url": prefix}]} if prefix else {}),
        "paths": paths,
        "components": {
            "schemas": {**components, **_kinds()},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _kinds() -> dict[str, Any]:
    """Return the schemas of curators and rules, one for each registered kind."""
    number = {"type": "number", "minimum": -LARGEST, "maximum": LARGEST}
    transform = {"Transform": _any_of(TRANSFORMS, number, {}, only=lambda kind: kind.bounded)}
    epsilon = {"type": "number", "minimum": SMALLEST_EPSILON, "maximum": LARGEST_EPSILON}
    menu = {"type": "array", "items": epsilon, "minItems": 1, "maxItems": MAX_MENU_EPSILONS, "uniqueItems": True}
    known = {"epsilon": {"anyOf": [epsilon, menu]}, "transform": {"$ref": _REF.format(name="Transform")}}
    size = {"type": "number", "minimum": -LARGEST_PARAMETER, "maximum": LARGEST_PARAMETER}
    return {**transform, "Curator": _any_of(MECHANISMS, number, known), "Rule": _any_of(RULES, size, {})}


def _any_of(
    registry: Registry[Any],
    number: dict[str, Any],
    known: dict[str, Any],
    only: Callable[[Any], bool] = lambda _: True,
) -> dict[str, Any]:
    """Return the schema of objects of these kinds; a field that is neither known nor a number may be anything."""
    kinds = []
    for kind in filter(only, registry):
        listed = fields(kind)
        required = [field.name for field in listed if field.default is field.default_factory is MISSING]
        kinds.append(
            {
                "type": "object",
                "description": (kind.__doc__ or "").partition("\n")[0],
                "properties": {
                    registry.key: {"const": kind.kind},
                    **{field.name: number if field.type in {float, "float"} else {} for field in listed},
                    **known,
                },
                "required": [registry.key, *required],
                "additionalProperties": False,
            }
        )
    return {"anyOf": kinds}


def _is_text(operation: Operation) -> bool:
    return isinstance(operation.reply, str)


def _describe(operation: Operation, schema: dict[str, Any]) -> dict[str, Any]:
    refusals = set(operation.refusals)
    if operation.role is not None:
        refusals |= {401, 403, 429}
    if operation.body is not None:
        refusals |= {400, 413}
    if operation.method != "GET" or operation.role is None:
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
    described["parameters"] += [
        {"name": name, "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 10**15 - 1}}
        for name in operation.query
    ]
    if operation.role is not None:
        described["security"] = [{"key": []}]
    if operation.body is not None:
        required = any(field.required for field in msgspec.structs.fields(operation.body))
        described["requestBody"] = {
            "required": required,
            "content": {"application/json": {"schema": schema[str(operation.body)]}},
        }
    return described
