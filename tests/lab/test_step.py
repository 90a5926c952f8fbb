"""The per-round simulator plays what is deployed, and its rewards and responses have their laws."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numba
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from ldpbandits import Agent, BernoulliCurator, CuratorSpec, ParameterError, Response, Rule, ucb1
from ldpbandits.agent.kernels import ArmView, Parameters, Random
from ldpbandits.lab.algorithms import NAMES, Algorithm, algorithm, is_private
from ldpbandits.lab.engine.channels import known_response
from ldpbandits.lab.engine.laws import encode_laws
from ldpbandits.lab.engine.laws import reward as draw_reward
from ldpbandits.lab.engine.step import compile_steps, encode
from ldpbandits.lab.experiments import simulate
from ldpbandits.lab.panels import paper
from ldpbandits.lab.play import Trials
from ldpbandits.lab.rewards import Beta, Choice, Drift, Empirical, Gaussian, Law, Uniform, parse_arms
from ldpbandits.spec import mechanisms
from ldpbandits.spec.transforms import Range


@pytest.mark.parametrize("name", ["ucb1", "ldp-ucb-b", "ldp-ucb-l"])
def test_compiled_and_live_agents_pull_the_same_arm_at_every_round(name: str) -> None:
    """For 100,000 rounds of the paper's mixed arms, the compiled loop and `Agent` choose the same arm.

    The live agent gets its responses from the same stream through the same functions, run by Python.
    """
    rounds = 100_000
    played = algorithm(name, 2.0 if is_private(name) else None)
    (play, _), advance = encode(played, paper.MIXED), compile_steps(played, paper.MIXED)
    compiled_rng, live_rng = (np.random.Generator(np.random.PCG64(17)) for _ in range(2))
    pulls, totals = np.zeros(20), np.zeros(20)
    agent = Agent(played.rule, 20)
    before = pulls.copy()
    for t in range(rounds):
        advance(compiled_rng, pulls, totals, t, t + 1)
        arm = agent.select()
        reward = draw_reward.py_func(live_rng, play.laws, arm, t)  # type: ignore[attr-defined]
        response = known_response.py_func(live_rng, play.channel, reward)  # type: ignore[attr-defined]
        agent.update(arm, Response(float(response)))
        before[arm] += 1
        assert pulls[arm] == before[arm], t
    assert agent.pulls == tuple(pulls)
    assert agent.totals == tuple(totals)


def draws(law: Law, played: Algorithm, count: int, seed: int) -> NDArray[np.float64]:
    """Responses of a single arm, one by one."""
    advance = compile_steps(played, [law])
    rng = np.random.Generator(np.random.PCG64(seed))
    made = np.empty(count)
    for i in range(count):
        pulls, totals = np.ones(1), np.zeros(1)
        advance(rng, pulls, totals, 1, 2)
        made[i] = totals[0]
    return made


@pytest.mark.parametrize(
    ("law", "cdf"),
    [
        (Beta(4, 1), stats.beta(4, 1).cdf),
        (Uniform(0, 1), stats.uniform(0, 1).cdf),
        (Gaussian(0.7, 2.0), lambda y: stats.norm(0.7, 2.0).cdf(np.log(y / (1 - y)))),
    ],
)
def test_rewards_have_their_law(law: Law, cdf: object) -> None:
    """Kolmogorov-Smirnov on 20,000 rewards of each continuous law. False alarm: 1e-6; seeded."""
    name = "ucb1-s" if isinstance(law, Gaussian) else "ucb1"
    assert stats.kstest(draws(law, algorithm(name), 20_000, 1), cdf).pvalue > 1e-6


def test_rewards_of_ones_own_data_have_their_law() -> None:
    """Chi-square on 20,000 rewards of an arm's past. False alarm: 1e-6; seeded. Its neighbours in the row stay out."""
    past = Empirical("past.csv", "blue", (0.0, 0.25, 0.5, 1.0), (5, 1, 3, 11), "")
    other = Empirical("past.csv", "red", (0.75,), (9,), "")
    laws, rng = encode_laws([other, past, other]), np.random.Generator(np.random.PCG64(3))
    draws = np.array([draw_reward(rng, laws, 1, 0) for _ in range(20_000)])
    values, counts = np.unique(draws, return_counts=True)
    assert tuple(values) == past.values
    assert stats.chisquare(counts, 20_000 * np.array(past.counts) / 20).pvalue > 1e-6
    assert draw_reward(rng, laws, 2, 0) == 0.75


def test_rewards_drift_with_the_round() -> None:
    """20,000 rewards of four moments of a period have their means. False alarm: 1e-6; seeded."""
    laws = encode_laws([Choice((0.5,)), Drift(0.3, 0.1, 40)])
    rng = np.random.Generator(np.random.PCG64(3))
    for t, mean in ((0, 0.3), (10, 0.4), (4_030, 0.2), (45, 0.3 + 0.1 * math.sin(math.pi / 4))):
        ones = int(sum(draw_reward(rng, laws, 1, t) for _ in range(20_000)))
        assert stats.binomtest(ones, 20_000, mean).pvalue > 2.5e-7


