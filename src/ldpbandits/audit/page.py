"""The audit as one self-contained page: the verdict, the privacy loss over responses, and every layer.

The privacy loss is log P(y | one reward) / P(y | the other), cell by cell, drawn between the lines +epsilon and
-epsilon that it must not cross.
"""

from collections.abc import Sequence
from html import escape
from math import tanh

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import ldpbandits
from ldpbandits.audit.guess import epsilon_lower
from ldpbandits.audit.result import Audit, Profile, Reals
from ldpbandits.output.colours import BLUE, VERMILION
from ldpbandits.output.numbers import percent
from ldpbandits.output.page import Cell, crowds, document, picture, table
from ldpbandits.output.style import STYLE, save

FEWEST = 20
"""A cell with fewer responses than this shows nothing but its own noise, and is left out."""
FURTHEST = 1e100
"""Responses beyond are drawn here: an axis up to the largest double cannot be scaled."""
MOST_TICKS = 12
"""Up to this many values have a tick each."""


def page(outcome: Audit) -> str:
    """Return the page as HTML."""
    title = f"Audit of epsilon = {outcome.epsilon_claimed:g}: {outcome.verdict}"
    return document(title, "\n".join([_head(outcome), _pictures(outcome), _layers(outcome), _reading(outcome)]))


def _head(outcome: Audit) -> str:
    return (
        f"<h1>Does this curator keep epsilon = {outcome.epsilon_claimed:g}?</h1>"
        f'<p class="verdict {outcome.verdict}">{escape(outcome.sentence)}</p>'
        f"<p>{escape(outcome.headline)}</p>"
        f"<p>{outcome.samples:,} responses to each reward, in {outcome.seconds:.1f} s, by ldpbandits "
        f"{ldpbandits.__version__}. If the claim holds, the chance that this audit calls it violated is at most "
        f"{1 - outcome.confidence:.3g}.</p>"
        f"{table(_record(outcome), look='prose')}"
    )


def _record(outcome: Audit) -> list[tuple[str, str]]:
    """Return the rows of the record: when, of what and how the audit was made."""
    told = {"audited": outcome.what, **outcome.record.to_json()}
    told["rewards"] = ", ".join(f"{reward:g}" for reward in outcome.record.rewards)
    told["digest"] = outcome.record.digest and f"SHA-256 {outcome.record.digest}"
    told["epsilon claimed"], told["epsilon at least"] = f"{outcome.epsilon_claimed:.6g}", f"{outcome.epsilon_lower:.6g}"
    return [(name, "none" if value is None else f"{value}") for name, value in told.items()]


def _pictures(outcome: Audit) -> str:
    """Show bits as people who send a 1; for all other responses draw the privacy loss."""
    epsilon, others = outcome.epsilon_claimed, [each for each in outcome.profiles if not is_of_bits(each)]
    people = "".join(_people(profile, epsilon) for profile in outcome.profiles if is_of_bits(profile))
    return people + (_losses(others, epsilon) if others else "")


def is_of_bits(profile: Profile) -> bool:
    """Tell whether all responses were 0 or 1."""
    return profile.are_values and profile.over == "response" and set(profile.at) <= {0.0, 1.0}


def _people(profile: Profile, epsilon: float) -> str:
    ones = profile.counts[:, profile.at == 1].sum(axis=1) / profile.counts.sum(axis=1).clip(min=1)
    shown = [round(100 * float(share)) for share in ones]
    words = [f"{one} of 100 with reward {at:g} send a 1" for one, at in zip(shown, profile.rewards, strict=True)]
    return (
        f"<h2>What a response tells</h2>{crowds(*zip(shown, words, strict=True))}"
        '<p class="note">A hundred people with each reward; those who send a 1 are filled, as often as it was seen. '
        f"With epsilon = {epsilon:g} the two numbers differ by at most {percent(tanh(epsilon / 2))}; the less they "
        "differ, the less a response tells. The verdict does not rest on this picture.</p>"
    )


def _losses(profiles: Sequence[Profile], epsilon: float) -> str:
    figures = "".join(
        picture(draw(profile, epsilon), f"Privacy loss over the {profile.over}, with the lines of epsilon")
        for profile in profiles
    )
    return (
        f"<h2>Privacy loss over outputs</h2>{figures}"
        '<p class="note">The logarithm of how much likelier a response is under one reward than under the other, '
        "estimated in each cell, with the 95 % interval of each cell by itself: one in twenty may miss. Between the "
        "dashed lines the claim holds. The verdict does not rest on these pictures.</p>"
    )


def _layers(outcome: Audit) -> str:
    shown = outcome.shown_verdicts
    rows = [(each.name, Cell(shown[each.name], each.verdict.replace(" ", "-")), each.detail) for each in outcome.layers]
    return f"<h2>Layers</h2>{table(rows, look='text')}"


def _reading(outcome: Audit) -> str:
    return (
        '<h2>How to read it</h2><p class="note">The layer exact is a proof, where it applies. The empirical layers can '
        "only refute: that they find no leak does not prove that there is none. Lower bounds hold "
        f"together with probability {100 * outcome.confidence:.10g} %. Layers that are reported do not decide; those "
        "that are not applicable have nothing to look at in this curator, and say why. Those that are not finished "
        "apply, and saw nothing or too little: an audit with such a layer is incomplete.</p>"
    )


def losses(profile: Profile) -> tuple[Reals, Reals, Reals]:
    """Return the estimates, and for each cell alone a 95 % interval; rewards were chosen by a fair coin."""
    zero, one = profile.counts
    estimate = np.log((one + 0.5) / (zero + 0.5))
    low = epsilon_lower(one, zero + one, 0.025)
    high = -epsilon_lower(zero, zero + one, 0.025)
    return estimate, low, high


def draw(profile: Profile, epsilon: float) -> bytes:
    """Draw the estimate in each cell with a 95 % interval; return it as SVG."""
    enough = profile.counts.sum(axis=0) >= FEWEST
    at = np.clip(profile.at[enough], -FURTHEST, FURTHEST)
    estimate, low, high = (values[enough] for values in losses(profile))
    low, high = np.minimum(low, estimate), np.maximum(high, estimate)
    top = max(2.0 * epsilon, float(np.abs(estimate).max(initial=0.0)) * 1.2)
    bars = np.clip(np.stack([estimate - low, high - estimate]), 0, 2 * top)  # a cell of one reward only has no end
    zero, one = profile.rewards
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.4, 3.6), layout="constrained")
        axes = figure.subplots()
        for sign in (1, -1):
            axes.axhline(sign * epsilon, color=VERMILION, linewidth=1, dashes=(6, 2))
        ends = axes.secondary_yaxis("right")  # beside the axes: bars never cover it
        ends.set_yticks([-epsilon, epsilon], ["−epsilon", "+epsilon"])  # noqa: RUF001 - a minus sign
        ends.tick_params(colors=VERMILION, length=0)
        ends.spines["right"].set_visible(False)
        axes.errorbar(at, estimate, bars, fmt="o", markersize=3, color=BLUE, linewidth=1)
        ratio = f"log P(response | {one:g}) / P(response | {zero:g})"
        axes.set(xlabel=profile.over, ylabel=ratio, ylim=(-top, top))
        if profile.are_values and len(at) <= MOST_TICKS:
            axes.set_xticks(at)
            axes.margins(x=0.2)
        axes.grid(visible=True, alpha=0.2, linewidth=0.5)
        return save(figure, "svg")
