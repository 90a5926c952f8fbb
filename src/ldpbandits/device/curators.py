"""Curators: a reward goes in, a private response comes out, and nothing else leaves.

`BernoulliCurator` is the paper's CTB, `LaplaceCurator` its CTL; behind `Sigmoid()` they are CTB-S and CTL-S.

`transformed` makes every check of a reward, and raises the rule that a reward breaks. The methods that see a reward are
`sealed`: whatever interrupts them, no frame of a traceback holds the reward.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from fractions import Fraction
from math import inf, isnan
from numbers import Rational, Real
from typing import Any, ClassVar

from ldpbandits.device.randomness import WORD, DiscreteLaplace, Draw, discrete_laplace, first_bits, system_words
from ldpbandits.device.sealed import sealed
from ldpbandits.errors import RewardError, SpecError
from ldpbandits.spec.curator import CuratorSpec, Guarantee
from ldpbandits.spec.mechanisms import GRID_BITS, Bernoulli, Laplace, Mechanism
from ldpbandits.spec.registry import field_values
from ldpbandits.spec.transforms import Range, Transform
from ldpbandits.types import Response, Reward

UNIT_BITS = 53
"""CTB takes a reward in [0, 1] to a multiple of 2^-53, which loses nothing above 2^-53 in a float."""

_PLAIN = frozenset({float, int, bool, Fraction})


def transformed(transform: Transform, reward: object, *, clip: bool = False) -> float | Fraction:
    """Check a reward and apply the transform. With `clip`, a reward out of range counts as the nearest one in range."""
    plain = _plain(reward)
    number = _float(plain)
    nearest = transform.nearest(number) if clip else None
    if nearest is None:  # without `clip`, or where the transform has no nearest reward
        rule = transform.refusal(number)
        if rule is not None:
            raise RewardError(rule)
        nearest = number
    if not transform.exact:
        return transform.apply(nearest, transform.parameters)
    if not isinstance(reward, (float, Rational)):
        raise RewardError("a reward on the real line must be an int, a float or a Fraction")
    exact = Fraction(plain if nearest == number else nearest)  # a float would move large ints, and neighbours apart
    return transform.apply(exact, transform.parameters)  # type: ignore[arg-type]


def _plain(reward: object) -> float | Fraction:
    """Return the reward as a built-in number. Only here may code of the reward's own class run, and fail."""
    if type(reward) in _PLAIN:
        return reward  # type: ignore[return-value]
    try:
        if isinstance(reward, Rational):
            return Fraction(int(reward.numerator), int(reward.denominator))
        if isinstance(reward, Real):
            return float(reward)
    except Exception:  # noqa: BLE001 - its message may have the reward in it
        raise RewardError("a reward must be a number, and this one cannot be read") from None
    raise RewardError("a reward must be a number: an int, a float or another real number")


def _float(plain: float | Fraction) -> float:
    """Return the number as a float, infinite when it is beyond the floats."""
    try:
        number = float(plain)
    except OverflowError:
        return inf if plain > 0 else -inf
    if isnan(number):
        raise RewardError("a reward must be a number, not NaN")
    return number


class Curator(ABC):
    """The base class of curators: a spec that states the guarantee, and the methods that draw a response.

    A curator of your own names its mechanism and draws in `_privatise`; `CURATORS.register` registers it.
    """

    mechanism: ClassVar[type[Mechanism]]

    def __init__(self, epsilon: float, transform: Transform | None = None, **parameters: Any) -> None:  # noqa: ANN401 - the mechanism's own
        """Make a curator for this epsilon; rewards lie in [0, 1] unless a transform says otherwise."""
        mechanism = self.mechanism(epsilon=epsilon, **parameters)  # type: ignore[call-arg]
        self._spec = CuratorSpec(mechanism, Range() if transform is None else transform)

    @property
    def spec(self) -> CuratorSpec:
        """The curator as data: its mechanism and its transform."""
        return self._spec

    @property
    def epsilon(self) -> float:
        """The guarantee's epsilon: the law of the response never exceeds it."""
        return self._spec.epsilon

    @property
    def guarantee(self) -> Guarantee:
        """The promise: an epsilon, and the pairs of rewards for which it holds."""
        return self._spec.guarantee

    def to_json(self) -> dict[str, Any]:
        """Return this curator as plain JSON-able data; `curator_from_json` takes it back."""
        return self._spec.to_json()

    @sealed
    def respond(self, reward: Reward | float, *, clip: bool = False) -> Response:
        """Return one private response to this reward; each call spends epsilon anew."""
        return self._privatise(transformed(self._spec.transform, reward, clip=clip), system_words)

    @sealed
    def respond_many(self, rewards: Iterable[Reward | float], *, clip: bool = False) -> list[Response]:
        """Return one private response to each reward; nothing is drawn unless every reward can be taken."""
        values = [transformed(self._spec.transform, reward, clip=clip) for reward in rewards]
        return [self._privatise(value, system_words) for value in values]

    @sealed
    def respond_not_private(self, reward: Reward | float, draw: Draw, *, clip: bool = False) -> Response:
        """Respond with the caller's randomness, for tests and vectors. Not private: the words reveal the reward."""
        return self._privatise(transformed(self._spec.transform, reward, clip=clip), draw)

    @abstractmethod
    def _privatise(self, value: float | Fraction, draw: Draw) -> Response:
        """Draw the response to a transformed reward."""

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name}={value!r}" for name, value in field_values(self._spec.mechanism).items())
        return f"{type(self).__name__}({numbers}, transform={self._spec.transform})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Curator) and self.spec == other.spec

    def __hash__(self) -> int:
        return hash(self.spec)


