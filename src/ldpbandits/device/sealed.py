"""No exception carries a reward off the device: an error shows the rule that was broken, and no frame shows the reward.

Whoever collects errors collects the frames of their tracebacks, with the local variables in them. Below a function that
is `sealed`, each frame may hold a reward, and an exception may come at any moment there: Ctrl-C, an alarm, a lack of
memory, the randomness of the operating system, a task that is cancelled. So it leaves without those frames, and without
the errors that were being handled there.
"""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def sealed(function: Callable[P, T]) -> Callable[P, T]:
    """Let the exceptions of a function that sees rewards out without a frame of it, or of what it calls."""

    @wraps(function)
    def seal(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - each is raised again below
            failure = error
        finally:
            del args, kwargs  # the reward is one of them, and this frame is in the traceback
        try:
            raise _bare(failure)
        finally:
            del failure  # it holds its traceback, which holds this frame

    return seal


def sealed_async(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Do the same for a coroutine function: also what is thrown in from outside, as when a task is cancelled."""

    @wraps(function)
    async def seal(*args: P.args, **kwargs: P.kwargs) -> T:
        coroutine = function(*args, **kwargs)
        del args, kwargs  # as above
        try:
            return await coroutine
        except BaseException as error:  # noqa: BLE001 - as above
            failure = error
        finally:
            del coroutine
        try:
            raise _bare(failure)
        finally:
            del failure  # as above

    return seal


def _bare(failure: BaseException) -> BaseException:
    """Return an exception without its frames, and without what was being handled when it was raised."""
    failure.__cause__ = failure.__context__ = None
    failure.__suppress_context__ = False  # what the app itself was handling when it called may be shown
    return failure.with_traceback(None)
