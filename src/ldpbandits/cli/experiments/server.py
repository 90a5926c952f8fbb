"""Which server is asked, and by which key. A key is never on the command line."""

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
    """Add the options that say which server, and by which key."""
    parser.add_argument("--url", metavar="URL", help=f"the server (default LDPBANDITS_URL, or {URL})")
    told = "a file that holds the key and nothing else (default: LDPBANDITS_ADMIN_KEY)"
    parser.add_argument("--key-file", type=Path, metavar="FILE", help=told)
    parser.add_argument("--key", action=NoKeyOption, help=argparse.SUPPRESS)


def admin(options: argparse.Namespace, *, is_change: bool) -> Admin:
    """Return who asks that server; where nothing is changed, the viewer key will do."""
    url = options.url if options.url is not None else os.environ.get("LDPBANDITS_URL") or URL
    names = ["LDPBANDITS_ADMIN_KEY", *([] if is_change else ["LDPBANDITS_VIEWER_KEY"])]
    return Admin(url, read_key(options.key_file, names))


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
