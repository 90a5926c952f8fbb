"""Compiled verdicts are those of the agent, and blocks of a fair coin have the law of its rounds."""

import numpy as np
import pytest
from scipy import stats

from ldpbandits import Agent, CuratorSpec, ParameterError, Rule
from ldpbandits.agent.duels import Choice, Design
from ldpbandits.agent.inference.verdicts import Criteria, judge
from ldpbandits.agent.laplace_rules import DuelsLaplace, EqualSharesLaplace, KLUCBPlusLaplaceClip
from ldpbandits.agent.rules import Duels, EqualShares, KLUCBPlus
from ldpbandits.lab.algorithms import Algorithm
from ldpbandits.lab.engine.duels import state_size
from ldpbandits.lab.engine.leap import compile_leaps, leap_obstacle
from ldpbandits.lab.engine.step import compile_steps
from ldpbandits.lab.engine.verdicts import (
    first_verdict,
    log_evidence,
    play_until_verdict,
    record_bits,
    verdict_test,
    winner,
)
from ldpbandits.lab.experiments import simulate
from ldpbandits.lab.rewards import Bernoulli, Drift, parse_arms
from ldpbandits.spec import mechanisms
from ldpbandits.spec.menu import Menu
from ldpbandits.types import Arm

CTB, CTL = CuratorSpec(mechanisms.Bernoulli(2.0)), CuratorSpec(mechanisms.Laplace(2.0))
RULES: list[tuple[Rule, CuratorSpec]] = [
    (Duels(), CTB),
    (EqualShares(), CTB),
    (KLUCBPlus(), CTB),
    (DuelsLaplace(2.0), CTL),
    (EqualSharesLaplace(2.0), CTL),
    (KLUCBPlusLaplaceClip(2.0), CTL),
]


def live_agent(rule: Rule, curator: CuratorSpec, pulls: np.ndarray, totals: np.ndarray) -> Agent:
    """Return an agent that has counted what the compiled loop has."""
    n, agent = len(pulls), Agent(rule, len(pulls), curator=curator)
    if rule.design is Design.ADAPTIVE:
        for arm in range(n):
            read = None if rule.reading is None else float(totals[arm])
            agent.count(Choice(Arm(arm)), int(pulls[arm]), float(totals[arm]), read)
        return agent
    pairs = totals[n:].reshape((2, n, n))
    for arm in range(n):
        for rival in range(n):
            if pairs[0, arm, rival]:
                read = None if rule.reading is None else float(pairs[1, arm, rival])
                choice = Choice(Arm(arm), Arm(rival))
                agent.count(choice, int(pairs[0, arm, rival]), float(pairs[1, arm, rival]), read)
    return agent


@pytest.mark.parametrize(("rule", "curator"), RULES)
@pytest.mark.parametrize("criteria", [Criteria(3), Criteria(3, may_add_arms=True, planned=(0.3, 0.45))])
def test_the_compiled_verdict_is_the_agents(rule: Rule, curator: CuratorSpec, criteria: Criteria) -> None:
    """At moments of 12 trials of three arms, most of which get decided, both say the same; missing answers included.

    Responses for the pair test come from equal shares: an adaptive rule would need too many.
    """
    arms, menu = [Bernoulli(mean) for mean in (0.3, 0.35, 0.6)], Menu.of(curator)
    played = (
        rule if rule.design is not Design.ADAPTIVE else EqualShares() if curator is CTB else EqualSharesLaplace(2.0)
    )
    advance, decided = compile_steps(Algorithm("mine", played, curator), arms), 0
    for seed in range(12):
        missing = 0.0 if seed % 3 else 0.02
        test = verdict_test(rule, menu, criteria, missing)
        rng, t = np.random.default_rng(seed), 0
        pulls, totals = np.zeros(3), np.zeros(state_size(played.design, 3))
        for until in (1, 3, 30, 300, 1_000, 3_000, 6_000, 10_000, 20_000):
            advance(rng, pulls, totals, t, until)
            t, agent = until, live_agent(rule, curator, pulls, totals)

            def pairs(b: int, a: int, agent: Agent = agent, missing: float = missing) -> object:
                found = agent.pair(b, a)
                if found is None:
                    return None
                return agent.pair(b, a, (round(found.cells[0] * missing), round(found.cells[2] * missing)))

            known = judge(range(3), pairs, criteria)  # type: ignore[arg-type]
            found = winner(test, pulls, totals)
            assert found == (known.leader if known.is_decided else -1)
        decided += found >= 0
    assert decided >= 6


def test_compiled_evidence_is_the_agents() -> None:
    """The logarithms agree to 1e-9 on random tallies of two arms, by the coin test and by the pair test."""
    rng, menu = np.random.default_rng(3), Menu.of(CTB)
    for rule in (EqualShares(), KLUCBPlus()):
        test = verdict_test(rule, menu, Criteria(2))
        for _ in range(50):
            pulls = np.rint(10 ** rng.uniform(0, 5, 2))
            totals = np.zeros(2 + 8)
            totals[:2] = rng.binomial(pulls.astype(int), rng.uniform(0.15, 0.85, 2))
            totals[[3, 5]], totals[[7, 9]] = pulls, totals[:2]
            agent = live_agent(rule, CTB, pulls, totals)
            pair = agent.pair(0, 1)
            assert pair is not None
            found = log_evidence(test, np.array(pair.cells), -np.inf)
            known = judge((0, 1), agent.pair, Criteria(2))
            if known.leader == 0 and 1e-300 < known.evidence < 1e300:
                assert found == pytest.approx(np.log(known.evidence), rel=1e-9, abs=1e-9)


