"""Beyond the paper: what its panels play and how far, its numbers, and its part of the report."""

import csv
import json
import re
from dataclasses import replace
from math import log
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from ldpbandits.cli import main
from ldpbandits.lab.algorithms import algorithm
from ldpbandits.lab.panels.beyond import CROWD, PANELS
from ldpbandits.lab.panels.panel import Limit, Tails
from ldpbandits.lab.panels.paper import BERNOULLI, GAUSSIAN
from ldpbandits.lab.panels.paper import PANELS as PAPERS
from ldpbandits.lab.panels.report import beyond_section
from ldpbandits.lab.panels.resume import BEYOND, Selection, Settings
from ldpbandits.lab.panels.summary import panel_summary, slope
from ldpbandits.lab.play import choose_engine, log_spaced
from ldpbandits.lab.reproduce import count_trials, plan_experiments, plan_parts
from ldpbandits.lab.simulation import Simulation
from ldpbandits.theory import bounds

BY_ID = {panel.id: panel for panel in PANELS}
SHORT = ["--horizon", "1e3", "--trials", "2", "--jobs", "2"]


def test_the_panels_are_on_the_papers_arms_beside_its_baselines() -> None:
    """Each has the paper's baseline without privacy, the new rules on bits, and limits by the exact constants."""
    assert list(BY_ID) == [
        "bernoulli-2",
        "bernoulli-1",
        "bernoulli-0.2",
        "mixed-1",
        "tails",
        "threshold",
        "own-epsilon",
        "drift",
    ]
    for panel in PANELS[:-1]:
        names = [played.name for played in panel.curves]
        assert panel.baseline.name in {"ucb1", "ucb1-s"}
        assert panel.baseline.epsilon is None
        assert any("kl-ucb++" in name for name in names)
        assert any("imed" in name for name in names)
        assert len({played.drawn_as for played in panel.curves}) == len(names)
    means = [arm.mean for arm in BERNOULLI]
    limits = {panel.id: panel.shows.constant for panel in PANELS if isinstance(panel.shows, Limit)}
    assert limits["bernoulli-1"] == bounds.exact_constant(means, 1.0)
    chances = [arm.above(0.9) for arm in GAUSSIAN]
    assert limits["threshold"] == bounds.threshold_constant([arm.mean for arm in GAUSSIAN], chances, 0.5)
    shares = dict(zip(CROWD.menu.epsilons, CROWD.shares, strict=True))
    assert limits["own-epsilon"] == pytest.approx(bounds.mixed_constant(means, means, shares))
    assert isinstance(BY_ID["tails"].shows, Tails)


def test_long_horizons_are_leapt_to() -> None:
    """The usual run: nothing is played round by round beyond 120,000 pulls; 1,000 trials for the tails."""
    made = plan_experiments(PANELS, BEYOND.usual_horizon, 50, 0)
    for panel in PANELS:
        assert made[panel.folder].horizon == panel.horizon
        if made[panel.folder].horizon > 120_000:
            assert {choose_engine(played, panel.arms) for played in panel.curves} == {"leap"}
    assert made["beyond/bernoulli-1"].horizon == 10**9
    assert made["beyond/tails"].trials == 1_000
    short = plan_experiments([BY_ID["tails"]], 10**4, 5, 0)["beyond/tails"]
    assert (short.horizon, short.trials) == (10**4, 100)


def test_a_curve_that_several_panels_need_is_played_once() -> None:
    """The baselines of the Bernoulli panels are the same, and UCB1-S is the paper's own curve."""
    settings = Settings(10**4, 4, 0)
    one, two = (Selection((BY_ID[name],), settings) for name in ("bernoulli-2", "threshold"))
    both = Selection((BY_ID["bernoulli-2"], BY_ID["bernoulli-1"]), settings)
    none = Selection((), settings)
    alone = count_trials(plan_parts(none, one).values())
    assert count_trials(plan_parts(none, both).values()) == 2 * alone - 3 * 4
    papers = Selection(tuple(panel for panel in PAPERS if panel.id == "2a"), settings)
    apart = count_trials(plan_parts(papers, Selection(PANELS[:0], settings)).values()) + count_trials(
        plan_parts(none, two).values()
    )
    assert count_trials(plan_parts(papers, two).values()) == apart - 2 * 4


