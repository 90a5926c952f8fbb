"""A reward is in no error: not in its words, not in a frame of its traceback, whatever interrupts the device when."""

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from numbers import Real
from pathlib import Path
from types import FrameType, MethodType, TracebackType
from typing import TYPE_CHECKING, Any

import pytest
from tests.device.conftest import only_client

import ldpbandits
from ldpbandits import (
    BernoulliCurator,
    Curator,
    LaplaceCurator,
    Limits,
    Range,
    RealLine,
    RewardError,
    Sigmoid,
    Threshold,
    TicketError,
)
from ldpbandits.device import randomness
from ldpbandits.device.sealed import sealed

if TYPE_CHECKING:
    from tests.device.conftest import Device, FakeAgent

REWARD = 0.712345
HERE, TESTS = str(Path(ldpbandits.__file__).parent), str(Path(__file__).parent)
CURATORS: list[Curator] = [
    BernoulliCurator(1.0),
    LaplaceCurator(1.0),
    BernoulliCurator(1.0, Sigmoid()),
    BernoulliCurator(1.0, Threshold(0.5)),
    LaplaceCurator(1.0, RealLine()),
]


class Alarm(Exception):  # noqa: N818 - reads as what it is
    """What an app raises when its time is up."""


def within(thing: object, depth: int = 6) -> Iterator[object]:
    """Whatever an error collector might find: errors, their causes, the frames of their tracebacks, what these hold."""
    yield thing
    if depth == 0:
        return
    parts: list[object] = []
    if isinstance(thing, BaseException):
        parts = [thing.args, thing.__context__, thing.__cause__, thing.__traceback__, vars(thing)]
    elif isinstance(thing, TracebackType):
        parts = [frame for frame in frames(thing) if not frame.f_code.co_filename.startswith(TESTS)]
    elif isinstance(thing, FrameType):
        parts = list(thing.f_locals.values())
    elif isinstance(thing, dict):
        parts = [*thing, *thing.values()]
    elif isinstance(thing, (list, tuple, set)):
        parts = list(thing)
    elif isinstance(thing, partial):
        parts = [thing.func, thing.args, thing.keywords]
    elif isinstance(thing, MethodType):
        parts = [thing.__func__]
    for part in parts:
        yield from within(part, depth - 1)


def frames(traceback: TracebackType | None) -> Iterator[FrameType]:
    """Every frame of a traceback."""
    while traceback is not None:
        yield traceback.tb_frame
        traceback = traceback.tb_next


def shows(error: BaseException, reward: object = REWARD) -> bool:
    """Tell whether a reward is to be found in an error, as itself or in a text."""
    told = [str(error), repr(error)]
    return any(
        thing is reward
        or (isinstance(thing, float | Fraction) and thing == reward)
        or (isinstance(thing, str) and "12345" in thing)
        for thing in [*within(error), *told]
    )


def interrupted(call: Callable[[], object], at: int) -> BaseException | None:
    """Call, and interrupt at the n-th line or call in the library below the call itself; None if it is over before.

    What the call itself holds when it begins, the frame of the caller holds too. A line to which a frame comes back
    counts once: at the end of a block Python comes back to `with`, where no real interrupt can come between.
    """
    steps, reached = 0, dict[FrameType, int]()

    def step(frame: FrameType, event: str, _: object) -> Any:
        nonlocal steps
        if event not in {"call", "line"} or not frame.f_code.co_filename.startswith(HERE):
            return step
        if frame.f_back is not None and frame.f_back.f_code.co_filename == __file__:
            return step  # the call itself
        if frame.f_lineno <= reached.get(frame, 0):
            return step
        reached[frame] = frame.f_lineno
        steps += 1
        if steps > at:
            raise KeyboardInterrupt
        return step

    before = sys.gettrace()
    gc.disable()  # or what an earlier interrupt has left is ended in the middle of this call, and interrupted there
    sys.settrace(step)
    try:
        call()
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is looked into
        return error
    finally:
        sys.settrace(before)
        gc.enable()
    return None


