"""The audit as one self-contained page: the verdict, the privacy loss over outputs, and every layer."""

from html import escape

import ldpbandits
from ldpbandits.audit.plot import draw
from ldpbandits.audit.result import Audit
from ldpbandits.output.page import Cell, document, picture, table


def page(audit: Audit) -> str:
    """Return the page as HTML."""
    return document("ldpbandits: audit", "\n".join([_head(audit), _pictures(audit), _layers(audit), _reading(audit)]))


def _head(audit: Audit) -> str:
    return (
        f"<h1>Audit of {escape(audit.what)}</h1>"
        f'<p class="verdict {audit.verdict}">{escape(audit.sentence)}</p>'
        f"<p>{audit.samples:,} responses to each reward, in {audit.seconds:.1f} s, by ldpbandits "
        f"{ldpbandits.__version__}. If the claim holds, the chance that this audit calls it violated is at most "
        f"{1 - audit.confidence:.3g}.</p>"
    )


def _pictures(audit: Audit) -> str:
    figures = "".join(
        picture(
            draw(profile, audit.epsilon_claimed), f"Privacy loss over the {profile.over}, with the lines of epsilon"
        )
        for profile in audit.profiles
    )
    return (
        f"<h2>Privacy loss over outputs</h2>{figures}"
        '<p class="note">The logarithm of how much likelier a response is under one reward than under the other, '
        "estimated in each cell, with the 95 % interval of each cell by itself: one in twenty may miss. Between the "
        "dashed lines the claim holds. The verdict does not rest on these pictures.</p>"
    )


def _layers(audit: Audit) -> str:
    rows = [(layer.name, Cell(layer.verdict, layer.verdict.replace(" ", "-")), layer.detail) for layer in audit.layers]
    return f"<h2>Layers</h2>{table(rows, look='text')}"


def _reading(audit: Audit) -> str:
    return (
        '<h2>How to read it</h2><p class="note">The layer exact is a proof, where it applies. The empirical layers can '
        "only refute: nothing found in so many responses does not prove that nothing is there. Lower bounds hold "
        f"together with probability {100 * audit.confidence:.10g} %. Layers that are reported do not decide; those "
        "that are not applicable could not be run on this curator, and say why.</p>"
    )
