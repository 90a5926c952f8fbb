"""The panels beyond the paper as data: its bandits with rules that reach the limit, tails, thresholds, own epsilons.

| panel                                   | subject                                                                    |
|-----------------------------------------|----------------------------------------------------------------------------|
| bernoulli-2, bernoulli-1, bernoulli-0.2 | the paper's Bernoulli arms: who comes near the exact lower bound           |
| mixed-1                                 | the same for its mixed types of arms                                       |
| tails                                   | two arms: the worst trials beside the mean                                 |
| threshold                               | its Gaussian arms: bits behind a threshold beside the sigmoid              |
| own-epsilon                             | each user picks an epsilon: beside all at the smallest, all at the largest |
| drift                                   | equal arms: how often a test declares one, if the level of all arms moves  |
"""

from collections.abc import Sequence
from dataclasses import replace

from ldpbandits.lab.algorithms import Algorithm, LineStyle, algorithm, mixed
from ldpbandits.lab.mix import Mix
from ldpbandits.lab.panels.panel import PAPERS_TRIALS, FalseVerdicts, Limit, Panel, Tails
from ldpbandits.lab.panels.paper import BERNOULLI, EPSILONS, GAUSSIAN, MIXED
from ldpbandits.lab.rewards import Law, parse_arms
from ldpbandits.output.colours import GREEN, ORANGE, PURPLE
from ldpbandits.theory import bounds

HORIZON = 10**9
"""The longest horizon of these panels."""
DOTS = (1.0, 1.2)
"""Dots are for algorithms without privacy; the colour is by rule."""
PAPERS, BITS = ("ucb-l", "ucb-b"), ("kl-ucb", "kl-ucb++", "imed", "ts")


def _means(arms: Sequence[Law]) -> list[float]:
    return [arm.mean for arm in arms]


def _open(name: str) -> Algorithm:
    """Return an algorithm without privacy, drawn in dots."""
    known = algorithm(name)
    return replace(known, looks=replace(known.drawn_as, dashes=DOTS))


def _private(epsilon: float, *rules: str) -> tuple[Algorithm, ...]:
    return tuple(algorithm(f"ldp-{rule}", epsilon) for rule in rules)


def _bernoulli(epsilon: float, trials: int = PAPERS_TRIALS) -> Panel:
    """Compare the paper's rules, those that reach the limit, and the latter without privacy."""
    return Panel(
        f"bernoulli-{epsilon:g}",
        f"Bernoulli arms, epsilon = {epsilon:g}",
        f"beyond/bernoulli-{epsilon:g}",
        BERNOULLI,
        _open("ucb1"),
        (*_private(epsilon, *PAPERS, *BITS), _open("kl-ucb++"), _open("imed")),
        Limit(bounds.exact_constant(_means(BERNOULLI), epsilon), "any private policy"),
        HORIZON,
        trials,
    )


def _like(base: Algorithm, label: str, colour: str, dashes: tuple[float, ...]) -> Algorithm:
    return replace(base, looks=LineStyle(label, colour, dashes))


RULES = {"kl-ucb++": GREEN, "imed": PURPLE}
THETA, GAUSSIAN_EPSILON = 0.9, 0.5
_TRANSFORMS = {
    "t(0.9)": ("threshold 0.9", (1.0, 0.0)),
    "t(0)": ("threshold 0", (6.0, 2.0)),
    "s": ("sigmoid", (2.0, 1.0)),
}
_SMALLEST, _LARGEST = EPSILONS[0], EPSILONS[-1]
SHARE = 1 / len(EPSILONS)
CROWD = Mix.parse(",".join(f"{epsilon:g}:{SHARE:g}" for epsilon in EPSILONS))
"""A fifth of the users picks each of the epsilons."""


