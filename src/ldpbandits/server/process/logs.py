"""What a server says while it runs: one line an event, as text or as JSON; never an address, user agent, key or reward.

Our own messages are written without any of these. Those of the libraries below us, and the text of an exception, may
hold anything: of the first there is one line, without what looks like an address or a key, and of an exception its type
and its place in the code.
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
_KEY = re.compile(r"\b(?:admin|viewer|client)-[\w-]{16,}|(?<=://)[^/\s]*:[^/\s]*@|(?i:\bbearer\s+\S+)")


class Line(logging.Formatter):
    """Makes one line of an event."""

    def __init__(self, form: str) -> None:
        """Write text, or JSON."""
        super().__init__()
        self._is_json = form == "json"

    def format(self, record: LogRecord) -> str:
        """Return when, how bad, what, and a sentence; and where, if something failed in the code."""
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", None) or _event(record.name),
            "message": _message(record),
        }
        if record.exc_info and record.exc_info[1] is not None:
            fields |= _failure(record.exc_info[1])
        if self._is_json:
            return json.dumps(fields | {"process": os.getpid()})
        told = f"{fields['time']} {fields['level']} {fields['event']}: {fields['message']}"
        return f"{told} ({fields['error']} in {fields['where']})" if "error" in fields else told


def set_up(form: str) -> None:
    """Write the events of this process to stderr, in this form: ours from `info` on, those of others that are bad."""
    handler = logging.StreamHandler()
    handler.setFormatter(Line(form))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(OURS).setLevel(logging.INFO)
    logging.captureWarnings(capture=True)


def _event(name: str) -> str:
    """Return an event's name by who tells of it: our module, or the library."""
    first, *rest = name.split(".")
    return rest[-1] if first == OURS and rest else first


def _message(record: LogRecord) -> str:
    text = _KEY.sub(HIDDEN, record.getMessage().strip().partition("\n")[0])
    return text if record.name.partition(".")[0] == OURS else _ADDRESS.sub(HIDDEN, text)


def _failure(error: BaseException) -> dict[str, str]:
    """Return what has failed and where, the innermost place first; not the error's own text, which may be anything."""
    places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
    return {"error": type(error).__name__, "where": " < ".join(reversed(places[-12:]))}
