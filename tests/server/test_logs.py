"""A line an event, as text or as JSON; of libraries below us and of exceptions nothing that may tell of a person."""

import json
import logging
import sys

import pytest

from ldpbandits.server.process.logs import Line, set_up

ADDRESS, ADDRESS6, KEY = "203.0.113.7", "2001:db8::7", "admin-c0q2c1wq8YYypLuDnFnWCFy7TR9mqQOd"


def record(name: str, message: str, error: BaseException | None = None, event: str | None = None) -> logging.LogRecord:
    """Return an event."""
    told = (type(error), error, error.__traceback__) if error is not None else None
    made = logging.LogRecord(name, logging.ERROR, "file.py", 1, message, (), told)
    if event is not None:
        made.event = event
    return made


def failure() -> BaseException:
    """Return an exception whose text holds what no log may."""
    try:
        int(f"reward 0.73 from {ADDRESS} with {KEY}")
    except ValueError as error:
        return error
    raise AssertionError


@pytest.mark.parametrize("form", ["text", "json"])
def test_an_exception_is_told_by_its_type_and_place(form: str) -> None:
    """Not by its own text, which may hold anything."""
    line = Line(form).format(record("ldpbandits.server.api.app", "a chore has failed", failure()))
    assert "\n" not in line
    assert "ValueError" in line
    assert "test_logs.py:" in line
    for hidden in ("0.73", ADDRESS, KEY):
        assert hidden not in line


def test_a_library_has_one_line_without_addresses_and_keys() -> None:
    """Whatever its message is made of."""
    message = f"lost ('{ADDRESS}', 5050) and [{ADDRESS6}]:80, Bearer {KEY}x, postgresql://u:hush@db/x\nTraceback: 0.73"
    told = json.loads(Line("json").format(record("asyncio", message)))
    assert told["event"] == "asyncio"
    for hidden in (ADDRESS, ADDRESS6, KEY, "hush", "0.73"):
        assert hidden not in told["message"]
    assert told["message"].startswith("lost ('[hidden]', 5050) and [[hidden]]:80")


def test_our_own_addresses_may_be_told_but_no_key() -> None:
    """Where the server listens is no secret."""
    told = json.loads(Line("json").format(record("ldpbandits.cli.serve", f"at http://{ADDRESS}:80 by {KEY}")))
    assert told["message"] == f"at http://{ADDRESS}:80 by [hidden]"


def test_an_event_has_a_name() -> None:
    """Its own, or that of the module which tells of it."""
    line = Line("json")
    assert json.loads(line.format(record("ldpbandits.server.process.meters", "503")))["event"] == "meters"
    assert json.loads(line.format(record("ldpbandits.server.process.supervisor", "x", event="worker_died")))[
        "event"
    ] == ("worker_died")
    assert Line("text").format(record("uvicorn.error", "odd")).endswith(" error uvicorn: odd")


def test_ours_are_logged_from_info_on_and_others_when_they_are_bad(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On stderr, each once."""
    root, ours = logging.getLogger(), logging.getLogger("ldpbandits")
    before = (root.handlers[:], root.level, ours.level)
    monkeypatch.setattr("logging.captureWarnings", lambda **_: None)  # pytest looks at warnings itself
    try:
        set_up("json")
        set_up("json")
        logging.getLogger("ldpbandits.x").info("ours")
        logging.getLogger("uvicorn.error").info("theirs")
        logging.getLogger("uvicorn.error").warning("theirs, and bad")
    finally:
        root.handlers[:] = before[0]
        root.setLevel(before[1])
        ours.setLevel(before[2])
    said = [json.loads(line)["message"] for line in capsys.readouterr().err.splitlines()]
    assert said == ["ours", "theirs, and bad"]
    assert sys.stderr is not None
