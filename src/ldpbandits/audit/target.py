"""The target of an audit: `ask_many` returns responses to many rewards, `run_once` all output of one user's run.

Here the target is a curator or any function in this process; `program.py` makes a target of a program behind a pipe.
In both cases the audit sees the output and nothing else. A response is its text, as bytes.
"""

import contextlib
import io
import logging
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import monotonic
from typing import TypeAlias, TypeVar

from ldpbandits.audit.texts import number, text_of
from ldpbandits.device.curators import CURATORS, Curator, curator_from_json
from ldpbandits.errors import ParameterError, RewardError, SpecError
from ldpbandits.spec.curator import CuratorSpec

Part = TypeVar("Part")
Respond: TypeAlias = Callable[[float], object]
AskMany: TypeAlias = Callable[[Iterable[Sequence[float]], float], Iterator[list[bytes]]]
"""ask_many(batches of rewards, seconds): yields batches of responses in the same order, until the rewards end or the
time is up. On a failure it raises `Unanswered`, after all responses that were received."""
WHOLE_BATCH = 1 << 13
"""Number of rewards in a batch."""
MISSING = b"\x00missing"
"""Stands for a response that never came: that it is missing is evidence, too."""
CALLS_AT_ONCE = 64
"""Calls of a function between two checks of the deadline."""
FOREVER_S = 1e9
"""Seconds, some thirty years: stands for no time limit."""


class Unanswered(ParameterError):  # noqa: N818 - it names the state, as Late does
    """The target did not answer a reward that it should answer."""


class Late(Unanswered):
    """The target did not respond before the deadline."""


class Died(Unanswered):
    """A program ended in the midst of its rewards: the first of them that has no response has a missing one."""

    def __init__(self, message: str, answered: int) -> None:
        super().__init__(message)
        self.answered = answered


@dataclass(frozen=True, slots=True)
class RunOutput:
    """All output of one user's run on a few rewards."""

    texts: list[bytes]
    beside: bytes = b""
    """Output besides the responses: printed, logged, raised, written to standard error."""
    is_whole: bool = True
    """Whether every reward was answered, and the program ended well."""
    is_in_frame: bool = False
    """Whether a frame of the traceback still holds the reward, for error collectors to send on."""
    code: int | None = None
    """The exit code of a program; None for a function, and after a timeout."""

    @property
    def response(self) -> bytes | None:
        """The response to a single reward; None where it was refused."""
        return self.texts[0] if self.is_whole and len(self.texts) == 1 else None

    @property
    def number(self) -> float | None:
        """The response as a number, NaN if it is none; None where the reward was refused."""
        return None if self.response is None else number(self.response)


RunOnce: TypeAlias = Callable[[Sequence[float], float], RunOutput]
"""run_once(rewards, seconds): all output of one user; for a program, of a new process."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One response of a program that got its rewards one at a time."""

    text: bytes
    beside: bytes
    """The standard error since the response before."""
    seconds: float


TakeTurns: TypeAlias = Callable[[Sequence[float], float], list[Turn]]
"""(rewards, seconds) -> turns: fewer than rewards if the time was up, or the program stopped answering."""


@dataclass(frozen=True, slots=True)
class Target:
    """A curator as the audit sees it."""

    what: str
    ask_many: AskMany
    run_once: RunOnce
    another_user: Callable[[], RunOnce] | None = None
    """Creates the curator of another user, with fresh state."""
    respond: Respond | None = None
    """The function itself, where it is one in this process."""
    spec: CuratorSpec | None = None
    """The curator that it claims to be, if it claims to be one."""
    digest: str | None = field(default=None, kw_only=True)
    """SHA-256 of the files of a program."""
    workers: int = field(default=1, kw_only=True)
    """Number of users that may run at the same time."""
    contained: RunOnce | None = field(default=None, kw_only=True)
    """Runs another user in a container, where possible: its process id is the same in every run."""
    turns: TakeTurns | None = field(default=None, kw_only=True)
    """Sends rewards to a program one at a time; None for a function."""

    def run_many(self, run: Callable[[Part], RunOutput], parts: Iterable[Part]) -> list[RunOutput]:
        """Run users, one for each part, as many at the same time as may."""
        if self.workers == 1:
            return list(map(run, parts))
        with ThreadPoolExecutor(self.workers) as pool:
            return list(pool.map(run, parts))

    def ask(self, rewards: Sequence[float], seconds: float = FOREVER_S) -> list[bytes]:
        """Return one response to each reward; raise Late if there are fewer."""
        texts = [text for part in self.ask_many(batches(rewards), seconds) for text in part]
        if len(texts) < len(rewards):
            raise Late(f"{len(rewards):,} rewards, {len(texts):,} responses in {seconds:.3g} s (--time allows more)")
        return texts


