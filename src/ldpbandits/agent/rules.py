"""Rules as data: a rule is a kernel and a few numbers, by which an agent chooses an arm from its tally.

A rule is a frozen dataclass that inherits from `Rule`. `index`, a kernel, says how promising an arm is; `parameters`
are the numbers it takes; arms with N <= floor log(t + 1) come first. A custom rule runs wherever ours do:

    @dataclass(frozen=True)
    class Greedy(Rule):
        floor: float = 4.0

        @staticmethod
        def index(arm, random, parameters):
            return arm.mean

Its name in JSON is `my_module:Greedy`, unless it has a `kind` and is registered: `RULES.register(Greedy)`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from importlib import import_module
from inspect import isfunction
from math import sqrt
from typing import Any, ClassVar, Protocol, runtime_checkable

from ldpbandits.agent.bounded_argmax import CHEAP_INDEX_MIN_ARMS, COSTLY_INDEX_MIN_ARMS, Moves
from ldpbandits.agent.duels import Design
from ldpbandits.agent.inference.mechanisms import inference_for
from ldpbandits.agent.kernels import (
    Index,
    Parameters,
    Reading,
    Sharing,
    ada_ucb_index,
    imed_index,
    kl_ucb_index,
    kl_ucb_plus_index,
    mean_index,
    random_index,
    shared_counts,
    thompson_index,
    ucb_index,
)
from ldpbandits.agent.mixed import (
    mixed_imed_index,
    mixed_kl_ucb_index,
    mixed_kl_ucb_plus_index,
    mixed_thompson_index,
)
from ldpbandits.checks import brief, check_epsilon, is_number
from ldpbandits.errors import LDPBanditsError, SpecError
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.spec.mechanisms import Bernoulli, Laplace, Mechanism
from ldpbandits.spec.registry import Registry, build, field_values


@runtime_checkable
class Rule(Protocol):
    """The members that every rule has; all but `index` have a default, which a rule inherits."""

    __slots__ = ()

    @property
    def index(self) -> Index:
        """The kernel that says how promising an arm is: `index = staticmethod(kernel)`, or a static method."""

    @property
    def parameters(self) -> Parameters:
        """The numbers that `index` takes."""
        return ()

    @property
    def floor(self) -> float:
        """Arms with N <= floor log(t + 1) are pulled first, the least pulled of them."""
        return 0.0

    @property
    def reading(self) -> Reading | None:
        """The kernel that maps a response to the number that the rule counts; None: the response itself."""
        return None

    @property
    def sharing(self) -> Sharing | None:
        """The kernel that computes a number for each arm from N of all arms, which the index gets as `cells`."""
        return None

    @property
    def mixed_index(self) -> Index | None:
        """The index for responses of several epsilons: it takes the levels of the menu, and moves as `index` does."""
        return None

    @property
    def moves(self) -> Moves | None:
        """How the index moves while the tally of its arm stays; None: in any way."""
        return None

    @property
    def design(self) -> Design:
        """How the rule randomises: under a fair coin, verdicts hold although the level of all arms moves."""
        return Design.ADAPTIVE

    @property
    def many(self) -> int:
        """Number of arms from which a declaration of `moves` makes decisions faster."""
        return CHEAP_INDEX_MIN_ARMS

    def refusal(self, curator: CuratorSpec | None) -> str | None:  # noqa: ARG002 - most rules take any responses
        """Return which responses the rule is for if it does not take those of this curator; None: it takes them.

        The curator None stands for no privacy.
        """
        return None

    @classmethod
    def default_for(cls, curator: CuratorSpec) -> "Rule | None":  # noqa: ARG003 - most rules are no default
        """Return the rule if it is the recommended one for this curator."""
        return None


# Plain values, so that a field of a dataclass can take the place of each.
Rule.parameters, Rule.floor = (), 0.0  # type: ignore[assignment,method-assign]


class NamedRule(Rule, Protocol):
    """A rule with a kind, by which JSON and the command line name it."""

    kind: ClassVar[str]


RULES: Registry[NamedRule] = Registry("rule", NamedRule)
"""The rules that JSON can name by their kind alone."""


def is_unit(curator: CuratorSpec) -> bool:
    """Tell whether all responses are in [0, 1]."""
    (least, most), unit = curator.mechanism.limits, curator.mechanism.unit
    return least * unit >= 0 and most * unit <= 1 and curator.transform.bounded


HORIZON_FACTOR = 4.0
"""By how much `ada-ucb` explores beyond T: with 1 some trials give up the best arm for good (benchmarks/tails.py)."""


class _ForUnit(Rule):
    """A rule for responses in [0, 1]."""

    __slots__ = ()

    many = COSTLY_INDEX_MIN_ARMS

    def refusal(self, curator: CuratorSpec | None) -> str | None:
        return None if curator is None or is_unit(curator) else "is for responses in [0, 1]"


@RULES.register
@dataclass(frozen=True, slots=True)
class UCB(Rule):
    """Pull the arm of largest mean + width sqrt(log t / N), after every arm with N <= floor log(t + 1).

    >>> UCB(width=0.5)
    UCB(width=0.5, floor=0.0)
    """

    width: float
    floor: float = 0.0

    kind: ClassVar[str] = "ucb"
    index = staticmethod(ucb_index)
    moves = Moves.WITH_T

    def __post_init__(self) -> None:
        for name in ("width", "floor"):
            value = getattr(self, name)
            if not is_number(value) or value < 0:
                raise SpecError(f"a UCB rule's {name} must be finite and >= 0, got {brief(value)}")
            object.__setattr__(self, name, float(value))

    @property
    def parameters(self) -> Parameters:
        """The one parameter of `ucb_index`: the width."""
        return (self.width,)


@RULES.register
@dataclass(frozen=True, slots=True)
class KLUCB(_ForUnit):
    """Pull the arm of largest U(mean, log(t) / N): the largest q with N kl(mean, q) <= log t. For responses in [0, 1].

    >>> KLUCB()
    KLUCB()
    """

    kind: ClassVar[str] = "kl-ucb"
    index = staticmethod(kl_ucb_index)
    mixed_index = staticmethod(mixed_kl_ucb_index)
    moves = Moves.WITH_T


@RULES.register
@dataclass(frozen=True, slots=True)
class KLUCBPlus(_ForUnit):
    """Pull the arm of largest U(mean, f(t / (K N)) / N), f(x) = log(x (1 + log(x)^2)). For responses in [0, 1]."""

    kind: ClassVar[str] = "kl-ucb++"
    index = staticmethod(kl_ucb_plus_index)
    mixed_index = staticmethod(mixed_kl_ucb_plus_index)
    moves = Moves.WITH_T

    @classmethod
    def default_for(cls, curator: CuratorSpec) -> "KLUCBPlus | None":
        """Return the rule if all responses are in [0, 1]: its regret is small, and no trial loses the best arm."""
        return cls() if is_unit(curator) else None


@RULES.register
@dataclass(frozen=True, slots=True)
class AdaUCB(_ForUnit):
    """Pull the arm of largest U(mean, log+(4 T / H) / N), where T, the number of users, is known. For bits of CTB.

    H is the sum over all arms of min(N, sqrt(N M)), M the count of the other arm, and the mean is taken to be in the
    range of the bits' means at this epsilon; None: no privacy. A decision takes time in proportion to the square of
    the number of arms.

    >>> AdaUCB(horizon=50_000, epsilon=1)
    AdaUCB(horizon=50000.0, epsilon=1.0)
    """

    horizon: float
    epsilon: float | None = None

    kind: ClassVar[str] = "ada-ucb"
    index = staticmethod(ada_ucb_index)
    sharing = staticmethod(shared_counts)

    def __post_init__(self) -> None:
        if not is_number(self.horizon) or self.horizon < 1:
            raise SpecError(f"the horizon of ada-ucb is the number of users, >= 1, got {brief(self.horizon)}")
        object.__setattr__(self, "horizon", float(self.horizon))
        if self.epsilon is not None:
            object.__setattr__(self, "epsilon", check_epsilon(self.epsilon, SpecError))

    @property
    def parameters(self) -> Parameters:
        """The scaled horizon, and the smallest mean that an arm can have."""
        return HORIZON_FACTOR * self.horizon, 0.0 if self.epsilon is None else Bernoulli(self.epsilon).response_mean(
            0.0
        )

    def refusal(self, curator: CuratorSpec | None) -> str | None:
        """Refuse bits of another epsilon, whose means have another range."""
        if curator is None or type(curator.mechanism) is not Bernoulli:
            return _ForUnit.refusal(self, curator)
        if curator.epsilon == self.epsilon:
            return None
        return "needs their epsilon" if self.epsilon is None else f"is for bits of epsilon = {self.epsilon:g}"


@RULES.register
@dataclass(frozen=True, slots=True)
class IMED(_ForUnit):
    """Pull the arm of smallest N kl(mean, best) + log N, with `best` the largest mean. For responses in [0, 1]."""

    kind: ClassVar[str] = "imed"
    index = staticmethod(imed_index)
    mixed_index = staticmethod(mixed_imed_index)
    moves = Moves.AGAINST_BEST


@RULES.register
@dataclass(frozen=True, slots=True)
class Thompson(_ForUnit):
    """Pull the arm of largest draw from Beta(1 + S, 1 + pulls - S), S the sum of its responses, which are in [0, 1]."""

    kind: ClassVar[str] = "thompson"
    index = staticmethod(thompson_index)
    mixed_index = staticmethod(mixed_thompson_index)


@RULES.register
@dataclass(frozen=True, slots=True)
class Duels(_ForUnit):
    """Pull the arm of largest mean or its challenger, by a fair coin: finds the best arm with few responses.

    >>> Duels().design
    <Design.DUELS: 'duels'>
    """

    kind: ClassVar[str] = "duels"
    index = staticmethod(mean_index)
    mixed_index = staticmethod(mean_index)
    design = Design.DUELS


@RULES.register
@dataclass(frozen=True, slots=True)
class EqualShares(_ForUnit):
    """Pull any arm in use with the same probability, whatever the responses."""

    kind: ClassVar[str] = "equal"
    index = staticmethod(random_index)
    mixed_index = staticmethod(random_index)
    design = Design.EQUAL


def name_of(rule: Rule) -> str:
    """Return the kind of a rule, or the name of its class if it has none."""
    return getattr(rule, "kind", type(rule).__name__)


def check_fit(rule: Rule, curator: CuratorSpec | None) -> None:
    """Raise SpecError where a rule does not take the responses of a curator; None stands for no privacy."""
    refusal = rule.refusal(curator)
    if refusal is not None:
        raise SpecError(f"the rule {name_of(rule)} {refusal}; {_others(curator)}")


def _others(curator: CuratorSpec | None) -> str:
    if curator is None:
        return "without privacy there are none"
    behind = "" if curator.transform.bounded else f" on the {curator.transform.kind}"
    return f"those of the mechanism {curator.mechanism.kind} with epsilon = {curator.epsilon:g}{behind} are not"


def check_rule(rule: object) -> Rule:
    """Check that an object is a rule: a frozen dataclass with an index, finite parameters and a floor."""
    if isinstance(rule, type) or not is_dataclass(rule) or not hasattr(rule, "index"):
        raise SpecError(f"a rule is a dataclass with an index, such as UCB(1.4), got {brief(rule)}")
    if not isinstance(rule, Rule):
        name = type(rule).__name__
        raise SpecError(f"a rule inherits its defaults from ldpbandits.Rule: write class {name}(Rule)")
    if not isfunction(getattr(rule.index, "py_func", rule.index)):
        raise SpecError(f"the index of a rule is a function, such as a static method, got {brief(rule.index)}")
    reading = rule.reading
    if reading is not None and not isfunction(getattr(reading, "py_func", reading)):
        raise SpecError(f"the reading of a rule is a function, such as a static method, got {brief(reading)}")
    if not isinstance(rule.parameters, tuple) or not all(map(is_number, rule.parameters)):
        raise SpecError(f"the parameters of a rule are a tuple of finite numbers, got {brief(rule.parameters)}")
    if not is_number(rule.floor) or rule.floor < 0:
        raise SpecError(f"the floor of a rule must be finite and >= 0, got {brief(rule.floor)}")
    for member, kind in (("moves", Moves | None), ("design", Design)):
        value = getattr(rule, member)
        if not isinstance(value, kind):
            listed = ", ".join(map(str, Moves if member == "moves" else Design))
            raise SpecError(f"the {member} of a rule are one of {listed}, got {brief(value)}")
    _check_frozen(rule)
    return rule


def _check_frozen(rule: Rule) -> None:
    try:
        hash(rule)
    except TypeError:
        raise SpecError(
            f"a rule is frozen, and so are its fields: use @dataclass(frozen=True), got {brief(rule)}"
        ) from None
    try:
        json.dumps(field_values(rule), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise SpecError(f"the fields of a rule must be JSON, so that it can be written down: {error}") from None


def rule_to_json(rule: Rule) -> dict[str, Any]:
    """Return a rule as its kind and its fields; the kind of an unregistered rule is `module:Class`."""
    kind = rule.kind if rule in RULES else f"{type(rule).__module__}:{type(rule).__qualname__}"  # type: ignore[attr-defined]
    return {"kind": kind, **field_values(rule)}


def rule_from_json(data: object, *, may_import: bool = False) -> Rule:
    """Read a rule: an object with its kind and its fields, or the kind alone.

    With `may_import`, a kind may also be `module:Class`, which is imported: never allow that for untrusted input.
    """
    named = {"kind": data} if isinstance(data, str) else data
    kind = named.get("kind") if isinstance(named, Mapping) else None
    if may_import and isinstance(named, Mapping) and isinstance(kind, str) and ":" in kind:
        return check_rule(build(_imported(kind), named, "rule"))
    return check_rule(RULES.from_json(named))


def _imported(place: str) -> Any:  # noqa: ANN401 - any object; check_rule validates it
    """Import and return the class at `module:Class`."""
    module, _, name = place.partition(":")
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except LDPBanditsError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a module may fail in any way while it is imported
        raise SpecError(f"the rule {place} cannot be imported: {type(error).__name__}: {error}") from None
    if not isinstance(found, type) or not is_dataclass(found):
        raise SpecError(f"the rule {place} must be a dataclass")
    return found


def default_rule(curator: CuratorSpec) -> Rule:
    """Return the recommended rule for a curator (docs/rules.md).

    The first registered kind whose `default_for(curator)` returns a rule decides; without one it is the paper's rule.

    >>> from ldpbandits import BernoulliCurator, LaplaceCurator
    >>> default_rule(BernoulliCurator(epsilon=2.0).spec)
    KLUCBPlus()
    >>> default_rule(LaplaceCurator(epsilon=4.0).spec)
    KLUCBPlusLaplace(epsilon=4.0)
    """
    offers = (kind.default_for(curator) for kind in RULES)
    return next((rule for rule in offers if rule is not None), paper_rule(curator.mechanism))


def paper_rule(mechanism: Mechanism) -> UCB:
    """Return the paper's rule for a mechanism, for which the paper proves near-minimal regret.

    >>> from ldpbandits import LaplaceCurator
    >>> paper_rule(LaplaceCurator(epsilon=2.0).spec.mechanism) == ldp_ucb_l(2.0)
    True
    """
    inference = inference_for(mechanism)
    return UCB(inference.width, inference.floor)


def ucb1() -> UCB:
    """UCB1 (Auer, Cesa-Bianchi, Fischer 2002): the baseline that sees the rewards themselves.

    >>> ucb1()
    UCB(width=1.4142135623730951, floor=0.0)
    """
    return UCB(width=sqrt(2))


def ldp_ucb_b() -> UCB:
    """LDP-UCB-B (paper, Agent 2), and LDP-UCB-BS: UCB1's rule, on the responses of CTB or CTB-S.

    >>> ldp_ucb_b() == ucb1()
    True
    """
    return ucb1()


def ldp_ucb_l(epsilon: float) -> UCB:
    """LDP-UCB-L (paper, Agent 1), and LDP-UCB-LS, on the responses of CTL or CTL-S.

    The index adds sqrt(2 log t / N) for the rewards and sqrt(32 log t / N) / epsilon for the noise; arms starve up
    to 4 log(t + 1) pulls because the bound on the noise holds only beyond.

    >>> rule = ldp_ucb_l(epsilon=2.0)
    >>> round(rule.width, 3), rule.floor
    (4.243, 4.0)
    """
    return paper_rule(Laplace(check_epsilon(epsilon)))
