"""The dashboard for Grafana: Prometheus' own tool takes its queries, and every metric and label in it is on our page.

There is no Grafana here: nobody has imported it.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import yaml
from tests.deploy.metrics_page import names_in, page_of_metrics, unknown_names
from tests.server.running import PATIENCE
from tests.tools import ROOT, tool

DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy" / "grafana.json").read_text(encoding="utf-8"))
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]


def expressions() -> Iterator[str]:
    """Yield the queries, with every experiment chosen."""
    for panel in PANELS:
        for target in panel["targets"]:
            yield target["expr"].replace("$experiment", ".*")


def test_promtool_takes_the_queries(tmp_path: Path) -> None:
    """As the expressions of rules, which it checks."""
    rules = [{"record": f"panel:{number}", "expr": each} for number, each in enumerate(expressions())]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    command = [tool("promtool"), "check", "rules", str(tmp_path / "rules.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done
    assert f"{len(rules)} rules found" in done.stdout


def test_every_metric_and_label_is_on_the_page(tmp_path: Path) -> None:
    """A panel on a metric that is not there would stay empty."""
    page = page_of_metrics(tmp_path / "agent.db")
    assert len(names_in(expressions())) >= 15
    assert unknown_names(expressions(), page) == []
    for each in expressions():
        (by,) = re.findall(r" by \(([^)]*)\)", each) or [""]
        (name,) = list(names_in([each]))[:1]
        for label in {word.strip() for word in by.split(",")} - {"", "instance"}:
            assert re.search(rf'^{name}\{{[^}}]*{label}="', page, flags=re.MULTILINE), (each, label)


def test_legends_name_labels_that_the_queries_keep() -> None:
    """Grafana would leave a hole for any other."""
    for panel in PANELS:
        for target in panel["targets"]:
            kept = re.findall(r"\w+", " ".join(re.findall(r" by \(([^)]*)\)", target["expr"])))
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= set(kept), panel["title"]


def test_panels_say_what_they_show_and_do_not_overlap() -> None:
    """Each has an id, a title, a sentence and a source that the reader picks; all are within 24 columns."""
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    for panel in PANELS:
        assert panel["title"]
        assert panel["description"].endswith(".")
        sources = {each["datasource"]["uid"] for each in (panel, *panel["targets"])}
        assert sources == {"${source}"}
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    for one, other in combinations((panel["gridPos"] for panel in PANELS), 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
