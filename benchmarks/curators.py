"""Time one private response beside OpenDP's mechanisms, all in one run."""

from collections.abc import Callable
from importlib.metadata import version
from timeit import repeat

import opendp.prelude as dp

from ldpbandits import BernoulliCurator, LaplaceCurator

TARGETS = {"CTB": 30, "CTL": 4}
"""How many times cheaper a response must be."""


def microseconds(call: Callable[[], object], number: int) -> float:
    """The time of one call, the best of seven."""
    return min(repeat(call, number=number, repeat=7)) / number * 1e6


def main() -> None:
    """Print the times and their ratios; fail below the targets."""
    dp.enable_features("contrib", "honest-but-curious")
    flip = dp.m.make_randomized_response_bool(prob=0.731)
    laplace = dp.m.make_laplace(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), scale=1.0)
    bernoulli_curator, laplace_curator = BernoulliCurator(1.0), LaplaceCurator(1.0)
    pairs = {
        "CTB": (lambda: bernoulli_curator.respond(0.3), "make_randomized_response_bool", lambda: flip(arg=True)),
        "CTL": (lambda: laplace_curator.respond(0.3), "make_laplace", lambda: laplace(0.3)),
    }
    print(f"one response at epsilon 1, beside OpenDP {version('opendp')}")
    failed = []
    for name, (ours, their_name, theirs) in pairs.items():
        own, peer = microseconds(ours, 20_000), microseconds(theirs, 2_000)
        ratio = peer / own
        print(f"{name}  {own:6.2f} us   {their_name:30} {peer:7.2f} us   {ratio:5.1f} times (at least {TARGETS[name]})")
        if ratio < TARGETS[name]:
            failed.append(name)
    if failed:
        raise SystemExit(f"below target: {', '.join(failed)}")


if __name__ == "__main__":
    main()
