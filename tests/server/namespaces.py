"""Mounts that one process alone sees."""

import subprocess
from pathlib import Path

import pytest

WAYS = (("unshare", "--mount"), ("unshare", "--user", "--map-root-user", "--mount"))


def in_a_namespace(mount: str, *paths: Path) -> list[str]:
    """Return what to put before a command so that, for it alone, this is mounted; in the shell the paths are $1, $2."""
    for way in WAYS:
        before = [*way, "sh", "-c", f'{mount} && shift {len(paths)} && exec "$@"', "sh", *map(str, paths)]
        try:
            if subprocess.run([*before, "true"], capture_output=True, timeout=30, check=False).returncode == 0:
                return before
        except FileNotFoundError:
            break
    pytest.fail("cannot mount anything: this test needs util-linux's unshare, and root or user namespaces")
