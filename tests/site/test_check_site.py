"""The check of a built site can fail, in each of the ways that it is for."""

from pathlib import Path

import pytest

from check_site import main, problems

GOOD = '<link rel="stylesheet" href="a.css"><h1 id="top">x</h1><a href="b.html#there">b</a><a href="https://x.example">x</a>'


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site of two pages in which nothing is wrong."""
    (tmp_path / "a.html").write_text(GOOD, encoding="utf-8")
    (tmp_path / "b.html").write_text('<p id="there"><a href="#there">here</a><img src="data:,x">', encoding="utf-8")
    (tmp_path / "a.css").write_text("p { color: red }", encoding="utf-8")
    return tmp_path


def test_a_site_in_which_nothing_is_wrong_passes(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Links that lead away are not followed: there is no network."""
    assert list(problems(site)) == []
    assert main(site) == 0
    assert "2 pages" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ('<a href="c.html">', "c.html: there is no such file"),
        ('<a href="b.html#nowhere">', "b.html#nowhere: there is no such place on that page"),
        ('<a href="#nowhere">', "#nowhere: there is no such place on that page"),
        ('<img src="lost.png">', "lost.png: there is no such file"),
        ('<script src="https://cdn.example/x.js"></script>', "loads https://cdn.example/x.js from elsewhere"),
        ('<link rel="stylesheet" href="//fonts.example/x.css">', "loads //fonts.example/x.css from elsewhere"),
    ],
)
def test_what_is_wrong_is_found(site: Path, page: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In one line each, and the exit code tells."""
    (site / "bad.html").write_text(page, encoding="utf-8")
    assert main(site) == 1
    assert said in capsys.readouterr().err


def test_a_font_from_elsewhere_is_found(site: Path) -> None:
    """Also in a style sheet."""
    (site / "a.css").write_text("@font-face { src: url('https://fonts.example/f.woff2') }", encoding="utf-8")
    assert list(problems(site)) == ["a.css: loads https://fonts.example/f.woff2 from elsewhere"]


def test_a_site_without_pages_is_no_site(tmp_path: Path) -> None:
    """An empty folder does not pass."""
    assert main(tmp_path) == 1
