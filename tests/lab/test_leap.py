"""Leaps have exactly the law of the per-round simulator, and a wrong leap is noticed."""

import math
from decimal import Decimal, localcontext
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.faults import some, spread

from ldpbandits import UCB, CuratorSpec, Range, ucb1
from ldpbandits.lab.algorithms import Algorithm, NotPrivate, algorithm
from ldpbandits.lab.engine import blocks, leap, leap_ucb
from ldpbandits.lab.engine.leap_ucb import Leader
from ldpbandits.lab.engine.sums import Sums
from ldpbandits.lab.experiments import simulate
from ldpbandits.lab.panels import paper
from ldpbandits.lab.play import Engine, Trials
from ldpbandits.lab.rewards import Law, gaps, parse_arms
from ldpbandits.spec import mechanisms
from ldpbandits.theory import bounds

FALSE_ALARM = 1e-6
"""Of each comparison; there are about 600 in this file, all seeded."""


def arms(*texts: str) -> list[Law]:
    """Read several arms."""
    return [arm for text in texts for arm in parse_arms(text)]


def statistics(played: Algorithm, bandit: list[Law], horizon: int, trials: int, engine: Engine) -> NDArray[np.float64]:
    """What is compared of a run: of the first arms, pulls and how far the index is behind the largest; and the regret.

    A leap that goes too far leaves the leader behind in index, which shows long before it shows in the pulls.
    """
    bandit_trials = Trials(played, bandit, engine)
    pulls, totals = np.zeros((trials, len(bandit))), np.zeros((trials, len(bandit)))
    for trial, stream in enumerate(np.random.SeedSequence([horizon, engine == "leap"]).spawn(trials)):
        rng = np.random.Generator(np.random.PCG64(stream))
        for t, until in ((0, horizon // 3), (horizon // 3, horizon)):
            bandit_trials._advance(rng, pulls[trial], totals[trial], t, until)
    assert (pulls.sum(axis=1) == horizon).all()
    assert isinstance(played.rule, UCB)
    indexes = totals / pulls + played.rule.width * np.sqrt(np.log(horizon) / pulls)
    behind = indexes.max(axis=1, keepdims=True) - indexes
    return np.vstack([pulls.T[:4], behind.T[:4], pulls @ np.array(gaps(bandit))])


def smallest_p(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """The smallest p-value of two-sample Kolmogorov-Smirnov tests, one for each statistic that varies."""
    pairs = [(x, y) for x, y in zip(one, other, strict=True) if np.ptp(x) > 0 or np.ptp(y) > 0]
    return min((float(stats.ks_2samp(x, y, method="asymp").pvalue) for x, y in pairs), default=1.0)


MUTANTS = {
    "a slope half as large": ("widths[arm] * root / (2 * pulls[arm])", "widths[arm] * root / (4 * pulls[arm])"),
    "a gap twice as large": ("gap = min(gap, WIDEST)", "gap = 2 * min(gap, WIDEST)"),
}
KERNEL_MUTANTS = {
    "room that does not shrink": ("(leader.gap - k * leader.drift)", "leader.gap"),
    "room for one zero more": ("return pull_bits(rng, chance, slack,", "return pull_bits(rng, chance, slack + 1,"),
}
NOISE_MUTANTS = {
    "noise that passes unseen": ("and rng.random() >= exp(-2 * level * (level + noise) / time)", ""),
    "no overshoot": ("NoisePath(before + 1, overshoot - level", "NoisePath(before + 1, -level"),
    "a pull too many": ("NoisePath(before + 1, overshoot", "NoisePath(min(before + 2, k), overshoot"),
    "a bridge that passes": ("if rng.random() < before * after:", "if True:"),
    "a flat bridge": ("return sqrt(x * x + y * y + z * z) - level", "return x - level"),
}


DARING = ("NOISE_MARGIN = 1.0", "NOISE_MARGIN = 0.25")


def mutant(of: ModuleType, *changes: tuple[str, str]) -> dict[str, Any]:
    """Return a copy of a module with some lines changed."""
    source = Path(str(of.__file__)).read_text(encoding="utf-8")
    for change in changes:
        assert source.count(change[0]) == 1, change[0]
        source = source.replace(*change)
    source = source.replace("import compiled, uncached", "import uncached").replace("@compiled", "@uncached")
    module: dict[str, Any] = {"__name__": "mutant"}
    exec(compile(source, "mutant", "exec"), module)  # noqa: S102 - our own source
    return module


TWO = arms("bernoulli(0.9)", "bernoulli(0.6)")
EQUAL = arms("bernoulli(0.5)", "bernoulli(0.5)")
CLOSE = arms("bernoulli(0.5)", "bernoulli(0.499)")
ODD = arms("bernoulli(0.9)", "choice(-3,1)", "uniform(-1,2)", "beta(2,3)")
MANY = arms("bernoulli(0.9)", "199*bernoulli(0.4)")
INSTANCES: list[tuple[str, float | None, list[Law], int, int]] = [
    ("ucb1", None, TWO, 1_000, 8_000),
    ("ucb1", None, TWO, 20_000, 1_000),
    ("ucb1", None, CLOSE, 2_000, 4_000),
    ("ucb1", None, list(paper.MIXED), 3_000, 2_000),
    ("ucb1", None, arms("bernoulli(1)", "bernoulli(0)"), 2_000, 500),
    ("ucb1", None, arms("bernoulli(0.05)", "bernoulli(0.02)", "bernoulli(0.01)"), 3_000, 1_000),
    ("ucb1-s", None, list(paper.GAUSSIAN), 3_000, 2_000),
    ("ldp-ucb-b", 8.0, TWO, 1_000, 8_000),
    ("ldp-ucb-b", 1.0, TWO, 2_000, 8_000),
    ("ldp-ucb-b", 1.0, TWO, 50_000, 600),
    ("ldp-ucb-b", 0.05, TWO, 20_000, 1_000),
    ("ldp-ucb-b", 0.5, EQUAL, 2_000, 4_000),
    ("ldp-ucb-b", 2.0, list(paper.BERNOULLI), 3_000, 2_000),
    ("ldp-ucb-b", 2.0, list(paper.MIXED), 3_000, 2_000),
    ("ldp-ucb-b", 4.0, MANY, 3_000, 600),
    ("ldp-ucb-bs", 4.0, list(paper.GAUSSIAN), 3_000, 2_000),
    ("ldp-ucb-bs", 2.0, ODD, 3_000, 3_000),
    ("ldp-ucb-l", 8.0, TWO, 1_000, 8_000),
    ("ldp-ucb-l", 1.0, TWO, 2_000, 8_000),
    ("ldp-ucb-l", 1.0, TWO, 50_000, 600),
    ("ldp-ucb-l", 0.05, TWO, 20_000, 1_000),
    ("ldp-ucb-l", 2.0, EQUAL, 2_000, 4_000),
    ("ldp-ucb-l", 4.0, CLOSE, 2_000, 4_000),
    ("ldp-ucb-l", 2.0, list(paper.BERNOULLI), 3_000, 2_000),
    ("ldp-ucb-l", 2.0, list(paper.MIXED), 3_000, 2_000),
    ("ldp-ucb-l", 8.0, MANY, 3_000, 600),
    ("ldp-ucb-l", 1.0, arms("choice(0.25,0.25)", "choice(0.5,1)"), 10_000, 1_500),
    ("ldp-ucb-l", 1.0, arms("bernoulli(0.7)"), 500, 200),
    ("ldp-ucb-ls", 4.0, list(paper.GAUSSIAN), 3_000, 2_000),
    ("ldp-ucb-ls", 2.0, ODD, 3_000, 3_000),
]


@pytest.mark.parametrize(("name", "epsilon", "bandit", "horizon", "trials"), spread(INSTANCES, 10))
def test_leaps_have_the_law_of_steps(
    name: str, epsilon: float | None, bandit: list[Law], horizon: int, trials: int
) -> None:
    """Pulls, indexes and regret have the same distribution under both engines. False alarm: 1e-6 each; seeded."""
    played = algorithm(name, epsilon)
    leaps, steps = (statistics(played, bandit, horizon, trials, engine) for engine in ("leap", "step"))
    assert smallest_p(leaps, steps) > FALSE_ALARM


def test_a_declared_range_leaps_too() -> None:
    """Rewards in [-2, 3] and no curator, CTB and CTL: the same law."""
    bandit = arms("choice(-2,3)", "uniform(-1,1)", "choice(-2,-1,3)")
    for curator in (
        NotPrivate(Range(-2, 3)),
        CuratorSpec(mechanisms.Bernoulli(2.0), Range(-2, 3)),
        CuratorSpec(mechanisms.Laplace(2.0), Range(-2, 3)),
    ):
        rule = algorithm("ldp-ucb-l", 2.0).rule if getattr(curator, "mechanism", "") == "laplace" else ucb1()
        played = Algorithm("declared", rule, curator)
        leaps, steps = (statistics(played, bandit, 5_000, 1_500, engine) for engine in ("leap", "step"))
        assert smallest_p(leaps, steps) > FALSE_ALARM


@numba.njit(error_model="numpy")  # type: ignore[untyped-decorator]
def passage(once: Any, rng: np.random.Generator, law: Any, most: int, gap: float, drift: float) -> tuple[int, float]:
    """Play a leader in leaps until its gap is gone, or `most` pulls; return how many, and the gap then."""
    pulls, mean, played = 1_000.0, law[0], 0
    while True:
        k, total = once(rng, law, Leader(pulls, mean, gap, drift, most - played))
        after = (mean * pulls + total) / (pulls + k)
        gap += after - mean - k * drift
        pulls, mean, played = pulls + k, after, played + k
        if gap < 0 or played >= most:
            return played, gap


@numba.njit(error_model="numpy")  # type: ignore[untyped-decorator]
def one_response(rng: np.random.Generator, law: Any, leader: Leader) -> tuple[int, float]:
    """The plainest leap: a single response."""
    _, rare, scale = law
    reward = 1.0 if rng.random() >= rare else 0.0
    return 1, reward + scale * (rng.standard_exponential() - rng.standard_exponential())


def kernel_leap(module: dict[str, Any]) -> Any:
    """A leap by the module's own kernels, for the law (mean, rare, scale)."""
    bits, noisy = module["bits"], module["_noisy"]

    @numba.njit(error_model="numpy")  # type: ignore[untyped-decorator]
    def leap_once(rng: np.random.Generator, law: Any, leader: Leader) -> tuple[int, float]:
        _, rare, scale = law
        if scale == 0:
            return bits(rng, 1 - rare, leader)  # type: ignore[no-any-return]
        ones = np.ones(1)
        return noisy(rng, Sums(np.ones(1, np.int64), ones, ones, ones, rare * ones, scale), 0, leader)  # type: ignore[no-any-return]

    return leap_once


@cache  # it takes seconds to compile
def leap_of_blocks(daring: bool) -> Any:  # noqa: FBT001 - two sorts
    """A leap by the kernels as they are, or by daring ones."""
    return kernel_leap(mutant(leap_ucb, DARING) if daring else vars(leap_ucb))


KERNELS = [
    # gap, drift, rare, scale: chosen so that every branch of a block is taken often
    (0.15, 1e-6, 0.1, 0.0),
    (0.10, 5e-5, 0.3, 0.0),
    (0.06, 1e-6, 0.46, 0.0),
    (0.01, 1e-7, 0.50, 0.0),
    (0.06, 3e-5, 0.52, 0.0),
    (0.20, 1e-6, 0.1, 0.5),
    (0.15, 5e-5, 0.4, 0.5),
    (0.30, 1e-6, 0.5, 5.0),
    (0.30, 1e-4, 0.02, 1.0),
]


def passages(leap_once: Any, case: tuple[float, ...], seed: int, runs: int = 3_000) -> NDArray[np.float64]:
    """Pulls and gap at the passage, of many runs."""
    gap, drift, rare, scale = case
    rng = np.random.default_rng(seed)
    return np.array([passage(leap_once, rng, (1 - rare, rare, scale), 6_000, gap, drift) for _ in range(runs)]).T


@pytest.mark.parametrize("case", spread(KERNELS, 3))
@pytest.mark.parametrize("daring", [False, True])
def test_blocks_pass_the_gap_when_single_responses_do(case: tuple[float, ...], daring: bool) -> None:  # noqa: FBT001
    """When a leader loses its lead, and by how much, has the same law in blocks as response by response.

    Also with blocks so long that most have to be cut, by every way there is to cut one.
    """
    assert smallest_p(passages(leap_of_blocks(daring), case, 1), passages(one_response, case, 2)) > FALSE_ALARM


@numba.njit(error_model="numpy")  # type: ignore[untyped-decorator]
def noise_in_blocks(noise: Any, rng: np.random.Generator, n: int, level: float, scale: float) -> float:
    """The noise of n pulls, block after block."""
    total, left = 0.0, n
    while left > 0:
        path = noise(rng, left, level, scale)
        total, left = total + path.noise, left - path.pulls
    return total


@numba.njit(error_model="numpy")  # type: ignore[untyped-decorator]
def noise_between(
    noise: Any, noise_at: Any, rng: np.random.Generator, n: int, j: int, level: float, scale: float
) -> float:
    """The noise of j pulls, looked up inside a block of n where it reaches so far."""
    path = noise(rng, n, level, scale)
    if j <= path.pulls:
        return noise_at(rng, path, level, j)  # type: ignore[no-any-return]
    return path.noise + noise_in_blocks(noise, rng, j - path.pulls, 1e9, scale)  # type: ignore[no-any-return]


@numba.njit(error_model="numpy")  # type: ignore[untyped-decorator]
def many_noises(
    noise: Any, noise_at: Any, rng: np.random.Generator, n: int, j: int, level: float, scale: float, runs: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The noise of n pulls, and of j, in many runs each."""
    ends, middles = np.empty(runs), np.empty(runs)
    for run in range(runs):
        ends[run] = noise_in_blocks(noise, rng, n, level, scale)
        middles[run] = noise_between(noise, noise_at, rng, n, j, level, scale)
    return ends, middles


def noise_p(module: dict[str, Any]) -> float:
    """The smallest p-value of tests that noise in blocks, and inside blocks, is a sum of Laplace noises."""
    rng, draw, look, found = np.random.default_rng(6), module["draw_noise"], module["noise_at"], []
    for n, j, level, scale in ((12, 5, 3.0, 1.0), (40, 30, 2.0, 1.0), (200, 60, 10.0, 0.7)):
        exact = rng.laplace(0, scale, (40_000, n))
        ends, middles = many_noises(draw, look, rng, n, j, level, scale, 40_000)
        pairs = ((ends, exact.sum(axis=1)), (middles, exact[:, :j].sum(axis=1)))
        found += [float(stats.ks_2samp(one, other, method="asymp").pvalue) for one, other in pairs]
    return min(found)


def test_noise_in_blocks_is_laplace_noise() -> None:
    """Sums over blocks, and values inside them, have the law of summed Laplace noise. False alarm: 1e-6; seeded."""
    assert noise_p(vars(leap_ucb)) > FALSE_ALARM


@pytest.mark.parametrize("name", some(NOISE_MUTANTS))
def test_wrong_noise_is_caught(name: str) -> None:
    """The comparison with Laplace noise fails for each mutant."""
    assert noise_p(mutant(leap_ucb, NOISE_MUTANTS[name])) < FALSE_ALARM


@pytest.mark.parametrize("rare", [0.02, 0.3, 0.45, 0.5, 0.55, 0.98])
def test_every_leap_makes_progress(rare: float) -> None:
    """Whatever gap, drift and pulls, a leap is at least one pull and at most as many as are due."""
    rng = np.random.default_rng(4)
    for _ in range(20_000):
        pulls = 10 ** rng.uniform(0, 7)
        gap = 10 ** rng.uniform(-9, 0)
        most = int(10 ** rng.uniform(0, 5))
        leader = Leader(pulls, float(rng.random()), gap, gap * 10 ** rng.uniform(-6, 1), most)
        k, total = leap_ucb.bits(rng, 1 - rare, leader)
        assert 1 <= k <= most
        assert 0 <= total <= k
        k, _ = leap_ucb._noisy(rng, one_arm(rare, 1.0), 0, leader)
        assert 1 <= k <= most


def one_arm(rare: float, scale: float) -> Sums:
    """The sums of a Bernoulli arm behind Laplace noise."""
    ones = np.ones(1)
    return Sums(np.ones(1, np.int64), ones, ones, ones, rare * ones, scale)


def test_no_arm_starves_past_a_leap() -> None:
    """Under LDP-UCB-L every arm has more than 4 log(t + 1 - n) pulls at every t, also where the leader leaps far."""
    assert starved(Trials(algorithm("ldp-ucb-l", 8.0), APART)) == 0


APART = arms("bernoulli(1)", "bernoulli(0)", "bernoulli(0)")


def starved(trials: Trials) -> int:
    """Count the checkpoints at which an arm has too few pulls."""
    points = [int(10 ** (2 + i / 100)) for i in range(401)]
    return sum(
        pulls.min() <= 4 * np.log(t + 1 - len(APART))
        for seed in range(20)
        for t, pulls in zip(points, trials.play(points, np.random.default_rng(seed)), strict=True)
    )


@pytest.mark.parametrize("name", some(MUTANTS))
def test_a_wrong_leap_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison of the engines fails for each mutant: it can fail."""
    instance = INSTANCES[0]
    steps = statistics(algorithm(*instance[:2]), *instance[2:], "step")
    monkeypatch.setitem(leap.LEAPS, UCB, mutant(leap_ucb, MUTANTS[name])["leap_ucb"])  # type: ignore[misc]
    assert smallest_p(statistics(algorithm(*instance[:2]), *instance[2:], "leap"), steps) < FALSE_ALARM


@pytest.mark.parametrize("name", some(KERNEL_MUTANTS))
def test_a_wrong_block_is_caught(name: str) -> None:
    """The comparison of blocks with single responses fails for each mutant, in at least one case."""
    wrong = kernel_leap(mutant(leap_ucb, DARING, KERNEL_MUTANTS[name]))
    smallest = min(smallest_p(passages(wrong, case, 1), passages(one_response, case, 2)) for case in KERNELS)
    assert smallest < FALSE_ALARM


def test_a_leap_over_starving_arms_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaping past the round at which an arm starves is noticed."""
    change = ("most = max(1, int(quiet_until - t))", "most = until - t")
    monkeypatch.setitem(leap.LEAPS, UCB, mutant(leap_ucb, change)["leap_ucb"])  # type: ignore[misc]
    assert starved(Trials(algorithm("ldp-ucb-l", 8.0), APART)) > 0


@pytest.mark.parametrize("name", ["ucb1", "ldp-ucb-b", "ldp-ucb-l"])
def test_far_horizons_are_reached(name: str) -> None:
    """T = 1e10 takes moments, pulls add up exactly, and the regret is between the lower and the upper bound."""
    epsilon = None if name == "ucb1" else 2.0
    made = simulate(algorithm(name, epsilon), paper.BERNOULLI, 10**10, trials=2, seed=1)
    assert (made.pulls.sum(axis=2) == np.array(made.checkpoints)).all()
    found = gaps(paper.BERNOULLI)
    upper = {"ucb1": bounds.ucb1_bound(found, 1e10), "ldp-ucb-b": bounds.theorem_3(found, 2, 1e10)}
    assert 1_000 < made.mean_regret[-1] < upper.get(name, bounds.theorem_2(found, 2, 1e10))


def test_constant_and_only_arms_leap_far() -> None:
    """One arm, and arms whose reward never varies, are blocks too: T = 1e11 takes moments."""
    for name, epsilon, bandit in (
        ("ldp-ucb-b", 1.0, arms("bernoulli(0.5)")),
        ("ldp-ucb-l", 1.0, arms("bernoulli(0.5)")),
        ("ldp-ucb-l", 1.0, arms("choice(0.5,0.5)", "choice(0.2)")),
        ("ucb1", None, arms("bernoulli(1)", "bernoulli(0)")),
    ):
        made = simulate(algorithm(name, epsilon), bandit, 10**11, trials=1, seed=1)
        assert made.pulls[0, -1].sum() == 10**11


@pytest.mark.parametrize("k", [10**6, 10**9, 10**12, 10**15])
def test_the_chance_of_a_lead_is_accurate(k: int) -> None:
    """log C(k, m) / C(k, z) to 1e-7, checked in 60 digits, where log-gamma functions would lose them."""
    with localcontext() as context:
        context.prec = 60

        def log_factorial(n: int) -> Decimal:
            x = Decimal(n)
            series = 1 / (12 * x) - 1 / (360 * x**3) + 1 / (1260 * x**5)
            return x * x.ln() - x + (2 * Decimal(math.pi) * x).ln() / 2 + series

        for shift, lead in ((0, 2), (1, 3), (-2, 5)):
            zeros = k // 2 + int(shift * math.sqrt(k))
            mirrored = k - zeros + int(lead * math.sqrt(k))
            exact = (
                log_factorial(zeros) + log_factorial(k - zeros) - log_factorial(mirrored) - log_factorial(k - mirrored)
            )
            assert blocks.log_ratio(float(k), float(zeros), float(mirrored)) == pytest.approx(float(exact), abs=1e-7)
