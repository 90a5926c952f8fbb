"""Devices have a short way past the router: what it answers is what the router would."""

import json
from pathlib import Path

import pytest
from tests.server.local import E, Local
from tests.server.threaded import ADMIN, CLIENT, reply, request, threaded


def test_a_bug_is_answered_and_logged_on_every_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever goes wrong in the server is a 500 with a code, and a line of the log that says what; for devices too."""
    with threaded(tmp_path) as live:

        def fails(*_: object) -> None:
            raise ValueError("of this test")

        for verb, asked in (
            ("decide", request(f"{E}/decisions", key=CLIENT, body=b"{}")),
            ("respond", request("/v1/responses", body=b'{"ticket": "x", "response": 1}')),
            ("summaries", request("/v1/experiments", key=ADMIN)),
        ):
            monkeypatch.setattr(live.server._service, verb, fails)
            caplog.clear()
            with live.connect(asked) as connection:
                head, _, body = reply(connection).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 500")
            assert json.loads(body)["code"] == "internal"
            assert "of this test" in caplog.text


def test_only_the_very_paths_of_devices_are_short(local: Local) -> None:
    """What is like the paths of devices, or another method, is answered by the router as ever."""
    assert local.decide()["arm"] in {0, 1}
    for method, path, status in (
        ("POST", "/v1/experiments/decisions", 405),  # an experiment of this name
        ("POST", "/v1/experiments//decisions", 404),
        ("POST", "/v1/experiments/a/b/decisions", 404),
        ("POST", f"{E}/decisions/", 404),
        ("POST", "/v1/responses/", 404),
        ("GET", f"{E}/decisions", 405),
        ("GET", "/v1/responses", 405),
        ("OPTIONS", f"{E}/decisions", 204),
    ):
        assert local(method, path).status == status, (method, path)
