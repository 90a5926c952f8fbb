"""The name of a process in `ps -o comm`, `top` and `pgrep`, by which an operator tells workers apart. Linux only."""

from contextlib import suppress
from pathlib import Path

LONGEST_CHARACTERS = 15
"""The kernel cuts off what is longer."""


def set_title(part: str = "") -> None:
    """Name this process `ldpbandits`, or after its part in it: `ldpbandits-w1` is the second of them."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text(f"ldpbandits{part and '-'}{part}"[:LONGEST_CHARACTERS], encoding="ascii")
