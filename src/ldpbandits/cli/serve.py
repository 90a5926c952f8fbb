"""`ldpbandits serve`: open the database, say what to do next, and serve until told to stop."""

import argparse
import logging
import os
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ldpbandits.checks import brief
from ldpbandits.cli import first_keys
from ldpbandits.cli.common import Command, load, say
from ldpbandits.cli.config import add_options, fill, misspelt, read_secrets
from ldpbandits.cli.serve_options import GROUPS, OPTIONS, SECRETS, Listening, Serving, SignIn, Telling, settled
from ldpbandits.errors import DatabaseError, ParameterError
from ldpbandits.extras import needs
from ldpbandits.server.keys import Role, from_environment
from ldpbandits.server.process import logs
from ldpbandits.server.process.front_door import FrontDoor
from ldpbandits.server.process.sockets import Listeners, notify_systemd, open_listeners, unix_listening, url_of
from ldpbandits.server.process.title import set_title
from ldpbandits.server.proxy_sign_in import ProxySignIn
from ldpbandits.server.store import Unavailable
from ldpbandits.server.store.opening import is_shared, open_store
from ldpbandits.server.webhooks import Receiver

if TYPE_CHECKING:
    from ldpbandits.server.process.server import Server
    from ldpbandits.server.process.supervisor import Tie
    from ldpbandits.server.service import Service

ABOUT = f"""\
Run the agent server: assign arms, count each private response exactly once.

Each option may be a flag, an environment variable or a key of the file that --config names; the first of these
that is set wins. Keys and the signing secret are not options: the first start generates keys and prints them once, and
{", ".join(SECRETS)}, where set, are
used instead; with _FILE after its name, each of these names a file that holds the value."""

WORKER_STOP_EXTRA_S = 10.0
"""Time that a worker has to stop after its requests ended: it writes its counts and closes the database."""

PASSWORD = re.compile(r"://[^/@]*:[^/@]+@|[?&]password=")
"""Matches a password in the URL of a database."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Setup:
    """All that a server is told; each worker gets it whole."""

    serving: Serving
    place: Listening
    front_door: FrontDoor
    prefix: str
    sign_in: ProxySignIn | None
    receiver: Receiver | None
    secrets: Mapping[str, str] = field(repr=False)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ldpbandits serve`."""
    add_options(parser, GROUPS)


def run(options: argparse.Namespace) -> None:
    """Serve until the process is interrupted."""
    setup = _setup(options)
    set_title()
    logs.set_up(setup.serving.log_format)
    for told in _doubts(options):
        _log.warning(told, extra={"event": "options"})
    with _listening(setup.place, setup.serving.workers) as listeners:
        if listeners.count == 1:
            _serve_alone(setup, listeners[0])
        else:
            _serve_by_workers(setup, listeners)
    _tell(setup, "stopped", "Stopped; every acknowledged response is on disk.")


def _setup(options: argparse.Namespace) -> Setup:
    values = settled(options)
    serving, place = fill(Serving, values), fill(Listening, values)
    if serving.workers > 1 and not is_shared(serving.database):
        told = "a SQLite database is for one process, and PostgreSQL for many (docs/scale.md)"
        raise ParameterError(f"workers must be 1 here, got {serving.workers}: {told}")
    if not is_shared(serving.database):
        _check_place(Path(serving.database))
        if serving.keys_file is None and not _has_terminal(serving):
            serving = replace(serving, keys_file=Path(f"{serving.database}.keys"))
    with needs("server"):
        from ldpbandits.server.api.origins import check_origins
        from ldpbandits.server.api.path_prefix import check_prefix
    check_origins(place.allowed_origins)
    prefix = check_prefix(place.path_prefix)
    secrets = read_secrets(SECRETS, os.environ)
    from_environment(secrets)  # a key that is refused must not leave a new database behind
    sign_in = fill(SignIn, values)
    proxy = ProxySignIn.of(sign_in.proxy_user_header, sign_in.proxy_default_role, secrets)
    receiver = Receiver.of(fill(Telling, values).webhook_url, secrets)
    return Setup(serving, place, fill(FrontDoor, values), prefix, proxy, receiver, secrets)


def _check_place(database: Path) -> None:
    """Say in plain words why no database can be there; SQLite has the same words for every reason."""
    if database.is_dir():
        raise ParameterError(f"the database {database} cannot be opened: it is a folder")
    if not database.parent.is_dir():
        raise ParameterError(f"the database {database} cannot be opened: there is no folder {database.parent}")


def _doubts(options: argparse.Namespace) -> Iterator[str]:
    """Yield what is not refused, but hardly meant."""
    yield from misspelt(os.environ, OPTIONS, SECRETS)
    if options.database is not None and PASSWORD.search(options.database):
        yield "everybody on this machine can read the password of the database: LDPBANDITS_DATABASE_FILE keeps it"


