"""`ldpbandits plan`: what it prints, the page it writes, and that bad input is one line and exit code 2."""

import json
import re
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from ldpbandits.cli import main
from ldpbandits.lab.planning import planner

PLAN = ["plan", "--baseline", "0.3", "--lift", "1", "--epsilon", "2,4", "--trials", "10", "--horizon", "2e4"]
KEYS = {
    "baseline", "lift", "best", "range", "arms", "curator", "users", "missing", "power", "confidence", "seed",
    "seconds", "rows", "verdicts", "smallest_epsilon", "reverse", "odds", "answer", "command", "per_day", "worst",
}  # fmt: skip


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Play few trials in equal shares: what is looked at here is what is printed."""
    monkeypatch.setattr(planner, "EQUAL_TRIALS", 20)


def called(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Run the command line in this process."""
    try:
        code = main(arguments)
    except SystemExit as end:
        code = int(end.code or 0)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_it_prints_tables_and_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    """The answer, the question, responses, costs, odds, and how to start; nothing on stderr."""
    code, out, err = called(PLAN, capsys)
    assert (code, err) == (0, "")
    answer, _, heading = out.splitlines()[:3]
    assert re.match(
        r"Yes: by duels you would see a lift of 100 % with \d+ responses at epsilon 2, \d+ at epsilon 4, ", answer
    )
    assert heading == "0.3 against 0.6, a lift of 100 %; 2 arms, ctb, confidence 95 %"
    for title in ("Responses until the verdict", "Cost until the verdict", "Privacy of one response"):
        assert title in out
    assert re.search(r"^epsilon +rule +10 % .* +power 0.8 +no privacy +forecast +trials$", out, re.MULTILINE)
    assert re.search(r"^ +2 +kl-ucb\+\+ .*20,000\+ .* 10$", out, re.MULTILINE)
    assert re.search(r"^ +4 +duels +\d+ +\d+ +\d+ +\d+ +\d+ +\d+ +20$", out, re.MULTILINE)
    assert re.search(r"^ +4 +one look +\d+ +\d+$", out, re.MULTILINE)
    assert re.search(r"^ +2 +7.39 +88.1 %$", out, re.MULTILINE)
    assert re.search(r"^feasible with \d+ responses at epsilon 4 by duels, \d+ by equal shares", out, re.MULTILINE)
    start = "ldpbandits experiments create my-experiment --arm A --arm B --epsilon 2 --rule duels"
    assert out.endswith(f"To start:\n  {start}\n")
    assert max(len(line) for line in out.splitlines()[1:] if "feasible" not in line) <= 120


def test_json_has_everything(capsys: pytest.CaptureFixture[str]) -> None:
    """One object, with a row for each epsilon and allocation, all numbers of the tables, and the verdicts."""
    code, out, err = called([*PLAN, "--json", "--users", "30", "--seed", "3"], capsys)
    made: dict[str, Any] = json.loads(out)
    assert (code, err) == (0, "")
    assert set(made) == KEYS
    assert (made["users"], made["seed"], made["range"], made["confidence"]) == (30, 3, [0, 1], 0.95)
    assert [(row["epsilon"], row["allocation"], row["rule"]) for row in made["rows"]] == [
        (epsilon, allocation, rule)
        for epsilon in (2.0, 4.0, None)
        for allocation, rule in (("duels", "duels"), ("equal", "equal shares"), ("rule", "kl-ucb++"))
    ]
    for row in made["rows"]:
        assert set(row["responses"]) == {"10%", "50%", "90%", "power", "closed_form", "textbook"}
        assert set(row["then"]) == {"regret", "best_share", "half_width"}
        assert set(row["with_users"]) == {"power", "standing", "smallest_lift"}
        assert row["responses"]["closed_form"] > 0
    assert set(made["verdicts"]) == {"2.0", "4.0"}
    assert "not with 30 users: the smallest lift you would see is none at all" in made["verdicts"]["2.0"]
    assert made["answer"].startswith("No: with 30 users you would not see a lift of 100 % at any epsilon")
    assert made["reverse"] == "with 30 users no epsilon is feasible"
    assert made["odds"][1]["right_at_most"] == pytest.approx(0.982, abs=1e-3)


def test_the_same_seed_prints_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """Also on another number of threads."""
    assert called([*PLAN, "--jobs", "1"], capsys) == called([*PLAN, "--jobs", "3"], capsys)


