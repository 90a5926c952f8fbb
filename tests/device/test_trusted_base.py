"""The trusted base is small, it is what the docs say, and a device loads little else.

The trusted base of a curator is every module of this package that loads with it: what an owner has to read in order to
know how a reward becomes a response. Lines count with comments, docstrings and blank lines.
"""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import ldpbandits

SOURCE = Path(ldpbandits.__file__).parent
FAQ = Path(__file__).parent.parent.parent / "docs" / "faq.md"
ANSWER_ONCE = "from ldpbandits import BernoulliCurator; BernoulliCurator(epsilon=1.0).respond(1.0)"
TAKE_PART = "from ldpbandits import Client, Ledger, Limits, Range"


def loaded_modules(code: str) -> dict[str, str]:
    """Return the file of each module that a fresh interpreter has loaded after this code."""
    listing = "import json, sys; print(json.dumps({n: getattr(m, '__file__', None) for n, m in sys.modules.items()}))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{listing}"],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(SOURCE.parent)},
    )
    loaded: dict[str, str] = json.loads(done.stdout)
    return loaded


def trusted_base(code: str) -> dict[str, int]:
    """Return the lines of each module of ours that this code loads; the list of public names holds no behaviour."""
    files = {name: file for name, file in loaded_modules(code).items() if name.startswith("ldpbandits.")}
    return {name: len(Path(file).read_text(encoding="utf-8").splitlines()) for name, file in files.items()}


def test_the_docs_name_the_lines_of_the_trusted_base(capsys: pytest.CaptureFixture[str]) -> None:
    """A curator has at most 1,200 lines, a client at most 3,700, and the FAQ gives both numbers."""
    curator, client = trusted_base(ANSWER_ONCE), trusted_base(TAKE_PART)
    with capsys.disabled():
        print(f"\ntrusted base: curator {sum(curator.values()):,} lines in {len(curator)} modules, ", end="")  # noqa: T201
        print(f"client {sum(client.values()):,} lines in {len(client)} modules")  # noqa: T201
    assert sum(curator.values()) <= 1_200, curator
    assert sum(client.values()) <= 3_700, client
    if FAQ.is_file():  # not beside an installed wheel
        text = FAQ.read_text(encoding="utf-8")
        assert f"{sum(curator.values()):,} lines in {len(curator)} modules" in text
        assert f"{sum(client.values()):,} lines in {len(client)} modules" in text


def test_importing_the_package_loads_nothing_else() -> None:
    """Neither a module of ours, nor asyncio, nor ssl."""
    names = loaded_modules("import ldpbandits")
    assert [name for name in names if name.startswith("ldpbandits")] == ["ldpbandits"]
    assert not {"asyncio", "ssl", "sqlite3", "http.client"} & names.keys()


def test_a_device_loads_neither_agent_nor_asyncio() -> None:
    """At most 30 modules of ours, all of which the device shares with nobody or with both sides."""
    names = loaded_modules(TAKE_PART)
    ours = [name for name in names if name.startswith("ldpbandits")]
    assert len(ours) <= 30, ours
    assert not [name for name in ours if name.startswith(("ldpbandits.agent", "ldpbandits.admin", "ldpbandits.server"))]
    assert "asyncio" not in names


def test_type_checkers_see_the_same_names() -> None:
    """The stub imports every public name from the module that the package loads it from."""
    stub = ast.parse((SOURCE / "__init__.pyi").read_text(encoding="utf-8"))
    imported = {
        (statement.module, alias.name)
        for statement in stub.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert imported == {(module, name) for name, module in ldpbandits._HOMES.items()}  # type: ignore[attr-defined]
    for name in ldpbandits.__all__:
        assert getattr(ldpbandits, name) is not None
    assert {*ldpbandits.__all__} <= {*dir(ldpbandits)}


def test_an_unknown_name_is_an_attribute_error() -> None:
    """As of any module."""
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = ldpbandits.Nothing  # type: ignore[attr-defined]