@pytest.mark.parametrize("name", ["ucb1", "ldp-kl-ucb++", "ldp-ucb-l"])
def test_arms_that_drift_step(name: str) -> None:
    """A leap would draw many rewards of one law; arms of drift 0 are played as Bernoulli arms are in steps."""
    played = algorithm(name, 1.0 if is_private(name) else None)
    with pytest.raises(ParameterError, match="cannot leap, only step: the mean reward of some arm changes"):
        simulate(played, ["drift(0.9,0,10)", "drift(0.5,0,10)"], horizon=100, trials=1, seed=1, engine="leap")
    drifting = simulate(played, ["drift(0.9,0,10)", "drift(0.5,0,10)"], horizon=2_000, trials=2, seed=1)
    assert drifting.engine == "step"
    advance, alike = (
        compile_steps(played, [kind for text in texts for kind in parse_arms(text)])
        for texts in (["drift(0.9,0,10)", "drift(0.5,0,10)"], ["bernoulli(0.9)", "bernoulli(0.5)"])
    )
    states = [(np.zeros(2), np.zeros(2)) for _ in range(2)]
    for loop, (pulls, totals) in zip((advance, alike), states, strict=True):
        loop(np.random.default_rng(5), pulls, totals, 0, 2_000)
    assert states[0][0].tolist() == states[1][0].tolist()


def test_choices_are_equally_likely() -> None:
    """Chi-square on 20,000 draws among three values. False alarm: 1e-6; seeded."""
    made = draws(Choice((0.0, 0.25, 1.0)), algorithm("ucb1"), 20_000, 2)
    values, counts = np.unique(made, return_counts=True)
    assert values.tolist() == [0.0, 0.25, 1.0]
    assert stats.chisquare(counts).pvalue > 1e-6


@pytest.mark.parametrize("epsilon", [0.2, 2.0])
def test_responses_have_their_law(epsilon: float) -> None:
    """CTB: Bernoulli of Lemma 3's mean. CTL: reward plus Laplace noise. False alarm: 1e-6 each; seeded."""
    law, samples = Choice((0.3,)), 20_000
    bits = draws(law, algorithm("ldp-ucb-b", epsilon), samples, 3)
    p = (0.3 * math.exp(epsilon) + 0.7) / (1 + math.exp(epsilon))
    assert set(bits.tolist()) == {0.0, 1.0}
    assert stats.binomtest(int(bits.sum()), samples, p).pvalue > 1e-6
    noisy = draws(law, algorithm("ldp-ucb-l", epsilon), samples, 4)
    assert stats.kstest(noisy, stats.laplace(0.3, 1 / epsilon).cdf).pvalue > 1e-6
    sigmoid = 1 / (1 + math.exp(-0.3))
    noisy = draws(law, algorithm("ldp-ucb-ls", epsilon), samples, 5)
    assert stats.kstest(noisy, stats.laplace(sigmoid, 1 / epsilon).cdf).pvalue > 1e-6


def test_a_declared_range_scales_rewards() -> None:
    """An algorithm on rewards in [0, 5] plays as the same one on a fifth of them."""
    wide = Algorithm("wide", algorithm("ldp-ucb-b", 1.0).rule, CuratorSpec(mechanisms.Bernoulli(1.0), Range(0, 5)))
    scaled = pulls_at_end(wide, [Uniform(0, 5), Choice((1.0, 2.0))], 2_000)
    unscaled = pulls_at_end(algorithm("ldp-ucb-b", 1.0), [Uniform(0, 1), Choice((0.2, 0.4))], 2_000)
    assert np.array_equal(scaled, unscaled)


def pulls_at_end(played: Algorithm, arms: Sequence[Law], horizon: int) -> NDArray[np.float64]:
    """Play one trial from a stream that does not depend on what is played."""
    (pulls,) = Trials(played, arms, "step").play([horizon], np.random.default_rng(3))
    return pulls


@dataclass(frozen=True)
class OwnUCB1(Rule):
    """UCB1's rule, written by a user."""

    factor: float = 2.0
    floor: float = 0.0

    @property
    def parameters(self) -> tuple[float, ...]:
        """One number."""
        return (self.factor,)

    @staticmethod
    def index(arm: ArmView, random: Random, parameters: Parameters) -> float:
        """Mean + sqrt(2 log t / N)."""
        return arm.mean + math.sqrt(parameters[0] * math.log(arm.t) / arm.n)


@numba.njit  # type: ignore[untyped-decorator]
def own_mean(arm: ArmView, random: Random, parameters: Parameters) -> float:
    """A user's index with no parameters, compiled by the user."""
    return arm.mean


@dataclass(frozen=True)
class Greedy(Rule):
    """A rule of any parameters and floor around an index."""

    floor: float = 0.0
    parameters: Any = ()
    index: ClassVar[Any] = staticmethod(own_mean)


@dataclass(frozen=True)
class NoIndex(Greedy):
    """A rule whose index is no function."""

    index: ClassVar[Any] = 3


