"""Everything that a function says when it is given a reward: raised, noted, printed, logged, or left in a frame."""

import contextlib
import io
import logging
import traceback
from collections.abc import Iterator
from math import nan

from ldpbandits.audit.subject import Probe, Respond, as_number


def in_process(respond: Respond, reward: float) -> Probe:
    """Give a function a reward that it should refuse, and keep everything it says."""
    with _overheard() as heard:
        try:
            response = respond(reward)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - anybody's code may raise anything
            said = "\n".join([heard.getvalue(), *_all_said(error)])
            return Probe(None, said, kept=_is_kept(error, reward))
    number = as_number(response)
    return Probe(nan if isinstance(number, str) else number, heard.getvalue())


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
    """Return what an error and all that it came from say of themselves."""
    said: list[str] = []
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        said += [type(one).__qualname__, _text(one)]
        said += [_text(each) for each in (one.args, getattr(one, "__dict__", {}), getattr(one, "__notes__", []))]
        waiting += [one.__cause__, one.__context__]
        waiting += one.exceptions if isinstance(one, BaseExceptionGroup) else []
    return said


def _text(value: object) -> str:
    """Write an error as it would be printed, anything else as its repr; what cannot be written says nothing."""
    try:
        return str(value) if isinstance(value, BaseException) else repr(value)
    except Exception:  # noqa: BLE001 - anybody's __str__ may raise anything
        return ""


def _is_kept(error: BaseException, reward: float) -> bool:
    """Tell whether a frame below ours holds the reward in a local variable."""
    frames = list(traceback.walk_tb(error.__traceback__))[1:]
    return any(
        value is reward or (isinstance(value, float) and value == reward)
        for frame, _ in frames
        for value in frame.f_locals.values()
    )
