"""`ldpbandits serve`: open the database, say what to do next, and serve until told to stop."""

import argparse
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from ldpbandits.cli.common import Command, add_load, load, say
from ldpbandits.errors import ParameterError
from ldpbandits.extras import needs

if TYPE_CHECKING:
    from ldpbandits.server.keys import Role


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.description = (
        "Run the agent server: hand out arms, count each private response exactly once. The first start makes keys and "
        "prints them once; LDPBANDITS_ADMIN_KEY, LDPBANDITS_VIEWER_KEY, LDPBANDITS_CLIENT_KEY and "
        "LDPBANDITS_SIGNING_SECRET, where set, are used instead."
    )
    parser.add_argument(
        "--database", type=Path, default=Path("agent.db"), metavar="FILE", help="SQLite file (default agent.db)"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on, 0 for any (default 8000)")
    add_load(parser)


def run(options: argparse.Namespace) -> None:
    """Serve until interrupted."""
    load(options)
    with needs("server"):
        from ldpbandits.server.process import Server
        from ldpbandits.server.service import Service
        from ldpbandits.server.store.sqlite import SqliteStore
    with listening(options.host, options.port) as listener:
        service = Service(SqliteStore(options.database), os.environ)
        host, port = listener.getsockname()[:2]
        url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        server = Server(service)
        with server.capture_signals():  # from before anybody can know of us, so that stopping is always orderly
            say(_welcome(options.database, url, service.keys.new))
            server.serve_on(listener)
    say("Stopped; every acknowledged response is on disk.")


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens there."""
    if not 0 <= port <= 65535:  # noqa: PLR2004 - the largest port
        raise ParameterError(f"port must be from 0 to 65535, got {port}")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server((address[0], address[1]), family=family, backlog=2048)
    except OSError as error:
        raise ParameterError(f"cannot listen on {host}:{port}: {error.strerror}") from None


def _welcome(database: Path, url: str, new_keys: "dict[Role, str]") -> str:
    lines = [f"ldpbandits agent server at {url}, console at {url}/console, database {database}. Ctrl-C stops it."]
    keys = {role.value: key for role, key in new_keys.items()}
    if keys:
        lines += ["", "New keys, shown this once:"]
        notes = {
            "admin": "keep it secret",
            "viewer": "reads everything, changes nothing",
            "client": "for your devices; may be public",
        }
        lines += [f"  {role} key:  {key}  ({notes[role]})" for role, key in keys.items()]
    if "admin" in keys:
        lines += [
            "",
            "Create an experiment in the console, or by a command, and look at it:",
            f"  export LDPBANDITS_URL={url} LDPBANDITS_ADMIN_KEY={keys['admin']}",
            "  ldpbandits experiments create headline --arm 'Blue skies ahead' --arm 'Rain at last' --epsilon 1",
            "  ldpbandits experiments show headline --watch",
            f"All that can be asked for: {url}/openapi.json",
        ]
    return "\n".join(lines)


COMMAND = Command(
    "serve", "run the agent server: hand out arms, count private responses", add_arguments, run, has_json=False
)
