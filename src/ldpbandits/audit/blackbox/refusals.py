"""Rewards that cannot be taken: NaN, infinity, out of range. Refuse them, and do not show them while doing so.

An error travels: into logs, into crash reports, to whoever runs the server. So what is said on refusal must not depend
on the reward: not the type, message, arguments, attributes or notes of the exception, not its causes, no line that was
printed or logged. That is judged in two ways. No number that is said may be near the reward; and two rewards on the
same side of the range must be refused in the same words, however the reward might be written. An error may say on which
side of the range the reward lies, and that is reported: a refused reward becomes no response, so that no promise covers
it, but whoever reads the errors learns its side. Nor may a reward that is answered be printed or logged.

Frames of a traceback hold local variables, which collectors of errors send along: our own curators must not keep the
reward there; for other functions it is reported, since the frame may be that of a wrapper of one's own.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log10, nan

from ldpbandits.audit.evidence import Claim, Evidence
from ldpbandits.audit.result import Finding, LayerVerdict
from ldpbandits.audit.subject import Probe, Subject

DIGITS = ("17519283", "83624051")
"""Of the rewards out of range: digits that nobody would write by chance."""
OTHER_DIGITS = ("29460817", "61938472")
"""Of a second reward on either side."""
WITHIN = (0.17519283, 0.36240518, 0.61938472, 0.89460817)
"""Of rewards in range. A curator may print its responses: that CTL's four all come within a thousandth of the reward
has probability at most product of epsilon r / 1000, which is 4e-14 at epsilon 1 and 3e-7 at epsilon 50."""
NUMBER = re.compile(r"\d[\d,]*(?:\.\d*)?(?:[eE][+-]?\d+)?")
ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")
"""Where an object lies in memory, as Python writes it; a number in hexadecimal stands by itself."""


def out_of_range(low: float, high: float, digits: Sequence[str] = DIGITS) -> list[float]:
    """Two numbers beyond either end, with digits to look for."""
    power = 3 + max((int(log10(abs(end))) + 1 for end in (low, high) if abs(end) >= 1), default=0)
    above, below = (float(f"{each[0]}.{each[1:]}e{power}") for each in digits)
    return [above, -below]


def shows(text: str, reward: float, span: float = inf) -> bool:
    """Tell whether a text holds the reward to a thousandth of it or of the span, signs aside: written, rounded, cut."""
    numbers = (float(number.replace(",", "")) for number in NUMBER.findall(text))
    return any(abs(number - abs(reward)) <= min(abs(reward), span) / 1000 for number in numbers)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """How the words differ in which two rewards on each side of the range are refused."""

    differ: bool = False
    """Two rewards on one side are refused in different words."""
    vary: bool = False
    """One reward is refused in different words at two times, so that words cannot be compared."""
    tell_side: bool = False


def _same_words(one: Probe, other: Probe) -> bool:
    return ADDRESS.sub("at", one.said) == ADDRESS.sub("at", other.said)


def _compare(subject: Subject, firsts: Sequence[tuple[float, Probe]], others: Sequence[float]) -> _Comparison:
    """Compare refusals of two rewards on each side, and of the two sides."""
    for (reward, probe), other in zip(firsts, others, strict=True):
        second = subject.probe(other)
        if probe.response is not None or second.response is not None:
            return _Comparison()  # answered: that is judged elsewhere
        if not _same_words(probe, second):
            is_steady = _same_words(probe, subject.probe(reward))
            return _Comparison(differ=is_steady, vary=not is_steady)
    (_, above), (_, below) = firsts
    return _Comparison(tell_side=not _same_words(above, below))


def _is_printed(subject: Subject, claim: Claim) -> bool:
    """Tell whether rewards between those of the claim show in what is printed or logged meanwhile."""
    span = claim.high - claim.low
    rewards = [claim.low + span * at for at in WITHIN]
    return all(shows(subject.probe(reward).said, reward, span) for reward in rewards)


def bad_rewards(evidence: Evidence, _alpha: float) -> Finding:
    """Give rewards that cannot be taken, and judge what comes back. No chance is involved."""
    subject = evidence.subject
    above_and_below, others = _rewards_out_of_range(evidence)
    kinds = {"infinity": [inf, -inf], "NaN": [nan], **({"out of range": above_and_below} if above_and_below else {})}
    probes = {kind: [(reward, subject.probe(reward)) for reward in rewards] for kind, rewards in kinds.items()}
    outside = probes.get("out of range", [])
    words = _compare(subject, outside, others) if outside else _Comparison()
    fault = _fault(outside, words)
    if fault is None and _is_printed(subject, evidence.claim):
        fault = "rewards in range are shown: in a printed or logged line, or in an error"
    if fault is not None:
        return Finding("violated", fault)
    return _judge_refusals(probes, words, "reported" if evidence.spec is None else "violated")


def _rewards_out_of_range(evidence: Evidence) -> tuple[list[float], list[float]]:
    """Return two rewards beyond the range, above and below, and two others; none if any number can be taken."""
    spec, claim = evidence.spec, evidence.claim
    low, high = (claim.low, claim.high) if spec is None else spec.transform.ends
    firsts, others = out_of_range(low, high), out_of_range(low, high, OTHER_DIGITS)
    is_refused = spec is None or all(spec.transform.refusal(reward) is not None for reward in firsts + others)
    return (firsts, others) if is_refused else ([], [])


def _fault(outside: Sequence[tuple[float, Probe]], words: _Comparison) -> str | None:
    """Say how a reward out of range is shown, if it is."""
    if any(shows(probe.said, reward) for reward, probe in outside):
        return "what is said on refusal shows the reward: in an error, or in a printed line"
    if any(probe.response == reward for reward, probe in outside):
        return "a reward out of range is answered with itself"
    if words.differ:
        return "what is said on refusal depends on the reward: two rewards out of range are told different things"
    return None


def _judge_refusals(
    probes: dict[str, list[tuple[float, Probe]]], words: _Comparison, if_not_refused: LayerVerdict
) -> Finding:
    """Judge whether bad rewards are refused, where no reward is shown. A curator with a spec must refuse them."""
    answered = [kind for kind, pairs in probes.items() if any(probe.response is not None for _, probe in pairs)]
    if answered:
        text = f"answered, not refused: {', '.join(answered)}"
        if if_not_refused == "reported":
            text += ". The claim is for the rewards given: check others first"
        return Finding(if_not_refused, text)
    if any(probe.is_in_frame for pairs in probes.values() for _, probe in pairs):
        text = "refused; but a frame of the traceback keeps the reward, for collectors of errors to send on"
        return Finding(if_not_refused, text)
    refused = f"{', '.join(probes)}: refused"
    if words.vary:
        text = "what is said differs from time to time, so that only numbers near the reward were looked for"
        return Finding("reported", f"{refused}; {text}")
    if words.tell_side:
        text = "what is said tells on which side of the range it lay, to whoever reads errors; no response does"
        return Finding("reported", f"{refused}; {text}")
    return Finding("consistent", f"{refused}, and nothing that is said depends on the reward")