def batches(rewards: Sequence[float]) -> Iterator[Sequence[float]]:
    """Yield rewards in batches of WHOLE_BATCH."""
    for start in range(0, len(rewards), WHOLE_BATCH):
        yield rewards[start : start + WHOLE_BATCH]


def target_of(
    respond: Curator | Respond | Target,
    spec: CuratorSpec | None = None,
    another_user: Callable[[], Respond] | None = None,
) -> Target:
    """Return the target of a curator or a function; a curator has its own spec."""
    if isinstance(respond, Target):
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
    return Target(what, ask_function(function), run_function(function), make, function, spec)


def _another_curator(curator: Curator) -> Callable[[], Respond] | None:
    """Return a function that makes the same curator anew; None if it cannot be made from its spec."""
    try:
        is_registered = CURATORS.find(curator.spec.mechanism) is type(curator)
    except SpecError:
        return None
    return (lambda: curator_from_json(curator.spec).respond) if is_registered else None


def ask_function(respond: Respond) -> AskMany:
    """Return an `ask_many` that calls a function in this process; its errors never show the reward."""

    def ask_many(rewards: Iterable[Sequence[float]], seconds: float) -> Iterator[list[bytes]]:
        until, is_answered = monotonic() + seconds, False
        for part in rewards:
            texts: list[bytes] = []
            fault = None
            while len(texts) < len(part) and monotonic() <= until:
                fault = _ask_each(respond, part[len(texts) : len(texts) + CALLS_AT_ONCE], texts)
            is_answered = is_answered or any(text != MISSING for text in texts)
            if fault is not None and not is_answered:
                raise Unanswered(fault)
            yield texts
            if monotonic() > until:
                return

    return ask_many


def _ask_each(respond: Respond, rewards: Sequence[float], texts: list[bytes]) -> str | None:
    """Append responses to `texts`; return a description of a failure, without its message: that may tell the reward."""
    fault = None
    for reward in rewards:
        text = MISSING
        try:
            response = respond(reward)
            if response is None:
                fault = "a response must be something that can be sent, got None"
            else:
                text = repr(response).encode() if type(response) is float else text_of(response)
        except RewardError as error:
            raise Unanswered(f"the curator refused one of the rewards: {error}") from None
        except (Exception, SystemExit) as error:  # noqa: BLE001 - anybody's code may raise anything
            fault = f"the curator raised {type(error).__name__} on one of the rewards"
        texts.append(text)
    return fault


def run_function(respond: Respond) -> RunOnce:
    """Return a `run_once` that records all output of a function: raised, noted, printed, logged, left in a frame."""

    def run_once(rewards: Sequence[float], _seconds: float) -> RunOutput:
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
        return RunOutput(texts, said.encode(errors="replace"), len(texts) == len(rewards), is_in_frame)

    return run_once


def _users(make: Callable[[], Respond]) -> Callable[[], RunOnce]:
    """Return a function that creates a user; if `make` fails, it raises ParameterError in one line."""

    def user() -> RunOnce:
        respond = _make_user(make)
        if isinstance(respond, str):
            raise ParameterError(respond)
        return run_function(respond)

    return user


def _make_user(make: Callable[[], Respond]) -> Respond | str:
    try:
        respond: object = make()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - anybody's code may raise anything
        return f"another_user raised {type(error).__name__}, and made no curator"
    return respond if callable(respond) else "another_user must make a function from a reward to a response"


@contextlib.contextmanager
def _recording() -> Iterator[io.StringIO]:
    """Record everything that is printed or logged meanwhile."""
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
    """Return the texts of an error and of all its causes, contexts and group members."""
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
    """Return an error as it would be printed, anything else as its repr; an empty text if that fails."""
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