def test_reproduce_leaves_the_second_part_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside a panel of the paper: tables, figures, one table of numbers, one report; again, nothing is played."""
    out = tmp_path / "results"
    asked = ["--panel", "1a", "--panel", "bernoulli-2", "--panel", "tails"]
    command = ["reproduce", "--out", str(out), *asked, *SHORT]
    assert main([*command, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary == json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert [panel["panel"] for panel in summary["panels"]] == ["1a"]
    further = summary["beyond"]
    assert [panel["panel"] for panel in further["panels"]] == ["bernoulli-2", "tails"]
    curves = [curve for panel in further["panels"] for curve in panel["curves"]]
    with (out / "beyond" / "table.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["regret"]) for row in rows] == [curve["regret"] for curve in curves]
    assert all(curve["regret_sem"] > 0 for curve in curves)
    assert {curve["trials"] for curve in curves} == {2, 40}
    for name in ("1a", "bernoulli-2", "tails"):
        ET.fromstring((out / "figures" / f"{name}.svg").read_bytes())  # noqa: S314 - our own figure
    assert (out / "beyond" / "tails" / "results.csv").exists()
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page.count('src="data:image/svg+xml;base64,') == 3
    assert "Beyond the paper" in page
    assert not re.search(r'(src|href)="https?:', page)
    assert main(command) == 0
    assert "Beyond the paper" in capsys.readouterr().out
    kept = json.loads((out / "summary.json").read_text(encoding="utf-8"))["trials_kept"]
    assert kept == 2 * (3 + 9 - 3) + 40 * 7  # the baseline and the paper's two are in both


def test_reproduce_shows_wrong_verdicts_under_drift(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Equal arms whose level moves: kl-ucb++ declares one of them in nearly all trials, a fair coin in few.

    The seed is fixed. A test that is wrong in 5 % of trials is wrong in more than 9 of 40 with a chance of 4e-5, in any
    of eight rows with 3e-4; the pair test under kl-ucb++ is wrong in all trials of benchmarks/verdicts.py.
    """
    out = tmp_path / "results"
    command = ["reproduce", "--out", str(out), "--panel", "drift", "--horizon", "6e4", "--trials", "2", "--jobs", "2"]
    assert main(command) == 0
    assert "drift  moves  ldp-kl-ucb++  pair " in capsys.readouterr().out
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    (panel,) = summary["beyond"]["panels"]
    assert panel["curves"] == []
    wrong = {(row["level"], row["algorithm"], row["test"]): row["wrong"] for row in panel["verdicts"]}
    assert len(wrong) == 2 * (2 + 3 + 1)
    assert {(row["trials"], row["horizon"]) for row in panel["verdicts"]} == {(40, 60_000)}
    assert wrong["moves", "ldp-kl-ucb++", "pair"] > 0.8
    assert all(share <= 9 / 40 for (level, _, test), share in wrong.items() if test == "coin" or level == "stays")
    for folder, arms in (("drift", ["drift(0.3,0.1,40000)"] * 3), ("drift/steady", ["bernoulli(0.3)"] * 3)):
        with (out / "beyond" / folder / "results.csv").open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert [float(row["wrong"]) for row in rows] == [
            wrong[row["level"], row["algorithm"], row["test"]] for row in rows
        ]
        record = json.loads((out / "beyond" / folder / "experiment.json").read_text(encoding="utf-8"))
        assert record["experiment"]["arms"] == arms
    ET.fromstring((out / "figures" / "drift.svg").read_bytes())  # noqa: S314 - our own figure
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "Wrong verdicts in numbers" in page
    assert "Without one, of 40 trials a wrong verdict was reached by: LDP-KL-UCB++ by pair test" in page
    assert main(command) == 0
    assert json.loads((out / "summary.json").read_text(encoding="utf-8"))["trials_kept"] == 2 * 3 * 40


