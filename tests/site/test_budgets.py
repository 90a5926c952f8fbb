"""The table of budgets in the docs is what its script prints."""

import sys
from pathlib import Path

import pytest

from ldpbandits.spec.odds import posterior


def test_the_page_has_the_table_that_the_script_prints(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Line by line; at epsilon 1 a yes moves 4 % to 10 %."""
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    sys.modules.pop("budgets", None)
    import budgets  # noqa: PLC0415 - a script

    assert "\n".join(budgets.table()) in (root / "docs" / "budgets.md").read_text(encoding="utf-8")
    assert round(posterior(0.04, 1), 2) == 0.10
