"""What docs/experiments.md shows, runs: against a real server, in the order of the page."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.admin.reports import BLUE, GREEN, report
from tests.server.running import Running, running

from ldpbandits import Admin
from ldpbandits.cli import main
from ldpbandits.cli.experiments.create import KEYS
from ldpbandits.cli.experiments.verbs import VERBS
from ldpbandits.spec.messages import Best, Forecast, Settings

PAGE = (Path(__file__).parents[2] / "docs" / "experiments.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
COMMANDS = re.findall(r"^    ldpbandits (.*)$", PAGE, flags=re.MULTILINE)
(TOML,) = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A server, and where it is and its key as the page has them."""
    monkeypatch.chdir(tmp_path)
    with running(tmp_path) as server:
        monkeypatch.setenv("LDPBANDITS_URL", server.url)
        monkeypatch.setenv("LDPBANDITS_ADMIN_KEY", server.keys["admin"])
        yield server


def test_the_commands_run(server: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One after the other, each with exit code 0; in the end the experiments are as the page says."""
    (tmp_path / "checkout.toml").write_text(TOML, encoding="utf-8")
    for command in COMMANDS:
        assert main(shlex.split(command)) == 0, (command, capsys.readouterr())
    admin = Admin(server.url, server.keys["admin"])
    assert [(each.name, each.status) for each in admin.list()] == [("headline", "shipped"), ("checkout", "running")]
    headline = admin.show("headline")
    assert headline.shipped == 1
    assert headline.arm("Fog lifts").retired
    assert admin.show("checkout").settings.sticky == 604_800
    assert (tmp_path / "responses.csv").exists()
    assert (tmp_path / "tallies.json").exists()


def test_the_python_blocks_run(server: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One after the other, with the same names, and they print what they should."""
    names: dict[str, Any] = {}
    for block in BLOCKS:
        exec(compile(block, "docs/experiments.md", "exec"), names)  # noqa: S102 - our own page
    out = capsys.readouterr().out
    assert out.startswith("running None For any two rewards in [0.0, 20.0], every response is at most e^1.0 times")
    assert "price: running; 0 responses at epsilon = 1, by duels\n" in out
    assert out.endswith("0 responses\nnot_found - the server refuses (404): there is no experiment named 'price'\n")
    assert {"price.png", "price.csv"} <= {path.name for path in tmp_path.iterdir()}
    assert server.process.poll() is None


def test_the_table_of_the_page_is_what_show_prints() -> None:
    """Of such an experiment."""
    blue = replace(BLUE, name="Blue skies ahead", pulls=440, share=0.11, missing_share=0.01, mean=0.21)
    rain = replace(GREEN, name="Rain at last", pulls=3_560, share=0.89, missing_share=0.01, mean=0.60)
    blue = replace(blue, low=0.02, high=0.40, worst_low=0.01, worst_high=0.41)
    rain = replace(rain, low=0.53, high=0.66, worst_low=0.52, worst_high=0.67)
    sentence = (
        "Rain at last is better than every other arm in use, with 95 % confidence, "
        "whatever those who have not answered would have said"
    )
    shown = report(
        responses=4_000,
        arms=(blue, rain),
        best=Best(1, "Rain at last", separated=True),
        forecast=Forecast(separated=True, more_responses=0, sentence=sentence),
        settings=Settings(report_after=300, responses_per_hour=10_000),
    )
    assert f"\n```text\n{shown}\n```\n" in PAGE


def test_every_verb_and_every_setting_is_on_the_page() -> None:
    """And a word that is none would be noticed."""
    shown = {
        word for cell in re.findall(r"^\| (`.*?`) \|", PAGE, flags=re.MULTILINE) for word in re.findall(r"[\w-]+", cell)
    }
    assert {verb.name for verb in VERBS} <= shown
    options = {"--" + key.replace("_", "-") for key in KEYS} - {"--arms", "--rewards", "--curator"}
    assert options <= shown
    assert "--no-such-option" not in shown
