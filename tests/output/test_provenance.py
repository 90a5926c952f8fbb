"""The provenance of pages: the command as it can be pasted, and digests that do not depend on the machine."""

from datetime import date

from ldpbandits.output.provenance import Provenance, digest
from ldpbandits.spec.transforms import Range


def test_the_command_can_be_pasted_into_a_shell() -> None:
    """Words with spaces are quoted; whatever was made from Python says so."""
    made = Provenance.of(["plan", "--data", "past rewards.csv"])
    assert made.rows(digest="none")[1:] == [
        ("version", f"ldpbandits {made.version}"),
        ("command", "ldpbandits plan --data 'past rewards.csv'"),
        ("digest", "none"),
    ]
    assert dict(Provenance(date="2026-01-31T08:00:00+00:00").rows())["command"] == "from Python"


def test_digests_are_of_what_was_asked() -> None:
    """The last digits of a number, the order of names and lists or tuples make no difference; all else does."""
    asked = {"lift": 0.1 + 0.2, "declared": Range(0, 5), "begin": date(2026, 1, 31), "epsilons": (1.0, 2.0)}
    same = {"begin": date(2026, 1, 31), "epsilons": [1.0, 2.0], "declared": Range(0, 5), "lift": 0.3}
    assert digest(asked) == digest(same)
    others = ({**asked, "lift": 0.31}, {**asked, "declared": Range(0, 4)}, {**asked, "begin": date(2026, 2, 1)})
    assert len({digest(each) for each in (asked, *others)}) == 4
    assert digest([]) == "SHA-256 4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"  # sha256 of []
