"""The page of metrics of a server to which everything has happened that alerts and dashboards are about."""

import re
from collections.abc import Iterable
from pathlib import Path

from tests.server.local import NEW, Local


def page_of_metrics(path: Path) -> str:
    """Return the page; `path` is that of its database."""
    local = Local(path)
    assert local("POST", "/v1/experiments", NEW).status == 201
    local.respond("forged")
    decision = local.decide()
    local.respond(decision["ticket"])
    assert local("GET", "/v1/experiments", key="wrong").status == 401
    local.service.meters.refuse("store", "a test")
    local.service.meters.closed["connections"] += 1
    next(iter(local.service.experiments.values())).report_incident("jump")
    page = local("GET", "/metrics").body.decode()
    local.close()
    return page


def names_in(expressions: Iterable[str]) -> set[str]:
    """Return the names of the metrics in PromQL expressions."""
    return {name for each in expressions for name in re.findall(r"\b(ldpbandits_\w+|process_\w+)", each)}


def unknown_names(expressions: Iterable[str], page: str) -> list[str]:
    """Return the names in PromQL expressions that the page does not have."""
    return [name for name in names_in(expressions) if not re.search(rf"^{name}(\{{| )", page, flags=re.MULTILINE)]
