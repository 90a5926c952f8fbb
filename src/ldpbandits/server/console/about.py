"""The public page of an experiment: what it asks of a device, what an answer tells, how to refuse, how to verify.

It shows settings, and neither the arms nor any result: visitors who knew them would behave otherwise.
"""

from starlette.responses import Response

from ldpbandits.papers.facts import audit_command
from ldpbandits.server.api.refusals import Refusal
from ldpbandits.server.console import replies
from ldpbandits.server.console.visits import Visit
from ldpbandits.server.console.words import odds_of
from ldpbandits.spec.protocol import Code


async def show(visit: Visit) -> Response:
    """Show the page to anybody, if the experiment was created with one."""
    experiment = visit.service.find(visit.name)
    if not experiment.settings.about_page:
        raise Refusal(404, Code.NOT_FOUND, f"the experiment {visit.name} has no public page (about_page)")
    in_use = sum(not arm.retired for arm in experiment.arms)
    return replies.page(
        visit,
        "about.html",
        experiment=experiment,
        versions=1 if experiment.status == "shipped" else in_use,
        guarantee=experiment.menu.curators[-1].guarantee,
        epsilons=[odds_of(curator.mechanism) for curator in experiment.menu.curators],
        audit=audit_command(experiment.menu),
    )
