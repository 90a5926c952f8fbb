"""Algorithms as data: a rule, and the curator between the rewards and the agent.

| name       | rule                | curator          | rewards      |
|------------|---------------------|------------------|--------------|
| ucb1       | UCB1                | none             | in [0, 1]    |
| ucb1-s     | UCB1                | none, sigmoid    | any          |
| ldp-ucb-b  | LDP-UCB-B           | CTB              | in [0, 1]    |
| ldp-ucb-l  | LDP-UCB-L(epsilon)  | CTL              | in [0, 1]    |
| ldp-ucb-bs | LDP-UCB-B           | CTB-S            | any          |
| ldp-ucb-ls | LDP-UCB-L(epsilon)  | CTL-S            | any          |
| kl-ucb, kl-ucb++, imed, ts                 | the rule of that name, none      | in [0, 1]    |
| ldp-kl-ucb, ldp-kl-ucb++, ldp-imed, ldp-ts | the rule of that name, CTB       | in [0, 1]    |
| duels, equal, ldp-duels, ldp-equal         | the same, with a fair coin       | in [0, 1]    |
| the same with -s behind                    | none or CTB-S, sigmoid           | any          |
| ldp-imed-l, ldp-kl-ucb++-l   | imed-laplace, kl-ucb++-laplace, CTL            | in [0, 1]    |
| ldp-duels-l, ldp-equal-l     | duels-laplace, equal-laplace, CTL              | in [0, 1]    |
| ldp-imed-lc, ldp-kl-ucb++-lc | the same with -clip behind, CTL                | in [0, 1]    |
| ldp-imed-lb, ldp-kl-ucb++-lb | the same with -bit behind, CTL                 | 0 or 1       |
| -ls, -lcs in the place of -l, -lc          | CTL-S, sigmoid                   | any          |
| the same with -t(theta) behind             | none or CTB, Threshold(theta)    | any          |
| ucb1-t(theta), ldp-ucb-bt(theta), ldp-ucb-lt(theta): the paper's, Threshold(theta)          | any          |

An algorithm's JSON is its identity: kept trials, random streams and records all go by it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, ClassVar

from ldpbandits.agent.bound_rule import bind_rule
from ldpbandits.agent.laplace_rules import (
    DuelsLaplace,
    EqualSharesLaplace,
    IMEDLaplace,
    IMEDLaplaceBit,
    IMEDLaplaceClip,
    KLUCBPlusLaplace,
    KLUCBPlusLaplaceBit,
    KLUCBPlusLaplaceClip,
)
from ldpbandits.agent.rules import (
    IMED,
    KLUCB,
    Duels,
    EqualShares,
    KLUCBPlus,
    Rule,
    Thompson,
    check_fit,
    check_rule,
    paper_rule,
    rule_from_json,
    rule_to_json,
    ucb1,
)
from ldpbandits.checks import brief
from ldpbandits.errors import ParameterError
from ldpbandits.lab.mix import Mix
from ldpbandits.lab.rewards import Law, arm_text
from ldpbandits.output.colours import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION, Look
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.spec.mechanisms import Bernoulli, Laplace
from ldpbandits.spec.menu import Menu
from ldpbandits.spec.names import PAPER_CURATORS, THRESHOLD_CURATORS, find_curator, split_threshold
from ldpbandits.spec.registry import check_keys
from ldpbandits.spec.transforms import TRANSFORMS, Range, Sigmoid, Threshold, Transform
from ldpbandits.theory.upper import UPPER_BOUNDS, UpperBound

_LAPLACE, _BITS, _BASELINE = (VERMILION, (6.0, 2.0)), (BLUE, (1.0, 0.0)), (BLACK, (1.0, 1.2))
"""How algorithms are drawn that see Laplace responses, bits, or the rewards themselves."""


@dataclass(frozen=True)
class NotPrivate:
    """No curator: the agent sees the transformed rewards themselves."""

    transform: Transform = field(default_factory=Range)

    KIND: ClassVar[str] = "none"
    """The mechanism of no curator, in JSON."""

    def __post_init__(self) -> None:
        if self.transform not in TRANSFORMS:
            raise ParameterError(f"transform must be one of {', '.join(TRANSFORMS.kinds)}, got {brief(self.transform)}")

    def to_json(self) -> dict[str, Any]:
        """Return the transform, and that there is no mechanism, as JSON-able data."""
        return {"mechanism": self.KIND, "transform": TRANSFORMS.to_json(self.transform)}


@dataclass(frozen=True)
class LineStyle:
    """How the curve of an algorithm is drawn. Equality and identity of algorithms ignore it."""

    label: str
    colour: str = GREY
    dashes: tuple[float, ...] = (1.0, 0.0)


@dataclass(frozen=True)
class Algorithm:
    """How a bandit is played: a rule for the agent, and the curator whose responses it sees.

    `looks` and `bound` (the name of a theorem in `theory.upper`) are for figures and tables.

    >>> spec = CuratorSpec(Bernoulli(epsilon=1.0), Range(0, 5))
    >>> Algorithm("stars", paper_rule(spec.mechanism), spec).epsilon
    1.0
    """

    name: str
    rule: Rule
    curator: CuratorSpec | NotPrivate | Mix
    looks: LineStyle | None = field(default=None, compare=False)
    bound: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not (self.name and isinstance(self.name, str)):
            raise ParameterError(f"an algorithm's name must be a string, got {brief(self.name)}")
        if not isinstance(self.curator, CuratorSpec | NotPrivate | Mix):
            raise ParameterError(
                f"an algorithm's curator is a CuratorSpec, as in curator.spec, got {brief(self.curator)}"
            )
        match self.curator:
            case Mix(menu=menu):
                bind_rule(self.rule, menu)
            case CuratorSpec() as curator:
                check_fit(check_rule(self.rule), curator)
            case NotPrivate():
                check_fit(check_rule(self.rule), None)
        if self.bound is not None and self.bound not in UPPER_BOUNDS:
            raise ParameterError(f"bound must be one of {', '.join(UPPER_BOUNDS)}, got {brief(self.bound)}")

    @property
    def epsilon(self) -> float | None:
        """The epsilon of each response; None when the rewards are not private, or epsilons differ."""
        return self.curator.mechanism.epsilon if isinstance(self.curator, CuratorSpec) else None

    @property
    def cells(self) -> int:
        """The number of epsilons that the agent tells apart."""
        return len(self.curator.menu) if isinstance(self.curator, Mix) else 1

    @property
    def drawn_as(self) -> LineStyle:
        """Its looks; one that has none is drawn in grey under its name."""
        return LineStyle(self.name) if self.looks is None else self.looks

    @property
    def upper_bound(self) -> UpperBound | None:
        """The theorem that bounds its regret, if there is one."""
        return None if self.bound is None else UPPER_BOUNDS[self.bound]

    def check_arms(self, arms: Iterable[Law]) -> None:
        """Refuse arms whose rewards the curator does not take."""
        transform = self.curator.transform
        for arm in arms:
            # The ends of an unbounded law are infinite and no rewards, so a large finite reward is checked instead.
            ends = [min(max(end, -1e300), 1e300) for end in arm.range]
            rule = next((rule for rule in map(transform.refusal, ends) if rule is not None), None)
            if rule is not None and isinstance(transform, Range):
                raise ParameterError(
                    f"{self.name} takes rewards in [{transform.low:g}, {transform.high:g}]; those of {arm_text(arm)} "
                    "are not: for unbounded rewards use ucb1-s, ldp-ucb-bs, ldp-ucb-ls, or a threshold: ldp-imed-t(0)"
                )
            if rule is not None:
                raise ParameterError(f"{self.name} cannot take the rewards of {arm_text(arm)}: {rule}")

    def to_json(self) -> dict[str, Any]:
        """Return name, rule and curator as plain JSON-able data; `algorithms_from_json` takes it back."""
        return {"name": self.name, "rule": rule_to_json(self.rule), "curator": self.curator.to_json()}


@dataclass(frozen=True)
class _Known:
    """An algorithm that goes by its name, up to its epsilon. Without a rule of its own it has the paper's.

    A rule that has the epsilon of the responses is named by its class.
    """

    mechanism: type[Bernoulli | Laplace] | None
    transform: Transform
    looks: LineStyle
    bound: str | None = None
    rule: Rule | None = None
    rule_of: Callable[[float], Rule] | None = None


_PAPER = {
    "ucb1": _Known(None, Range(), LineStyle("UCB1, no privacy", *_BASELINE), "ucb1"),
    "ucb1-s": _Known(None, Sigmoid(), LineStyle("UCB1-S, no privacy", *_BASELINE), "ucb1-s"),
    "ldp-ucb-b": _Known(Bernoulli, Range(), LineStyle("LDP-UCB-B", *_BITS), "theorem-3"),
    "ldp-ucb-l": _Known(Laplace, Range(), LineStyle("LDP-UCB-L", *_LAPLACE), "theorem-2"),
    "ldp-ucb-bs": _Known(Bernoulli, Sigmoid(), LineStyle("LDP-UCB-BS", *_BITS), "corollary-2"),
    "ldp-ucb-ls": _Known(Laplace, Sigmoid(), LineStyle("LDP-UCB-LS", *_LAPLACE), "corollary-1"),
}
_BEYOND: dict[str, tuple[Rule, Look]] = {
    "kl-ucb": (KLUCB(), (SKY, (4.0, 1.0))),
    "kl-ucb++": (KLUCBPlus(), (GREEN, (1.0, 0.0))),
    "imed": (IMED(), (PURPLE, (6.0, 1.0, 1.0, 1.0))),
    "ts": (Thompson(), (ORANGE, (2.0, 1.0))),
    "duels": (Duels(), (GREY, (1.0, 0.0))),
    "equal": (EqualShares(), (GREY, (1.0, 1.2))),
}
"""Rules for responses in [0, 1], and how they are drawn: those that reach the exact constant of the theory, and those
with a fair coin, which find the best arm."""

_BEYOND_LAPLACE: dict[str, tuple[Callable[[float], Rule], Transform, Look]] = {
    "ldp-imed-l": (IMEDLaplace, Range(), (PURPLE, (6.0, 2.0))),
    "ldp-imed-ls": (IMEDLaplace, Sigmoid(), (PURPLE, (6.0, 2.0))),
    "ldp-kl-ucb++-l": (KLUCBPlusLaplace, Range(), (GREEN, (6.0, 2.0))),
    "ldp-kl-ucb++-ls": (KLUCBPlusLaplace, Sigmoid(), (GREEN, (6.0, 2.0))),
    "ldp-imed-lc": (IMEDLaplaceClip, Range(), (PURPLE, (3.0, 1.5))),
    "ldp-imed-lcs": (IMEDLaplaceClip, Sigmoid(), (PURPLE, (3.0, 1.5))),
    "ldp-kl-ucb++-lc": (KLUCBPlusLaplaceClip, Range(), (GREEN, (3.0, 1.5))),
    "ldp-kl-ucb++-lcs": (KLUCBPlusLaplaceClip, Sigmoid(), (GREEN, (3.0, 1.5))),
    "ldp-duels-l": (DuelsLaplace, Range(), (GREY, (6.0, 2.0))),
    "ldp-equal-l": (EqualSharesLaplace, Range(), (GREY, (3.0, 1.5))),
    "ldp-imed-lb": (IMEDLaplaceBit, Range(), (PURPLE, (1.0, 1.2))),
    "ldp-kl-ucb++-lb": (KLUCBPlusLaplaceBit, Range(), (GREEN, (1.0, 1.2))),
}
"""Rules for Laplace responses. A threshold has no name behind the sigmoid, where no value is 0 or 1."""


def _beyond(suffix: str, transform: Transform) -> Iterator[tuple[str, _Known]]:
    """Return them behind a transform, without privacy and on the bits of CTB."""
    for name, (rule, look) in _BEYOND.items():
        title = f"{name}{suffix}".upper()
        yield f"{name}{suffix}", _Known(None, transform, LineStyle(f"{title}, no privacy", *look), rule=rule)
        yield f"ldp-{name}{suffix}", _Known(Bernoulli, transform, LineStyle(f"LDP-{title}", *look), rule=rule)


def _beyond_laplace() -> Iterator[tuple[str, _Known]]:
    for name, (rule_of, before, look) in _BEYOND_LAPLACE.items():
        yield name, _Known(Laplace, before, LineStyle(name.upper(), *look), rule_of=rule_of)


def _behind(threshold: Threshold) -> dict[str, _Known]:
    """Return all of them behind a threshold, by their names without the theta. No theorem is about these."""
    return {
        "ucb1-t": _Known(None, threshold, LineStyle("UCB1-T, no privacy", *_BASELINE)),
        "ldp-ucb-bt": _Known(Bernoulli, threshold, LineStyle("LDP-UCB-BT", *_BITS)),
        "ldp-ucb-lt": _Known(Laplace, threshold, LineStyle("LDP-UCB-LT", *_LAPLACE)),
        **dict(_beyond("-t", threshold)),
    }


_KNOWN = {**_PAPER, **dict(_beyond("", Range())), **dict(_beyond("-s", Sigmoid())), **dict(_beyond_laplace())}
NAMES = tuple(_KNOWN)
THRESHOLD_NAMES = tuple(f"{name}(THETA)" for name in _behind(Threshold(0.0)))
"""How those behind a threshold are named, as in ldp-imed-t(0.9)."""
CURATORS: dict[str, tuple[type[Bernoulli | Laplace] | None, Transform]] = {
    "none": (None, Range()),
    "none-s": (None, Sigmoid()),
    **PAPER_CURATORS,
}
"""The curators of the paper by its own names, and none."""
CURATOR_NAMES = (*CURATORS, *(f"{name}(THETA)" for name in ("none-t", *THRESHOLD_CURATORS)))


def _find(name: object) -> tuple[str, _Known]:
    """Return the algorithm of a name, and the name as we write it; say which names there are if there is none."""
    if isinstance(name, str):
        if name in _KNOWN:
            return name, _KNOWN[name]
        base, threshold = split_threshold(name)
        behind = None if threshold is None else _behind(threshold).get(base)
        if threshold is not None and behind is not None:
            return f"{base}({threshold.shown})", behind
    raise ParameterError(
        f"algorithm must be one of {', '.join((*NAMES, *THRESHOLD_NAMES))}, got {brief(name)}{_nearest(name)}"
    )


def _nearest(name: object) -> str:
    """Return the question whether the nearest name was meant; nothing where none is near."""
    near = get_close_matches(name.lower(), (*NAMES, *THRESHOLD_NAMES), 1) if isinstance(name, str) else []
    return f"; did you mean {near[0]}?" if near else ""


def is_private(name: str) -> bool:
    """Tell whether the algorithm of this name needs an epsilon."""
    return _find(name)[1].mechanism is not None


def algorithm(name: str, epsilon: float | None = None) -> Algorithm:
    """Return one of the paper's algorithms, or a baseline, by its name.

    >>> algorithm("ldp-ucb-b", epsilon=2).rule
    UCB(width=1.4142135623730951, floor=0.0)
    >>> algorithm("ldp-imed-t(0.9)", epsilon=2).curator.transform
    Threshold(theta=0.9)
    """
    name, known = _find(name)
    if known.mechanism is None:
        if epsilon is not None:
            raise ParameterError(f"{name} is not private and takes no epsilon, got {brief(epsilon)}")
        return Algorithm(name, known.rule or ucb1(), NotPrivate(known.transform), known.looks, known.bound)
    if epsilon is None:
        raise ParameterError(f"{name} is private and needs an epsilon")
    spec = CuratorSpec(known.mechanism(epsilon), known.transform)
    rule = known.rule if known.rule_of is None else known.rule_of(spec.epsilon)
    return Algorithm(name, rule or paper_rule(spec.mechanism), spec, known.looks, known.bound)


def with_rule(rule: Rule, curator: object = None, epsilon: float | None = None, name: str = "") -> Algorithm:
    """Return the algorithm that plays a rule of any kind on the responses of a curator.

    The curator is one of ours or yours, its spec, or the paper's name for it, such as "ctb", with an epsilon.
    Without a curator it is CTB, or none when there is no epsilon either. Its name is the rule's, unless it has one.

    >>> from ldpbandits import UCB
    >>> with_rule(UCB(width=0.5), "ctl", epsilon=2, name="narrow").curator
    CuratorSpec(mechanism=Laplace(epsilon=2.0), transform=Range(low=0.0, high=1.0))
    """
    return Algorithm(name or type(rule).__name__, rule, curator_of(curator, epsilon))


def curator_of(curator: object, epsilon: float | None) -> CuratorSpec | NotPrivate | Mix:
    """Return the curator that is meant: a curator, its spec, or the paper's name for it, with an epsilon."""
    spec = getattr(curator, "spec", curator)
    if isinstance(spec, CuratorSpec | NotPrivate | Mix):
        if epsilon is not None:
            raise ParameterError("epsilon: is part of the curator")
        return spec
    chosen = ("none" if epsilon is None else "ctb") if curator is None else curator
    found = _named_curator(chosen) if isinstance(chosen, str) else None
    if found is None:
        raise ParameterError(f"curator must be one of {', '.join(CURATOR_NAMES)}, or a spec, got {brief(chosen)}")
    mechanism, transform = found
    if mechanism is None and epsilon is not None:
        raise ParameterError(f"the curator {chosen} is not private and takes no epsilon")
    if mechanism is None:
        return NotPrivate(transform)
    if epsilon is None:
        raise ParameterError(f"the curator {chosen} is private and needs an epsilon")
    return CuratorSpec(mechanism(epsilon), transform)


