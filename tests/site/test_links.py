"""Every link of every Markdown page of the repository leads somewhere: to a file, and to a heading that is there."""

import re
import subprocess
from pathlib import Path
from urllib.parse import unquote

import pytest

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", flags=re.MULTILINE | re.DOTALL)


def pages(root: Path) -> list[Path]:
    """Return the Markdown files that belong to the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],  # noqa: S607 - the user's git
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    return [root / name for name in listed.stdout.splitlines() if (root / name).is_file()]


def places(path: Path) -> set[str]:
    """Return what the headings of a page can be linked to as."""
    titles = re.findall(r"^#+ (.*)$", FENCE.sub("", path.read_text(encoding="utf-8")), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def broken(path: Path) -> list[str]:
    """Return the links of a page that lead nowhere within the repository."""
    found = []
    for target in LINK.findall(FENCE.sub("", path.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, place = unquote(target).partition("#")
        other = (path.parent / name).resolve() if name else path
        is_written = (
            other.suffix == ".md" and other.exists() and "<!-- generated: " in other.read_text(encoding="utf-8")
        )
        if not other.exists() or (place and other.suffix == ".md" and not is_written and place not in places(other)):
            found.append(target)
    return found


def test_every_link_leads_somewhere(root: Path) -> None:
    """In the README, the docs, the SDK and everywhere else."""
    found = {str(path.relative_to(root)): broken(path) for path in pages(root)}
    assert {name: links for name, links in found.items() if links} == {}
    assert len(found) > 40


@pytest.mark.parametrize("link", ["[x](nowhere.py)", "[x](#nowhere)", "[x](page.md#nowhere)"])
def test_a_link_that_leads_nowhere_is_noticed(link: str, tmp_path: Path) -> None:
    """To a file, to a heading here, to a heading there; but not in a block of code."""
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n[x](#a-page) {link}\n```\n[x](nowhere)\n```\n", encoding="utf-8")
    assert broken(page) == [link[4:-1]]


def test_a_link_names_the_page_and_not_its_file(root: Path) -> None:
    """On the site there are no files: whoever reads `scale.md` there does not know what to expect."""
    pages = {path.name: path.read_text(encoding="utf-8") for path in (root / "docs").glob("*.md")}
    assert {name: found for name, text in pages.items() if (found := re.findall(r"\[[\w/-]+\.md\]\(", text))} == {}
