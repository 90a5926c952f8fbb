"""How the lab compiles: numba, with a cache that notices when any kernel was edited.

numba keys a cached function by its own file alone, so that an edited kernel would live on inside its compiled callers.
The cache folder therefore carries a hash of every source file that a kernel, or a number that it is given, comes from.
"""

import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from types import CodeType
from typing import Any, TypeVar, cast

import numba

import ldpbandits

HERE = Path(ldpbandits.__file__).parent
COMPUTES = ("agent", "lab", "spec", "theory", "checks.py", "types.py")
"""The sources of all compiled code and of its numbers. An edit of the server causes no compilation."""

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = {
    "nogil": True,  # trials run on threads
    "error_model": "numpy",  # a division that may raise keeps the loop over arms from becoming vector instructions
}


def inlined(function: F) -> F:
    """Compile a kernel into the functions that call it; only so can it take another kernel and its caller be cached."""
    kernel = getattr(function, "py_func", function)  # what the user compiled with other options is compiled with ours
    return cast("F", numba.njit(inline="always", **_OPTIONS)(kernel))


def compiled(function: F) -> F:
    """Compile a function of numbers and arrays; later processes load it from the cache."""
    folder = _cache_folder()
    if folder is None:
        return uncached(function)
    kept, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder)
    try:
        return cast("F", numba.njit(cache=True, **_OPTIONS)(function))
    finally:
        numba.config.CACHE_DIR = kept


def uncached(function: F) -> F:
    """Compile a function that takes a kernel: its code belongs to this process alone."""
    return cast("F", numba.njit(**_OPTIONS)(function))


def _cache_folder() -> Path | None:
    """Return where compiled code is kept, or None if nothing can be written there."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "ldpbandits"
    folder = Path(numba.config.CACHE_DIR or default) / f"kernels-{source_hash()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


def code_hash(function: Callable[..., Any]) -> str:
    """Name the code of a user's own function, with all that it calls and every number that it takes from its module.

    It goes by what would be run, not by a file: a function of a notebook has none, and one of a file may call others.
    """
    digest, seen, waiting = sha256(), set(), [function]
    while waiting:
        plain = waiting.pop()
        plain = getattr(plain, "py_func", plain)  # what the user compiled
        code = getattr(plain, "__code__", None)
        if code is None or plain in seen:
            continue
        seen.add(plain)
        digest.update(repr(_code(code)).encode())
        cells = [cell.cell_contents for cell in plain.__closure__ or ()]
        for name, value in [*((n, plain.__globals__.get(n)) for n in code.co_names), *zip(code.co_freevars, cells)]:  # noqa: B905 - one each
            if callable(getattr(value, "py_func", value)) and not isinstance(value, type):
                waiting.append(value)
            elif isinstance(value, bool | int | float | str | tuple):
                digest.update(f"{name} = {value!r}".encode())
    return digest.hexdigest()[:16]


def _code(code: CodeType) -> tuple[Any, ...]:
    """Return what a code object does, without where it stands."""
    constants = tuple(_code(each) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars


def source_hash(package: Path = HERE) -> str:
    """Name this version of the source: whatever is compiled, or was computed by it, is known by that."""
    digest = sha256()
    for place in (package / name for name in COMPUTES):
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