@dataclass(frozen=True)
class OtherIndex(Greedy):
    """A rule whose index takes something else."""

    index: ClassVar[Any] = staticmethod(lambda mean: mean)


@dataclass(frozen=True)
class Follower(Rule):
    """Draw a number for each arm; a leader is pulled whatever it is."""

    floor: float = 0.0
    parameters: ClassVar[tuple[float, ...]] = ()

    @staticmethod
    def index(arm: ArmView, random: Random, parameters: Parameters) -> float:
        """A random number of at most 1, or 2 for the best arm, in one of so many rounds as there are arms."""
        chance = random.random()
        return 2.0 if arm.mean == arm.best and chance * arm.arms < 1 else chance


def not_private(name: str, rule: Any) -> Algorithm:
    """The algorithm of a rule that sees the rewards."""
    return Algorithm(name, rule, algorithm("ucb1").curator)


def test_a_users_rule_plays_in_the_same_loop() -> None:
    """UCB1's rule as a user would write it pulls as UCB1 does; another index and a floor play by their own rule."""
    arms = paper.BERNOULLI
    mine, ours = (pulls_at_end(not_private("x", rule), arms, 20_000) for rule in (OwnUCB1(), ucb1()))
    assert np.array_equal(mine, ours)
    stuck = simulate(not_private("greedy", Greedy()), arms, 1_000, trials=2, seed=3)
    assert stuck.engine == "step"
    assert (stuck.pulls[:, -1].min(axis=1) == 1).all()
    fed = simulate(not_private("fed", Greedy(floor=2.0)), arms, 1_000, trials=2, seed=3)
    assert (fed.pulls[:, -1].min(axis=1) > 2 * math.log(1_000)).all()


def test_a_rule_of_your_own_needs_steps() -> None:
    """Only rules that the lab knows how to leap do; another is refused by name, before anything is played."""
    mine = not_private("mine", Greedy())
    with pytest.raises(ParameterError, match="mine cannot leap, only step: the rule of mine is not one of those"):
        simulate(mine, paper.BERNOULLI, 100, seed=0, engine="leap")
    with pytest.raises(ParameterError, match="engine must be leap or step"):
        simulate(mine, paper.BERNOULLI, 100, seed=0, engine="jump")  # type: ignore[arg-type]


def test_a_rule_that_draws_plays_the_same_in_the_loop_and_in_an_agent() -> None:
    """Compiled and live, a rule that draws gets the same numbers from a numpy Generator, and pulls the same arms."""
    arms = [Choice((0.2,)), Choice((0.8,)), Choice((0.5,))]
    played = pulls_at_end(not_private("follower", Follower()), arms, 500)
    rng = np.random.default_rng(3)
    agent = Agent(Follower(), 3, random=rng)
    for _ in range(500):
        arm = agent.select()
        rng.random()  # the loop draws a reward of a choice from the same stream
        agent.update(arm, Response(arms[arm].mean))
    assert agent.pulls == tuple(played)
    assert min(agent.pulls) > 50


@pytest.mark.parametrize(
    "rule",
    [
        Greedy(-1.0),
        Greedy(math.nan),
        Greedy(0.0, ("x",)),
        Greedy(0.0, [1.0]),
        Greedy({1}),  # type: ignore[arg-type]
        NoIndex(),
        OtherIndex(),
        Greedy,
        own_mean,
        None,
    ],
)
def test_a_bad_rule_of_your_own_is_refused(rule: Any) -> None:
    """A floor below 0, parameters that are no numbers, a function of another shape: one line, before playing."""
    with pytest.raises(ParameterError) as caught:
        Trials(not_private("bad", rule), paper.BERNOULLI, "step")
    assert "\n" not in str(caught.value)


def test_an_algorithms_curator_is_data() -> None:
    """The curator itself is refused, with the call to make."""
    with pytest.raises(ParameterError, match=r"as in curator\.spec"):
        Algorithm("mine", ucb1(), BernoulliCurator(1.0))  # type: ignore[arg-type]


def test_every_name_is_an_algorithm() -> None:
    """All six names of the paper and its baselines, and the rules beyond; private ones with their epsilon."""
    assert NAMES[:6] == ("ucb1", "ucb1-s", "ldp-ucb-b", "ldp-ucb-l", "ldp-ucb-bs", "ldp-ucb-ls")
    rules = ("kl-ucb", "kl-ucb++", "imed", "ts", "duels", "equal")
    beyond = {f"{ldp}{name}{s}" for ldp in ("", "ldp-") for name in rules for s in ("", "-s")}
    laplace = {f"ldp-{name}-{way}" for name in ("imed", "kl-ucb++") for way in ("l", "ls", "lc", "lcs", "lb")}
    laplace |= {"ldp-duels-l", "ldp-equal-l"}
    assert set(NAMES[6:]) == beyond | laplace
    for name in NAMES:
        epsilon = random.Random(name).choice([0.5, 1.0]) if is_private(name) else None
        assert algorithm(name, epsilon).epsilon == epsilon
        assert algorithm(name, epsilon).name == name