@pytest.mark.parametrize("curator", CURATORS, ids=repr)
def test_an_interrupt_at_any_step_of_a_curator_shows_no_reward(curator: Curator) -> None:
    """Each line and each call, from the first below the call to the last."""
    curator.respond(REWARD)  # once, so that nothing is made for the first time below
    for at in range(1000):
        error = interrupted(lambda: curator.respond(REWARD), at)
        if error is None:
            break
        assert isinstance(error, KeyboardInterrupt)
        assert not shows(error), at
    assert 10 < at < 999


@only_client
def test_an_interrupt_at_any_step_of_an_observation_shows_no_reward(agent: "FakeAgent", device: "Device") -> None:
    """Also where it is written down; the pull has one response or the other, and no lock is held afterwards."""
    agent.decision["curator"] = {"mechanism": "laplace", "epsilon": 1.0}
    pull = (client := device(ledger=":memory:")).decide()
    for at in range(2000):
        with client._ledger.database.transaction() as transaction:
            transaction.execute("UPDATE pulls SET is_observed = 0")
        error = interrupted(lambda: pull.observe(REWARD), at)
        if error is None:
            break
        assert not shows(error), at
        other = threading.Thread(target=client.spent, daemon=True)
        other.start()
        other.join(5)
        assert not other.is_alive(), at
    assert 100 < at < 1999
    assert client.leave().acknowledged == 1


@only_client
@pytest.mark.parametrize("failure", [KeyboardInterrupt, SystemExit, MemoryError, OSError, GeneratorExit, Alarm])
def test_whatever_the_randomness_raises_comes_out_bare(
    device: "Device", monkeypatch: pytest.MonkeyPatch, failure: type[BaseException]
) -> None:
    """As itself, so that an app's own alarm is heard; without a frame of the device, or what came before it."""
    client = device()
    pull = client.decide()

    def fail(_: int) -> bytes:
        try:
            return bytes(-1)
        except ValueError:
            raise failure from None

    calls: list[Callable[[], object]] = [
        lambda: pull.observe(REWARD),
        lambda: client.observe("ticket-1", REWARD),
        lambda: BernoulliCurator(1.0).respond(REWARD),
        lambda: LaplaceCurator(1.0).respond_many([0.5, REWARD]),
        lambda: LaplaceCurator(1.0).respond_not_private(REWARD, randomness.system_words),
    ]
    with monkeypatch.context() as patch:
        patch.setattr(randomness, "urandom", fail)
        for call in calls:
            with pytest.raises(failure) as caught:
                call()
            assert not shows(caught.value)
            assert caught.value.__context__ is None
            ours = [frame for frame in frames(caught.value.__traceback__) if frame.f_code.co_filename != __file__]
            assert {Path(frame.f_code.co_filename).name for frame in ours} == {"sealed.py"}
    assert pull.observe(1) is True  # it is open as before


def test_an_alarm_in_the_middle_shows_no_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler of a signal is given the frame that it interrupts: that frame does not come out either."""

    def ring(_: int, frame: FrameType | None) -> None:
        assert frame is not None
        raise Alarm

    def slow(count: int) -> bytes:
        signal.raise_signal(signal.SIGALRM)
        return real(count)

    real = os.urandom
    monkeypatch.setattr(randomness, "urandom", slow)
    before = signal.signal(signal.SIGALRM, ring)
    try:
        with pytest.raises(Alarm) as caught:
            BernoulliCurator(1.0).respond(REWARD)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not shows(caught.value)


class Loud(float):
    """A float that tells what it is when it is asked."""

    def __float__(self) -> float:
        """Fail, loudly."""
        raise ValueError(f"I am {float.__repr__(self)}", self)

    __index__ = __int__ = __trunc__ = as_integer_ratio = __float__  # type: ignore[assignment]


class LoudFraction(Fraction):
    """A Fraction that does."""

    def _fail(self, *_: object) -> Any:
        raise ArithmeticError("712345", self)

    numerator = property(_fail)
    __float__ = __repr__ = __str__ = __gt__ = _fail


class LoudReal:
    """A number of another library, such as numpy's, that does."""

    def __float__(self) -> float:
        """Fail, loudly."""
        raise OverflowError("712345", self)

    __repr__ = __str__ = __gt__ = __float__  # type: ignore[assignment]


