"""Programs by which tests check something. `make tools` gets them; in CI it is an error that one is missing."""

import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLACES = (*(str(ROOT / "build" / "tools" / "usr" / each) for each in ("bin", "sbin")), os.environ.get("PATH", ""))


def tool(name: str) -> str:
    """Return where a program is; where it is not, skip the test, or fail it in CI."""
    found = shutil.which(name, path=os.pathsep.join(PLACES))
    if found is None:
        told = f"{name} is not here, so nothing is checked by it: make tools"
        if os.environ.get("CI") == "true":
            pytest.fail(told)
        pytest.skip(told)
    return found
