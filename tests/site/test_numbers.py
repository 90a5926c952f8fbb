"""Numbers in the prose of the pages are those of the formulas that they tell of."""

from math import exp
from statistics import NormalDist

import pytest
from tests.site.pages import DOCS

from ldpbandits.lab.panels import paper
from ldpbandits.theory import bounds

MEANS = [arm.mean for arm in paper.BERNOULLI]
SENTENCES = {
    "tutorial.md": [
        f"At 2, somebody who sees the bit and guesses is right at most {1 / (1 + exp(-2)):.0%}".replace("%", " %"),
        f"at 1 it would be {1 / (1 + exp(-1)):.0%}".replace("%", " %"),
    ],
    "faq.md": [f"right at most {1 / (1 + exp(-1)):.0%} of the time".replace("%", " %")],
    "proofs.md": [
        (
            f"{bounds.privacy_factor_b(2):.2f} at epsilon 2, {bounds.privacy_factor_b(1):.2f} at 1, "
            f"{bounds.privacy_factor_b(0.2):.1f} at 0.2"
        )
    ],
    "paper.md": [
        f"| `ldp-ucb-b` | 1.70 ± 0.01 | 1.6 | {bounds.privacy_factor_b(2):.2f} |",
        f"below 101 | {bounds.privacy_factor_b(0.2):.1f} |",
        f"below 441 | {bounds.privacy_factor_l(0.2):.0f} |",
        f"| 10 | {bounds.privacy_factor_b(0.5):.1f} |",
        f"| 15 | {bounds.privacy_factor_l(0.5):.0f} |",
    ],
    "rules.md": [
        (
            f"it is {bounds.exact_constant(MEANS, 2):.1f}, {bounds.exact_constant(MEANS, 1):.0f} and "
            f"{bounds.exact_constant(MEANS, 0.2):,.0f} at epsilon 2, 1 and 0.2"
        )
    ],
    "live.md": [f"at most e^-28 = {exp(-28):.0e}"],
    # A walk that leaves 3 standard deviations on either side: by the reflection principle at most 4 P(Z < -3).
    "unbounded.md": [f"with probability at most {400 * NormalDist().cdf(-3):.2f} %"],
}


@pytest.mark.parametrize("page", SENTENCES)
def test_numbers_in_prose_are_those_of_the_formulas(page: str) -> None:
    """A sentence that is worked out here stands on the page."""
    text = " ".join((DOCS / page).read_text(encoding="utf-8").split())
    assert [sentence for sentence in SENTENCES[page] if sentence not in text] == []
