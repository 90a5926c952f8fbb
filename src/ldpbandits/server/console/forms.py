"""Forms: parses them, checks their CSRF token, and turns them into API messages."""

from collections.abc import Mapping
from hmac import compare_digest
from typing import TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request

from ldpbandits.server.api.reader import Reader
from ldpbandits.server.api.refusals import Refusal
from ldpbandits.server.console.sessions import Session
from ldpbandits.spec.protocol import Code

MOST_FIELDS = 100
T = TypeVar("T")


def check_csrf(form: Mapping[str, str], session: Session) -> None:
    """Refuse a form that was not made for this session."""
    if not compare_digest(form.get("csrf", "").encode(), session.csrf.encode()):
        raise Refusal(403, Code.FORBIDDEN, "this form belongs to another session: reload the page and try again")


async def read_form(request: Request, largest: int) -> dict[str, str]:
    """Read the fields of a form; each has one value."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > largest:
            raise Refusal(413, Code.TOO_LARGE, f"a form has at most {largest} bytes")
    try:
        fields = parse_qsl(
            body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, encoding="utf-8", errors="strict"
        )
    except ValueError:
        raise Refusal(400, Code.MALFORMED, "this is not a form") from None
    return {name: value.replace("\r\n", "\n") for name, value in fields}


def as_message(kind: type[T], fields: Mapping[str, object]) -> T:
    """Return the message that the API would read; it refuses the same, in the same words."""
    message: T = Reader(kind).read(msgspec.json.encode(fields))
    return message