class BernoulliCurator(Curator):
    """CTB: the response is 1 with probability (r e^epsilon + 1 - r) / (1 + e^epsilon), else 0, for r in [0, 1].

    In integers: with U uniform below 2^64, Q = ceil(2^64 / (1 + e^epsilon)) and P = 2^64 - Q, the response is 1 iff
    U < Q + floor(r (P - Q)). Both responses have probability between Q / 2^64 and P / 2^64 whatever the reward, and
    P / Q <= e^epsilon because Q is rounded up. It is the law of the paper's two steps (round r to a bit at random, then
    flip that bit at random) in one draw.

    >>> BernoulliCurator(epsilon=1.0).respond(0.75) in (0.0, 1.0)
    True
    """

    mechanism = Bernoulli

    def __init__(self, epsilon: float, transform: Transform | None = None) -> None:
        super().__init__(epsilon, transform)
        self._least = first_bits(Fraction(self.epsilon), 1, WORD) + 1
        self._spread = (1 << WORD) - 2 * self._least

    def threshold(self, value: float | Fraction) -> int:
        """Return the number of the 2^64 words that give the response 1, for a value in [0, 1]."""
        return self._least + (int(value * (1 << UNIT_BITS)) * self._spread >> UNIT_BITS)

    def _privatise(self, value: float | Fraction, draw: Draw) -> Response:
        return Response(1.0 if draw(1)[0] < self.threshold(value) else 0.0)


class LaplaceCurator(Curator):
    """CTL: the response is r + L with L of the Laplace law of scale 1 / epsilon, both on the grid of 2^-20.

    The reward is rounded to the grid and the noise is an integer Z with P(Z = z) proportional to
    e^(-epsilon |z| / 2^20), exactly. 0 and 1 are on the grid, so two rewards in [0, 1] are at most 2^20 steps apart
    and no response is more than e^epsilon times likelier under one. On the real line the same holds for rewards that
    differ by at most 1, since rounding commutes with adding 1.

    >>> curator = LaplaceCurator(epsilon=1.0, transform=Range(0, 5))
    >>> response = curator.respond(4.0)  # of any size, and of either sign
    >>> (response * 2**20).is_integer()
    True
    """

    mechanism = Laplace

    def __init__(self, epsilon: float, transform: Transform | None = None) -> None:
        super().__init__(epsilon, transform)
        self._noise = discrete_laplace(Fraction(self.epsilon) / (1 << GRID_BITS))

    @property
    def noise(self) -> DiscreteLaplace:
        """The law of the noise, in steps of the grid."""
        return self._noise

    def _privatise(self, value: float | Fraction, draw: Draw) -> Response:
        return Response((self.steps(value) + self._noise.sample(draw)) / (1 << GRID_BITS))

    @staticmethod
    def steps(value: float | Fraction) -> int:
        """Return the nearest multiple of 2^-20, in steps; halves go up."""
        numerator, denominator = value.as_integer_ratio()
        return ((numerator << (GRID_BITS + 1)) + denominator) // (2 * denominator)


class Curators:
    """The registry of curators, by the mechanism whose responses they draw."""

    def __init__(self) -> None:
        self._by_mechanism: dict[type[Mechanism], type[Curator]] = {}

    def register(self, curator: type[Curator]) -> type[Curator]:
        """Add a curator for its mechanism; usable as a decorator. A mechanism has one curator only."""
        known = self._by_mechanism.get(curator.mechanism)
        if known is not None and (known.__module__, known.__qualname__) != (curator.__module__, curator.__qualname__):
            place = f"{known.__module__}.{known.__name__}"
            raise SpecError(f"the mechanism {curator.mechanism.kind} has a curator already: {place}")
        self._by_mechanism[curator.mechanism] = curator
        return curator

    def find(self, mechanism: Mechanism) -> type[Curator]:
        """Return the curator of a mechanism; raise SpecError if this device has none."""
        if type(mechanism) not in self._by_mechanism:
            raise SpecError(f"this device has no curator for the mechanism {mechanism.kind}")
        return self._by_mechanism[type(mechanism)]


CURATORS = Curators()
for _curator in (BernoulliCurator, LaplaceCurator):
    CURATORS.register(_curator)


def curator_from_json(spec: object) -> Curator:
    """Make the curator that a spec asks for: a `CuratorSpec`, or its JSON.

    >>> curator_from_json({"mechanism": "bernoulli", "epsilon": 1})
    BernoulliCurator(epsilon=1.0, transform=Range(low=0.0, high=1.0))
    """
    checked = CuratorSpec.of(spec)
    return CURATORS.find(checked.mechanism)(transform=checked.transform, **field_values(checked.mechanism))
