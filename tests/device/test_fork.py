"""Processes that fork do not share noise."""

import subprocess
import sys

import pytest

FORK = """
import os, sys
from ldpbandits import {kind}
curator = {kind}(1.0)
curator.respond_many([0.5] * 10)
children = []
for _ in range(3):
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, repr(curator.respond_many([0.5] * 128)).encode())
        os._exit(0)
    os.close(write)
    children.append(read)
print(repr(curator.respond_many([0.5] * 128)))
for read in children:
    print(os.fdopen(read).read())
    os.wait()
"""


@pytest.mark.parametrize("kind", ["BernoulliCurator", "LaplaceCurator"])
def test_parent_and_children_draw_different_noise(kind: str) -> None:
    """After fork, 128 responses of the parent and of three children all differ. False alarm: below 2^-120."""
    done = subprocess.run(
        [sys.executable, "-c", FORK.format(kind=kind)], check=True, capture_output=True, text=True, timeout=60
    )
    lines = done.stdout.split("\n")[:4]
    assert all(line.startswith("[") for line in lines)
    assert len(set(lines)) == 4
