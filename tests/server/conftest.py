"""What tests of the server start from."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.local import NEW, Local


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    """A server with one experiment."""
    made = Local(tmp_path / "agent.db")
    assert made("POST", "/v1/experiments", NEW).status == 201
    yield made
    made.close()
