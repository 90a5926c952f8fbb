"""benchmarks/README.md has what `make bench` runs: a number on a page can be traced to the script that prints it."""

import re
from pathlib import Path


def test_every_benchmark_that_is_run_is_listed_and_there(root: Path) -> None:
    """The table and the recipe name the same scripts, and pages name none that is not there."""
    listed = set(re.findall(r"^\| `([\w.]+)` \|", (root / "benchmarks/README.md").read_text("utf-8"), re.MULTILINE))
    run = set(re.findall(r"benchmarks/([\w.]+)$", (root / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert listed == run
    pages = [*root.glob("docs/*.md"), *root.glob("*.md"), root / "sdk/js/README.md"]
    named = {name for page in pages for name in re.findall(r"benchmarks/(\w+\.\w+)", page.read_text("utf-8"))}
    assert [name for name in sorted(listed | named) if not (root / "benchmarks" / name).is_file()] == []
