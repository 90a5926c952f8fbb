"""`ldpbandits account`: the privacy that a shuffler would add, which is never the guarantee. It needs no extra."""

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple

from ldpbandits.checks import check_count, check_epsilon, check_probability
from ldpbandits.cli.common import EPSILON_HELP, Command, number, show_result, table
from ldpbandits.errors import ParameterError
from ldpbandits.output.numbers import percent
from ldpbandits.spec.odds import posterior
from ldpbandits.theory.shuffling import DELTA, proved_epsilon, scanned_epsilon

BATCHES = (1_000, 10_000, 100_000)
LARGEST_BATCH = 1_000_000
"""Beyond, the sums take more than some seconds."""

ABOUT = """\
Account for a shuffler: how much less a batch of bits would tell about each person in it if somebody in between passed
on only their number and their sum for each arm. This would be the epsilon, and is never the guarantee: that is the
epsilon of each response, which every device ensures by itself.

  ldpbandits account --epsilon 1
  ldpbandits account --epsilon 2 --batch 5000 --delta 1e-8"""


class Row(NamedTuple):
    """The epsilon that a batch of this size would have, by proof and by scan."""

    batch: int
    epsilon_would_be: float
    epsilon_by_scan: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ldpbandits account`."""
    parser.add_argument("--epsilon", required=True, type=number, metavar="E", help=EPSILON_HELP)
    told = f"responses to one arm that are passed on together; repeatable (default {', '.join(map(str, BATCHES))})"
    parser.add_argument("--batch", type=number, action="append", metavar="N", help=told)
    least = f"the chance that the account does not hold (default {DELTA:g})"
    parser.add_argument("--delta", type=number, default=DELTA, metavar="D", help=least)


def run(options: argparse.Namespace) -> None:
    """Print the account as JSON or as a table."""
    epsilon, delta = check_epsilon(options.epsilon), check_probability("delta", options.delta)
    batches = [_batch(each) for each in options.batch or BATCHES]
    account = [
        Row(batch, proved_epsilon(epsilon, batch, delta), scanned_epsilon(epsilon, batch, delta)) for batch in batches
    ]
    show_result(options, lambda: _json(epsilon, delta, account), lambda: _report(epsilon, delta, account))


def _batch(number: object) -> int:
    """Check a number of responses."""
    batch = check_count("batch", number)
    if batch > LARGEST_BATCH:
        raise ParameterError(f"batch must be at most {LARGEST_BATCH:,}, got {batch:,}")
    return batch


def _json(epsilon: float, delta: float, account: Sequence[Row]) -> dict[str, Any]:
    """Return the account under names that say what it is."""
    return {"guaranteed_epsilon": epsilon, "delta": delta, "account": [row._asdict() for row in account]}


def _report(epsilon: float, delta: float, account: Sequence[Row]) -> list[str]:
    rows = [("1 (guaranteed)", f"{epsilon:g}", "", percent(posterior(0.5, epsilon)))]
    rows += [
        (
            f"{row.batch:,}",
            f"{row.epsilon_would_be:.3g}",
            f"{row.epsilon_by_scan:.3g}",
            percent(posterior(0.5, row.epsilon_would_be)),
        )
        for row in account
    ]
    return [
        table(("batch", "epsilon would be", "by scan", "largest share of right guesses"), rows),
        "",
        f"The guarantee is the first row. The others would hold, except with chance {delta:g}, if a",
        "party that everybody trusts passed on only the number and the sum of the bits of each",
        "batch: by proof, whatever the others' rewards; by scan, where the worst mix of their",
        "rewards is the one that was found worst. No such party is part of ldpbandits. Tickets",
        "have nonces, so one that forwards responses in another order adds nothing: it would",
        "have to count.",
    ]


COMMAND = Command(
    "account", "account for a shuffler: what would be, never the guarantee", add_arguments, run, about=ABOUT
)
