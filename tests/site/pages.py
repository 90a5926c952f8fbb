"""What a page shows: files to save, Python to run, commands to type, and what they print."""

import re
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
STEP = re.compile(r"^(?:```(\w*)\n(.*?)^```$| {4}(\S[^\n]*)$)", flags=re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """A block of a page, or a command on a line of its own."""

    kind: str
    """`command`, or the language of the block."""
    text: str

    @property
    def file(self) -> str | None:
        """The name of the file that this block is, if its first line says one."""
        found = re.match(r"# (\w+\.py)\n", self.text)
        return found[1] if found else None


def steps(page: str) -> list[Step]:
    """Return everything on a page that is not prose, in order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return [Step("command", command) if command else Step(kind, block) for kind, block, command in STEP.findall(text)]


def squeezed(text: str) -> list[str]:
    """Return the lines of a text with single spaces, without empty ones: columns are as wide as their widest cell."""
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]
