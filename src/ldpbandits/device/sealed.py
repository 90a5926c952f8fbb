"""Sealed functions: no exception carries a reward off the device, neither in its message nor in a frame.

Error trackers collect the frames of tracebacks with their local variables. Below a function that is `sealed` each frame
may hold a reward, and an exception may be raised at any line: Ctrl-C, an alarm, a lack of memory, the randomness of the
operating system, a cancelled task. The exception leaves without those frames, and without the errors that were being
handled there.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def sealed(function: Callable[P, T]) -> Callable[P, T]:
    """Strip the frames of a function that sees rewards, and of its callees, from the exceptions that it raises."""

    @wraps(function)
    def seal(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - each is raised again below
            failure = error
        finally:
            del args, kwargs  # the reward is one of them, and this frame is in the traceback
        try:
            raise without_frames(failure)
        finally:
            del failure  # it holds its traceback, which holds this frame

    return seal


def without_frames(failure: BaseException) -> BaseException:
    """Return an exception without its frames, its cause and its context."""
    failure.__cause__ = failure.__context__ = None
    failure.__suppress_context__ = False  # an exception that the app itself was handling may be shown
    return failure.with_traceback(None)
