"""Which arm leads, and when it counts as told apart: the test that reports, forecasts and plans share."""

from ldpbandits.agent.separation import ALPHA, is_separated, leading


def test_the_arm_of_largest_mean_leads() -> None:
    """The first of several; arms without a response do not, and where there is none nobody leads."""
    assert leading([0.1, 0.3, 0.2]) == 1
    assert leading([0.3, 0.3]) == 0
    assert leading([None, -0.2, None]) == 1
    assert leading([None, None]) is None
    assert leading([]) is None


def test_an_arm_is_separated_when_its_interval_lies_above_all_others() -> None:
    """Touching is not enough, and one that overlaps is enough to prevent it."""
    assert is_separated(2, [(0.1, 0.2), (0.0, 0.3), (0.31, 0.5)])
    assert not is_separated(2, [(0.1, 0.2), (0.0, 0.31), (0.31, 0.5)])
    assert not is_separated(0, [(0.1, 0.9), (0.0, 0.05), (0.3, 0.5)])


def test_the_level_is_that_of_every_report() -> None:
    """95 % that no interval ever misses."""
    assert ALPHA == 0.05
