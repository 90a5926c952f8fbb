"""Behind a threshold: chances are those of the laws, arms of every law leap, and theta is found by private bits."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from ldpbandits import CuratorSpec, ParameterError, Threshold
from ldpbandits.lab import Experiment, algorithm, calibrate, simulate, with_rule
from ldpbandits.lab.algorithms import THRESHOLD_NAMES, algorithms_from_json, is_private
from ldpbandits.lab.engine.laws import encode_laws
from ldpbandits.lab.engine.laws import reward as draw_reward
from ldpbandits.lab.engine.sums import BITS, NOISY, encode_sums, mean_value
from ldpbandits.lab.panels.paper import GAUSSIAN
from ldpbandits.lab.rewards import Bernoulli, Beta, Choice, Empirical, Gaussian, Law, Uniform, gaps
from ldpbandits.spec.mechanisms import Laplace

PAST = Empirical("past.csv", "blue", (0.0, 1.0, 2.5), (5, 1, 4), "")
LAWS: list[Law] = [
    Bernoulli(0.3), Beta(4, 1), Beta(0.3, 2.0), Uniform(-2, 3), Choice((0.0, 1.0, 1.0, 2.0)), Gaussian(0.7, 2.0), PAST,
]  # fmt: skip


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("theta", [-3.0, 0.0, 0.9, 1.0, 2.5])
def test_the_chance_above_is_that_of_the_law(law: Law, theta: float) -> None:
    """Of 20,000 draws, as many lie above theta as `above` says. False alarm: 1e-6 a case; seeded."""
    laws, rng = encode_laws([law]), np.random.Generator(np.random.PCG64(5))
    above = sum(draw_reward(rng, laws, 0, 0) > theta for _ in range(20_000))
    assert mean_value(law, Threshold(theta)) == law.above(theta)
    assert stats.binomtest(above, 20_000, law.above(theta)).pvalue > 1e-6


def test_the_chance_above_is_exact() -> None:
    """By scipy's survival functions, also far out, where 1 - F would be 0."""
    assert Gaussian(0.7, 2.0).above(40.0) == pytest.approx(stats.norm(0.7, 2.0).sf(40.0), rel=1e-12)
    assert Gaussian(0.0, 1e-300).above(1e300) == 0
    assert Beta(0.3, 2.0).above(0.999) == pytest.approx(stats.beta(0.3, 2.0).sf(0.999), rel=1e-12)
    assert (Beta(4, 1).above(-1), Beta(4, 1).above(1), Uniform(-2, 3).above(0.5)) == (1, 0, 0.5)
    assert (Bernoulli(0.3).above(0), Bernoulli(0.3).above(1), Bernoulli(0.3).above(-0.1)) == (0.3, 0, 1)
    assert (PAST.above(1.0), Choice((0.0, 1.0)).above(0.0)) == (0.4, 0.5)


def test_every_law_has_two_values_behind_a_threshold() -> None:
    """So CTB and no privacy have bits, and CTL two values with noise: all of them can leap."""
    for name, kind in (("ldp-ucb-bt(0.9)", BITS), ("ucb1-t(0.9)", BITS), ("ldp-ucb-lt(0.9)", NOISY)):
        sums = encode_sums(algorithm(name, 1.0 if is_private(name) else None), LAWS)
        assert set(sums.kinds.tolist()) == {kind}
    chances = encode_sums(algorithm("ucb1-t(0.9)"), LAWS).chance
    assert chances == pytest.approx([law.above(0.9) for law in LAWS], abs=1e-15)


def last_pulls(name: str, engine: str, trials: int) -> NDArray[np.float64]:
    """Return how often the best arm was pulled in each trial."""
    epsilon = 2.0 if is_private(name) else None
    arms = [Gaussian(1.0), Gaussian(0.0), Uniform(-3, 3)]
    made = simulate(name, arms, 2_000, epsilon=epsilon, trials=trials, seed=4, engine=engine)  # type: ignore[arg-type]
    assert made.engine == engine
    return made.pulls[:, -1, 0]


@pytest.mark.parametrize("name", ["ucb1-t(0.5)", "ldp-ucb-bt(0.5)", "ldp-ucb-lt(0.5)"])
def test_leaps_have_the_law_of_steps(name: str) -> None:
    """Kolmogorov-Smirnov on the pulls of the best arm in 300 trials each. False alarm: 1e-5 a case; seeded."""
    assert stats.ks_2samp(last_pulls(name, "leap", 300), last_pulls(name, "step", 300)).pvalue > 1e-5


def plain_imed(theta: float, epsilon: float, horizon: int, seed: int) -> float:
    """IMED on thresholded bits as a page of numpy: no code of ours but the arms. Return its regret."""
    rng, means = np.random.default_rng(seed), np.array([arm.mean for arm in GAUSSIAN])
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    ones, pulls = np.zeros(len(means)), np.zeros(len(means))
    for t in range(horizon):
        if t < len(means):
            arm = t
        else:
            m = ones / pulls
            top = m.max()
            with np.errstate(divide="ignore", invalid="ignore"):
                up = np.where(m > 0, m * np.log(m / top), 0)
                down = np.where(m < 1, (1 - m) * np.log((1 - m) / (1 - top)), 0)
            arm = int(np.argmin(np.where(m == top, 0, pulls * (up + down)) + np.log(pulls)))
        bit = means[arm] + rng.standard_normal() > theta
        ones[arm] += bit if rng.random() < truth else not bit
        pulls[arm] += 1
    return float(pulls @ (means.max() - means))


