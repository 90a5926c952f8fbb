"""The account of a shuffler on the command line: never the guarantee, and said so."""

import json

import pytest

from ldpbandits.cli import main


def test_the_guarantee_is_the_first_row(capsys: pytest.CaptureFixture[str]) -> None:
    """The others are what would be."""
    assert main(["account", "--epsilon", "1"]) == 0
    out = capsys.readouterr().out
    assert "epsilon would be" in out
    assert out.splitlines()[1].startswith("1 (guaranteed)")
    assert [row.split()[0] for row in out.splitlines()[2:5]] == ["1,000", "10,000", "100,000"]
    assert "No such party is part of ldpbandits" in out


def test_json_names_what_is_guaranteed(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is called epsilon but the guarantee."""
    assert main(["account", "--epsilon", "2", "--batch", "1e3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["guaranteed_epsilon"] == 2
    assert told["account"] == [
        {
            "batch": 1000,
            "epsilon_would_be": pytest.approx(0.4, abs=5e-3),
            "epsilon_by_scan": pytest.approx(0.323, abs=5e-4),
        }
    ]


@pytest.mark.parametrize(
    "wrong", [["--epsilon", "0"], ["--epsilon", "1", "--batch", "0"], ["--epsilon", "1", "--batch", "1e9"]]
)
def test_bad_input_is_one_line(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr, with exit code 2."""
    assert main(["account", *wrong]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
