"""Numbers as people write them: shares, rounded counts, nouns with their number, and spans of time."""

from math import floor, log10

SMALLEST_SHARE = 1e-4
"""Shares nearer to 0 or 1 than this are written as a bound."""

UNITS_S = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


def percent(share: float) -> str:
    """Write a share with two significant digits, or near 1 with as many as tell it from 1.

    >>> percent(0.0234), percent(0.1), percent(0.999), percent(1.5)
    ('2.3 %', '10 %', '99.9 %', '150 %')
    >>> percent(1e-6), percent(1 - 1e-6), percent(0.0), percent(1.0)
    ('<0.01 %', '>99.99 %', '0 %', '100 %')
    """
    if 0 < share < SMALLEST_SHARE:
        return f"<{100 * SMALLEST_SHARE:g} %"
    if 1 - SMALLEST_SHARE < share < 1:
        return f">{100 - 100 * SMALLEST_SHARE:g} %"
    if 0.5 < share < 1:  # noqa: PLR2004 - nearer to 1 than to 0
        digits = max(0, -floor(log10(100 * (1 - share)) + 1e-9))
        return f"{100 * share:.{digits}f} %"
    return f"{float(f'{100 * share:.2g}'):g} %"


def about(number: float) -> str:
    """Write a number with two significant digits, rounded up, because it is a number that must be reached.

    >>> about(401_000), about(87), about(1_234)
    ('410,000', '87', '1,300')
    """
    whole = -int(-number // 1)
    unit = 10 ** max(len(str(whole)) - 2, 0)
    return f"{-(-whole // unit) * unit:,}"


def plural(count: int, noun: str) -> str:
    """Write a count and its noun.

    >>> plural(1, "arm"), plural(1_200, "arm")
    ('1 arm', '1,200 arms')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def span(seconds: float) -> str:
    """Write a span of time in the largest unit of which it has whole ones, or else in seconds.

    >>> span(86_400), span(5_400), span(90), span(0.5)
    ('1 day', '90 minutes', '90 seconds', '0.5 seconds')
    """
    size, unit = next(((size, unit) for size, unit in UNITS_S if seconds >= size and seconds % size == 0), UNITS_S[-1])
    number = seconds / size
    return f"{number:g} {unit}" if number == 1 else f"{number:g} {unit}s"
