"""`ldpbandits allow`: sign allowances, each of which lets a visitor ask for one decision."""

import argparse
from time import time

from ldpbandits.checks import check_count
from ldpbandits.cli.common import Command, number, show_result
from ldpbandits.cli.experiments.server import add_key, read_key
from ldpbandits.errors import ParameterError
from ldpbandits.server.experiments.allowances import ALLOWANCE_LIFETIME_S
from ldpbandits.server.keys import Role
from ldpbandits.spec.allowance import sign_allowance

ABOUT = f"""\
Sign allowances for an experiment that was created with --allowance-required. Each lets one visitor ask for one
decision. No server is asked: the allowance key is enough, from LDPBANDITS_ALLOWANCE_KEY or --key-file. A site's backend
signs one for each page that it renders; docs/allowances.md has the lines for it.

  ldpbandits rotate allowance --out allowance-key
  ldpbandits allow headline --key-file allowance-key --lifetime 600

An allowance expires after at most {ALLOWANCE_LIFETIME_S} s."""
MAX_ALLOWANCES = 100_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ldpbandits allow`."""
    parser.add_argument("name", metavar="NAME", help="the experiment")
    parser.add_argument(
        "--lifetime", type=number, default=600, metavar="S", help="seconds until it expires (default 600)"
    )
    parser.add_argument("--count", type=number, default=1, metavar="N", help="sign this many, one per line (default 1)")
    add_key(parser, Role.ALLOWANCE.variable)


def run(options: argparse.Namespace) -> None:
    """Sign allowances, and print one per line."""
    lifetime, count = check_count("--lifetime", options.lifetime), check_count("--count", options.count)
    if lifetime > ALLOWANCE_LIFETIME_S:
        raise ParameterError(f"--lifetime must be at most {ALLOWANCE_LIFETIME_S}, got {lifetime}")
    if count > MAX_ALLOWANCES:
        raise ParameterError(f"--count must be at most {MAX_ALLOWANCES}, got {count}")
    key, expires_at = read_key(options.key_file, [Role.ALLOWANCE.variable]), int(time()) + lifetime
    allowances = [sign_allowance(options.name, key, expires_at=expires_at) for _ in range(count)]
    show_result(options, lambda: allowances, lambda: allowances)


COMMAND = Command("allow", "sign allowances, each for one decision", add_arguments, run, about=ABOUT)