Real.register(LoudReal)


@pytest.mark.parametrize(
    "reward", [Loud(REWARD), LoudFraction(712345, 10**6), LoudReal()], ids=["float", "ratio", "real"]
)
@pytest.mark.parametrize("curator", CURATORS, ids=repr)
def test_a_reward_that_speaks_for_itself_is_not_heard(curator: Curator, reward: Any) -> None:
    """What its own methods raise stays on the device: the error says that it cannot be read."""
    for clip in (False, True):
        with pytest.raises(RewardError, match=r"^a reward must be a number, and this one cannot be read$") as caught:
            curator.respond(reward, clip=clip)
        assert not shows(caught.value, reward)


@only_client
@pytest.mark.parametrize(
    "reward", [7.12345, -7.12345, "7.12345", 712345, Fraction(712345, 1000), float("nan")], ids=str
)
def test_a_reward_that_is_refused_leaves_the_pull_open_and_is_nowhere_to_be_seen(
    device: "Device", drawn: list[int], reward: Any
) -> None:
    """Neither the message nor a variable of any frame that an error collector would collect holds the reward."""
    client = device()
    pull = client.decide()
    drawn.clear()
    for observe in (pull.observe, partial(client.observe, "ticket-1")):
        with pytest.raises(RewardError, match="a reward must") as caught:
            observe(reward, clip=False)
        assert not shows(caught.value, reward)
    assert drawn == []
    assert pull.observe(1) is True


@only_client
def test_other_errors_do_not_show_the_reward_either(device: "Device") -> None:
    """Nor do those of the ledger and of a pull that is over."""
    client = device(limits=Limits(Range(0, 1), 1, 10))
    observed, unwritten = client.decide(), client.decide()
    observed.observe(1)
    with pytest.raises(TicketError) as caught:
        observed.observe(REWARD)
    assert not shows(caught.value)
    client._ledger.close()
    with pytest.raises(ldpbandits.LedgerError) as lost:
        unwritten.observe(REWARD)
    assert not shows(lost.value)


def test_what_the_app_was_handling_stays_with_the_error() -> None:
    """Only what happened below the seal is left out."""

    def handle(first: LookupError) -> None:
        try:
            raise first
        except LookupError:
            BernoulliCurator(1.0).respond(7)

    first = LookupError("the app's own")
    with pytest.raises(RewardError) as caught:
        handle(first)
    assert caught.value.__context__ is first
    assert first.__traceback__ is not None
    assert caught.value.__suppress_context__ is False


def test_a_seal_keeps_what_a_function_is() -> None:
    """Its name, its words and its result."""

    def double(number: float) -> float:
        """Add it to itself."""
        return number + number

    kept = sealed(double)
    assert (kept.__name__, kept.__doc__, kept(2.0)) == ("double", "Add it to itself.", 4.0)


def test_this_test_would_see_a_reward() -> None:
    """In a frame, in an error before it, and in a sentence."""

    def careless(number: float) -> object:
        return eval("number / 0", {"number": number})  # noqa: S307 - a frame that is not of this file

    with pytest.raises(ZeroDivisionError) as caught:
        careless(REWARD)
    assert shows(caught.value)
    before = RuntimeError()
    before.__context__ = ValueError("712345")
    assert shows(before)
    assert shows(ValueError(REWARD))
    assert not shows(ValueError("a reward must be a number"))
