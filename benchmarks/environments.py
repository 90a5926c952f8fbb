"""Environments of other libraries: each has one of its own under build/peers, since their needs exclude one another."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "build" / "peers"


def environment(name: str, wanted: Sequence[str]) -> Path | str:
    """Return the Python of an environment with what is wanted, or why there is none."""
    python = FOLDER / name / "bin" / "python"
    try:
        subprocess.run([sys.executable, "-m", "venv", str(FOLDER / name)], check=True, capture_output=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted]
        subprocess.run(install, check=True, capture_output=True)
    except (subprocess.SubprocessError, OSError) as error:
        return f"does not install: {last_line(error)}"
    return python


def last_line(error: Exception) -> str:
    """What a command that failed said last."""
    told = getattr(error, "stderr", None) or str(error)
    return str(told.decode() if isinstance(told, bytes) else told).strip().splitlines()[-1]


def version(python: Path, package: str) -> str:
    """The version that is installed there."""
    code = f"from importlib.metadata import version; print(version({package!r}))"
    return subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def commit(folder: Path) -> str:
    """The commit that is checked out in a folder."""
    command = ["git", "-C", str(folder), "rev-parse", "--short=10", "HEAD"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return f"commit {done.stdout.strip()}" if done.returncode == 0 else "commit unknown"