def _named_curator(name: str) -> tuple[type[Bernoulli | Laplace] | None, Transform] | None:
    base, threshold = split_threshold(name)
    if threshold is not None and base == "none-t":
        return None, threshold
    return CURATORS.get(name) or find_curator(name)


def mixed(name: str, mix: Mix) -> Algorithm:
    """Return one of ours on a crowd of several epsilons, by its name with one.

    >>> mixed("ldp-imed", Mix.parse("0.5:0.5,2:0.5")).name
    'ldp-imed, epsilon 0.5:0.5,2:0.5'
    """
    name, known = _find(name)
    if known.mechanism is not Bernoulli:
        raise ParameterError(f"an epsilon of one's own is for the bits of CTB; {name} does not take them")
    menu = Menu(tuple(CuratorSpec(Bernoulli(epsilon), known.transform) for epsilon in mix.menu.epsilons))
    rule = paper_rule(menu.first) if known.rule is None else known.rule
    looks = LineStyle(f"{known.looks.label}, own epsilons", known.looks.colour, known.looks.dashes)
    return Algorithm(f"{name}, epsilon {mix.text}", rule, Mix(menu, mix.shares), looks)


def algorithms_from_json(table: object) -> list[Algorithm]:
    """Read what a file says of an algorithm: one of ours by name, or a rule and a curator, for one epsilon or several.

    {"name": "ldp-ucb-b", "epsilon": [0.2, 2]}            one of ours, twice
    {"rule": "my_module:MyRule", "epsilon": 1}            a rule of your own on CTB; curator, name: see `with_rule`
    {"name": "mine", "curator": {...}}                    the paper's rule on any curator
    {"name": ..., "rule": {...}, "curator": {...}}        what `Algorithm.to_json` writes
    """
    if not isinstance(table, Mapping) or not table.keys() <= {"name", "epsilon", "rule", "curator"}:
        raise ParameterError(f"an algorithm has a name or a rule, an epsilon and a curator, got {brief(table)}")
    if not {"name", "rule", "curator"} & table.keys():
        raise ParameterError("an algorithm needs a name, or a rule")
    epsilons, curator, name = table.get("epsilon"), table.get("curator"), table.get("name", "")
    if epsilons == []:
        raise ParameterError("epsilon: a list of epsilons needs at least one")
    listed: Sequence[Any] = epsilons if isinstance(epsilons, list) else [epsilons]
    if "rule" not in table and "curator" not in table:
        return [algorithm(name, epsilon) for epsilon in listed]
    spec = curator_or_none(curator) if isinstance(curator, Mapping) else None
    if spec is not None and epsilons is not None:
        raise ParameterError("epsilon: is part of the curator")
    played = []
    for epsilon in listed:
        seen = curator_of(curator, epsilon) if spec is None else spec
        own = rule_from_json(table["rule"], may_import=True) if "rule" in table else _usual_rule(seen)
        played.append(_like_ours(Algorithm(name or type(own).__name__, own, seen)))
    return played


def _usual_rule(curator: CuratorSpec | NotPrivate | Mix) -> Rule:
    match curator:
        case NotPrivate():
            return ucb1()
        case CuratorSpec(mechanism=mechanism):
            return paper_rule(mechanism)
        case Mix():
            return KLUCBPlus()


def curator_or_none(data: Mapping[str, Any]) -> CuratorSpec | NotPrivate | Mix:
    """Read a curator from JSON, of one epsilon or a mix of several, or that there is none."""
    if "shares" in data:
        return Mix.from_json(data)
    if data.get("mechanism") != NotPrivate.KIND:
        return CuratorSpec.from_json(data)
    check_keys("no curator", data, {"mechanism"}, {"mechanism", "transform"})
    return NotPrivate(TRANSFORMS.from_json(data.get("transform", {"kind": "range"})))


def _like_ours(played: Algorithm) -> Algorithm:
    """Return one of ours with its looks and bound, if that is what this is."""
    try:
        ours = algorithm(played.name, played.epsilon)
    except ParameterError:
        return played
    return ours if ours == played else played
