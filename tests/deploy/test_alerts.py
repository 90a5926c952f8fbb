"""The alerts: Prometheus' own tool takes them, each fires when it should, and every metric in them is on our page."""

import re
import subprocess
from pathlib import Path

import yaml
from tests.deploy.metrics_page import names_in, page_of_metrics, unknown_names
from tests.server.running import PATIENCE
from tests.tools import ROOT, tool

ALERTS = ROOT / "deploy" / "alerts.yml"
RULES = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def test_promtool_takes_the_rules() -> None:
    """And knows what they mean."""
    done = subprocess.run(
        [tool("promtool"), "check", "rules", str(ALERTS)], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done
    assert f"{len(RULES)} rules found" in done.stdout


def test_promtool_takes_the_configuration() -> None:
    """The example of what Prometheus is to ask, with the rules beside it."""
    command = [tool("promtool"), "check", "config", "--syntax-only", str(ALERTS.with_name("prometheus.yml"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done


def test_each_alert_fires_when_it_should() -> None:
    """By promtool's own tests, of which every alert has one."""
    test = ALERTS.with_name("alerts_test.yml")
    done = subprocess.run(
        [tool("promtool"), "test", "rules", str(test)], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stdout
    tested = set(re.findall(r"alertname: (\w+)", test.read_text()))
    assert tested == {rule["alert"] for rule in RULES}


def test_every_metric_is_on_the_page_with_its_labels(tmp_path: Path) -> None:
    """Of a server to which the things that alerts are about have happened."""
    page = page_of_metrics(tmp_path / "agent.db")
    expressions = [rule["expr"] for rule in RULES]
    assert len(names_in(expressions)) >= 8
    assert unknown_names(expressions, page) == []
    for rule in RULES:
        for label, value in re.findall(r'(\w+)="([^"]+)"', rule["expr"]):
            if label != "job":
                assert f'{label}="{value}"' in page, rule["alert"]


def test_every_alert_is_in_the_guide() -> None:
    """With what to do about it."""
    guide = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    assert [rule["alert"] for rule in RULES if f"`{rule['alert']}`" not in guide] == []
    assert Path(ALERTS).name in guide
