"""Which stakes and how many fields an audit looks at: the power of each choice over planted leaks. Seeded.

STAKES. A leak lets a guess be right with probability e^x / (1 + e^x), where epsilon = 1 is claimed. One bet among some
twenty has to gain e^11.3 for a verdict at 99.9 %. Each row is a leak of so many guesses at x; the columns are sets of
ratios by which a wrong guess divides the fortune, with their weights.

FIELDS. A record has twenty numbers, one of which tells a bit of epsilon = 2 by its last digit. Each row is a number of
fields that are looked at: how many of twenty records are found, one for each place of the leak, and the seconds.
"""

import random
from math import exp, inf
from time import process_time

import numpy as np

from ldpbandits.audit import betting
from ldpbandits.audit.blackbox import text
from ldpbandits.audit.blackbox.single import judge_single
from ldpbandits.audit.sample import sample_of

CHOICES = {
    "1.5 4 32 inf": ([1.5, 4, 32, inf], [0.1, 0.25, 0.15, 0.5]),
    "1.12 1.5 4 32 inf": ([1.12, 1.5, 4, 32, inf], [0.1, 0.1, 0.2, 0.1, 0.5]),
    "1.12 1.5 4 inf": ([1.12, 1.5, 4, inf], [0.15, 0.15, 0.2, 0.5]),
    "1.04 1.12 1.5 4 inf": ([1.04, 1.12, 1.5, 4, inf], [0.05, 0.1, 0.15, 0.2, 0.5]),
    "1.04 1.2 4 inf": ([1.04, 1.2, 4, inf], [0.1, 0.1, 0.3, 0.5]),
}
LEAKS = (
    *((40, inf), (60, 5.0), (100, 4.0), (100, 3.0), (300, 2.0), (600, 1.6), (1_200, 1.5), (3_000, 1.3)),
    *((10_000, 1.2), (10_000, 1.15), (60_000, 1.1), (60_000, 1.07), (400_000, 1.04), (400_000, 1.03)),
)
ENOUGH, REPEATS = 11.3, 4_000
RECORD, CALLS = 20, 4_000


def stakes() -> None:
    """Print how often each set of stakes finds each leak."""
    rng, total = np.random.default_rng(1), dict.fromkeys(CHOICES, 0.0)
    print("guesses       x  " + "".join(f"{name:>22}" for name in CHOICES))
    for guesses, epsilon in LEAKS:
        right = rng.binomial(guesses, 1 / (1 + exp(-epsilon)), size=REPEATS)
        found = {}
        for name, (ratios, weights) in CHOICES.items():
            betting.RHO, betting.LOG_RHO_WEIGHTS = np.array(ratios), np.log(weights)
            found[name] = float((betting.log_fortune(right, guesses - right, 1.0) >= ENOUGH).mean())
            total[name] += found[name] / len(LEAKS)
        print(f"{guesses:7} {epsilon:7g}  " + "".join(f"{100 * each:20.1f} %" for each in found.values()))
    print(" " * 17 + "".join(f"{100 * each:20.1f} %" for each in total.values()))


def record(place: int, coin: int, rng: random.Random) -> bytes:
    """Return a record of numbers of all lengths, in which one tells the coin, twice as plainly as is claimed."""
    fields = [rng.randrange(10 ** rng.randrange(1, 9)) for _ in range(RECORD)]
    told = coin if rng.random() < 1 / (1 + exp(-2)) else 1 - coin
    fields[place] = fields[place] // 2 * 2 + told
    return " ".join(map(str, fields)).encode()


def fields() -> None:
    """Print how many of the leaks are found, by how many fields are looked at."""
    for count in (6, 12, 16, 24):
        text.FIELDS, found, started = count, 0, process_time()
        for place in range(RECORD):
            rng, coins = random.Random(place), np.random.default_rng(place)
            chosen = coins.integers(2, size=CALLS)
            said = [record(place, coin, rng) for coin in chosen.tolist()]
            sample = sample_of((0.0, 1.0), chosen, said, coins)
            found += judge_single(sample, [(0, 1)], 4.5e-4, 1.0, is_thorough=False).verdict == "violated"
        print(f"{count:2} fields: {found} of {RECORD} found, {process_time() - started:.1f} s")


if __name__ == "__main__":
    stakes()
    fields()
