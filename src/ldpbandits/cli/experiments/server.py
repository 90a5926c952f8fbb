"""The options that select a server and a key. A key is never on the command line."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from ldpbandits.admin.admin import Admin
from ldpbandits.errors import ParameterError

URL = "http://127.0.0.1:8000"
WHY = "everybody on this machine can read a command line: put the key into the environment, or give --key-file"


class NoKeyOption(argparse.Action):
    """Rejects --key with the reason, and does not repeat the key."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:  # noqa: ANN401 - as argparse calls it
        """Exit with a one-line error."""
        parser.error(f"there is no --key, because {WHY}")


def add_server(parser: argparse.ArgumentParser) -> None:
    """Add the options that select the server and the key."""
    parser.add_argument("--url", metavar="URL", help=f"the server (default LDPBANDITS_URL, or {URL})")
    add_key(parser, "LDPBANDITS_ADMIN_KEY")


def add_key(parser: argparse.ArgumentParser, variable: str) -> None:
    """Add the option for a file that holds the key; the default is the value of an environment variable."""
    told = f"a file that holds the key and nothing else (default: {variable})"
    parser.add_argument("--key-file", type=Path, metavar="FILE", help=told)
    parser.add_argument("--key", action=NoKeyOption, help=argparse.SUPPRESS)


def admin(options: argparse.Namespace, *, is_change: bool) -> Admin:
    """Return the client of the selected server; a command that changes nothing may use the viewer key."""
    names = ["LDPBANDITS_ADMIN_KEY", *([] if is_change else ["LDPBANDITS_VIEWER_KEY"])]
    return Admin(options.url or os.environ.get("LDPBANDITS_URL") or URL, read_key(options.key_file, names))


def read_key(file: Path | None, variables: Sequence[str]) -> str:
    """Return the key of a file, or else the first that one of these environment variables holds."""
    if file is not None:
        try:
            return file.read_text(encoding="ascii").strip()
        except UnicodeDecodeError:
            raise ParameterError(f"{file} holds no key: a key is made of ASCII letters, digits and signs") from None
        except OSError as error:
            raise ParameterError(f"{file} cannot be read: {error.strerror}") from None
    key = next(filter(None, map(os.environ.get, variables)), None)
    if key is None:
        raise ParameterError(f"{' or '.join(variables)} is needed, or --key-file: the key that the server has printed")
    return key
