"""`ldpbandits health`: ask a server on this machine whether it is alive, or ready. Exit code 0: yes, 1: no."""

import argparse
import json
import os
import socket
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException

from ldpbandits.checks import without_controls
from ldpbandits.cli.common import FAILED, OK, Command, show
from ldpbandits.cli.config import add_options, fill, settle
from ldpbandits.cli.serve_options import OPTIONS, SECRETS, Listening

SECONDS = 4.0
"""Docker and systemd wait for longer than that, and `/readyz` answers sooner, whatever its database does."""

ANY = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - what listens on all addresses is also here
ABOUT = """\
Ask a server on this machine whether it is alive. It is found by the options and the environment of `ldpbandits serve`,
so that inside a container no argument is needed. Exit code 0: yes, 1: no, 2: a wrong call."""


class _UnixConnection(HTTPConnection):
    """HTTP over a socket that is a file."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ldpbandits health`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = ABOUT
    parser.add_argument("--ready", action="store_true", help="ask whether it can write, too (/readyz)")
    add_options(parser, {"where it listens": Listening})


def run(options: argparse.Namespace) -> int:
    """Ask, and print one line."""
    place = fill(Listening, settle(OPTIONS, options, os.environ, SECRETS))
    path = "/readyz" if options.ready else "/healthz"
    is_well, said = _ask(place, path)
    if options.json:
        show(json.dumps({"healthy": is_well, "message": said}))
    else:
        show(said)
    return OK if is_well else FAILED


def _ask(place: Listening, path: str) -> tuple[bool, str]:
    """Return whether all is well, and what to say."""
    where = str(place.unix_socket or f"{place.host}:{place.port}")
    connection: HTTPConnection = (
        HTTPConnection(ANY.get(place.host, place.host), place.port, timeout=SECONDS)
        if place.unix_socket is None
        else _UnixConnection(str(place.unix_socket), SECONDS)
    )
    with closing(connection):
        try:
            connection.request("GET", place.path_prefix.rstrip("/") + path)
            with closing(connection.getresponse()) as reply:
                text = reply.read(1000).decode("utf-8", "replace")
        except (OSError, HTTPException) as error:
            return False, f"no server answers at {where}: {getattr(error, 'strerror', None) or type(error).__name__}"
    if reply.status == HTTPStatus.OK:
        return True, "ready" if path == "/readyz" else "alive"
    return False, f"the server at {where} answers {reply.status}: {without_controls(text)}"


COMMAND = Command("health", "ask a server on this machine whether it is alive, or ready", add_arguments, run)
