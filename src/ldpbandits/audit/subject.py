"""Whatever is audited, behind one question: the responses to these rewards.

A subject may be a function in this process or a program that is run; either way the audit sees responses only.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ldpbandits.audit.features import Reals
from ldpbandits.errors import ParameterError, RewardError
from ldpbandits.spec.curator import CuratorSpec

Respond: TypeAlias = Callable[[float], object]
Ask: TypeAlias = Callable[[Sequence[float]], Reals]
"""One response to each reward, in order."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What came of a reward that should be refused."""

    response: float | None
    """None where it was refused."""
    said: str
    """Everything that was said on refusal: error, notes, causes, printed and logged lines."""
    kept: bool = False
    """Whether a frame of the traceback still holds the reward, for error collectors to send on."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A curator as the audit sees it."""

    what: str
    ask: Ask
    probe: Callable[[float], Probe]
    another_user: Callable[[], Ask] | None = None
    """Makes the curator of another user, from scratch."""
    respond: Respond | None = None
    """The function itself, where it is one in this process."""
    spec: CuratorSpec | None = None
    """The curator that it claims to be, if it claims to be one of ours."""
    batch: int = 1 << 13
    """How many rewards to ask for at once."""


def asking(respond: Respond) -> Ask:
    """Ask a function in this process, reward by reward; neither an error nor a bad response shows the reward."""

    def ask(rewards: Sequence[float]) -> Reals:
        responses = np.empty(len(rewards))
        for i, reward in enumerate(rewards):
            response = _one(respond, reward)
            if isinstance(response, str):
                raise Unanswered(response)
            responses[i] = response
        return responses

    return ask


class Unanswered(ParameterError):  # noqa: N818 - reads as what it is
    """A reward that the curator should answer, and did not."""


def making(make: Callable[[], Respond]) -> Callable[[], Ask]:
    """Ask the curator that a function makes, anew each time; if it makes none, say so in one line."""

    def made() -> Ask:
        respond = _made(make)
        if isinstance(respond, str):
            raise ParameterError(respond)
        return asking(respond)

    return made


def _made(make: Callable[[], Respond]) -> Respond | str:
    try:
        respond: object = make()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - anybody's code may raise anything
        return f"another_user raised {type(error).__name__}, and made no curator"
    return respond if callable(respond) else "another_user must make a function from a reward to a response"


def as_number(response: object) -> float | str:
    """Return a response as a float, or what it is instead."""
    try:
        return float(response)  # type: ignore[arg-type]
    except (Exception, SystemExit):  # noqa: BLE001 - an int beyond the floats, or a __float__ of anybody's
        return f"a response must be a number, got a {type(response).__name__}"


def _one(respond: Respond, reward: float) -> float | str:
    """Return the response as a float, or what was wrong with it; what others say may hold the reward."""
    try:
        response = respond(reward)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - anybody's code may raise anything
        if type(error) is RewardError:
            return f"the curator refused one of the rewards: {error}"
        return f"the curator raised {type(error).__name__} on one of the rewards"
    return as_number(response)
