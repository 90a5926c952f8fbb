"""What docs/privacy.md says and shows is so."""

import math
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")


def test_the_table_of_odds_is_the_formula() -> None:
    """e^epsilon, and e^epsilon / (1 + e^epsilon)."""
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+) \| ([\d.]+) % \|$", TEXT, flags=re.MULTILINE)
    assert len(rows) == 5
    for epsilon, factor, right in rows:
        assert factor == f"{math.exp(float(epsilon)):.2f}"
        assert right == f"{100 / (1 + math.exp(-float(epsilon))):.1f}"
