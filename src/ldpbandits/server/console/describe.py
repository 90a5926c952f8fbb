"""The page on which title, owner and the like of an experiment are changed."""

from collections.abc import Mapping
from dataclasses import asdict

from starlette.responses import Response

from ldpbandits.server.api.messages import NewMetadata
from ldpbandits.server.api.refusals import Refusal
from ldpbandits.server.console.forms import as_message
from ldpbandits.server.console.replies import page, redirect
from ldpbandits.server.console.visits import Visit
from ldpbandits.spec.messages import Metadata
from ldpbandits.spec.protocol import Code

FIELDS = tuple(asdict(Metadata()))


async def show(visit: Visit) -> Response:
    """Show the form with the present texts."""
    if not visit.may_change:
        raise Refusal(403, Code.FORBIDDEN, f"your key may not change {visit.name}")
    return _form(visit, asdict(visit.service.find(visit.name).metadata))


async def submit(visit: Visit) -> Response:
    """Change the texts, and show the experiment; or show the form with its fault."""
    fields = {name: visit.form.get(name, "").strip() for name in FIELDS}
    try:
        new = as_message(NewMetadata, fields)
        await visit.service.change(lambda: visit.commands.describe(visit.name, new))
    except Refusal as refusal:
        return _form(visit, fields, refusal)
    return redirect(f"../{visit.name}?done=describe")


def _form(visit: Visit, fields: Mapping[str, str], refusal: Refusal | None = None) -> Response:
    status, error = (200, None) if refusal is None else (refusal.status, refusal.message)
    return page(visit, "describe.html", status, name=visit.name, fields=fields, error=error)
