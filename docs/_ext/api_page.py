"""The reference of the Python interface: the public names, grouped by package. autodoc reads the docstrings."""

from importlib import import_module
from typing import Any

from sphinx.pycode import ModuleAnalyzer

from ldpbandits.theory import bounds
from pieces import fence

GROUPS = {
    "On devices": ("ldpbandits", "ldpbandits.device"),
    "The agent": ("ldpbandits", "ldpbandits.agent"),
    "For experimenters": ("ldpbandits", "ldpbandits.admin"),
    "Public data of both sides": ("ldpbandits", "ldpbandits.spec"),
    "Types": ("ldpbandits", "ldpbandits.types"),
    "Errors": ("ldpbandits", "ldpbandits.errors"),
    "The lab": ("ldpbandits.lab", "ldpbandits.lab"),
    "Audits": ("ldpbandits.audit", "ldpbandits.audit"),
}
"""Each section lists the names that the first package exports and the second one defines."""


def api_page() -> str:
    """Return a section for each group, with every public name once; a name without a group is an error."""
    public = {(home, name) for home, _ in GROUPS.values() for name in import_module(home).__all__}
    parts = []
    for title, (home, within) in GROUPS.items():
        names = sorted(name for place, name in public if place == home and _home(place, name).startswith(within))
        public -= {(home, name) for name in names}
        parts += [f"## {title}", *(_entry(home, name) for name in names)]
    left = sorted(name for _, name in public if name != "__version__")
    if left:
        raise LookupError(f"public names without a section in docs/_ext/api_page.py: {', '.join(left)}")
    return "\n\n".join([*parts, "## The theory", _module(bounds.__name__)])


def _home(home: str, name: str) -> str:
    """Return the module that defines a public name; a new type of a plain one is defined where it is listed."""
    found = getattr(import_module(home), name)
    return str(getattr(found, "__module__", home))


def _entry(home: str, name: str) -> str:
    found = getattr(import_module(home), name)
    if hasattr(found, "__supertype__"):
        return _new_type(home, name, found)
    kind = "class" if isinstance(found, type) else "function" if callable(found) else "data"
    return fence(f".. auto{kind}:: {home}.{name}", "{eval-rst}")


def _new_type(home: str, name: str, found: Any) -> str:  # noqa: ANN401 - a NewType is of no type that we could name
    """Return the entry of a NewType with the text below it; autodoc would show the docstring of `NewType`."""
    lines = ModuleAnalyzer.for_module(found.__module__).find_attr_docs()["", name]
    meaning = "\n".join(f"   {line}" for line in lines)
    return fence(f".. py:data:: {home}.{name}\n   :type: {found.__supertype__.__name__}\n\n{meaning}", "{eval-rst}")


def _module(name: str) -> str:
    return fence(f".. automodule:: {name}\n   :members:", "{eval-rst}")