def test_the_page_stands_by_itself(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Verdicts, two pictures, the tables and the odds of docs/privacy.md; it loads nothing."""
    page = tmp_path / "plan.html"
    code, out, _ = called([*PLAN, "--users", "1000", "--out", str(page)], capsys)
    assert code == 0
    assert out.endswith(f"The page: {page}\n")
    text = page.read_text(encoding="utf-8")
    assert "http" not in re.sub(r"base64,[\w+/=]*", "", text)
    assert text.count('class="verdict') == 3
    for told in (
        "What will epsilon cost?",
        "With 1,000 users",
        "smallest lift",
        "largest share of right guesses",
        "88.1 %",
        "98.2 %",
    ):
        assert told in text
    # matplotlib draws letters, and says in a comment what they spell.
    pictures = [b64decode(found).decode() for found in re.findall(r'src="data:image/svg\+xml;base64,([\w+/=]+)', text)]
    words = [re.findall(r"<!-- (.*?) -->", picture) for picture in pictures]
    assert len(words) == 2
    assert "responses until the verdict with power 0.8" in words[0]
    for told in ("feasible above: by equal shares", "feasible above: by kl-ucb++", "1,000 responses of your users"):
        assert told in words[0]
    for told in ("share of trials that are decided", "epsilon 2", "epsilon 4", "no privacy", "by kl-ucb++"):
        assert told in words[1]


def test_a_plan_that_is_never_feasible_has_a_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Without pictures and days; the verdict says why, and the tables say never."""
    page = tmp_path / "plan.html"
    code, out, _ = called([*PLAN, "--missing", "0.4", "--worst", "--per-day", "100", "--out", str(page)], capsys)
    assert code == 0
    assert "however many respond: with 40 % of the answers missing" in out
    assert "never" in out
    assert "Days" not in out
    text = page.read_text(encoding="utf-8")
    assert "<img" not in text
    assert 'class="verdict violated"' in text


def test_past_rewards_take_the_place_of_a_baseline(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Their mean is the baseline; that only the mean matters is said, and how many were clipped."""
    data = tmp_path / "past.csv"
    data.write_text("reward\n0\n0\n4\n8\n40\n", encoding="utf-8")
    arguments = ["plan", "--data", str(data), "--high", "20", "--lift", "0.5", "--epsilon", "4", "--trials", "10"]
    code, out, _ = called([*arguments, "--horizon", "2e4"], capsys)
    assert code == 0
    assert "\n6.4 (the mean of 5 rewards in past.csv) against 9.6, a lift of 50 %" in out
    assert "\nRewards beyond the range count as its ends: 1 of 5.\n" in out
    assert "CTB uses only the mean of past rewards" in " ".join(out.split())
    assert "Without privacy the plan plays the rewards themselves." in " ".join(out.split())


def test_a_range_without_past_rewards_is_said_to_stand_for_its_ends(capsys: pytest.CaptureFixture[str]) -> None:
    """A mean of 3 stars does not tell how much they vary."""
    arguments = ["--low", "1", "--high", "5", "--lift", "0.5", "--epsilon", "4", "--trials", "10", "--horizon", "2e4"]
    code, out, _ = called(["plan", "--baseline", "3", *arguments], capsys)
    assert code == 0
    assert "\nThe plan takes rewards to be 1 or 5; for others, past rewards (--data) show" in out


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (["--lift", "0"], "lift must be > 0, the relative gain to be found, such as 0.1 for 10 %, got 0"),
        (["--baseline", "0.6"], "a baseline of 0.6 with a lift of 1 is 1.2; no mean reward is above 1"),
        (["--users", "1"], "users must be at least the number of arms, 2, got 1"),
        (["--power", "1"], "power must lie strictly between 0 and 1, got 1"),
        (["--power", "-3"], "power must lie strictly between 0 and 1, got -3"),
        (["--confidence", "0"], "confidence must lie strictly between 0 and 1, got 0"),
        (["--epsilon", "1,x"], "epsilon must be a number, got 'x'"),
        (["--epsilon", "1,0"], "epsilon must be finite and > 0"),
        (["--epsilon", ""], "epsilon must be a number, got ''"),
        (["--range", "1"], "range is LOW,HIGH, such as 0,5, got '1'"),
        (["--range", "1,0"], "low < high"),
        (["--low", "1", "--high", "0"], "low < high"),
        (["--low", "1", "--range", "0,1"], "--range is the former spelling of --low and --high"),
        (["--curator", "cts"], "curator must be one of ctb, ctl, got 'cts'"),
        (["--rule", "exp3"], "a rule's kind must be one of"),
        (["--rule", "{"], "--rule is not JSON"),
        (["--rule", "kl-ucb++-laplace"], "is for responses of the mechanism laplace"),
        (["--missing", "1"], "missing must be a share of the answers"),
        (["--data", "no.csv"], "no.csv cannot be read: No such file or directory"),
        (["--arms", "two"], "must be a number, got 'two'"),
        (["--jobs", "0"], "jobs must be a whole number >= 1, got 0"),
        (["--out", "/no/such/folder/plan.html"], "cannot be written: no such folder"),
        (["--load", "no_such_module"], "no_such_module cannot be loaded"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(capsys: pytest.CaptureFixture[str], wrong: list[str], told: str) -> None:
    """Nothing is printed on stdout, and nothing is played."""
    code, out, err = called([*PLAN, *wrong], capsys)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1
    assert err.startswith("ldpbandits plan: ")
