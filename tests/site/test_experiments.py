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
from ldpbandits.cli.experiments.create import KEYS, METADATA
from ldpbandits.cli.experiments.verbs import VERBS
from ldpbandits.spec.messages import Best, Comparison, Forecast, Settings, Verdict

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
    """Of such an experiment: 4,000 responses of a run on a live server."""
    blue = replace(BLUE, name="Blue skies ahead", pulls=2_022, share=0.5055, missing_share=0.0, mean=0.2014)
    rain = replace(GREEN, name="Rain at last", pulls=1_978, share=0.4945, missing_share=0.0, mean=0.5799)
    blue = replace(blue, low=0.1198, high=0.2856, worst_low=0.1198, worst_high=0.2856)
    rain = replace(rain, low=0.4831, high=0.6758, worst_low=0.4831, worst_high=0.6758)
    sentence = (
        "Rain at last is better than Blue skies ahead by 37.8 points (27.0 to 48.8), a lift of 190 % (87 % to 570 %). "
        "Evidence more than 1,000,000, 60 needed. You may look at any time; this holds although traffic rises and "
        "falls. It stands even if 12 % of the answers to each arm are forged. Reached at 2,600 responses."
    )
    shown = report(
        responses=4_000,
        rule={"kind": "duels"},
        arms=(blue, rain),
        best=Best(1, "Rain at last", separated=True),
        forecast=Forecast(separated=True, more_responses=0, sentence=sentence),
        verdict=Verdict("better", "Rain at last", 6.06e13, 60.0, True, 0.124, 2_600, sentence),  # noqa: FBT003 - as printed
        comparisons=(Comparison(0, "Blue skies ahead", 0.3784, 0.2696, 0.4881, 1.879, 0.872, 5.669, 2.4645e24),),
        settings=Settings(
            report_after=25, sticky=604_800, stop_when_decided="pause", stop_after=86_400, responses_per_hour=10_000
        ),
    )
    assert f"\n```text\n{shown}\n```\n" in PAGE


def test_every_verb_and_every_setting_is_on_the_page() -> None:
    """And a word that is none would be noticed."""
    shown = {
        word for cell in re.findall(r"^\| (`.*?`) \|", PAGE, flags=re.MULTILINE) for word in re.findall(r"[\w-]+", cell)
    }
    assert {verb.name for verb in VERBS} <= shown
    options = {"--" + key.replace("_", "-") for key in KEYS} - {"--arms", "--rewards", "--curator", "--metadata"}
    assert options <= shown
    assert {"--" + key.replace("_", "-") for key in METADATA} <= shown
    assert "--no-such-option" not in shown
