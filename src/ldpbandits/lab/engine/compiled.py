"""How the lab compiles: numba, with a cache that notices when any kernel was edited.

numba keys a cached function by its own file alone, so that an edited kernel would live on inside its compiled callers.
The cache folder therefore carries a hash of every source file of this package.
"""

import inspect
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

import ldpbandits

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
    """Name the code of a user's own function: its file, or where there is none, as in a notebook, its bytes."""
    plain = getattr(function, "py_func", function)
    try:
        content = Path(inspect.getsourcefile(plain) or "").read_bytes()
    except (OSError, TypeError):
        code = getattr(plain, "__code__", None)
        content = repr(plain).encode() if code is None else code.co_code + repr(code.co_consts).encode()
    return sha256(content).hexdigest()[:16]


def source_hash() -> str:
    """Name this version of the source: whatever is compiled, or was computed by it, is known by that."""
    digest = sha256()
    for path in sorted(Path(ldpbandits.__file__).parent.rglob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
