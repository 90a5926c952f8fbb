"""The page of keys: who has one, when it was last used, a form for a new one, and the way to remove one."""

from collections.abc import Mapping

from starlette.responses import Response

from ldpbandits.server.api.key_messages import NewHolder
from ldpbandits.server.api.messages import Key
from ldpbandits.server.api.refusals import Refusal
from ldpbandits.server.console.forms import as_message
from ldpbandits.server.console.replies import page, redirect
from ldpbandits.server.console.visits import Visit
from ldpbandits.server.keys import NAMED_ROLES

FIRST = {"name": "", "role": "viewer", "experiments": ""}
"""The fields of the form for a new key, and their initial values."""


async def show(visit: Visit) -> Response:
    """Show the keys, and the form for a new one."""
    return await _page(visit, FIRST)


async def add(visit: Visit) -> Response:
    """Make a key, and show it this once; or show the form with its fault."""
    fields = {name: visit.form.get(name, "").strip() for name in FIRST}
    try:
        new = as_message(NewHolder, {**fields, "experiments": fields["experiments"].replace(",", " ").split()})
        made = await visit.service.change(lambda: visit.commands.add_key(new))
    except Refusal as refusal:
        return await _page(visit, fields, refusal=refusal)
    return await _page(visit, FIRST, made=made)


async def confirm(visit: Visit) -> Response:
    """Ask whether a key is to be removed."""
    return page(visit, "remove-key.html", name=_name(visit), error=None)


async def remove(visit: Visit) -> Response:
    """Remove the key of a person or a machine."""
    try:
        await visit.service.change(lambda: visit.commands.remove_key(_name(visit)))
    except Refusal as refusal:
        return page(visit, "remove-key.html", refusal.status, name=_name(visit), error=refusal.message)
    return redirect("../../keys")


def _name(visit: Visit) -> str:
    return str(visit.request.path_params["key"])


async def _page(
    visit: Visit, fields: Mapping[str, str], *, made: Key | None = None, refusal: Refusal | None = None
) -> Response:
    status, error = (200, None) if refusal is None else (refusal.status, refusal.message)
    roles = [role.value for role in NAMED_ROLES]
    found = await visit.service.key_reports()
    return page(visit, "keys.html", status, keys=found, fields=fields, roles=roles, made=made, error=error)
