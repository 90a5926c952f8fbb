"""No exception carries a reward off the device: an error shows the rule that was broken, and no frame shows the reward.

Whoever collects errors collects the frames of their tracebacks, with the local variables in them. Below a function that
is `sealed`, each frame may hold a reward, and an exception may come at any moment there: Ctrl-C, an alarm, a lack of
memory, the randomness of the operating system. So it leaves without those frames, and without the errors that were
being handled there.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

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
        failure.__cause__ = failure.__context__ = None
        failure.__suppress_context__ = False  # what the app itself was handling when it called may be shown
        try:
            raise failure.with_traceback(None)
        finally:
            del failure  # it holds its traceback, which holds this frame

    return seal
