"""Check a built site offline: no internal link is broken, and no page loads a file from another site.

python docs/_ext/check_site.py build/site
"""

import re
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "link": "href",
}
"""Tags that load a file, and the attribute that names it. A link to another page is an `a`."""

HARMLESS_LINKS = {"canonical", "next", "prev", "search", "index", "author", "copyright"}
"""A `link` with one of these loads nothing."""


class Page(HTMLParser):
    """The links of a page, the files that it loads, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the link, the file or the anchor of a tag."""
        given = {name: value or "" for name, value in attrs}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in LOADS and LOADS[tag] in given and not set(given.get("rel", "").split()) & HARMLESS_LINKS:
            self.loads.append(given[LOADS[tag]])


@cache
def page_at(path: Path) -> Page:
    """Return a page, read once."""
    return Page(path)


def problems(site: Path) -> Iterator[str]:
    """Yield a line for each broken link and for each file from another site."""
    pages = sorted(site.rglob("*.html"))
    if not pages:
        yield f"{site}: there are no pages"
    for path in pages:
        page = page_at(path)
        for target in page.loads:
            if urlsplit(target).scheme not in {"", "data"} or target.startswith("//"):
                yield f"{path.relative_to(site)}: loads {target} from elsewhere"
        for target in (*page.links, *page.loads):
            reason = _broken_reason(path, target)
            if reason:
                yield f"{path.relative_to(site)}: {target}: {reason}"
    for path in sorted(site.rglob("*.css")):
        for target in re.findall(
            r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')\s]+)", path.read_text(encoding="utf-8")
        ):
            yield f"{path.relative_to(site)}: loads {target} from elsewhere"


def _broken_reason(path: Path, target: str) -> str | None:
    """Return why an internal link is broken; None if it works, or leads to another site."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return None
    found = path if not parts.path else path.parent / unquote(parts.path)
    if found.is_dir():
        found /= "index.html"
    if not found.is_file():
        return "there is no such file"
    if parts.fragment and found.suffix == ".html" and unquote(parts.fragment) not in page_at(found.resolve()).places:
        return "there is no such place on that page"
    return None


def main(site: Path) -> int:
    """Print the problems of a site; return the exit code."""
    found = list(problems(site.resolve()))
    for line in found:
        print(line, file=sys.stderr)
    if not found:
        print(f"{site}: {len(list(site.rglob('*.html')))} pages without a broken link")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
