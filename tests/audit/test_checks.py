"""The table of checks is the one that docs/audit.md shows, and an audit is what the table says."""

import re
from pathlib import Path

import pytest

from ldpbandits import BernoulliCurator
from ldpbandits.audit import audit, checks
from ldpbandits.audit.checks import BOUND, BOUND_SHARE, CHECKS, Check
from ldpbandits.audit.evidence import Evidence
from ldpbandits.audit.result import Finding

TEXT = (Path(__file__).parent.parent.parent / "docs" / "audit.md").read_text(encoding="utf-8")


def test_the_docs_show_this_table() -> None:
    """The same names in the same order, with their shares of either box."""
    table = TEXT[TEXT.index("| check | white box |") :].split("\n\n")[0]
    rows = [re.split(r" ?\| ?", line)[1:4] for line in table.splitlines()[2:]]
    shares = [[f"{part[0]:g}" if part else "" for part in (check.white, check.black)] for check in CHECKS]
    assert rows == [[check.name, *each] for check, each in zip(CHECKS, shares, strict=True)]


def test_the_shares_of_a_box_add_up() -> None:
    """All chances of a false alarm together are 1 - confidence."""
    assert sum(check.white[0] for check in CHECKS if check.white) == pytest.approx(1, abs=1e-12)
    assert sum(check.black[0] for check in CHECKS if check.black) == pytest.approx(1, abs=1e-12)


def test_every_check_has_a_name_of_its_own_and_a_box() -> None:
    """A line that nothing runs, or two lines of one name, would tell nobody anything."""
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    assert all(check.white or check.black for check in CHECKS)


def test_the_bound_has_the_largest_share() -> None:
    """Its two checks share 0.64, as the docs say."""
    assert pytest.approx(0.64) == BOUND_SHARE
    assert {check.name for check in CHECKS} >= {*BOUND}
    assert "has the share of both, 0.64" in TEXT


@pytest.mark.parametrize("respond", [BernoulliCurator(1.0), BernoulliCurator(1.0).respond])
def test_a_check_is_a_function_and_a_line(respond: BernoulliCurator, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line more in the table is a layer more in every audit, with the level of its share."""
    levels = []

    def planted(evidence: Evidence, alpha: float) -> Finding:
        levels.append(alpha)
        return Finding("violated", f"claims {evidence.claim.epsilon:g}")

    monkeypatch.setattr(checks, "CHECKS", (*CHECKS, Check("known attacks: planted", (0.25, planted), (0.25, planted))))
    found = audit(respond, epsilon=1.0, samples=1_000, confidence=0.875)
    assert (found.layers[-1].name, found.layers[-1].detail) == ("known attacks: planted", "claims 1")
    assert found.layers[-1] in found.violated
    assert levels == [0.25 * 0.125]
