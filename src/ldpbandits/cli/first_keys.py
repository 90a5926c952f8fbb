"""The keys that a first start makes: shown once on a terminal, or written once, and never into a log.

They are written as assignments, for a shell, systemd's EnvironmentFile or Docker's env_file.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from ldpbandits.errors import ParameterError
from ldpbandits.output.files import guard
from ldpbandits.server.keys import Role

NOTES = {
    Role.ADMIN: "keep it secret",
    Role.VIEWER: "reads everything, changes nothing",
    Role.CLIENT: "for your devices; may be public",
}
_LINE = re.compile(r"LDPBANDITS_(ADMIN|VIEWER|CLIENT)_KEY=((?:admin|viewer|client)-[\w-]{32})")


def keep(keys: Mapping[Role, str], path: Path | None, *, may_show: bool) -> Mapping[Role, str]:
    """Put new keys where they can be read, before they hold; return those that are to hold, from now on.

    A start that ends between the two, whatever ends it, has left keys in the file that hold nowhere. The next takes
    them: keys that nobody could read would hold for ever.
    """
    if path is None:
        if not may_show:
            raise ParameterError("new keys are shown on a terminal only, and never in a log: set keys_file")
        return keys
    left = _left_by_another_start(path)
    if left and keys.keys() <= left.keys():
        return {role: left[role] for role in keys}
    with keys_file(path) as file:
        file.writelines(f"{role.variable}={key}\n" for role, key in keys.items())
    return keys


def _left_by_another_start(path: Path) -> dict[Role, str]:
    """Return the keys in a file of ours, that only its owner can read and that holds nothing else."""
    try:
        found = path.lstat()
        is_ours = stat.S_ISREG(found.st_mode) and (os.name != "posix" or _is_private(found))
        if is_ours and found.st_size == 0:  # that start had not come to writing
            path.unlink()
        lines = path.read_text(encoding="ascii").splitlines() if is_ours else []
    except (OSError, ValueError):
        return {}
    matches = [_LINE.fullmatch(line) for line in lines]
    return {Role(match[1].lower()): match[2] for match in matches if match} if all(matches) else {}


def _is_private(found: os.stat_result) -> bool:
    return found.st_uid == os.geteuid() and not found.st_mode & 0o077


def shown(keys: Mapping[Role, str]) -> list[str]:
    """Return lines that show them."""
    if not keys:
        return []
    lines = (f"  {role.value + ' key:':11}  {keys[role]}  ({NOTES[role]})" for role in keys)
    return ["", "New keys, shown this once:", *lines]


@contextmanager
def keys_file(path: Path) -> Iterator[TextIO]:
    """Yield a new file for new keys, readable only by its owner; it stays if something was written and nothing failed.

    It is made before the keys are: they cannot be read anywhere else, and so must not be lost for want of a place.
    """
    try:
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ParameterError(f"new keys would be written to {path}, which exists already") from None
    except OSError as error:
        raise ParameterError(f"new keys cannot be written to {path}: {error.strerror}") from None
    is_used = False
    try:
        with guard(path), os.fdopen(made, "w", encoding="ascii") as file:
            yield file
            is_used = file.tell() > 0
            file.flush()
            os.fsync(file.fileno())
    finally:
        if not is_used:
            path.unlink(missing_ok=True)
