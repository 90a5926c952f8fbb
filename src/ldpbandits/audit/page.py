"""The audit as one self-contained page: the verdict, the privacy loss over outputs, and every layer."""

from base64 import b64encode
from html import escape

import ldpbandits
from ldpbandits.audit.plot import draw
from ldpbandits.audit.result import Audit
from ldpbandits.lab.report import STYLE

COLOURS = """
.verdict { font-size: 1.2rem; padding: .6rem 1rem; border-left: .4rem solid; background: #f6f6f6 }
.consistent { color: #00664b } .violated { color: #a33b00 } td.violated { font-weight: bold }
td { text-align: left !important; vertical-align: top } td:nth-child(2) { white-space: nowrap }
"""


def page(found: Audit) -> str:
    """Return the page as HTML."""
    body = "\n".join([_head(found), _pictures(found), _layers(found), _reading(found)])
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>ldpbandits: audit</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}{COLOURS}</style></head>'
        f"<body>\n{body}\n</body></html>\n"
    )


def _head(found: Audit) -> str:
    return (
        f"<h1>Audit of {escape(found.what)}</h1>"
        f'<p class="verdict {found.verdict}">{escape(found.sentence)}</p>'
        f"<p>{found.samples:,} responses to each reward, in {found.seconds:.1f} s, by ldpbandits "
        f"{ldpbandits.__version__}. If the claim holds, the chance that this audit calls it violated is at most "
        f"{1 - found.confidence:.3g}.</p>"
    )


def _pictures(found: Audit) -> str:
    images = [b64encode(draw(profile, found.epsilon_claimed)).decode() for profile in found.profiles]
    figures = "".join(
        f'<figure><img alt="Privacy loss over the {escape(profile.over)}, with the lines of epsilon" '
        f'src="data:image/svg+xml;base64,{image}"></figure>'
        for profile, image in zip(found.profiles, images, strict=True)
    )
    return (
        f"<h2>Privacy loss over outputs</h2>{figures}"
        '<p class="note">The logarithm of how much likelier a response is under one reward than under the other, '
        "estimated in each cell, with the 95 % interval of each cell by itself: one in twenty may miss. Between the "
        "dashed lines the claim holds. The verdict does not rest on these pictures.</p>"
    )


def _layers(found: Audit) -> str:
    rows = "".join(
        f'<tr><td>{escape(layer.name)}</td><td class="{layer.verdict.replace(" ", "-")}">{layer.verdict}</td>'
        f"<td>{escape(layer.detail)}</td></tr>"
        for layer in found.layers
    )
    return f"<h2>Layers</h2><table>{rows}</table>"


def _reading(found: Audit) -> str:
    return (
        '<h2>How to read it</h2><p class="note">The layer exact is a proof, where it applies. The empirical layers can '
        "only refute: nothing found in so many responses does not prove that nothing is there. Lower bounds hold "
        f"together with probability {100 * found.confidence:.10g} %. Layers that are reported do not decide; those "
        "that are not applicable could not be run on this curator, and say why.</p>"
    )
