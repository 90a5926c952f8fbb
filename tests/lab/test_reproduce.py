"""The nine panels: their data, their numbers, and a report that stands by itself."""

import csv
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from ldpbandits.cli import main
from ldpbandits.errors import ParameterError
from ldpbandits.lab import play as playing
from ldpbandits.lab.algorithms import NAMES, algorithm, is_private
from ldpbandits.lab.panels.paper import BANDITS, GAUSSIAN, HORIZON, MIXED, PANELS
from ldpbandits.lab.panels.report import _printed, _ratios, wide_panels
from ldpbandits.lab.panels.resume import PAPER, PARTS, select_ids
from ldpbandits.lab.panels.summary import horizon_note, ratio, ratio_reached
from ldpbandits.lab.play import Curve, play
from ldpbandits.lab.reproduce import count_trials, plan_experiments
from ldpbandits.lab.rewards import Beta, Choice, Gaussian, Uniform
from ldpbandits.lab.simulation import Simulation


def test_the_panels_are_the_papers() -> None:
    """Nine panels on three bandits; a curve that several need is planned once."""
    assert [panel.id for panel in PANELS] == ["1a", "1b", "1c", "1d", "1e", "1f", "2a", "2b", "2c"]
    assert {panel.folder for panel in PANELS} == set(BANDITS)
    planned = plan_experiments(PANELS, 10**6, 10, 0)
    assert sum(len(made.curves) for made in planned.values()) == 11 + 5 + 11
    assert count_trials(planned.values()) == 270
    assert {type(arm) for arm in MIXED} >= {Beta, Choice, Uniform}
    assert all(isinstance(arm, Gaussian) and arm.sd == 1 for arm in GAUSSIAN)
    assert select_ids([], [PAPER]) == {panel.id for panel in PANELS}
    assert select_ids(["2c", "tails"], PARTS["all"]) == {"2c", "tails"}
    with pytest.raises(ParameterError, match=r"panel must be one of 1a, 1b, .*, 2c, got 'tails'"):
        select_ids(["tails"], PARTS["paper"])


