"""The Sphinx extension that converts docstrings, which are plain text with `code`, to reStructuredText."""

import re
from typing import Any


def process(_app: Any, _what: str, _name: str, _object: object, _options: Any, lines: list[str]) -> None:  # noqa: ANN401 - Sphinx is not typed here
    """Escape bars, and turn indented lines into a block of code."""
    read: list[str] = []
    is_code = False
    for line in lines:
        is_indented = line.startswith("    ")
        if is_indented and not is_code and not (read and read[-1].strip()):
            read += ["::", ""]
            is_code = True
        elif line.strip() and not is_indented:
            is_code = False
        read.append(line if is_code or line.startswith((">>>", "...")) else line.replace("|", "\\|"))
    lines[:] = read


def public(
    _app: Any,  # noqa: ANN401 - as above
    _what: str,
    _name: str,
    _object: object,
    _options: Any,  # noqa: ANN401 - as above
    signature: str | None,
    returned: str | None,
) -> tuple[str | None, str | None]:
    """Remove trailing private parameters from a signature: callers never pass them.

    A default that Python shows as `<function ...>` is three dots: Sphinx would take the whole signature for plain text.
    """
    if signature is not None:
        signature = re.sub(r"<(?:[^<>]|<[^<>]*>)*>", "...", signature)
        signature = re.sub(r"(, )?\b_[a-z]\w*: .*\)$", ")", signature)
    return signature, returned


def setup(app: Any) -> dict[str, bool]:  # noqa: ANN401 - as above
    """Register both functions with Sphinx's autodoc."""
    app.connect("autodoc-process-docstring", process)
    app.connect("autodoc-process-signature", public)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
