"""The pages that show things: the way in, the list of experiments, one experiment, and what can be taken away of it."""

import asyncio
import re
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import msgspec
from starlette.responses import Response, StreamingResponse

from ldpbandits import __version__
from ldpbandits.papers.facts import Circumstances
from ldpbandits.papers.kit import write_papers
from ldpbandits.server.api.openapi import openapi
from ldpbandits.server.api.operations import OPERATIONS
from ldpbandits.server.api.reference import GROUPS, messages, requests
from ldpbandits.server.api.refusals import Refusal
from ldpbandits.server.console import drawing, replies, words
from ldpbandits.server.console.actions import ACTIONS, DONE
from ldpbandits.server.console.live import Listing, Snapshot, version_of_part
from ldpbandits.server.console.replies import HEADERS, download, page, redirect, text
from ldpbandits.server.console.visits import Visit, check_origin, cookie_name
from ldpbandits.server.keys import Role
from ldpbandits.server.service import CHANGES_PER_PAGE
from ldpbandits.spec.menu import Menu
from ldpbandits.spec.messages import Report, criteria_words
from ldpbandits.spec.protocol import Code

NARROWEST = 0.1
"""The smallest visible part of a bar, in per cent."""

LONGEST_FIND, LONGEST_PAGE_NUMBER, LONGEST_LINE_NUMBER = 64, 6, 15
"""Characters of a search for names, and digits of a page of the list and of a line of the change log."""

NEXT = re.compile(r"(?:experiments/[a-z0-9][a-z0-9-]{0,63}|new)?")
"""Valid targets of the redirect after signing in: our own pages, or the list."""


async def root(_: Visit) -> Response:
    """Send the browser into the console's folder: from there on all ways are relative."""
    return redirect("console/")


async def static_file(visit: Visit) -> Response:
    """Return a file that pages are made with."""
    found = replies.static(visit.request.path_params["file"])
    if found is None:
        raise Refusal(404, Code.NOT_FOUND, "file not found")
    return found


def to_sign_in(visit: Visit) -> Response:
    """Ask for a key, and remember where to go then.

    A browser that comes from another site hides our cookie, strict as it is. It shows it when it asks once more.
    """
    path = visit.request.url.path.removeprefix("/console/")
    if visit.request.headers.get("sec-fetch-site") in {"cross-site", "same-site"}:
        return page(visit, "again.html")
    return redirect(f"{visit.home}sign-in" + (f"?next={path}" if path and NEXT.fullmatch(path) else ""))


async def sign_in_page(visit: Visit) -> Response:
    """Show the form that asks for a key."""
    where = visit.request.query_params.get("next", "")
    where = where if NEXT.fullmatch(where) else ""
    return redirect(f"./{where}") if visit.session is not None else _sign_in_form(visit, where)


def _sign_in_form(visit: Visit, where: str, error: str | None = None) -> Response:
    status = 200 if error is None else 403
    return page(visit, "sign-in.html", status, next=where, error=error, proxied=visit.proxied)


async def enter(visit: Visit) -> Response:
    """Show a form that uses a one-time link, so that a link preview does not consume it."""
    return page(visit, "enter.html", token=visit.request.path_params["token"])


async def sign_in(visit: Visit) -> Response:
    """Open a session for a key, for the token of a one-time link, or for somebody who is signed in at the proxy."""
    where = visit.form.get("next", "")
    where = where if NEXT.fullmatch(where) else ""
    link, service = visit.form.get("link"), visit.service
    key = visit.form.get("key", "").strip().encode()
    hashed = sha256(key).digest() if link is None else await service.links.take(link)
    origin = check_origin(visit.request, None)
    if "proxied" in visit.form:
        token = None if visit.proxied is None else await visit.sessions.open_for(visit.proxied, origin)
    else:
        token = None if hashed is None else await visit.sessions.open(hashed, origin)
    if token is None:
        service.reject(Code.UNAUTHORIZED)
        is_client = hashed is not None and service.keys.role_of_hash(hashed, service.now) is Role.CLIENT
        error = (
            f"{visit.proxied or 'nobody'} is signed in at the proxy, and has no right here: an admin can give one"
            if "proxied" in visit.form
            else "this link has been used, or its few minutes are over: ask for a new one, or sign in with a key"
            if link is not None
            else "the client key is for devices, and opens nothing here: use the key of a person"
            if is_client
            else "this is not a key of a person on this server"
        )
        return _sign_in_form(visit, where, error)
    if visit.session is not None:
        await visit.sessions.end(visit.session)
    secure = "; Secure" if origin.startswith("https:") else ""
    # Without a path, the cookie is for the folder of the form's address, whatever stands before it: .../console
    cookie = f"{cookie_name(visit.request)}={token}; HttpOnly; SameSite=Strict{secure}"
    return redirect(f"./{where}", {"Set-Cookie": cookie})


async def sign_out(visit: Visit) -> Response:
    """End this session and clear the cookie."""
    if visit.session is not None:
        await visit.sessions.end(visit.session)
    gone = f"{cookie_name(visit.request)}=; Max-Age=0; HttpOnly; SameSite=Strict"
    return redirect("sign-in", {"Set-Cookie": gone})


async def experiments(visit: Visit) -> Response:
    """Show a page of the list, an experiment in a line, the newest first."""
    listing = _listing(visit)
    part = listing.part(visit.service.experiments)
    await visit.service.refresh_all(part.names)
    lines = []
    for name in part.names:
        with suppress(Refusal):  # deleted meanwhile
            lines.append(await visit.line(name))
    content: dict[str, Any] = {
        "listing": listing,
        "part": part,
        "version": version_of_part(part, [line.version for line in lines]),
        "rows": [(line.report, _shares(line.report)) for line in lines],
        "done": DONE.get(visit.request.query_params.get("done", "")),
    }
    return await asyncio.to_thread(page, visit, "list.html", **content)


