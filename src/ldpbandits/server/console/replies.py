"""Replies: pages, redirects and files, with their security headers."""

import mimetypes
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import Response

from ldpbandits.server.console import words
from ldpbandits.server.console.visits import Visit

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: a browser would then hide the origin of forms, by which we know our own.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

FOREVER = "public, max-age=31536000, immutable"
"""Static files are asked for with their hash: another content has another address."""

_FOLDER = files(__package__) / "static"
STATIC = {
    name: (_FOLDER / name).read_bytes()
    for name in ("console.css", "console.js", "icon.svg", "vendor/uPlot.iife.min.js", "vendor/uPlot.min.css")
}
_HASHES = {name: sha256(content).hexdigest()[:12] for name, content in STATIC.items()}

FILE_STYLE = Markup(STATIC["console.css"].decode())  # noqa: S704 - our own stylesheet
"""The style that a self-contained file includes."""

FILE_POLICY = f"default-src 'none'; style-src 'sha256-{b64encode(sha256(FILE_STYLE.encode()).digest()).decode()}'"
"""The content security policy of that file: this style only."""

templates = Environment(
    loader=PackageLoader(__package__),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
templates.filters |= words.FILTERS


def page(visit: Visit, template: str, status: int = 200, **content: Any) -> Response:  # noqa: ANN401 - what it shows
    """Return a page as a reply."""
    return Response(text(visit, template, **content), status, HEADERS, media_type="text/html")


def text(visit: Visit, template: str, **content: Any) -> str:  # noqa: ANN401 - what it shows
    """Render a template with these variables."""

    def asset(name: str) -> str:
        return f"{visit.home}static/{name}?{_HASHES[name]}"

    return templates.get_template(template).render(visit=visit, home=visit.home, asset=asset, **content)


def redirect(where: str, headers: Mapping[str, str] | None = None) -> Response:
    """Send the browser to another page, with GET. The way there is relative: we know of no prefix before it."""
    return Response(status_code=303, headers={**HEADERS, "Location": where, **(headers or {})})


def static(name: str) -> Response | None:
    """Return one of the files that pages are made with."""
    content = STATIC.get(name)
    if content is None:
        return None
    media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Response(content, headers={**HEADERS, "Cache-Control": FOREVER}, media_type=media_type)


def download(content: str | bytes, filename: str, media_type: str) -> Response:
    """Return a file to be saved. Names of experiments have no character that would need quoting."""
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{filename}"'}
    return Response(content, headers=headers, media_type=media_type)
