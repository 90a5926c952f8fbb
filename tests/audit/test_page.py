"""The page of an audit: it can be drawn whatever was seen, and runs nothing of what it is about."""

import math
import random
import re

import pytest

from ldpbandits import BernoulliCurator, LaplaceCurator
from ldpbandits.audit import audit
from ldpbandits.audit.page import page


def test_the_page_of_a_violation_says_so_and_shows_no_markup_of_others() -> None:
    """Names are escaped: a page about somebody's program must not run it."""

    def respond(reward: float) -> float:
        return reward

    respond.__qualname__ = "<script>alert(1)</script>"
    text = page(audit(respond, epsilon=1.0, samples=2_000))
    assert 'class="verdict violated"' in text
    assert "<script>" not in text


@pytest.mark.filterwarnings("error")
def test_responses_beyond_measure_are_audited_without_a_warning() -> None:
    """Infinity, NaN and the largest doubles, whatever the reward, are private; the page of it can be drawn."""
    odd = [math.nan, math.inf, -math.inf, 1e308, -1e308, 0.5]
    found = audit(lambda _reward: random.SystemRandom().choice(odd), epsilon=1.0, samples=3_000, confidence=0.999999)
    assert found.verdict == "consistent", str(found)
    assert "consistent with epsilon = 1" in page(found)


def test_a_curator_of_bits_is_shown_as_people() -> None:
    """A hundred people with each reward, filled as often as they send a 1; there is no chart of two points.

    The shares are 26.9 and 73.1 %, +- 0.07: rounded to others by chance once in 1e7.
    """
    text = page(audit(BernoulliCurator(epsilon=1.0), epsilon=1.0, samples=400_000, seed=1))
    assert re.findall(r'aria-label="(\d+) dots of 100', text) == [
        "27",
        "73",
    ]
    assert [text.count(part) for part in ("<circle", '<circle class="one"', "<figure")] == [200, 100, 0]
    assert "differ by at most 46 %" in text


def test_other_responses_are_shown_by_their_privacy_loss() -> None:
    """Numbers other than 0 and 1 have a chart, and no people."""
    text = page(audit(LaplaceCurator(epsilon=1.0), epsilon=1.0, samples=2_000, seed=1))
    assert "<figure" in text
    assert "<circle" not in text
