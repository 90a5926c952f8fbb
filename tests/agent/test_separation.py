"""Which arm leads, and when it counts as told apart: the test that reports, forecasts and plans share."""

from ldpbandits.agent.inference.estimates import Estimate
from ldpbandits.agent.inference.separation import ALPHA, is_separated, leading


def test_the_arm_of_largest_mean_leads() -> None:
    """The first of several; arms without a response do not, and where there is none nobody leads."""
    assert leading([0.1, 0.3, 0.2]) == 1
    assert leading([0.3, 0.3]) == 0
    assert leading([None, -0.2, None]) == 1
    assert leading([None, None]) is None
    assert leading([]) is None


def known(low: float, high: float, *, fits: bool = True) -> Estimate:
    """An estimate with this interval."""
    return Estimate("mean reward", None, low, high, 0.05, 100, fits)


def test_an_arm_is_separated_when_its_interval_lies_above_all_others() -> None:
    """Touching is not enough, and one that overlaps is enough to prevent it; alone, no arm is."""
    assert is_separated(2, [known(0.1, 0.2), known(0.0, 0.3), known(0.31, 0.5)])
    assert not is_separated(2, [known(0.1, 0.2), known(0.0, 0.31), known(0.31, 0.5)])
    assert not is_separated(0, [known(0.1, 0.9), known(0.0, 0.05), known(0.3, 0.5)])
    assert not is_separated(0, [known(0.1, 0.9)])


def test_where_no_mean_fits_nothing_is_separated() -> None:
    """Responses that no curator of this kind gives say nothing of the order."""
    assert not is_separated(1, [known(0.0, 0.0, fits=False), known(0.3, 0.5)])


def test_the_level_is_that_of_every_report() -> None:
    """95 % that no interval ever misses."""
    assert ALPHA == 0.05
