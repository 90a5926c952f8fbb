"""`ldpbandits rotate`: give a server a new key, or a new secret to sign tickets with."""

import argparse
from pathlib import Path
from urllib.parse import quote

from ldpbandits.cli.common import Command, number, say, show, show_json
from ldpbandits.cli.experiments.server import add_server, admin
from ldpbandits.cli.first_keys import keys_file

SHARED = ("admin", "viewer", "client", "allowance", "signing")
ABOUT = """\
Rotate a key of a server, or the secret that signs tickets. The command prints the new key, once, or writes it to a
file; it never shows the secret. Older ones stay valid for --grace seconds: by default 0, or for the secret the longest
ticket lifetime. A key that is set in the server's environment is changed there instead.

  ldpbandits rotate viewer --out viewer-key
  ldpbandits rotate client --grace 86400      # for a day both are valid
  ldpbandits rotate allowance --out allowance-key
  ldpbandits rotate anna                      # the key of a name (ldpbandits keys)
  ldpbandits rotate signing --grace 0         # voids all open tickets at once"""


class _Offered(tuple[str, ...]):
    """Choices that a shell offers; any other name is accepted too, and the server knows it or not."""

    __slots__ = ()

    def __contains__(self, _: object) -> bool:
        """Accept any name: the server knows it or not."""
        return True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ldpbandits rotate`."""
    told = f"{', '.join(SHARED[:-1])}: the key of this role; signing: the secret; or a name of ldpbandits keys list"
    parser.add_argument("what", choices=_Offered(SHARED), metavar="WHAT", help=told)
    parser.add_argument("--grace", type=number, metavar="S", help="seconds for which older ones stay valid")
    told = "write the key into this new file, readable only by its owner, instead of printing it"
    parser.add_argument("--out", type=Path, metavar="FILE", help=told)
    add_server(parser)


def run(options: argparse.Namespace) -> None:
    """Ask for it, and hand over the key."""
    asker = admin(options, is_change=True)
    message = {} if options.grace is None else {"grace": options.grace}
    path = f"/v1/keys/{quote(options.what, safe='')}/rotate"
    if options.what == "signing":
        made = asker.ask("POST", path, message)
        say("tickets are signed with a new secret")
    elif options.out is not None:
        with keys_file(options.out) as file:  # before there is a key: it can be had only once
            made = asker.ask("POST", path, message)
            file.write(f"{made['key']}\n")
        made["key"] = None
        say(f"the new {options.what} key is in {options.out}, and nowhere else")
    else:
        made = asker.ask("POST", path, message)
        if not options.json:
            show(made["key"])
    if options.json:
        show_json(made)


COMMAND = Command(
    "rotate", "rotate a key of a server, or the secret that signs tickets", add_arguments, run, about=ABOUT
)
