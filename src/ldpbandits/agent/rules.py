"""Rules as data: a rule is a kernel and a few numbers, by which an agent chooses an arm from its tally.

A rule is a frozen dataclass. `index`, a kernel, says how promising an arm is; `parameters` are the numbers it takes;
arms with N <= floor log(t + 1) come first. A custom rule is a class of the same shape, and runs wherever ours do:

    @dataclass(frozen=True)
    class Greedy:
        floor: float = 4.0
        parameters: ClassVar[tuple[float, ...]] = ()

        @staticmethod
        def index(arm, random, parameters):
            return arm.mean

A rule may also have a `reading`, a kernel that maps each response to the number that the rule counts, and a `refusal`,
which names the curators that the rule does not fit.

Its name in JSON is `my_module:Greedy`, unless it has a `kind` and is registered: `RULES.register(Greedy)`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from importlib import import_module
from inspect import isfunction
from math import sqrt
from typing import Any, ClassVar, Protocol, runtime_checkable

from ldpbandits.agent.bounded_argmax import COSTLY_INDEX_MIN_ARMS, Moves
from ldpbandits.agent.kernels import (
    Index,
    LogDensity,
    Parameters,
    Reading,
    imed_index,
    kl_ucb_index,
    kl_ucb_plus_index,
    thompson_index,
    thompson_log_density,
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
    """The members that every rule has."""

    @property
    def parameters(self) -> Parameters:
        """The numbers that `index` takes."""

    @property
    def floor(self) -> float:
        """Arms with N <= floor log(t + 1) are pulled first, the least pulled of them."""

    @property
    def index(self) -> Index:
        """The kernel that says how promising an arm is; a static method will do."""


class NamedRule(Rule, Protocol):
    """A rule with a kind, by which JSON and the command line name it."""

    kind: ClassVar[str]


RULES: Registry[NamedRule] = Registry("rule", NamedRule)
"""The rules that JSON can name by their kind alone."""


def _is_unit(curator: CuratorSpec) -> bool:
    """Tell whether all responses are in [0, 1]."""
    (least, most), unit = curator.mechanism.limits, curator.mechanism.unit
    return least * unit >= 0 and most * unit <= 1 and curator.transform.bounded


def _unit_refusal(_: Rule, curator: CuratorSpec | None) -> str | None:
    """Refuse responses that are not in [0, 1]."""
    return None if curator is None or _is_unit(curator) else "is for responses in [0, 1]"


@RULES.register
@dataclass(frozen=True, slots=True)
class UCB:
    """Pull the arm of largest mean + width sqrt(log t / N), after every arm with N <= floor log(t + 1).

    >>> UCB(width=0.5)
    UCB(width=0.5, floor=0.0)
    """

    width: float
    floor: float = 0.0

    kind: ClassVar[str] = "ucb"
    moves: ClassVar[Moves] = Moves.WITH_T

    def __post_init__(self) -> None:
        """Check that width and floor are finite and >= 0."""
        for name in ("width", "floor"):
            value = getattr(self, name)
            if not is_number(value) or value < 0:
                raise SpecError(f"a UCB rule's {name} must be finite and >= 0, got {brief(value)}")
            object.__setattr__(self, name, float(value))

    @property
    def index(self) -> Index:
        """Mean + width sqrt(log t / N)."""
        return ucb_index

    @property
    def parameters(self) -> Parameters:
        """The one parameter of `ucb_index`: the width."""
        return (self.width,)


@RULES.register
@dataclass(frozen=True, slots=True)
class KLUCB:
    """Pull the arm of largest U(mean, log(t) / N): the largest q with N kl(mean, q) <= log t. For responses in [0, 1].

    >>> KLUCB()
    KLUCB()
    """

    kind: ClassVar[str] = "kl-ucb"
    moves: ClassVar[Moves] = Moves.WITH_T
    many: ClassVar[int] = COSTLY_INDEX_MIN_ARMS
    floor: ClassVar[float] = 0.0
    parameters: ClassVar[Parameters] = ()
    refusal = _unit_refusal

    @property
    def index(self) -> Index:
        """The index U(mean, log(t) / N)."""
        return kl_ucb_index

    @property
    def mixed_index(self) -> Index:
        """The index for responses of several epsilons."""
        return mixed_kl_ucb_index


@RULES.register
@dataclass(frozen=True, slots=True)
class KLUCBPlus:
    """Pull the arm of largest U(mean, f(t / (K N)) / N), f(x) = log(x (1 + log(x)^2)). For responses in [0, 1]."""

    kind: ClassVar[str] = "kl-ucb++"
    moves: ClassVar[Moves] = Moves.WITH_T
    many: ClassVar[int] = COSTLY_INDEX_MIN_ARMS
    floor: ClassVar[float] = 0.0
    parameters: ClassVar[Parameters] = ()
    refusal = _unit_refusal

    @classmethod
    def default_for(cls, curator: CuratorSpec) -> "KLUCBPlus | None":
        """Return the rule if all responses are in [0, 1]: its regret is small, and no trial loses the best arm."""
        return cls() if _is_unit(curator) else None

    @property
    def index(self) -> Index:
        """U(mean, f(t / (K N)) / N)."""
        return kl_ucb_plus_index

    @property
    def mixed_index(self) -> Index:
        """The index for responses of several epsilons."""
        return mixed_kl_ucb_plus_index


@RULES.register
@dataclass(frozen=True, slots=True)
class IMED:
    """Pull the arm of smallest N kl(mean, best) + log N, with `best` the largest mean. For responses in [0, 1]."""

    kind: ClassVar[str] = "imed"
    moves: ClassVar[Moves] = Moves.AGAINST_BEST
    many: ClassVar[int] = COSTLY_INDEX_MIN_ARMS
    floor: ClassVar[float] = 0.0
    parameters: ClassVar[Parameters] = ()
    refusal = _unit_refusal

    @property
    def index(self) -> Index:
        """Minus (N kl(mean, best) + log N)."""
        return imed_index

    @property
    def mixed_index(self) -> Index:
        """The index for responses of several epsilons."""
        return mixed_imed_index


@RULES.register
@dataclass(frozen=True, slots=True)
class Thompson:
    """Pull the arm of largest draw from Beta(1 + S, 1 + pulls - S), S the sum of its responses, which are in [0, 1]."""

    kind: ClassVar[str] = "thompson"
    floor: ClassVar[float] = 0.0
    parameters: ClassVar[Parameters] = ()
    refusal = _unit_refusal

    @property
    def index(self) -> Index:
        """A draw from the posterior of the mean response."""
        return thompson_index

    @property
    def mixed_index(self) -> Index:
        """The index for responses of several epsilons."""
        return mixed_thompson_index

    @property
    def log_density(self) -> LogDensity:
        """The log-density of the posterior, for one epsilon."""
        return thompson_log_density


def reading_of(rule: Rule) -> Reading | None:
    """Return the kernel that maps a response to the number that a rule counts; None: the response itself."""
    return getattr(rule, "reading", None)


def check_fit(rule: Rule, curator: CuratorSpec | None) -> None:
    """Raise SpecError where a rule does not take the responses of a curator; None stands for no privacy.

    A rule that cannot take all responses has `refusal(curator)`, which describes those it takes, or returns None.
    """
    refusal = getattr(rule, "refusal", None)
    told = None if refusal is None else refusal(curator)
    if told is not None:
        name = getattr(rule, "kind", type(rule).__name__)
        raise SpecError(f"the rule {name} {told}; {_others(curator)}")


def _others(curator: CuratorSpec | None) -> str:
    if curator is None:
        return "without privacy there are none"
    behind = "" if curator.transform.bounded else f" on the {curator.transform.kind}"
    return f"those of the mechanism {curator.mechanism.kind} with epsilon = {curator.epsilon:g}{behind} are not"


def check_rule(rule: object) -> Rule:
    """Check that an object is a rule: a frozen dataclass with an index, finite parameters and a floor."""
    if isinstance(rule, type) or not (is_dataclass(rule) and isinstance(rule, Rule)):
        raise SpecError(f"a rule is a dataclass with index, parameters and floor, such as UCB(1.4), got {brief(rule)}")
    if not isfunction(getattr(rule.index, "py_func", rule.index)):
        raise SpecError(f"the index of a rule is a function, such as a static method, got {brief(rule.index)}")
    reading = reading_of(rule)
    if reading is not None and not isfunction(getattr(reading, "py_func", reading)):
        raise SpecError(f"the reading of a rule is a function, such as a static method, got {brief(reading)}")
    if not isinstance(rule.parameters, tuple) or not all(map(is_number, rule.parameters)):
        raise SpecError(f"the parameters of a rule are a tuple of finite numbers, got {brief(rule.parameters)}")
    if not is_number(rule.floor) or rule.floor < 0:
        raise SpecError(f"the floor of a rule must be finite and >= 0, got {brief(rule.floor)}")
    moves = getattr(rule, "moves", None)
    if not (moves is None or isinstance(moves, Moves)):
        raise SpecError(f"the moves of a rule are one of {', '.join(map(str, Moves))}, got {brief(moves)}")
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
    return rule


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
    offers = (getattr(kind, "default_for", lambda _: None)(curator) for kind in RULES)
    return next((rule for rule in offers if rule is not None), paper_rule(curator.mechanism))


def paper_rule(mechanism: Mechanism) -> UCB:
    """Return the paper's rule for a mechanism, for which the paper proves near-minimal regret.

    >>> from ldpbandits import LaplaceCurator
    >>> paper_rule(LaplaceCurator(epsilon=2.0).spec.mechanism) == ldp_ucb_l(2.0)
    True
    """
    return UCB(mechanism.width, mechanism.floor)


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
    return UCB(Bernoulli.width, Bernoulli.floor)


def ldp_ucb_l(epsilon: float) -> UCB:
    """LDP-UCB-L (paper, Agent 1), and LDP-UCB-LS, on the responses of CTL or CTL-S.

    The index adds sqrt(2 log t / N) for the rewards and sqrt(32 log t / N) / epsilon for the noise; arms starve up
    to 4 log(t + 1) pulls because the bound on the noise holds only beyond.

    >>> rule = ldp_ucb_l(epsilon=2.0)
    >>> round(rule.width, 3), rule.floor
    (4.243, 4.0)
    """
    return paper_rule(Laplace(check_epsilon(epsilon)))
