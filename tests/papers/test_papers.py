"""Papers about an experiment: they say what its settings are, mark what they cannot know, and stay short and safe."""

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from tests.admin.reports import BLUE, report
from tests.server.running import running

from ldpbandits import Admin
from ldpbandits.cli import main
from ldpbandits.output.numbers import percent
from ldpbandits.papers.facts import HEADINGS, PRIORS, Circumstances
from ldpbandits.papers.kit import write_papers
from ldpbandits.spec.messages import Metadata, Report, Settings
from ldpbandits.spec.odds import posterior

NOTICE_WORDS = 150
RANGE = {"kind": "range", "low": 0.0, "high": 1.0}
LAPLACE = {"mechanism": "laplace", "epsilon": 2.0, "transform": RANGE}
MENU = {"mechanism": "bernoulli", "epsilon": [0.5, 2.0], "transform": RANGE}
WEB, APP = Circumstances(), Circumstances("app")
KINDS = [
    report(),
    report(settings=Settings(0.0)),
    report(settings=Settings(25.0, sticky=604_800, stop_when_decided="ship", allowance_required=True)),
    report(settings=Settings(25.0, one_look=10_000, responses_per_hour=500)),
    report(curator=LAPLACE),
    report(curator=MENU),
    report(estimates="P(reward > 0.9)"),
]
"""Experiments of every kind that the papers describe differently."""


def texts(shown: Report, about: Circumstances = WEB) -> dict[str, str]:
    """Return the words of each paper, without markup and style."""
    pages = write_papers(shown, about, "ldpbandits papers headline", now=lambda: 1_800_000_000)
    bodies = {name: page[page.index("<body>") :] for name, page in pages.items()}
    return {name: " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split()) for name, body in bodies.items()}


def test_the_assessment_answers_every_heading_of_the_authorities() -> None:
    """Each section that the table of headings names is a section of the draft, and each section is named."""
    page = write_papers(report(), WEB, "")["dpia.html"]
    sections = set(re.findall(r"<h2 id=\"[a-z]+\">(\d+)\. ", page))
    named = {number for _, numbers in HEADINGS for number in numbers.split(", ")}
    assert named == sections == {str(number) for number in range(1, 16)}


def test_the_docs_have_the_same_headings(root: Path) -> None:
    """The page about papers lists where each heading is answered."""
    page = (root / "docs" / "papers.md").read_text(encoding="utf-8")
    assert all(f"| {heading} | {sections} |" in page for heading, sections in HEADINGS)


@pytest.mark.parametrize("about", [WEB, APP])
@pytest.mark.parametrize("shown", KINDS)
def test_a_notice_has_at_most_150_words_and_no_paper_has_gaps(shown: Report, about: Circumstances) -> None:
    """Blanks are marked in brackets, and no name of a fact is left in a text."""
    written = texts(shown, about)
    assert len(written["notice.html"].split()) <= NOTICE_WORDS
    for text in written.values():
        assert "$" not in text
        assert "None" not in text
    assert written["dpia.html"].count("[") > 30
    assert "not legal advice" in written["dpia.html"]


def test_the_papers_say_what_the_settings_are() -> None:
    """Crowds, odds, times, limits and the budget are those of the experiment."""
    settings = Settings(25.0, sticky=604_800, stop_when_decided="ship", responses_per_hour=500)
    text = texts(report(settings=settings), Circumstances(budget=5, window_days=30, controller="Example Ltd"))
    assert "of 100 people with the highest reward 73 send a 1, with the lowest 27 do (epsilon 1)" in text["dpia.html"]
    assert "25 seconds after the variant was accepted" in text["dpia.html"]
    assert "ships the better variant" in text["dpia.html"]
    assert "above 500 responses an hour" in text["dpia.html"]
    assert "at most once in 7 days, and spends epsilon 5 in 30 days at most" in text["dpia.html"]
    assert "of 100 people who did, 73 send yes; of 100 who did not, 27 send yes too" in text["notice.html"]
    assert text["notice.html"].count("Example Ltd") == 1
    for epsilon, whose in ((1, "1 (one answer)"), (5, "5 (the budget)")):
        row = " ".join([whose, *(percent(posterior(prior, epsilon)) for prior in PRIORS)])
        assert row in text["dpia.html"]


def test_the_planned_end_is_filled_in_where_it_is_known() -> None:
    """Elsewhere it is a blank; the inventory names what is kept about the controller's own staff."""
    shown = KINDS[0]
    assert "Planned end: [date]" in texts(shown)["dpia.html"]
    known = replace(shown, metadata=Metadata(planned_end="2026-12-24"))
    assert "Planned end: 2026-12-24" in texts(known)["dpia.html"]
    assert "log of changes: the names of keys of the controller's staff" in texts(shown)["dpia.html"]


def test_the_inventory_says_how_long_single_responses_stay() -> None:
    """With `retain = "tallies"` they go by themselves, and the totals stay until the experiment is deleted."""
    kept, dropped = (
        texts(report(settings=Settings(25.0, retain=how)))["dpia.html"] for how in ("responses", "tallies")
    )
    told = "until the experiment is shipped or closed by itself"
    assert told not in kept
    assert told in dropped
    assert dropped.count("until the experiment is deleted") == kept.count("until the experiment is deleted") - 1


def test_a_response_at_once_is_called_a_risk() -> None:
    """Without a delay the time of a response gives the reward away, and the assessment says so."""
    assert "The odds above do not hold" not in texts(report())["dpia.html"]
    told = texts(report(settings=Settings(0.0)))["dpia.html"]
    assert "Its time tells that there was a reward" in told
    assert "the odds above do not hold" in told


def test_a_page_and_an_app_store_different_things() -> None:
    """A page names IndexedDB and the choice of the visitor, an app the two files of the ledger."""
    web, app = (texts(report(), about)["storage.html"] for about in (WEB, APP))
    assert "IndexedDB" in web
    assert "service worker" in web
    assert "ledger.db.high-water" in app
    assert "IndexedDB" not in app


def test_no_name_becomes_markup() -> None:
    """Names of arms and of the controller are escaped in every paper."""
    hostile = '<img src=x onerror="alert(1)">'
    shown = report(arms=(replace(BLUE, name=hostile),))
    for page in write_papers(shown, Circumstances(controller=hostile, contact=hostile), hostile).values():
        assert "<img src=x" not in page


def test_the_command_writes_what_the_server_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four files from the settings of a real experiment; a wrong call is one line and leaves no folder."""
    with running(tmp_path) as server:
        monkeypatch.setenv("LDPBANDITS_URL", server.url)
        monkeypatch.setenv("LDPBANDITS_ADMIN_KEY", server.keys["admin"])
        Admin(server.url, server.keys["admin"]).create("headline", ["blue", "green"], epsilon=2, report_after=20)
        folder = tmp_path / "papers"
        assert main(["papers", "headline", "--out", str(folder), "--json"]) == 0
        files = json.loads(capsys.readouterr().out)["files"]
        assert [Path(each).name for each in files] == ["dpia.html", "notice.html", "storage.html", "audit.html"]
        assert "20 seconds after" in (folder / "dpia.html").read_text(encoding="utf-8")
        assert "consistent" in (folder / "audit.html").read_text(encoding="utf-8")
        for arguments in (["nothing"], ["headline", "--window", "0"], ["headline", "--budget", "x"]):
            assert main(["papers", *arguments, "--out", str(tmp_path / "none")]) == 2
            assert capsys.readouterr().err.count("\n") == 1
        assert not (tmp_path / "none").exists()
