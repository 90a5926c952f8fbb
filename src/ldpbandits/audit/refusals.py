"""Rewards that cannot be taken: NaN, infinity, out of range. Refuse them, and do not show them while doing so.

An error travels: into logs, into crash reports, to whoever runs the server. So what is said on refusal must not hold
the reward: not the message, not the arguments or notes of the exception, not its causes, no line that was printed or
logged. Frames of a traceback hold local variables, which collectors of errors send along: our own curators must not
keep the reward there; for other functions it is reported, since the frame may be that of a wrapper of one's own.
"""

import contextlib
import io
import logging
import re
import traceback
from collections.abc import Iterator
from math import inf, isclose, log10, nan

from ldpbandits.audit.claim import Claim
from ldpbandits.audit.result import Layer
from ldpbandits.audit.subject import Probe, Respond, Subject
from ldpbandits.wire import Range

DIGITS = ("17519283", "83624051")
"""Of the rewards out of range: digits that nobody would write by chance."""
NUMBER = re.compile(r"\d[\d,]*(?:\.\d*)?(?:[eE][+-]?\d+)?")


def out_of_range(low: float, high: float) -> list[float]:
    """Two numbers beyond either end, with digits to look for."""
    power = 3 + max((int(log10(abs(end))) + 1 for end in (low, high) if abs(end) >= 1), default=0)
    above, below = (float(f"{digits[0]}.{digits[1:]}e{power}") for digits in DIGITS)
    return [above, -below]


def shows(text: str, reward: float) -> bool:
    """Tell whether a text holds a number within a thousandth of the reward, signs aside: written, rounded or cut."""
    numbers = (float(number.replace(",", "")) for number in NUMBER.findall(text))
    return any(isclose(number, abs(reward), rel_tol=1e-3) for number in numbers)


def in_process(respond: Respond, reward: float) -> Probe:
    """Give a function a reward that it should refuse, and keep everything it says."""
    with _overheard() as heard:
        try:
            response = respond(reward)
        except Exception as error:  # noqa: BLE001 - anybody's code may raise anything
            said = "\n".join([heard.getvalue(), *_all_said(error)])
            return Probe(None, said, kept=_is_kept(error, reward))
    try:
        return Probe(float(response), heard.getvalue())  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return Probe(nan, heard.getvalue())


@contextlib.contextmanager
def _overheard() -> Iterator[io.StringIO]:
    """Collect what is printed or logged."""
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard):
            yield heard
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def _all_said(error: BaseException) -> list[str]:
    said: list[str] = []
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        said += [str(one), repr(one.args), *getattr(one, "__notes__", [])]
        waiting += [one.__cause__, one.__context__]
    return said


def _is_kept(error: BaseException, reward: float) -> bool:
    """Tell whether a frame below ours holds the reward in a local variable."""
    frames = list(traceback.walk_tb(error.__traceback__))[1:]
    return any(
        value is reward or (isinstance(value, float) and value == reward)
        for frame, _ in frames
        for value in frame.f_locals.values()
    )


def refusal_layer(subject: Subject, claim: Claim) -> Layer:
    """Give rewards that cannot be taken, and judge what comes back."""
    name = "known attacks: bad rewards"
    has_range = subject.spec is None or isinstance(subject.spec.transform, Range)
    kinds = {"infinity": [inf, -inf], "NaN": [nan]}
    if has_range:
        kinds["out of range"] = out_of_range(claim.low, claim.high)
    probes = {kind: [(reward, subject.probe(reward)) for reward in rewards] for kind, rewards in kinds.items()}
    if any(shows(probe.said, reward) for reward, probe in probes.get("out of range", [])):
        return Layer(name, "violated", "what is said on refusal shows the reward: in an error, or in a printed line")
    answered = [kind for kind, made in probes.items() if any(probe.response is not None for _, probe in made)]
    is_kept = any(probe.kept for made in probes.values() for _, probe in made)
    if subject.spec is None and answered:
        told = f"answered, not refused: {', '.join(answered)}. The claim is for the rewards given: check others first"
        return Layer(name, "reported", told)
    if answered:
        return Layer(name, "violated", f"answered, not refused: {', '.join(answered)}")
    if is_kept:
        told = "refused; but a frame of the traceback keeps the reward, for collectors of errors to send on"
        return Layer(name, "reported" if subject.spec is None else "violated", told)
    return Layer(name, "consistent", f"{', '.join(kinds)}: refused, and nothing that is said shows the reward")
