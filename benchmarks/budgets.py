"""What a budget allows: how far answers about one fact move what somebody believes about it.

Each answer is a random bit of epsilon 1 about the same fact, and all of them say yes: the worst case. By Bayes' rule
the odds of the fact grow by e^epsilon with each.

python benchmarks/budgets.py
"""

from ldpbandits.output.numbers import percent
from ldpbandits.spec.odds import posterior

PRIORS = (0.01, 0.04, 0.10, 0.50)
BUDGETS = (1, 2, 3, 5, 10)


def table() -> list[str]:
    """Return the table of docs/budgets.md."""
    lines = [
        "| budget | " + " | ".join(f"{100 * prior:g} %" for prior in PRIORS) + " |",
        "|---" * (len(PRIORS) + 1) + "|",
    ]
    for budget in BUDGETS:
        cells = (percent(posterior(prior, budget)) for prior in PRIORS)
        lines.append(f"| {budget} | " + " | ".join(cells) + " |")
    return lines


if __name__ == "__main__":
    print("\n".join(table()))
