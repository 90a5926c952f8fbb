"""Numbers are written in one way, by the command line, the console, the lab and Python."""

from pathlib import Path

import pytest

from ldpbandits.output.numbers import about, percent, plural, span


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (percent(0), "0 %"),
        (percent(1e-9), "<0.01 %"),
        (percent(0.004), "0.4 %"),
        (percent(0.0234), "2.3 %"),
        (percent(0.1), "10 %"),
        (percent(0.95), "95 %"),
        (percent(0.972), "97 %"),
        (percent(0.9933), "99.3 %"),
        (percent(0.999), "99.9 %"),
        (percent(1 - 1e-9), ">99.99 %"),
        (percent(1), "100 %"),
        (percent(1.5), "150 %"),
        (about(401_000), "410,000"),
        (about(87), "87"),
        (about(7), "7"),
        (plural(1, "arm"), "1 arm"),
        (plural(0, "arm"), "0 arms"),
        (plural(1200, "arm"), "1,200 arms"),
        (span(300), "5 minutes"),
        (span(3600), "1 hour"),
        (span(90), "90 seconds"),
        (span(86400 * 3), "3 days"),
        (span(0.5), "0.5 seconds"),
    ],
)
def test_numbers_are_written_for_people(written: str, expected: str) -> None:
    """A share that is neither 0 nor 1 is never written as either."""
    assert written == expected


def test_there_is_one_of_each(root: Path) -> None:
    """No other module defines a percent, an about or a plural of its own."""
    heads = [f"def {mark}{name}(" for name in ("percent", "about", "plural") for mark in ("", "_")]
    found = {
        str(path.relative_to(root / "src" / "ldpbandits"))
        for path in (root / "src").rglob("*.py")
        if any(line.startswith(tuple(heads)) for line in path.read_text(encoding="utf-8").splitlines())
    }
    assert found == {"output/numbers.py"}
