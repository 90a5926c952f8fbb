"""Parts that need an extra import it late, and say in one line what to install when it is not there."""

from collections.abc import Iterator
from contextlib import contextmanager

from ldpbandits.errors import MissingExtra


@contextmanager
def needs(extra: str, *, who: str = "") -> Iterator[None]:
    """Turn a package that is missing inside the block into a MissingExtra that names it and its extra.

    with needs("lab"):
        from ldpbandits.lab.experiments import simulate
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "ldpbandits":  # a fault of our own, which no extra mends
            raise
        raise MissingExtra(f"{who} needs {package}: pip install '.[{extra}]' in the source folder".lstrip()) from None