def test_an_arm_without_a_duel_keeps_the_leader_from_being_declared() -> None:
    """Two of three arms settle nothing about the third."""
    totals = np.zeros(3 + 18)
    pairs = totals[3:].reshape((2, 3, 3))
    pairs[:, 0, 1], pairs[:, 1, 0] = (10_000, 7_000), (10_000, 3_000)
    totals[:3] = 7_000, 3_000, 0
    test = verdict_test(Duels(), Menu.of(CTB), Criteria(3))
    assert winner(test, np.array([10_000.0, 10_000.0, 0.0]), totals) == -1


@pytest.mark.parametrize(("rule", "arms"), [(Duels(), 2), (EqualShares(), 2), (EqualShares(), 4)])
def test_blocks_have_the_law_of_rounds(rule: Rule, arms: int) -> None:
    """Pulls and ones of each arm after 300 rounds, in blocks and round by round, 2,000 trials each.

    Kolmogorov-Smirnov is conservative for whole numbers. False alarm: below 1e-5 for each of at most eight; seeded.
    """
    laws = [Bernoulli(0.2 + 0.15 * arm) for arm in range(arms)]
    played = Algorithm("mine", rule, CTB)
    states = []
    for seed, make in ((1, compile_leaps), (2, compile_steps)):
        advance, rng, found = make(played, laws), np.random.default_rng(seed), []
        for _ in range(2_000):
            pulls, totals = np.zeros(arms), np.zeros(state_size(rule.design, arms))
            for t in (0, 100, 200):
                advance(rng, pulls, totals, t, t + 100)
            found.append(np.concatenate([pulls, totals]))
        states.append(np.array(found))
    blocks, rounds = states
    assert (blocks[:, :arms].sum(axis=1) == 300).all()
    assert blocks.mean(axis=0) == pytest.approx(rounds.mean(axis=0), abs=2.0)
    assert ((blocks == 0).all(axis=0) == (rounds == 0).all(axis=0)).all()
    for column in range(2 * arms):
        assert stats.ks_2samp(blocks[:, column], rounds[:, column]).pvalue > 1e-5


def test_a_recorded_trial_grows_and_is_decided_once() -> None:
    """Each moment has as many pulls as its time says, and the first verdict stands at its moment, not before."""
    times = np.array([10, 100, 1_000, 5_000, 20_000, 100_000])
    test = verdict_test(EqualShares(), Menu.of(CTB), Criteria(3))
    chance = np.array([CTB.mechanism.response_mean(mean) for mean in (0.3, 0.3, 0.5)])
    pulls, totals = record_bits(chance, np.random.default_rng(1), times)
    assert pulls.sum(axis=1).tolist() == times.tolist()
    moment, arm = first_verdict(test, pulls, totals)
    assert arm == 2
    assert [winner(test, *state) for state in zip(pulls, totals, strict=True)].index(2) == moment > 0
    assert first_verdict(test, pulls[:moment], totals[:moment]) == (-1, -1)


def test_duels_of_several_arms_step() -> None:
    """Between two arms duels leap; with more the responses choose the pair, and Laplace readings have no blocks."""
    two = [law for text in ("bernoulli(0.5)", "bernoulli(0.6)") for law in parse_arms(text)]
    assert leap_obstacle(Algorithm("mine", Duels(), CTB), two) is None
    assert "duels leap between two arms" in str(leap_obstacle(Algorithm("mine", Duels(), CTB), [*two, *two]))
    assert leap_obstacle(Algorithm("mine", DuelsLaplace(2.0), CTL), two) is not None
    played = simulate("ldp-duels", [*two, *two], epsilon=1, horizon=5_000, trials=2, seed=1)
    assert played.engine == "step"
    assert played.pulls[:, -1].sum(axis=1).tolist() == [5_000, 5_000]
    assert simulate("ldp-equal", [*two, *two], epsilon=1, horizon=10**9, trials=2, seed=1).engine == "leap"


def test_rules_without_a_test_are_refused() -> None:
    """What cannot be compared, and criteria that the lab does not know, are refused with a reason."""
    with pytest.raises(ParameterError, match="without forged responses"):
        verdict_test(Duels(), Menu.of(CTB), Criteria(2, forged=0.01))
    with pytest.raises(ParameterError, match="no test for the responses"):
        verdict_test(Duels(), Menu.of({"mechanism": "bernoulli", "epsilon": [1, 2]}), Criteria(2))


@pytest.mark.parametrize("rule", [Duels(), EqualShares(), KLUCBPlus()])
def test_only_a_fair_coin_is_right_when_the_level_moves(rule: Rule) -> None:
    """Equal arms, 0.3 +- 0.1 at epsilon 4: a fair coin declares one in at most 5 % of trials, kl-ucb++ in most.

    With 5 % a trial, more than 11 of 60 are declared with probability below 1e-4; seeded.
    """
    curator, drifting = CuratorSpec(mechanisms.Bernoulli(4.0)), [Drift(0.3, 0.1, 40_000)] * 2
    advance = compile_steps(Algorithm("mine", rule, curator), drifting)
    test, times = (
        verdict_test(rule, Menu.of(curator), Criteria(2)),
        np.rint(100 * 1.05 ** np.arange(145)).astype(np.int64),
    )
    declared = 0
    for seed in range(60):
        tally, rng = (np.zeros(2), np.zeros(state_size(rule.design, 2))), np.random.default_rng(seed)
        moment, arm = play_until_verdict(winner, test, advance, rng, times, *tally)
        assert tally[0].sum() == times[moment]
        declared += arm >= 0
    assert (declared > 50) if rule.design is Design.ADAPTIVE else (declared <= 11)
