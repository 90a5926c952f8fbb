"""A pull as the app has it: an arm to show, and the way to tell what came of it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from ldpbandits.device.sealed import sealed, sealed_async
from ldpbandits.types import Arm, Reward


@dataclass(frozen=True)
class Shown:
    """One arm to show, and what its response costs."""

    arm: Arm
    name: str
    ticket: str | None
    """None if no response is asked for: the experiment is over and its best arm shown, or this one is shown again."""
    epsilon: float
    """What its response costs: it is spent."""
    report_at: float | None
    """When its response is sent, in seconds since 1970: rewards count until then."""


@dataclass(frozen=True)
class Pull(Shown):
    """One arm to show, and the way to tell what came of it."""

    _respond: Callable[[Reward | float, bool], bool] = field(repr=False, compare=False)

    @sealed
    def observe(self, reward: Reward | float, *, clip: bool = True) -> bool:
        """Draw the response to a reward and keep it until it is sent; False if no response is asked for.

        A reward out of range counts as the nearest one in range. With `clip=False` it is an error; then the pull stays
        open, and what is sent at its moment is the response to the default, unless a right reward comes before.
        """
        return self._respond(reward, clip)


@dataclass(frozen=True)
class AsyncPull(Shown):
    """One arm to show, and the way to tell what came of it, of an `AsyncClient`."""

    _respond: Callable[[Reward | float, bool], Awaitable[bool]] = field(repr=False, compare=False)

    @sealed_async
    async def observe(self, reward: Reward | float, *, clip: bool = True) -> bool:
        """Draw the response to a reward and keep it until it is sent, as `Pull.observe` does."""
        return await self._respond(reward, clip)
