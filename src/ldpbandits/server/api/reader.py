"""Parses a body as a message, or refuses it with a sentence that names the fault."""

import re
from functools import cached_property
from typing import Any

import msgspec
from msgspec.inspect import Type, type_info

from ldpbandits.server.api.refusals import Refusal
from ldpbandits.server.api.validation import explain
from ldpbandits.spec.protocol import Code


class Reader:
    """A parser of JSON messages of one type."""

    def __init__(self, kind: Any) -> None:  # noqa: ANN401 - any type that msgspec reads
        """Prepare a decoder of this type."""
        self._decoder = msgspec.json.Decoder(kind)
        self._type = kind

    @cached_property
    def _kind(self) -> Type:
        return type_info(self._type)

    def read(self, body: bytes | msgspec.Raw) -> Any:  # noqa: ANN401 - a message of that type
        """Return the parsed message, or refuse the body."""
        try:
            return self._decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            told = self._explain(body, str(error))
        raise Refusal(400, Code.MALFORMED, told)

    def _explain(self, body: bytes | msgspec.Raw, fault: str) -> str:
        """Return the refusal of a body that is not JSON, or not of this type; `fault` is msgspec's message."""
        try:
            value = msgspec.json.decode(body)
        except msgspec.ValidationError:  # of no type at all: only numbers can be wrong
            return "the body has a number that is too large"
        except msgspec.DecodeError as error:
            place = re.search(r"\(byte (\d+)\)", str(error))
            where = ", or breaks off" if place is None else f" at byte {place[1]}"
            return f"the body must be JSON; it is broken{where}"
        except UnicodeDecodeError:
            return "the body must be JSON in UTF-8"
        except RecursionError:
            return "the body is nested too deeply"
        return explain(fault, self._kind, value)
