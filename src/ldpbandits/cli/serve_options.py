"""The options of a server: what it serves, where it listens, and what it lets in. Each is named here, once."""

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldpbandits.cli.config import Option, option, options_of, settle
from ldpbandits.server.keys import SECRET_VARIABLE, SHARED_ROLES
from ldpbandits.server.process.front_door import FrontDoor
from ldpbandits.server.process.logs import FORMATS
from ldpbandits.server.proxy_sign_in import DEFAULT_ROLES, PROXY_SECRET_VARIABLE
from ldpbandits.server.webhooks import WEBHOOK_SECRET_VARIABLE

SECRETS = (*(role.variable for role in SHARED_ROLES), SECRET_VARIABLE, PROXY_SECRET_VARIABLE, WEBHOOK_SECRET_VARIABLE)
"""Environment variables, each also as NAME_FILE. They are no options: every user can read a command line."""


@dataclass(frozen=True, kw_only=True)
class Serving:
    """Options about the database, the workers and the log."""

    database: str = option(
        "agent.db", "SQLite file, or the postgresql:// URL of a database", metavar="FILE|URL", has_file=True
    )
    workers: int = option(1, "processes on this machine; more than one needs PostgreSQL", least=1, most=512)
    load: tuple[str, ...] = option(
        (),
        "import this module first: rules, mechanisms and transforms of your own that it registers; repeatable",
        metavar="MODULE",
    )
    keys_file: Path | None = option(  # noqa: RUF009 - a field, as the others
        None,
        "write new keys into this file, readable only by its owner; by default a terminal shows them once, and without "
        "a terminal they are in a file beside the SQLite database",
        metavar="FILE",
    )
    log_format: str = option("text", "the format of the log on stderr, one line per event", choices=FORMATS)


@dataclass(frozen=True, kw_only=True)
class Listening:
    """Options about the address that the server listens on."""

    host: str = option("127.0.0.1", "address to listen on")
    port: int = option(8000, "port to listen on, 0 for any", least=0, most=65535)
    unix_socket: Path | None = option(  # noqa: RUF009 - as above
        None, "listen on this file instead of an address and a port", metavar="FILE"
    )
    unix_socket_mode: str = option("660", "who may connect to that file, as for chmod", metavar="OCTAL")
    allowed_origins: tuple[str, ...] = option(
        (),
        "only pages of this origin, such as https://example.org, may use the API in a browser; repeatable"
        " (default: pages of any)",
        metavar="ORIGIN",
    )
    path_prefix: str = option(
        "", "all paths begin with this, such as /bandits; a proxy in front may take it off or leave it", metavar="PATH"
    )


@dataclass(frozen=True, kw_only=True)
class SignIn:
    """Options about a proxy in front that signs people in to the console."""

    proxy_user_header: str = option(
        "",
        f"trust this header of the proxy in front for who somebody is in the console; needs {PROXY_SECRET_VARIABLE}",
        metavar="HEADER",
    )
    proxy_default_role: str = option(
        "none", "what somebody may do whom the proxy names, and who has no key of that name", choices=DEFAULT_ROLES
    )


@dataclass(frozen=True, kw_only=True)
class Telling:
    """Options about a server that is told of verdicts and stops."""

    webhook_url: str = option(
        "",
        "tell this URL when an experiment is decided, stops itself or needs a look; "
        f"signed, and needs {WEBHOOK_SECRET_VARIABLE}",
        metavar="URL",
        has_file=True,
    )


GROUPS = {
    "what to serve": Serving,
    "where to listen": Listening,
    "sign-in by a proxy": SignIn,
    "webhooks": Telling,
    "limits of the front door": FrontDoor,
}
OPTIONS: tuple[Option, ...] = options_of(*GROUPS.values())


def settled(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `serve`, from the command line, the environment and a file."""
    return settle(OPTIONS, options, os.environ, SECRETS)