@contextmanager
def _listening(place: Listening, workers: int) -> Iterator[Listeners]:
    """Yield the sockets on which `workers` workers listen."""
    if place.unix_socket is None:
        with closing(open_listeners(place.host, place.port, workers)) as listeners:
            yield listeners
        return
    try:
        mode = int(place.unix_socket_mode, 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= 0o777:  # noqa: PLR2004 - all that may be set
        raise ParameterError(f"unix_socket_mode is like 660, as for chmod, got {brief(place.unix_socket_mode)}")
    with unix_listening(place.unix_socket, mode, workers) as listener:
        yield Listeners(workers, listener)


def _serve_alone(setup: Setup, listener: socket.socket) -> None:
    with needs("server"):
        from ldpbandits.server.process.server import exit_timer
    service = _start(setup)
    server = _server(setup, service)
    with server.capture_signals():  # from before anybody can know of us, so that stopping is always orderly
        _welcome(setup, listener, service.keys.new)
        server.when_ready = partial(notify_systemd, "READY=1")
        timer = exit_timer(setup.front_door.stop_seconds + WORKER_STOP_EXTRA_S)
        server.when_stopping = timer.start
        try:
            server.serve_on(listener)
        finally:
            timer.cancel()


def _serve_by_workers(setup: Setup, listeners: Listeners) -> None:
    with needs("server"):
        from ldpbandits.server.process.supervisor import Workers
    service = _start(setup)  # what would keep a worker from starting is told here, once; and so are new keys
    service.close()
    workers = Workers(partial(_work, setup), listeners, setup.front_door.stop_seconds + WORKER_STOP_EXTRA_S)
    workers.on_ready = partial(notify_systemd, "READY=1")
    workers.run(begin=partial(_welcome, setup, listeners[0], service.keys.new))


def _work(setup: Setup, listener: socket.socket, tie: "Tie") -> None:
    """Be one of the workers."""
    logs.set_up(setup.serving.log_format)
    server = _server(setup, _start(setup))
    with server.capture_signals():
        tie.watch_parent(server.stop, setup.front_door.stop_seconds + WORKER_STOP_EXTRA_S)
        server.when_ready = tie.ready
        server.serve_on(listener)


def _start(setup: Setup) -> "Service":
    """Open the database, and make the keys that are missing: they are shown, or written, once."""
    load(setup.serving.load)
    with needs("server"):
        from ldpbandits.server.service import Service
    store, told = open_store(setup.serving.database), setup.serving
    try:
        keep = partial(first_keys.keep, path=told.keys_file, may_show=_has_terminal(told))
        service = Service(store, setup.secrets, keep=keep)
        service.proxy = setup.sign_in
        service.tell(setup.receiver)
    except BaseException as error:
        store.close()
        if isinstance(error, Unavailable):
            raise DatabaseError(f"the database cannot be used now: {error}") from None
        raise
    return service


def _has_terminal(told: Serving) -> bool:
    """Tell whether a person reads stderr: what goes elsewhere is kept as a log."""
    return told.log_format != "json" and sys.stderr.isatty()


def _server(setup: Setup, service: "Service") -> "Server":
    from ldpbandits.server.process.server import Server

    return Server(service, setup.front_door, prefix=setup.prefix, origins=setup.place.allowed_origins)


def _tell(setup: Setup, event: str, text: str) -> None:
    """Tell the operator: by a line on stderr, or by a log line where the log is JSON."""
    if setup.serving.log_format == "json":
        _log.info(text.partition("\n")[0], extra={"event": event})
    else:
        say(text)


def _welcome(setup: Setup, listener: socket.socket, new: Mapping[Role, str]) -> None:
    url = url_of(listener, setup.prefix)
    where = f"at {url}, console at {url}/console" if url else f"on the socket {setup.place.unix_socket}"
    lines = [f"ldpbandits agent server {where}, database {_named(setup.serving.database)}. Ctrl-C stops it."]
    if setup.serving.keys_file is not None and new:
        lines += ["", f"New keys are in {setup.serving.keys_file}, and nowhere else."]
        new = {}
    lines += first_keys.shown(new)
    if Role.ADMIN in new and url:
        lines += [
            "",
            "Create an experiment in the console or by a command, and show its report:",
            f"  export LDPBANDITS_URL={url} LDPBANDITS_ADMIN_KEY={new[Role.ADMIN]}",
            "  ldpbandits experiments create headline --arm 'Blue skies ahead' --arm 'Rain at last' --epsilon 1",
            "  ldpbandits experiments show headline --watch",
            f"All requests: {url}/docs, and for programs {url}/openapi.json",
        ]
    _tell(setup, "started", "\n".join(lines))


def _named(database: str) -> str:
    """Return what a database is called, without its password."""
    if not is_shared(database):
        return database
    from ldpbandits.server.store.postgres.connection import display_name

    return display_name(database)


COMMAND = Command(
    "serve",
    "run the agent server: assign arms, count private responses",
    add_arguments,
    run,
    about=ABOUT,
    has_json=False,
)
