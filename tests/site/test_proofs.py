"""The account on docs/proofs.md is what its command prints."""

from pathlib import Path

import pytest

from ldpbandits.cli import main


def test_the_account_of_a_shuffler_is_what_its_command_prints(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its table, line by line."""
    assert main(["account", "--epsilon", "1"]) == 0
    printed = capsys.readouterr().out.split("\n\n")[0]
    assert f"```text\n{printed}\n```" in (root / "docs" / "proofs.md").read_text(encoding="utf-8")