async def changes(visit: Visit) -> Response:
    """Show who changed an experiment, or any, and the keys; the newest first."""
    name = visit.request.path_params.get("name")
    before = visit.request.query_params.get("before", "")
    is_number = before.isascii() and before.isdigit() and len(before) <= LONGEST_LINE_NUMBER
    lines = await visit.service.changes(name, int(before) if is_number else None)
    return page(visit, "log.html", name=name, lines=lines, has_more=len(lines) == CHANGES_PER_PAGE)


def _listing(visit: Visit) -> Listing:
    """Return which page of the list is asked for; what makes no sense is the first."""
    asked = visit.request.query_params
    number, find = asked.get("page", ""), asked.get("find", "").strip().lower()[:LONGEST_FIND]
    is_number = number.isascii() and number.isdigit() and len(number) <= LONGEST_PAGE_NUMBER
    return Listing(max(1, int(number)) if is_number else 1, find)


def _shares(report: Report) -> list[tuple[int, str, float, float]]:
    """Return the shares of the traffic as parts of a bar: arm, name, from where, and how wide, in per cent.

    Arms too small to be visible are left out.
    """
    parts, at = [], 0.0
    for arm in report.arms:
        width = 100 * (arm.share or 0.0)
        if width and (width > NARROWEST or len(report.arms) <= words.MOST_SHOWN):
            parts.append((arm.arm, arm.name, round(at, 3), round(width, 3)))
        at += width
    return parts


async def experiment(visit: Visit) -> Response:
    """Show all about one experiment."""
    snapshot = await visit.snapshot()
    actions = [action for action in ACTIONS if action.fits(snapshot.report)]
    done = DONE.get(visit.request.query_params.get("done", ""))
    content = {"version": snapshot.version, "actions": actions, "done": done, **_content(snapshot)}
    return await asyncio.to_thread(page, visit, "experiment.html", **content)


def _content(snapshot: Snapshot) -> dict[str, Any]:
    """Return what the page of an experiment and the file of it show alike."""
    report = snapshot.report
    scale = drawing.report_scale(report)
    menu, control = Menu.from_json(report.curator), report.arms[report.settings.control].name
    return {
        "report": report,
        "verdict": words.verdict(report),
        "scale": scale,
        "rows": [(arm, drawing.whisker(arm, scale)) for arm in words.shown(report)],
        "chart": drawing.chart(snapshot.history, report),
        "evidence": drawing.evidence_chart(snapshot.history),
        "asked": words.asked(menu),
        "epsilons": [words.odds_of(curator.mechanism) for curator in menu.curators],
        "rule": words.rule_words(report),
        "guardrails": [*words.guardrails(report.settings), *criteria_words(report.settings, control)],
        "rejections": words.REJECTIONS,
    }


async def events(visit: Visit) -> Response:
    """Return the stream of a page's versions."""
    if visit.session is None:
        raise Refusal(401, Code.UNAUTHORIZED, "you are not signed in, or your session has ended")
    seen = visit.request.headers.get("last-event-id") or visit.request.query_params.get("version", "")
    return visit.live.stream(visit.session, visit.request.path_params.get("name") or _listing(visit), seen)


async def history(visit: Visit) -> Response:
    """Return estimates and intervals over responses, for the chart."""
    content = msgspec.json.encode((await visit.snapshot()).history)
    return Response(content, headers=HEADERS, media_type="application/json")


async def responses(visit: Visit) -> Response:
    """Export the responses as CSV."""
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{visit.name}-responses.csv"'}
    return StreamingResponse(await visit.service.export(visit.name), headers=headers, media_type="text/csv")


async def tallies(visit: Visit) -> Response:
    """Export the tallies as JSON."""
    content = msgspec.json.format(msgspec.json.encode(await visit.service.tallies(visit.name)), indent=2)
    return download(content, f"{visit.name}-tallies.json", "application/json")


async def papers(visit: Visit) -> Response:
    """Return the papers about an experiment as an archive."""
    report, archive = (await visit.snapshot()).report, BytesIO()
    with ZipFile(archive, "w", ZIP_DEFLATED) as files:
        for name, content in write_papers(report, Circumstances(), "the console").items():
            files.writestr(f"{report.name}-papers/{name}", content)
    return download(archive.getvalue(), f"{visit.name}-papers.zip", "application/zip")


async def report_file(visit: Visit) -> Response:
    """Return the page of an experiment as one file that needs nothing else."""
    content = _content(await visit.snapshot())
    shell = {"style": replies.FILE_STYLE, "policy": replies.FILE_POLICY, "saved_by": __version__}
    written = await asyncio.to_thread(replies.text, visit, "file.html", **content, **shell, now=visit.service.now)
    return download(written, f"{visit.name}.html", "text/html")


_interface: dict[str, bytes] = {}
"""The page at /docs, by the path from it to the console: it takes milliseconds to render, and needs no key."""


async def interface(visit: Visit) -> Response:
    """Show the HTTP interface. The first request renders it: by then all kinds of one's own are registered."""
    if visit.home not in _interface:
        described = openapi(OPERATIONS)
        found = requests(OPERATIONS, described)
        groups = [(title, about, found[title]) for title, (about, _) in GROUPS.items()]
        content = {"info": described["info"], "groups": groups, "messages": messages(described)}
        _interface[visit.home] = text(replace(visit, session=None), "interface.html", **content).encode()
    return Response(_interface[visit.home], headers=HEADERS, media_type="text/html")