def test_reproduce_leaves_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two panels: tables, figures as SVG and PNG, a summary, and a page that needs no network; again in a moment."""
    out = tmp_path / "results"
    command = ["reproduce", "--out", str(out), "--panel", "1a", "--panel", "2a", "--horizon", "2e4", "--trials", "4"]
    assert main([*command, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary == json.loads((out / "summary.json").read_text(encoding="utf-8"))
    by_panel = {panel["panel"]: panel["curves"] for panel in summary["panels"]}
    assert [curve["algorithm"] for curve in by_panel["1a"]] == ["ucb1", "ldp-ucb-b", "ldp-ucb-l"]
    assert [curve.get("paper") for curve in by_panel["1a"]] == [None, 1.6, 8.5]
    assert [curve.get("paper") for curve in by_panel["2a"]] == [None, 10, 15]
    for curve in (*by_panel["1a"], *by_panel["2a"]):
        assert 0 < curve["regret"] < curve["upper_bound"]
        assert curve["regret_sem"] > 0
        if curve["epsilon"] is not None:
            assert curve["ratio"] > 1
            assert curve["ratio_sem"] > 0
    for name in ("1a", "2a"):
        ET.fromstring((out / "figures" / f"{name}.svg").read_bytes())  # noqa: S314 - our own figure
        assert (out / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "bernoulli" / "results.csv").exists()
    assert (out / "gaussian" / "experiment.json").exists()
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page.count('src="data:image/svg+xml;base64,') == 2
    assert summary["digest"] in page
    assert f"<td>command</td><td>ldpbandits {' '.join([*command, '--json'])}</td>" in page
    assert not re.search(r'(src|href)="https?:', page)
    assert main(command) == 0
    assert "report.html" in capsys.readouterr().out
    again = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert (again["trials_kept"], again["digest"]) == (24, summary["digest"])


@pytest.fixture(scope="session")  # tests are in any order
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """The summary and the page of a short run of four panels, of which the paper prints ratios for three."""
    out = tmp_path_factory.mktemp("quick")
    panels = [word for one in ("1a", "1b", "1c", "2a") for word in ("--panel", one)]
    assert main(["reproduce", "--quick", "--horizon", "1e4", "--trials", "2", "--out", str(out), *panels]) == 0
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    return summary, (out / "report.html").read_text(encoding="utf-8")


def test_the_six_numbers_of_the_paper_come_first_then_the_figures_then_the_table(quick: tuple[Any, str]) -> None:
    """Whoever opens the report sees at once what the paper prints and what this run has."""
    _, page = quick
    places = [
        page.index(text)
        for text in ("Ratios in the paper", "data:image/svg", "All ratios", "Differences from the paper")
    ]
    assert places == sorted(places)
    first = page[: places[1]]
    rows = re.findall(r"<tr><td>(..)</td>.*?</tr>", first)
    assert rows == ["1a", "1a", "1b", "1b", "2a", "2a"]
    assert all(f">{printed}</td>" in first for printed in ("1.6", "8.5", "below 101", "below 441", "10", "15"))


def test_beside_each_ratio_of_another_horizon_stands_the_papers(
    quick: tuple[dict[str, Any], str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Each row with a ratio says it, on the page and on the terminal; at the paper's horizon nothing is said."""
    summary, page = quick
    told = "T = 1e4; the paper&#x27;s is 1e7"
    private = sum(curve["epsilon"] is not None for panel in summary["panels"] for curve in panel["curves"])
    assert page.count(told) == 6 + private
    assert main(["reproduce", "--panel", "1a", *SHORT, "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("T = 2,000; the paper's is 1e7") == 2
    for panel in summary["panels"]:
        assert horizon_note(panel)
        assert horizon_note({**panel, "horizon": HORIZON}) == ""
    whole = {**summary, "panels": [{**panel, "horizon": HORIZON} for panel in summary["panels"]]}
    assert "the paper&#x27;s is" not in "".join([*_printed(whole), _ratios(whole)])


SHORT = ["--horizon", "2e3", "--trials", "2"]


def panels_in(out: Path) -> list[str]:
    """The panels in the summary of a folder."""
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    return [panel["panel"] for panel in summary["panels"]]


def algorithms_in(table: Path) -> set[tuple[str, str]]:
    """The algorithms and epsilons in a table of results."""
    with table.open(encoding="utf-8") as file:
        return {(row["algorithm"], row["epsilon"]) for row in csv.DictReader(file)}


def test_panels_of_an_earlier_run_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more panel into the same folder: summary, table, figures and report have both, and only it is played."""
    out = tmp_path / "results"
    assert main(["reproduce", "--out", str(out), "--panel", "1a", *SHORT]) == 0
    first = json.loads((out / "summary.json").read_text(encoding="utf-8"))["panels"][0]
    plays: list[Curve] = []

    def counting(curve: Curve, *options: Any) -> Any:
        plays.append(curve)
        return play(curve, *options)

    monkeypatch.setattr(playing, "play", counting)
    assert main(["reproduce", "--out", str(out), "--panel", "1b", *SHORT]) == 0
    assert panels_in(out) == ["1a", "1b"]
    assert json.loads((out / "summary.json").read_text(encoding="utf-8"))["panels"][0] == first
    assert {(curve.algorithm.name, curve.algorithm.epsilon) for curve in plays} == {
        ("ldp-ucb-b", 0.2),
        ("ldp-ucb-l", 0.2),
    }
    assert algorithms_in(out / "bernoulli" / "results.csv") == {
        ("ucb1", ""),
        ("ldp-ucb-b", "2.0"),
        ("ldp-ucb-l", "2.0"),
        ("ldp-ucb-b", "0.2"),
        ("ldp-ucb-l", "0.2"),
    }
    assert (out / "report.html").read_text(encoding="utf-8").count('src="data:image/svg+xml;base64,') == 2
    assert {path.stem for path in (out / "figures").iterdir()} == {"1a", "1b"}


def test_panels_of_other_settings_are_not_dropped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They do not go into one table: one line says what differs and how to go on, and nothing is touched."""
    out = tmp_path / "results"
    assert main(["reproduce", "--out", str(out), "--panel", "1a", *SHORT]) == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    capsys.readouterr()
    call = ["reproduce", "--out", str(out), "--panel", "1b", "--horizon", "3e3", "--trials", "2", "--seed", "7"]
    assert main(call) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        f"ldpbandits reproduce: {out} holds panel 1a with T = 2,000 and seed 0, not T = 3,000 and seed 7: "
        "give another --out, or ask for panel 1a too, to play it anew\n"
    )
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    assert main([*call, "--panel", "1a"]) == 0
    assert panels_in(out) == ["1a", "1b"]


@pytest.mark.parametrize("content", ["{", "[]", '{"panels": [{"panel": "9z"}]}', '{"horizon": 2000}'])
def test_a_summary_that_is_not_ours_is_not_replaced(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, and the file is as it was."""
    (tmp_path / "summary.json").write_text(content, encoding="utf-8")
    assert main(["reproduce", "--out", str(tmp_path), "--panel", "1a", *SHORT]) == 2
    err = capsys.readouterr().err
    assert "summary.json is not a summary of panels that we know: give another --out" in err
    assert err.count("\n") == 1
    assert (tmp_path / "summary.json").read_text(encoding="utf-8") == content


def made(regret: list[float], name: str, epsilon: float | None) -> Simulation:
    """A simulation with this regret at T = 10^4, 10^5, ..., twice with a small spread."""
    rows = np.array([regret, [1.02 * value for value in regret]])
    pulls = np.zeros((2, len(regret), 20))
    pulls[:, :, 1] = rows / 0.1
    points = tuple(10 ** (4 + i) for i in range(len(regret)))
    return Simulation(algorithm(name, epsilon), BANDITS["bernoulli"], 0, "leap", points, pulls, 0.0)


def test_no_place_beside_a_panel_is_empty() -> None:
    """Panels of two pictures get both columns, and so does the last of an odd number of others in a row."""
    assert wide_panels(PANELS) == {"1a", "1d", "1e"}
    assert wide_panels(PANELS[1:3]) == set()
    assert wide_panels(PANELS[-1:]) == {"2c"}


def test_ratios_and_where_they_meet_the_paper() -> None:
    """The ratio of means with its error to first order; between decades by interpolation in log T."""
    baseline = made([100, 100, 100], "ucb1", None)
    b, c = made([110, 150, 170], "ldp-ucb-b", 2.0), made([200, 400, 900], "ldp-ucb-l", 2.0)
    value, sem = ratio(c, baseline)
    assert value == pytest.approx(9)
    assert sem == pytest.approx(9 * np.hypot(0.01 / 1.01, 0.01 / 1.01))
    t, other = ratio_reached(1.6, b, c, baseline) or (0.0, 0.0)
    assert t == pytest.approx(10**5.5)
    assert other == pytest.approx(6.5)
    assert ratio_reached(1.6, made([110, 120, 130], "ldp-ucb-b", 2.0), c, baseline) is None


def test_theorys_factor_is_by_mechanism() -> None:
    """B and BS share a factor, L and LS another."""
    bounds = {name: algorithm(name, 2.0).upper_bound for name in NAMES if is_private(name)}
    factors = {name: bound.factor(2.0) for name, bound in bounds.items() if bound is not None}
    assert factors["ldp-ucb-l"] == factors["ldp-ucb-ls"] == 9
    assert factors["ldp-ucb-b"] == factors["ldp-ucb-bs"] == pytest.approx(1.724, abs=1e-3)
