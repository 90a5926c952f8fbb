"""The page of an audit: it can be drawn whatever was seen, and runs nothing of what it is about."""

import math
import random

import pytest

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
