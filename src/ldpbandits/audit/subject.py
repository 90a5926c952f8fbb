"""A suspect, and how it is asked: `ask` for the responses to some rewards, `probe` for what it says of one reward.

Here the suspect is a curator or any function in this process; `program.py` makes one of a program behind a pipe.
Either way the audit sees what comes out, and nothing else.
"""

import contextlib
import io
import logging
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import nan
from typing import TypeAlias

import numpy as np

from ldpbandits.audit.result import Reals
from ldpbandits.device.curators import CURATORS, Curator, curator_from_json
from ldpbandits.errors import ParameterError, RewardError, SpecError
from ldpbandits.spec.curator import CuratorSpec

Respond: TypeAlias = Callable[[float], object]
Ask: TypeAlias = Callable[[Sequence[float]], Reals]
"""One response to each reward, in order."""


class Unanswered(ParameterError):  # noqa: N818 - reads as what it is
    """A reward that the curator should answer, and did not."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What came of a single reward, and everything that was said meanwhile."""

    response: float | None
    """None where the reward was refused."""
    said: str
    """Everything that was said: error, notes, causes, printed and logged lines."""
    is_in_frame: bool = False
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
    """The curator that it claims to be, if it claims to be one."""
    batch: int = 1 << 13
    """How many rewards to ask for at once."""


def subject_of(
    respond: Curator | Respond | Subject,
    spec: CuratorSpec | None = None,
    another_user: Callable[[], Respond] | None = None,
) -> Subject:
    """Return the subject behind a curator or a function; a curator says itself which one it is."""
    if isinstance(respond, Subject):
        return respond
    function: Respond
    if isinstance(respond, Curator):
        function, what, spec = respond.respond, repr(respond), respond.spec if spec is None else spec
        another_user = _another_curator(respond) if another_user is None else another_user
    elif callable(respond):
        function, what = respond, getattr(respond, "__qualname__", repr(respond))
    else:
        raise ParameterError("respond must be a curator, or a function from a reward to a response")
    make = None if another_user is None else _users(another_user)
    return Subject(what, ask_function(function), lambda reward: listen(function, reward), make, function, spec)


def _another_curator(curator: Curator) -> Callable[[], Respond] | None:
    """Return a function that makes the same curator anew; None if it cannot be made from its spec."""
    try:
        is_registered = CURATORS.find(curator.spec.mechanism) is type(curator)
    except SpecError:
        return None
    return (lambda: curator_from_json(curator.spec).respond) if is_registered else None


def ask_function(respond: Respond) -> Ask:
    """Ask a function in this process, reward by reward; neither an error nor a bad response shows the reward."""

    def ask(rewards: Sequence[float]) -> Reals:
        responses = np.empty(len(rewards))
        for i, reward in enumerate(rewards):
            response = _ask_once(respond, reward)
            if isinstance(response, str):
                raise Unanswered(response)
            responses[i] = response
        return responses

    return ask


def _ask_once(respond: Respond, reward: float) -> float | str:
    """Return the response as a float, or what was wrong with it, without the words of an error: they may tell it."""
    try:
        response = respond(reward)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - anybody's code may raise anything
        if type(error) is RewardError:
            return f"the curator refused one of the rewards: {error}"
        return f"the curator raised {type(error).__name__} on one of the rewards"
    return as_number(response)


def as_number(response: object) -> float | str:
    """Return a response as a float, or what it is instead."""
    try:
        return float(response)  # type: ignore[arg-type]
    except (Exception, SystemExit):  # noqa: BLE001 - an int beyond the floats, or a __float__ of anybody's
        return f"a response must be a number, got a {type(response).__name__}"


def _users(make: Callable[[], Respond]) -> Callable[[], Ask]:
    """Return a function that makes a user to ask; if `make` fails, it says so in one line."""

    def user() -> Ask:
        respond = _make_user(make)
        if isinstance(respond, str):
            raise ParameterError(respond)
        return ask_function(respond)

    return user


def _make_user(make: Callable[[], Respond]) -> Respond | str:
    try:
        respond: object = make()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - anybody's code may raise anything
        return f"another_user raised {type(error).__name__}, and made no curator"
    return respond if callable(respond) else "another_user must make a function from a reward to a response"


def listen(respond: Respond, reward: float) -> Probe:
    """Give a function one reward, and note everything it says: raised, noted, printed, logged, or left in a frame."""
    with _recording() as record:
        try:
            response = respond(reward)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - anybody's code may raise anything
            said = "\n".join([record.getvalue(), *_words_of(error)])
            return Probe(None, said, is_in_frame=_is_in_frame(error, reward))
    number = as_number(response)
    return Probe(nan if isinstance(number, str) else number, record.getvalue())


@contextlib.contextmanager
def _recording() -> Iterator[io.StringIO]:
    """Record what is printed or logged."""
    record = io.StringIO()
    handler = logging.StreamHandler(record)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with contextlib.redirect_stdout(record), contextlib.redirect_stderr(record):
            yield record
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def _words_of(error: BaseException) -> list[str]:
    """Return what an error says of itself, and all errors that it came from."""
    words: list[str] = []
    done: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in done:
            continue
        done.add(id(one))
        words += [type(one).__qualname__, _text(one)]
        words += [_text(each) for each in (one.args, getattr(one, "__dict__", {}), getattr(one, "__notes__", []))]
        waiting += [one.__cause__, one.__context__]
        waiting += one.exceptions if isinstance(one, BaseExceptionGroup) else []
    return words


def _text(value: object) -> str:
    """Write an error as it would be printed, anything else as its repr; what cannot be written says nothing."""
    try:
        return str(value) if isinstance(value, BaseException) else repr(value)
    except Exception:  # noqa: BLE001 - anybody's __str__ may raise anything
        return ""


def _is_in_frame(error: BaseException, reward: float) -> bool:
    """Tell whether a frame below ours holds the reward in a local variable."""
    frames = list(traceback.walk_tb(error.__traceback__))[1:]
    return any(
        value is reward or (isinstance(value, float) and value == reward)
        for frame, _ in frames
        for value in frame.f_locals.values()
    )
