"""`ldpbandits health`: ask a server on this machine whether it is alive, or ready. Exit code 0: yes, 1: no."""

import argparse
import json
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPException
from time import monotonic

from ldpbandits.cli.common import FAILED, OK, Command, show
from ldpbandits.cli.config import add_options, fill
from ldpbandits.cli.serve_options import Listening, settled
from ldpbandits.net import ServerAddress, without_controls

HEALTH_TIMEOUT_S = 4.0
"""Docker and systemd wait longer than that, and `/readyz` answers sooner, whatever its database does."""

MAX_TEXT_BYTES = 1000

LOCAL_ADDRESSES = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - what listens on all addresses is also here
ABOUT = """\
Check the health of a server on this machine. The options and the environment of `ldpbandits serve` locate it, so that
inside a container no argument is needed. Exit code 0: healthy, 1: not healthy, 2: a wrong call."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `health`: where the server listens, and what to ask."""
    parser.add_argument(
        "--ready", action="store_true", help="check readiness: the database can be written to (/readyz)"
    )
    add_options(parser, {"where it listens": Listening})


def run(options: argparse.Namespace) -> int:
    """Ask the server, and print one line."""
    listening = fill(Listening, settled(options))
    path = "/readyz" if options.ready else "/healthz"
    is_healthy, message = _ask(listening, path)
    if options.json:
        show(json.dumps({"healthy": is_healthy, "message": message}))
    else:
        show(message)
    return OK if is_healthy else FAILED


def _ask(listening: Listening, path: str) -> tuple[bool, str]:
    """Return whether the server is healthy, and the line to print."""
    socket = None if listening.unix_socket is None else str(listening.unix_socket)
    where = socket or f"{listening.host}:{listening.port}"
    host = LOCAL_ADDRESSES.get(listening.host, listening.host)
    address = ServerAddress(
        is_secure=False,
        host=host,
        port=listening.port,
        prefix=listening.path_prefix.rstrip("/"),
        unix_socket=socket,
    )
    try:
        with (
            closing(address.connection()) as connection,
            connection.exchange(monotonic() + HEALTH_TIMEOUT_S, "GET", path) as reply,
        ):
            text = reply.read(MAX_TEXT_BYTES).decode("utf-8", "replace")
    except (OSError, HTTPException) as error:
        return False, f"no server answers at {where}: {getattr(error, 'strerror', None) or type(error).__name__}"
    if reply.status == HTTPStatus.OK:
        return True, "ready" if path == "/readyz" else "alive"
    return False, f"the server at {where} answers {reply.status}: {without_controls(text)}"


COMMAND = Command(
    "health", "check the liveness or readiness of a server on this machine", add_arguments, run, about=ABOUT
)
