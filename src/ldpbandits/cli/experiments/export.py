"""`ldpbandits experiments export`: the responses, or their tallies, whole or not at all."""

import argparse
import json
from pathlib import Path
from time import monotonic

from ldpbandits.admin.admin import Admin, experiment_path
from ldpbandits.cli.common import Stdout, note, say, show
from ldpbandits.output.files import check_file, write
from ldpbandits.output.numbers import plural

PROGRESS_INTERVAL_S = 0.2
"""Interval between two progress notes."""


def add_export(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ldpbandits experiments export`."""
    parser.add_argument("name", metavar="NAME", help="the experiment")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the file to write; it appears once it is complete")
    order = "in the order in which they were counted; they are shuffled unless this is given"
    parser.add_argument("--in-order", action="store_true", help=order)
    told = "the exact tallies as JSON, from which another experiment can start (create --warm-start)"
    parser.add_argument("--tallies", action="store_true", help=told)


def export(admin: Admin, options: argparse.Namespace) -> None:
    """Write the responses, or the tallies, into the file or to stdout."""
    out: Path | None = options.out
    if out is not None:
        check_file(out)
    if options.tallies:
        text = json.dumps(admin.ask("GET", experiment_path(options.name, "tallies")), indent=2)  # all that it says
        if out is None:
            show(text)
        else:
            write(out, f"{text}\n".encode())
            say(f"{out}: the tallies of {options.name}")
    elif out is None:
        admin.export(options.name, Stdout(), in_order=options.in_order)
    else:
        try:
            counted = admin.export(options.name, out, in_order=options.in_order, progress=_Progress())
        finally:
            note("")
        say(f"{out}: {plural(counted, 'response')}")


class _Progress:
    """A note on stderr, now and then, where somebody watches."""

    def __init__(self) -> None:
        self._next = monotonic() + PROGRESS_INTERVAL_S

    def __call__(self, responses: int) -> None:
        if monotonic() >= self._next:
            note(f"{responses:,} responses so far")
            self._next = monotonic() + PROGRESS_INTERVAL_S