def _behind_transforms() -> tuple[Algorithm, ...]:
    return tuple(
        _like(algorithm(f"ldp-{rule}-{suffix}", GAUSSIAN_EPSILON), f"{words}, LDP-{rule.upper()}", colour, dashes)
        for suffix, (words, dashes) in _TRANSFORMS.items()
        for rule, colour in RULES.items()
    )


def _crowds() -> tuple[Algorithm, ...]:
    played = []
    for rule, colour in RULES.items():
        name, title = f"ldp-{rule}", f"LDP-{rule.upper()}"
        played += [
            _like(algorithm(name, _SMALLEST), f"{title}, all at {_SMALLEST:g}", colour, (6.0, 2.0)),
            _like(mixed(name, CROWD), f"{title}, own epsilons", colour, (1.0, 0.0)),
            _like(algorithm(name, _LARGEST), f"{title}, all at {_LARGEST:g}", colour, (2.0, 1.0)),
        ]
    return tuple(played)


PANELS = (
    _bernoulli(2.0),
    _bernoulli(1.0),
    _bernoulli(0.2, trials=20),
    Panel(
        "mixed-1", "Mixed types of arms, epsilon = 1", "beyond/mixed-1", MIXED,
        _open("ucb1"), _private(1.0, "ucb-b", *BITS),
        Limit(bounds.exact_constant(_means(MIXED), 1.0), "any policy on the bits of CTB"), HORIZON,
        note="The bits of CTB have the same law as for Bernoulli arms of the same means.",
    ),
    Panel(
        "tails", "Two Bernoulli arms, gap 0.1, epsilon = 1: the worst trials beside the mean", "beyond/tails",
        (*parse_arms("bernoulli(0.6)"), *parse_arms("bernoulli(0.5)")),
        _open("ucb1"), _private(1.0, *PAPERS, *BITS),
        Tails(), 50_000, trials=1_000,
    ),
    Panel(
        "threshold", f"Gaussian arms, epsilon = {GAUSSIAN_EPSILON:g}", "beyond/threshold", GAUSSIAN,
        _open("ucb1-s"), (algorithm("ldp-ucb-bs", GAUSSIAN_EPSILON), *_behind_transforms()),
        Limit(
            bounds.threshold_constant(_means(GAUSSIAN), [arm.above(THETA) for arm in GAUSSIAN], GAUSSIAN_EPSILON),
            f"any policy on bits behind the threshold {THETA:g}",
        ),
        10**7,
        note="A threshold ranks arms by P(reward > theta): with one law of noise for all arms, that is their order.",
    ),
    Panel(
        "own-epsilon", "Bernoulli arms, a fifth of the users each at epsilon 0.2, 0.5, 1, 2, 4",
        "beyond/own-epsilon", BERNOULLI,
        _open("ucb1"), _crowds(),
        Limit(
            bounds.mixed_constant(_means(BERNOULLI), _means(BERNOULLI), dict.fromkeys(EPSILONS, SHARE)),
            "any policy on the bits of this crowd",
        ),
        10**5,
        trials=10,
        note="Each bit counts by its own likelihood. Epsilons are picked whatever the arm and the reward.",
    ),
    Panel(
        "drift", "Three equal arms, epsilon = 4: verdicts, all of them wrong, with and without drift", "beyond/drift",
        tuple(parse_arms("3*drift(0.3,0.1,40000)")),
        algorithm("ldp-kl-ucb++", 4.0),
        (algorithm("ldp-equal", 4.0), _like(algorithm("ldp-duels", 4.0), "LDP-DUELS", ORANGE, (1.0, 0.0))),
        FalseVerdicts(
            tuple(parse_arms("3*bernoulli(0.3)")),
            {"ldp-kl-ucb++": ("pair", "intervals"), "ldp-equal": ("coin", "pair", "intervals"), "ldp-duels": ("coin",)},
        ),
        120_000, trials=1_000,
        note="kl-ucb++ pulls arms at different times, so that a common movement looks like a difference.",
    ),
)  # fmt: skip
