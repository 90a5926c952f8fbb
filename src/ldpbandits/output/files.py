"""Files that are whole or not there, and errors of the disk in one line.

A file is written beside its place and then moved there, so that there is never half a file.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

from ldpbandits.errors import OutputError


@contextmanager
def guard(path: Path) -> Iterator[None]:
    """Turn what goes wrong with the disk into an OutputError that names the path."""
    try:
        yield
    except OSError as error:
        is_full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        raise OutputError(f"{path} cannot be written: {error.strerror}", is_full=is_full) from None


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that is there when the block has ended without an error, and not before; so is its folder."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with guard(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with part.open("wb") as file:
                yield file
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; its folder is made if need be."""
    with writing(path) as file:
        file.write(content)


def check_folder(path: Path) -> None:
    """Make a folder, or say why nothing can be written into it, before long work starts."""
    with guard(path):
        path.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=path):
            pass


def check_file(path: Path) -> None:
    """Say why a file cannot be written there, before long work starts. Nothing but a plain file is replaced."""
    if path.is_dir():
        reason = "it is a folder"
    elif not path.absolute().parent.is_dir():
        reason = "no such folder"
    elif path.is_symlink() or (path.exists() and not path.is_file()):
        reason = "it is a link or a device, and a page would take its place"
    else:
        return
    raise OutputError(f"{path} cannot be written: {reason}")
