"""docs/audit-faults.md shows the matrix of the planted faults that there are, with the checks that there are."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from ldpbandits.audit.checks import CHECKS

ROOT = Path(__file__).parents[2]
ROWS = re.findall(r"^\| (.*?) \|(.*)\|$", (ROOT / "docs/audit-faults.md").read_text(encoding="utf-8"), re.MULTILINE)
PLANTED: dict[str, Any] = {}  # executing the table is quick: bodies are text
exec(compile((ROOT / "benchmarks/audit_programs.py").read_text(encoding="utf-8"), "audit_programs.py", "exec"), PLANTED)  # noqa: S102
FAULTS: dict[str, dict[str, str]] = PLANTED["FAULTS"]
HEALTHY: dict[str, dict[str, str]] = PLANTED["HEALTHY"]


def test_the_page_shows_every_planted_fault() -> None:
    """In the order of the table, by cause: none is left out because it was missed."""
    shown = [name.removesuffix(" (missed)") for name, _ in ROWS]
    assert shown == [
        *["fault", *(row for cause, faults in FAULTS.items() for row in (f"**{cause}**", *faults))],
        *["**found**", "**found alone**"],
    ]


def test_the_columns_are_checks_and_add_up() -> None:
    """Each check by its name; the sums are those of the rows."""
    marks = {name: [mark.strip() for mark in rest.split("|")] for name, rest in ROWS}
    names = [check.name.rsplit(": ", maxsplit=1)[-1] for check in CHECKS]
    assert [name for name in names if name in marks["fault"]] == marks["fault"]
    rows = [row for name, row in marks.items() if name != "fault" and not name.startswith("**")]
    for column, (found, alone) in enumerate(zip(marks["**found**"], marks["**found alone**"], strict=True)):
        assert int(found) == sum(bool(row[column]) for row in rows)
        assert int(alone) == sum(row[column] == "alone" for row in rows)


@pytest.mark.parametrize("table", [FAULTS, HEALTHY])
def test_each_program_is_a_curator(table: dict[str, dict[str, str]]) -> None:
    """Python that defines `respond`; each cause has three programs at the least."""
    for bodies in table.values():
        assert len(bodies) >= 3
        for body in bodies.values():
            defined = [each.name for each in ast.parse(body).body if isinstance(each, ast.FunctionDef)]
            assert "respond" in defined
