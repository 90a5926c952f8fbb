"""The reference of the HTTP interface, as Markdown: the same data as a server's own page at `/docs`."""

from collections.abc import Iterable

from ldpbandits.server.api.openapi import openapi
from ldpbandits.server.api.operations import OPERATIONS
from ldpbandits.server.api.reference import GROUPS, Field, Message, Part, Request, messages, requests
from pieces import cell, code, table


def http_page() -> str:
    """Return a section for every request, and one for every message, with all its fields."""
    described = openapi(OPERATIONS)
    found = requests(OPERATIONS, described)
    parts = []
    for title, (about, _) in GROUPS.items():
        parts += [f"## {title}", about, *map(_request, found[title])]
    refusals = dict(sorted(refusal for group in found.values() for each in group for refusal in each.refusals))
    rows = [(status, cell(sentence)) for status, sentence in refusals.items()]
    parts += ["## Refusals", "The body of a refusal is a [Problem](#problem).", table(("status", "meaning"), rows)]
    return "\n\n".join([*parts, "## Messages", *map(_message, messages(described))])


def _request(request: Request) -> str:
    facts = [f"Key: {'none' if request.role is None else request.role.value}."]
    if request.body:
        facts.append(f"Body: {_type(request.body)}.")
    facts.append(f"Reply: {request.status}, {_type(request.reply)}.")
    facts.append(f"[Refusals](#refusals): {', '.join(status for status, _ in request.refusals) or 'none'}.")
    summary = cell(request.summary)
    return f"### {request.method} {request.path}\n\n{summary[0].upper()}{summary[1:]}.\n\n{' '.join(facts)}"


def _message(message: Message) -> str:
    parts = [f"### {message.name}", *([cell(message.meaning)] if message.meaning else [])]
    if message.kinds:
        kinds = [(code(kind.name), _names(kind.fields), cell(kind.meaning)) for kind in message.kinds]
        parts.append(table(("kind", "other fields", "meaning"), kinds))
    if message.fields:
        rows = [(code(each.name), _type(each.type), _required(each), cell(each.meaning)) for each in message.fields]
        parts.append(table(("field", "type", "required", "meaning"), rows))
    return "\n\n".join(parts)


def _names(fields: Iterable[Field]) -> str:
    return ", ".join(code(each.name) for each in fields if not each.type[0].text.startswith('"'))


def _required(field: Field) -> str:
    if field.is_needed:
        return "yes"
    return f"no: {code(field.default)}" if field.default else "no"


def _type(parts: Iterable[Part]) -> str:
    return "".join(f"[{part.text}](#{part.anchor.lower()})" if part.anchor else _plain(part.text) for part in parts)


def _plain(text: str) -> str:
    """Return a text for a cell, with the spaces at its ends."""
    return text.replace("<", "&lt;").replace("|", "\\|")