def test_the_regret_is_that_of_a_plain_simulation() -> None:
    """Of IMED on the paper's Gaussian arms, within four joint standard errors. False alarm: 1e-3 at most; seeded."""
    plain = [plain_imed(0.9, 4.0, 4_000, seed) for seed in range(12)]
    made = simulate("ldp-imed-t(0.9)", GAUSSIAN, 4_000, epsilon=4, trials=100, seed=1)
    error = math.hypot(float(made.sem_regret[-1]), np.std(plain, ddof=1) / math.sqrt(len(plain)))
    assert abs(float(made.mean_regret[-1]) - np.mean(plain)) < 4 * error


def test_names_have_their_theta() -> None:
    """As it is written shortest; files and Python agree; without a number, or with none, it is no name."""
    made = algorithm("ldp-imed-t(0.90)", 1.0)
    assert (made.name, made.curator.transform) == ("ldp-imed-t(0.9)", Threshold(0.9))
    assert algorithm("ucb1-t(-1e3)").name == "ucb1-t(-1000)"
    assert algorithms_from_json({"name": "ldp-imed-t(0.90)", "epsilon": [1]}) == [made]
    (back,) = algorithms_from_json(made.to_json())
    assert (back, back.looks) == (made, made.looks)
    assert made.drawn_as.label == "LDP-IMED-T"
    assert with_rule(made.rule, "ctb-t(0.9)", 1.0).curator == made.curator
    assert with_rule(made.rule, "none-t(0.9)").curator == algorithm("imed-t(0.9)").curator
    noisy = with_rule(algorithm("ldp-ucb-l", 1.0).rule, "ctl-t(2)", 1.0)
    assert noisy.curator == CuratorSpec(Laplace(1.0), Threshold(2))
    for bad in ("ldp-imed-t", "ldp-imed-t()", "ldp-imed-t(x)", "ldp-imed-t(nan)", "ldp-imed(0.9)", "best(1)"):
        with pytest.raises(ParameterError, match=r"algorithm must be one of .*ldp-imed-t\(THETA\)"):
            algorithm(bad, 1.0)
    with pytest.raises(ParameterError, match=r"curator must be one of .*none-t\(THETA\), ctb-t\(THETA\)"):
        with_rule(made.rule, "ctb-t(x)", 1.0)
    with pytest.raises(ParameterError, match="is private and needs an epsilon"):
        algorithm("ldp-imed-t(1)")


def test_two_thetas_are_two_algorithms() -> None:
    """In one experiment, with curves of their own."""
    tables = [{"name": f"ldp-ucb-bt({theta})", "epsilon": 1} for theta in (0, 1)]
    made = Experiment.from_json({"arms": ["2*gaussian(0,1)"], "horizon": 100, "trials": 2, "algorithms": tables})
    first, second = made.play()
    assert (first.algorithm.name, second.algorithm.name) == ("ldp-ucb-bt(0)", "ldp-ucb-bt(1)")
    assert made.curves[0].entropy != made.curves[1].entropy


@pytest.mark.parametrize("name", THRESHOLD_NAMES)
def test_each_name_plays(name: str) -> None:
    """On arms that no range holds, with and without privacy; regret is less than that of equal shares, or the same."""
    name = name.replace("THETA", "0.5")
    arms, epsilon = ["gaussian(2,1)", "3*gaussian(-1,1)"], 4 if is_private(name) else None
    made = simulate(name, arms, 2_000, epsilon=epsilon, seed=1, trials=2)
    assert (made.pulls.sum(axis=2) == np.array(made.checkpoints)).all()
    most = 1.1 if "equal" in name else 0.9
    assert made.mean_regret[-1] < most * 2_000 * np.mean(gaps(made.arms))


def test_a_calibration_is_the_search_played() -> None:
    """The same seed gives the same search; its pulls go round, and its regret is theirs."""
    found = calibrate(GAUSSIAN, -100, 100, epsilon=0.5, seed=3)
    assert found.to_json() == calibrate(GAUSSIAN, -100, 100, epsilon=0.5, seed=3).to_json()
    assert 0.3 < found.above < 0.7
    rounds, rest = divmod(found.search.spent, 20)
    pulls = np.array([rounds + (arm < rest) for arm in range(20)])
    assert found.regret == pytest.approx(float(pulls @ np.array(gaps(GAUSSIAN))))
    assert found.to_json()["responses"] == found.search.spent


def test_calibrated_thresholds_halve_the_rewards() -> None:
    """In 60 searches on arms far apart, P(reward > theta) is within [0.25, 0.75] but for two at most; seeded.

    Beyond, a step of 1,668 responses is left undecided with probability below 1e-6, and decided wrongly at 1/2 with
    probability below 0.6 %: more than two of 60 have a chance of 5 % at the most.
    """
    arms = ["gaussian(30,5)", "gaussian(32,5)"]
    chances = [calibrate(arms, -100, 100, epsilon=0.5, seed=seed).above for seed in range(60)]
    assert sum(not 0.25 <= chance <= 0.75 for chance in chances) <= 2


def test_a_calibration_that_would_never_end_is_refused() -> None:
    """Before anything is drawn."""
    with pytest.raises(ParameterError, match="more than 1e\\+09 are not simulated"):
        calibrate(GAUSSIAN, -1, 1, epsilon=1e-5, seed=0)
    with pytest.raises(ParameterError, match="at least one arm"):
        calibrate([], -1, 1, epsilon=1, seed=0)
