"""Log lines of a server: one line an event, as text or as JSON; never an address, user agent, key or reward.

Our own messages contain none of these. Messages of libraries and texts of exceptions may contain anything: of a
library's message only the first line is logged, with addresses and keys redacted, and of an exception only its type and
its place in the code.
"""

import json
import logging
import os
import re
import traceback
from datetime import UTC, datetime
from logging import LogRecord
from pathlib import Path

FORMATS = ("text", "json")
OURS = "ldpbandits"
HIDDEN = "[hidden]"
_ADDRESS = re.compile(
    r"\b\d{1,3}(?:\.\d{1,3}){3}\b|(?<![\w:])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?![\w:])", re.IGNORECASE
)
_KEY = re.compile(r"\b(?:admin|editor|viewer|client|allowance)-[\w-]{16,}|(?<=://)[^/\s]*:[^/\s]*@|(?i:\bbearer\s+\S+)")


class Line(logging.Formatter):
    """A formatter that writes one line an event."""

    def __init__(self, form: str) -> None:
        """Write lines as `form`: text or json."""
        super().__init__()
        self._is_json = form == "json"

    def format(self, record: LogRecord) -> str:
        """Return time, level, event and message; and the error's type and place if an exception was logged."""
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", None) or _event(record.name),
            "message": _message(record),
        }
        if self._is_json:
            fields |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[1] is not None:
            fields |= _failure(record.exc_info[1])
        if self._is_json:
            return json.dumps(fields | {"process": os.getpid()})
        told = f"{fields['time']} {fields['level']} {fields['event']}: {fields['message']}"
        return f"{told} ({fields['error']} in {fields['where']})" if "error" in fields else told


def set_up(form: str) -> None:
    """Log to stderr in this form: our own events from `info` on, those of libraries from `warning` on."""
    handler = logging.StreamHandler()
    handler.setFormatter(Line(form))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(OURS).setLevel(logging.INFO)
    logging.captureWarnings(capture=True)


def _event(name: str) -> str:
    """Return the name of an event by its logger: our module, or the library."""
    first, *rest = name.split(".")
    return rest[-1] if first == OURS and rest else first


def _message(record: LogRecord) -> str:
    text = _KEY.sub(HIDDEN, record.getMessage().strip().partition("\n")[0])
    return text if record.name.partition(".")[0] == OURS else _ADDRESS.sub(HIDDEN, text)


def _failure(error: BaseException) -> dict[str, str]:
    """Return the type and the stack of an error, the innermost place first; its own text may contain anything."""
    places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
    return {"error": type(error).__name__, "where": " < ".join(reversed(places[-12:]))}
