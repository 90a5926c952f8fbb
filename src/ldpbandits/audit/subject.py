"""A suspect, and how it is asked: `talk` for responses to many rewards, `hear` for all that one user says.

Here the suspect is a curator or any function in this process; `program.py` makes one of a program behind a pipe.
Either way the audit sees what comes out, and nothing else. A response is what was said, as bytes.
"""

import contextlib
import io
import logging
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import TypeAlias

from ldpbandits.audit.texts import number, text_of
from ldpbandits.device.curators import CURATORS, Curator, curator_from_json
from ldpbandits.errors import ParameterError, RewardError, SpecError
from ldpbandits.spec.curator import CuratorSpec

Respond: TypeAlias = Callable[[float], object]
Talk: TypeAlias = Callable[[Iterable[Sequence[float]], float], Iterator[list[bytes]]]
"""From rewards, some at a time, and seconds, to responses in the same order, some at a time. It ends when the rewards
do, or the time does. If it cannot go on it raises `Unanswered`, after all responses that there were."""
WHOLE_BATCH = 1 << 13
"""How many rewards are given at once."""
CALLS_AT_ONCE = 64
"""Calls of a function between two looks at the clock."""
FOREVER = 1e9
"""Seconds: some thirty years."""


class Unanswered(ParameterError):  # noqa: N818 - reads as what it is
    """A reward that the curator should answer, and did not."""


class Late(Unanswered):
    """A response that did not come in time."""


@dataclass(frozen=True, slots=True)
class Heard:
    """All that came of a few rewards to one user."""

    texts: list[bytes]
    beside: bytes = b""
    """What was said beside the responses: printed, logged, raised, written to standard error."""
    is_whole: bool = True
    """Whether every reward was answered, and the program ended well."""
    is_in_frame: bool = False
    """Whether a frame of the traceback still holds the reward, for error collectors to send on."""
    code: int | None = None
    """How a program ended; None for a function, and where the time was up."""

    @property
    def response(self) -> bytes | None:
        """The response to a single reward; None where it was refused."""
        return self.texts[0] if self.is_whole and len(self.texts) == 1 else None

    @property
    def number(self) -> float | None:
        """The response as a number, NaN if it is none; None where the reward was refused."""
        return None if self.response is None else number(self.response)


Hear: TypeAlias = Callable[[Sequence[float], float], Heard]
"""From a few rewards, and seconds, to all that a user says: of a program, a run of its own."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One response of a program that got its rewards one at a time."""

    text: bytes
    beside: bytes
    """What was written to standard error since the response before."""
    seconds: float


TakeTurns: TypeAlias = Callable[[Sequence[float], float], list[Turn]]
"""From rewards, and seconds, to turns: fewer than rewards if the time was up, or the program did not go on."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A curator as the audit sees it."""

    what: str
    talk: Talk
    hear: Hear
    another_user: Callable[[], Hear] | None = None
    """Makes the curator of another user, from scratch."""
    respond: Respond | None = None
    """The function itself, where it is one in this process."""
    spec: CuratorSpec | None = None
    """The curator that it claims to be, if it claims to be one."""
    workers: int = field(default=1, kw_only=True)
    """How many users may be asked at the same time."""
    contained: Hear | None = field(default=None, kw_only=True)
    """Makes another user in a container, where that is possible: the number of the process is that of all others."""
    turns: TakeTurns | None = field(default=None, kw_only=True)
    """Asks a program one reward at a time; None for a function."""

    def ask(self, rewards: Sequence[float], seconds: float = FOREVER) -> list[bytes]:
        """Ask for one response to each reward, and take no fewer."""
        texts = [text for part in self.talk(batches(rewards), seconds) for text in part]
        if len(texts) < len(rewards):
            raise Late(f"{len(rewards):,} rewards, {len(texts):,} responses in {seconds:.3g} s (--time allows more)")
        return texts


def batches(rewards: Sequence[float]) -> Iterator[Sequence[float]]:
    """Give rewards some at a time."""
    for start in range(0, len(rewards), WHOLE_BATCH):
        yield rewards[start : start + WHOLE_BATCH]


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
    return Subject(what, talk_with(function), hear_out(function), make, function, spec)


def _another_curator(curator: Curator) -> Callable[[], Respond] | None:
    """Return a function that makes the same curator anew; None if it cannot be made from its spec."""
    try:
        is_registered = CURATORS.find(curator.spec.mechanism) is type(curator)
    except SpecError:
        return None
    return (lambda: curator_from_json(curator.spec).respond) if is_registered else None


def talk_with(respond: Respond) -> Talk:
    """Ask a function in this process, reward by reward; neither an error nor a bad response shows the reward."""

    def talk(rewards: Iterable[Sequence[float]], seconds: float) -> Iterator[list[bytes]]:
        until = monotonic() + seconds
        for part in rewards:
            texts: list[bytes] = []
            fault = None
            while len(texts) < len(part) and fault is None and monotonic() <= until:
                fault = _ask_each(respond, part[len(texts) : len(texts) + CALLS_AT_ONCE], texts)
            yield texts
            if fault is not None:
                raise Unanswered(fault)
            if monotonic() > until:
                return

    return talk


def _ask_each(respond: Respond, rewards: Sequence[float], texts: list[bytes]) -> str | None:
    """Add the responses to `texts`, or say what went wrong, without the words of an error: they may tell the reward."""
    for reward in rewards:
        try:
            response = respond(reward)
            if response is None:
                return "a response must be something that can be sent, got None"
            texts.append(repr(response).encode() if type(response) is float else text_of(response))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - anybody's code may raise anything
            if type(error) is RewardError:
                return f"the curator refused one of the rewards: {error}"
            return f"the curator raised {type(error).__name__} on one of the rewards"
    return None


def hear_out(respond: Respond) -> Hear:
    """Give a function a few rewards, and note everything it says: raised, noted, printed, logged, left in a frame."""

    def hear(rewards: Sequence[float], _seconds: float) -> Heard:
        texts: list[bytes] = []
        words: list[str] = []
        is_in_frame = False
        with _recording() as record:
            for reward in rewards:
                try:
                    texts.append(text_of(respond(reward)))
                except (Exception, SystemExit) as error:  # noqa: BLE001 - anybody's code may raise anything
                    words += _words_of(error)
                    is_in_frame = is_in_frame or _is_in_frame(error, reward)
        said = "\n".join([record.getvalue(), *words])
        return Heard(texts, said.encode(errors="replace"), len(texts) == len(rewards), is_in_frame)

    return hear


def _users(make: Callable[[], Respond]) -> Callable[[], Hear]:
    """Return a function that makes a user to ask; if `make` fails, it says so in one line."""

    def user() -> Hear:
        respond = _make_user(make)
        if isinstance(respond, str):
            raise ParameterError(respond)
        return hear_out(respond)

    return user


def _make_user(make: Callable[[], Respond]) -> Respond | str:
    try:
        respond: object = make()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - anybody's code may raise anything
        return f"another_user raised {type(error).__name__}, and made no curator"
    return respond if callable(respond) else "another_user must make a function from a reward to a response"


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