def test_a_part_of_which_nothing_is_asked_stays_as_it_was(tmp_path: Path) -> None:
    """Also with its own horizon and number of trials."""
    out = tmp_path / "results"
    assert main(["reproduce", "--out", str(out), "--panel", "bernoulli-2", *SHORT]) == 0
    first = json.loads((out / "summary.json").read_text(encoding="utf-8"))["beyond"]
    assert main(["reproduce", "--out", str(out), "--panel", "1a", "--horizon", "2e3", "--trials", "3"]) == 0
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert summary["beyond"] == first
    assert (summary["horizon"], first["horizon"]) == (2000, 1000)


def flat(name: str, epsilon: float | None, regrets: list[float], horizon: int) -> Simulation:
    """A simulation whose trials have these regrets at every checkpoint."""
    points = log_spaced(horizon)
    pulls = np.zeros((len(regrets), len(points), 20))
    pulls[:, :, 1] = np.array(regrets)[:, None] / 0.1
    return Simulation(algorithm(name, epsilon), BERNOULLI, 0, "leap", points, pulls, 0.0)


def test_the_numbers_of_a_curve() -> None:
    """Mean, over the baseline, over constant x log T, the worst hundredth and the worst."""
    panel = BY_ID["bernoulli-2"]
    limit = panel.shows
    assert isinstance(limit, Limit)
    regrets = [100.0] * 198 + [300.0, 500.0]
    played = [flat("ucb1", None, [50.0, 60.0], 10**5), flat("ldp-ts", 2.0, regrets, 10**5)]
    baseline, curve = panel_summary(panel, played)["curves"]
    assert baseline["ratio"] is None
    assert baseline["worst_hundredth"] is None
    assert curve["horizon"] == 10**5
    assert curve["regret"] == pytest.approx(103)
    assert curve["ratio"] == pytest.approx(103 / 55)
    assert curve["over_limit"] == pytest.approx(103 / (limit.constant * log(10**5)))
    assert curve["over_limit_sem"] == pytest.approx(curve["regret_sem"] / (limit.constant * log(10**5)))
    assert (curve["worst_hundredth"], curve["worst"]) == (pytest.approx(400), pytest.approx(500))
    assert curve["slope"] == pytest.approx(0)


def test_the_slope_of_regret_in_log_t() -> None:
    """Regret of a + b log t has slope b over the constant, whatever a is; a short run has none."""
    long, short = flat("ucb1", None, [1.0, 1.0], 10**6), flat("ucb1", None, [1.0, 1.0], 500)
    growing = long.pulls * (7.0 + np.log(long.checkpoints))[None, :, None] * np.array([1.0, 1.2])[:, None, None]
    assert slope(replace(long, pulls=growing), constant=2.0) == pytest.approx((0.55, 0.05))
    assert slope(short, constant=2.0) == (None, None)


def test_the_report_says_what_the_numbers_of_the_run_say() -> None:
    """Private regret below the baseline is said only where it is."""
    panel = BY_ID["bernoulli-2"]

    def words(regret: float) -> str:
        played = [flat("ucb1", None, [50.0, 51.0], 10**5), flat("ldp-ts", 2.0, [regret, regret + 1], 10**5)]
        summary = {"horizon": 10**5, "trials": 2, "seed": 0, "panels": [panel_summary(panel, played)]}
        return beyond_section([panel], summary, {panel.id: b"<svg/>"})

    assert "below it by more than two standard errors: LDP-TS (20 ± 0)" in words(20.0)
    assert "No private algorithm is below it" in words(80.0)
