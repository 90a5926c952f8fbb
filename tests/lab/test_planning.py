"""A plan says what a live experiment does: how long until the verdict, and at what cost."""

import math
import re
import shlex
from dataclasses import replace
from datetime import date, timedelta
from inspect import signature
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from ldpbandits import Agent, Range
from ldpbandits.agent.inference.estimates import estimate, share
from ldpbandits.agent.inference.separation import ALPHA
from ldpbandits.agent.inference.sequences import log_bits_martingale
from ldpbandits.agent.rules import IMED, AdaUCB, KLUCBPlus, rule_from_json
from ldpbandits.agent.tally import ArmTally
from ldpbandits.cli import parser
from ldpbandits.cli.common import name_or_json
from ldpbandits.errors import ParameterError, SpecError
from ldpbandits.lab import Plan, plan
from ldpbandits.lab.engine.step import compile_steps
from ldpbandits.lab.engine.verdicts import first_verdict
from ldpbandits.lab.planning import planner
from ldpbandits.lab.planning import trials as played
from ldpbandits.lab.planning.case import ALLOCATIONS, FAIR, Allocation, Case
from ldpbandits.lab.planning.page import page
from ldpbandits.lab.planning.plan import days
from ldpbandits.lab.planning.planner import smallest_epsilon, smallest_lift
from ldpbandits.lab.planning.question import Past, Question
from ldpbandits.lab.planning.trials import InspectionTimes, play
from ldpbandits.output.provenance import Provenance
from ldpbandits.spec.mechanisms import Laplace

QUESTION = Question(baseline=0.3, lift=1.0, epsilon=(2.0, 4.0), trials=200, seed=1)
CASE = Case(QUESTION, 4.0, 1.0)
ISSUE = Question(baseline=0.05, lift=0.1, arms=2, epsilon=(1.0,), seed=0)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Play few trials in equal shares, where only their number would change."""
    monkeypatch.setattr(planner, "EQUAL_TRIALS", 20)


@pytest.fixture(scope="session")  # tests are in any order
def made() -> Plan:
    """0.3 against 0.6, by 3,000 users."""
    return plan(0.3, 1.0, epsilon=[2, 4], users=3000, trials=100, seed=1)


def live(case: Case, rng: np.random.Generator) -> float:
    """Play one trial round by round, by the agent's own kernels; return when the agent itself first has a verdict.

    It is looked at after every 1 % more responses.
    """
    advance, agent = compile_steps(case.algorithm("rule"), case.laws), Agent(case.rule, 2, curator=case.curator)
    pulls, totals, t = np.zeros(2), np.zeros(2), 0
    while True:
        until = max(t + 1, round(t * 1.01), 1000)
        advance(rng, pulls, totals, t, until)
        t = until
        for arm in range(2):
            agent.tally.arms[arm] = ArmTally(int(pulls[arm]), float(totals[arm]))
        if agent.verdict(case.criteria).is_decided:
            return float(t)


def test_predicted_quantiles_match_200_runs_of_the_live_rule() -> None:
    """The times until the verdict have one law, and so have their quantiles.

    False alarm: 1e-4; seeded.
    """
    expected = CASE.closed_form("rule")
    assert expected is not None
    planned = play(CASE, "rule", InspectionTimes(250, 1000, 64 * expected)).first
    seeds = np.random.SeedSequence(3).spawn(200)
    lived = np.array([live(CASE, np.random.Generator(np.random.PCG64(seed))) for seed in seeds])
    assert stats.ks_2samp(planned, lived).pvalue > 1e-4
    for quantile in (0.1, 0.5, 0.9):
        assert np.quantile(planned, quantile) == pytest.approx(np.quantile(lived, quantile), rel=0.3)


def test_equal_shares_are_played_as_they_would_be_one_by_one() -> None:
    """Sums of many responses at once have the law of single ones. False alarm: 1e-4; seeded."""
    rng, times = np.random.default_rng(5), []
    chances = np.array([CASE.curator.mechanism.response_mean(value) for value in CASE.values])
    looked_at, test = InspectionTimes(1, 50, 4000).grid(least=4), CASE.verdict_test("equal")
    assert test is not None
    for _ in range(150):
        arms = np.eye(2)[rng.integers(2, size=4000)]
        pulls, totals = arms.cumsum(axis=0), (arms * (rng.random((4000, 2)) < chances)).cumsum(axis=0)
        moment, _ = first_verdict(test, pulls[looked_at - 1], totals[looked_at - 1])
        times.append(looked_at[moment])
    for allocation in FAIR:
        assert stats.ks_2samp(play(CASE, allocation, InspectionTimes(400, 50, 4000)).first, times).pvalue > 1e-4


@pytest.mark.usefixtures("few")
def test_the_same_seed_gives_the_same_numbers() -> None:
    """On one thread and on three; another seed gives others."""
    one, other = (plan(0.3, 1.0, epsilon=4, users=10, trials=20, seed=1, jobs=jobs) for jobs in (1, 3))
    assert replace(one, seconds=other.seconds) == other
    for row, again in zip(one.rows, other.rows, strict=True):
        assert row.outcome is not None
        assert again.outcome is not None
        assert np.array_equal(row.outcome.first, again.outcome.first)
        assert np.array_equal(row.outcome.then, again.outcome.then)
    assert plan(0.3, 1.0, epsilon=4, trials=20, seed=2).rows != one.rows


def test_there_is_a_row_for_each_epsilon_and_for_none_by_each_allocation(made: Plan) -> None:
    """Less noise takes fewer responses; equal shares fewer than the rule, and duels of two arms are equal shares."""
    assert [(row.epsilon, row.allocation) for row in made.rows] == [
        (epsilon, allocation) for epsilon in (2.0, 4.0, None) for allocation in ALLOCATIONS
    ]
    for allocation in ALLOCATIONS:
        noisy, less, none = (made.row(epsilon, allocation).quantiles[1] or 0 for epsilon in (2.0, 4.0, None))
        assert noisy > 1.2 * less
        assert none < 1.2 * less  # e^-4 is little noise
    for epsilon in (2.0, 4.0, None):
        duels, equal, rule = made.rows_of(epsilon)
        assert (duels.quantiles, duels.rule) == (equal.quantiles, "duels")
        for row in (rule, equal):
            low, middle, high = (at or math.inf for at in row.quantiles)
            assert low < middle < high
            assert middle < (row.needed or math.inf) < high
            assert row.standing is not None
        assert rule.standing is not None
        assert equal.standing is not None
        assert (rule.needed or 0) > (equal.needed or math.inf)
        assert rule.standing.best_share > 0.98
        assert equal.standing.best_share == pytest.approx(0.5, abs=0.02)


def test_the_forecast_is_near_the_mean(made: Plan) -> None:
    """Without any trials: within 20 % by a fair coin, and within 60 % by the rule, where 50 pulls of an arm decide."""
    for row in made.rows:
        assert row.outcome is not None
        mean = float(row.outcome.first.mean())
        assert row.closed_form == pytest.approx(mean, rel=0.6 if row.allocation == "rule" else 0.2)


@pytest.mark.usefixtures("few")
def test_regret_and_shares_are_those_of_the_pulls() -> None:
    """Each pull of an arm at the baseline costs the gap; with missing answers, more users saw the arms."""
    made = plan(0.3, 1.0, epsilon=4, trials=10, seed=1, missing=0.05, horizon=20_000)
    for row in made.rows:
        assert row.outcome is not None
        assert row.standing is not None
        pulls = row.outcome.then
        assert row.standing.regret == pytest.approx(0.3 * pulls[:, 0].mean() / 0.95)
        assert row.standing.best_share == pytest.approx((pulls[:, 1] / pulls.sum(axis=1)).mean())
        separated = np.isfinite(row.outcome.first)
        assert np.allclose(pulls.sum(axis=1)[separated], row.outcome.first[separated], atol=2)


def test_the_half_width_is_that_of_an_interval() -> None:
    """Of an arm at the baseline, at its share of alpha, in the units of the rewards."""
    mean = CASE.curator.mechanism.response_mean(0.3)
    known = estimate(5000, round(5000 * mean), CASE.curator, alpha=share(0.05, 0))
    assert CASE.half_width(5000) == pytest.approx((known.high - known.low) / 2)
    wide = Question(baseline=3.0, lift=1.0, declared=Range(0, 10), seed=0)
    assert Case(wide, 4.0, 1.0).half_width(5000) == pytest.approx(10 * CASE.half_width(5000))


def test_the_level_is_the_servers_and_confidence_changes_it() -> None:
    """Each arm has its share of alpha; more confidence takes more responses."""
    assert CASE.alphas.tolist() == [share(ALPHA, 0), share(ALPHA, 1)]
    strict = Case(replace(QUESTION, confidence=0.999), 4.0, 1.0)
    assert strict.alphas[0] == pytest.approx(share(0.001, 0))
    assert (strict.closed_form("equal") or 0) > 1.3 * (CASE.closed_form("equal") or math.inf)


def test_a_wrong_arm_is_hardly_ever_separated() -> None:
    """At most alpha, where arms differ by so little that chance decides for long. False alarm: 1e-4; seeded."""
    question = Question(baseline=0.5, lift=0.02, epsilon=(4.0,), confidence=0.8, seed=4)
    found = play(Case(question, 4.0, 0.02), "equal", InspectionTimes(400, 20, 400_000))
    assert np.mean(found.arm == 0) < 0.2 + 4 * math.sqrt(0.2 * 0.8 / 400)
    assert np.mean(found.arm == 1) > 0.7


def test_the_textbooks_number_is_the_textbooks() -> None:
    """5.0 % against 5.5 %, looked at once: 31,000 users an arm without privacy, 609,000 at epsilon 1."""
    assert Case(ISSUE, None, 0.1).textbook() / 2 == pytest.approx(31_234, rel=1e-3)
    assert Case(ISSUE, 1.0, 0.1).textbook() / 2 == pytest.approx(609_000, rel=1e-3)


@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_with_users_it_says_how_things_stand_then(made: Plan, allocation: Allocation) -> None:
    """The share that is separated by then, and the pulls at that moment."""
    for epsilon in (2.0, 4.0, None):
        row = made.row(epsilon, allocation)
        assert row.with_users is not None
        assert row.with_users.standing is not None
        assert row.outcome is not None
        assert row.outcome.with_users is not None
        assert row.with_users.power == np.mean(row.outcome.first <= 3000)
        assert row.outcome.with_users.sum(axis=1) == pytest.approx(3000)
        assert row.with_users.standing.regret == pytest.approx(0.3 * row.outcome.with_users[:, 0].mean())
        assert (row.with_users.power == 1) == (allocation != "rule")


def test_the_smallest_lift_is_seen_and_a_smaller_one_is_not(made: Plan) -> None:
    """In equal shares, played anew: at the lift that is found the power is as asked for, at 0.9 of it, it is less.

    The standard error of both shares is 0.02; false alarm: 1e-3; seeded.
    """
    row = made.row(4.0, "equal")
    assert row.with_users is not None
    lift = row.with_users.smallest_lift
    assert lift is not None
    fresh = replace(made.question, seed=77)
    at, below = (
        play(Case(fresh, 4.0, x), "equal", InspectionTimes(400, 150, 3000)).power(3000) for x in (lift, 0.9 * lift)
    )
    assert at > 0.8 - 0.08
    assert below < 0.8


def test_the_smallest_epsilon_is_feasible_and_a_smaller_one_is_not(made: Plan) -> None:
    """The same for epsilon; by the rule none is, as 3,000 users are too few at every epsilon."""
    assert made.smallest_epsilon is not None
    epsilon = made.smallest_epsilon["equal"]
    assert epsilon is not None
    fresh = replace(made.question, seed=78)
    at, below = (
        play(Case(fresh, x, 1.0), "equal", InspectionTimes(400, 150, 3000)).power(3000)
        for x in (epsilon, 0.9 * epsilon)
    )
    assert at > 0.8 - 0.08
    assert below < 0.8
    assert made.smallest_epsilon["rule"] is None


def test_with_more_users_smaller_lifts_are_seen() -> None:
    """Four times the users see about half the lift."""
    few, many = (smallest_lift(replace(QUESTION, users=users), 4.0, "equal") or 0 for users in (2000, 8000))
    assert few / many == pytest.approx(2, rel=0.2)


def test_where_no_lift_can_be_seen_it_says_so() -> None:
    """Ten users see nothing at epsilon 0.5: no lift, and no epsilon."""
    question = replace(QUESTION, users=10)
    assert smallest_lift(question, 0.5, "equal") is None
    assert smallest_epsilon(question, "equal") is None


def test_verdicts_are_sentences(made: Plan) -> None:
    """Feasible with how many, by each allocation; and whether the users are enough."""
    first, second = made.verdicts
    assert re.fullmatch(r"feasible with \d+ responses at epsilon 2 by duels, \d+ by equal shares, .*", first)
    assert "; enough with 3,000 users by duels and equal shares only: the smallest lift you would see is " in second
    assert re.fullmatch(r"Yes: with 3,000 users you would see a lift of 100 % at epsilon 0\.\d+ or more\.", made.answer)
    assert made.command == "ldpbandits experiments create my-experiment --arm A --arm B --epsilon 2 --rule duels"
    assert made.reverse is not None
    assert made.reverse.startswith("with 3,000 users the smallest feasible epsilon is 0.")


@pytest.mark.usefixtures("few")
def test_missing_answers_widen_the_intervals_of_the_worst_case() -> None:
    """With 5 % missing it takes longer. With a third it is never certain: the plan says how many may be missing."""
    full, some = (Case(replace(QUESTION, missing=missing, worst=True), 4.0, 1.0) for missing in (0.0, 0.05))
    for allocation in ALLOCATIONS:
        assert (some.closed_form(allocation) or 0) > 1.1 * (full.closed_form(allocation) or math.inf)
    alike = [play(case, "equal", InspectionTimes(200, 50, 10_000)).quantile(0.5) for case in (full, some)]
    assert alike[1] > 1.1 * alike[0]
    never = plan(0.3, 1.0, epsilon=4, trials=10, seed=1, missing=0.33, worst=True, users=1000)
    assert all(row.trials == 0 and row.needed is None for row in never.rows)
    told = "not feasible at epsilon 4, however many respond: with 33 % of the answers missing"
    assert never.verdicts[0].startswith(told)
    most = 0.3 * math.tanh(2) / (1 + 0.3 * math.tanh(2))
    assert f"at most {100 * most:.2g} % may be missing" in never.verdicts[0]
    for missing, is_possible in ((most - 0.01, True), (most + 0.01, False)):
        case = Case(replace(QUESTION, missing=missing, worst=True), 4.0, 1.0)
        assert (case.closed_form("equal") is not None) == is_possible


@pytest.mark.usefixtures("few")
def test_missing_answers_only_take_more_users_unless_they_count_at_worst() -> None:
    """A server rests verdicts on those who answered by default, and so does a plan; the command asks for the other."""
    none, some, worst = (
        plan(0.3, 1.0, epsilon=4, trials=10, seed=1, missing=missing, worst=is_worst)
        for missing, is_worst in ((0.0, False), (0.2, False), (0.02, True))
    )
    assert some.row(4.0).quantiles == none.row(4.0).quantiles
    assert [some.row(4.0).needed, some.row(4.0).wrong] == [none.row(4.0).needed, none.row(4.0).wrong]
    for made, mode in ((some, None), (worst, "worst")):
        assert made.command is not None
        assert parser().parse_args(shlex.split(made.command)[1:]).missing == mode
    assert (worst.row(4.0).closed_form or 0) > (none.row(4.0).closed_form or 0)


def test_a_rule_may_be_named_in_every_way() -> None:
    """Its kind, its JSON, the rule itself, the paper's by that word, and by default the server's."""
    for asked, kind in (("imed", "imed"), ({"kind": "ucb", "width": 1.0}, "ucb"), (IMED(), "imed"), ("paper", "ucb")):
        assert Case(replace(QUESTION, rule=asked), 4.0, 1.0).rule_name == kind
    assert CASE.rule == KLUCBPlus()
    with pytest.raises(SpecError, match="a rule's kind must be one of"):
        _ = Case(replace(QUESTION, rule="exp3"), 4.0, 1.0).rule


def test_a_rule_for_laplace_gets_its_epsilon_and_none_without_privacy() -> None:
    """Named by its kind it has the epsilon of each row; where there is no privacy, the default rule is played."""
    question = replace(QUESTION, rule="kl-ucb++-laplace", curator="ctl")
    case = Case(question, 4.0, 1.0)
    assert (case.rule_name, case.rule.epsilon) == ("kl-ucb++-laplace", 4.0)  # type: ignore[attr-defined]
    assert Case(question, None, 1.0).rule == KLUCBPlus()
    with pytest.raises(SpecError, match="is for responses of the mechanism laplace"):
        plan(0.3, 1.0, epsilon=4, rule="kl-ucb++-laplace", seed=1)


@pytest.mark.parametrize("rule", [None, "kl-ucb++-laplace-clip", "kl-ucb++-laplace-bit"])
def test_laplace_responses_are_judged_by_their_own_sums(rule: str | None) -> None:
    """Also where the rule counts something else: the sums behind its own are those of the responses."""
    case = Case(replace(QUESTION, curator="ctl", rule=rule), 4.0, 1.0)
    assert not played.leaps(case, "rule")
    assert (case.verdict_test("rule") is None) == (rule != "kl-ucb++-laplace-clip")
    advance, n = compile_steps(case.algorithm("rule"), case.laws), 2
    pulls, totals = np.zeros(n), np.zeros(2 * n)
    advance(np.random.default_rng(1), pulls, totals, 0, 50_000)
    best = totals[n + 1] / pulls[1]
    assert best == pytest.approx(0.6, abs=4 * math.sqrt((0.24 + 2 / 16) / pulls[1]))
    if rule is None:
        assert np.array_equal(totals[:n], totals[n:])
    found = play(case, "rule", InspectionTimes(10, 1000, 20_000))
    assert set(found.arm) <= {-1, 1}


STARS = Past("", (0.0, 0.25, 0.5, 0.75, 1.0), (10, 10, 20, 40, 20), 0)
"""From 1 to 5."""


def test_without_privacy_rewards_between_are_played_as_they_are() -> None:
    """Star ratings: the z-test is that of their variance, and sums vary as ratings do, by the rule and in equal shares.

    On CTB's bits they would vary three times as much. False alarm: 1e-5.
    """
    question = Question(data=STARS, declared=Range(1, 5), lift=0.05, epsilon=(1.0,), curator="ctb", seed=0)
    case = Case(question, None, 0.05)
    assert case.values[0] == pytest.approx(0.625)
    variance = sum(count / 100 * (value - 0.625) ** 2 for value, count in zip(STARS.values, STARS.counts, strict=True))
    assert case.laws[1].mean == pytest.approx(case.values[1], abs=1e-8)
    raised = (case.values[1] - 0.625) / 0.375
    of_best = (1 - raised) * (variance + 0.625**2) + raised - case.values[1] ** 2
    z = stats.norm.isf(0.025) + stats.norm.isf(0.2)
    assert case.textbook() == 2 * math.ceil(z**2 * (variance + of_best) / (case.values[1] - 0.625) ** 2)
    in_shares = played._sums(np.random.default_rng(5), case, np.full((4000, 2), 50))[:, 0]
    advance = compile_steps(case.algorithm("rule"), case.laws[:1])
    by_rule = []
    for trial in range(4000):
        pulls, totals = np.zeros(1), np.zeros(1)
        advance(np.random.default_rng(trial), pulls, totals, 0, 50)
        by_rule.append(totals[0])
    for sums in (in_shares, np.array(by_rule)):
        assert sums.mean() == pytest.approx(50 * 0.625, abs=4.5 * math.sqrt(50 * variance / 4000))
        assert sums.var() == pytest.approx(50 * variance, rel=4.5 * math.sqrt(3 / 4000))


def test_the_intervals_of_bits_hold_for_rewards_between() -> None:
    """The martingale of bits does not grow on rewards between: here on two of them, summed over all sequences."""
    values, chances, mean = (0.1, 0.7), (0.25, 0.75), 0.55
    for length in (1, 2, 6):
        average = 0.0
        for ones in range(length + 1):
            total = ones * values[1] + (length - ones) * values[0]
            chance = math.comb(length, ones) * chances[1] ** ones * chances[0] ** (length - ones)
            average += chance * math.exp(log_bits_martingale(length, total, mean))
        assert average <= 1 + 1e-12


def test_a_moment_is_looked_at_every_percent_and_when_all_users_have_answered() -> None:
    """From the first to the last, in order; the last is the horizon."""
    looked_at = InspectionTimes(1, 1000, 100_000, users=5555).grid(least=4).tolist()
    assert (looked_at[0], looked_at[-1]) == (1000, 100_000)
    assert 5555 in looked_at
    assert all(1 < later / earlier <= 1.011 for earlier, later in pairwise(looked_at))


@pytest.mark.usefixtures("few")
def test_a_rule_that_is_late_is_said_to_take_more() -> None:
    """Played to a horizon, it takes more than that; what was lost until then is what is known."""
    made = plan(0.05, 0.2, epsilon=1, trials=10, seed=1, horizon=20_000)
    row = made.row(1.0, "rule")
    assert (row.quantiles, row.needed, row.last, row.is_cut) == ((None, None, None), None, 20_000, True)
    told = "by equal shares; by kl-ucb++ it takes more than 20,000, about "
    assert told in made.verdicts[0]
    assert made.verdicts[0].endswith(" by the forecast")


@pytest.mark.usefixtures("few")
def test_progress_goes_from_nothing_to_all() -> None:
    """It never goes back."""
    told: list[float] = []
    plan(0.3, 1.0, epsilon=4, trials=10, seed=1, users=10, progress=told.append)
    assert told == sorted(told)
    assert (told[0], told[-1]) == (0, 1)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"lift": 0}, "lift must be > 0, the relative gain to be found, such as 0.1 for 10 %, got 0"),
        ({"lift": -0.1}, "lift must be > 0"),
        ({"lift": "much"}, "lift must be > 0"),
        ({"lift": 3.0}, "a baseline of 0.3 with a lift of 3 is 1.2; no mean reward is above 1"),
        ({"baseline": 0}, "baseline must lie strictly between 0 and 1, got 0"),
        ({"baseline": 1}, "baseline must lie strictly between 0 and 1, got 1"),
        ({"baseline": None}, "a plan needs baseline, the mean reward now, or data, past rewards: give one of them"),
        ({"arms": 1}, "arms must be a whole number >= 2, got 1"),
        ({"arms": 10**6}, "arms must be at most 1,000, got 1000000"),
        ({"arms": 4, "users": 3}, "users must be at least the number of arms, 4, got 3"),
        ({"users": 2.5}, "users must be a whole number >= 1, got 2.5"),
        ({"users": 1e13}, "users must be at most 1,000,000,000,000, got"),
        ({"power": 0}, "power must lie strictly between 0 and 1, got 0"),
        ({"power": 1}, "power must lie strictly between 0 and 1, got 1"),
        ({"power": 80}, "power must lie strictly between 0 and 1, got 80"),
        ({"confidence": 1}, "confidence must lie strictly between 0 and 1, got 1"),
        ({"missing": 1}, "missing must be a share of the answers, >= 0 and < 1, got 1"),
        ({"missing": -0.1}, "missing must be a share of the answers"),
        ({"worst": "yes"}, "worst must be true or false, got 'yes'"),
        ({"curator": "ctb-s"}, "curator must be one of ctb, ctl, got 'ctb-s'"),
        ({"epsilon": ()}, "epsilon: a plan needs one or more"),
        ({"epsilon": (1, 0)}, "epsilon must be finite and > 0"),
        ({"trials": 9}, "trials must be a whole number >= 10, got 9"),
        ({"trials": 1e9}, "trials must be at most 100,000"),
        ({"horizon": 10}, "horizon must be a whole number >= 1000, got 10"),
        ({"seed": -1}, "seed must be a whole number >= 0, got -1"),
    ],
)
def test_bad_questions_are_refused_in_a_line(wrong: dict[str, object], told: str) -> None:
    """With the rule and the value."""
    with pytest.raises(ParameterError) as caught:
        Question(**({"baseline": 0.3, "lift": 1.0, "seed": 0} | wrong))  # type: ignore[arg-type]
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_fields_of_a_question_are_the_parameters_of_a_plan() -> None:
    """They are listed once: the signature of `plan` names each with its type and default."""
    assert [str(each) for each in signature(plan).parameters.values()] == [
        str(each) for each in signature(Question).parameters.values()
    ]
    assert {"users", "power", "missing", "jobs", "progress"} <= signature(plan).parameters.keys()


@pytest.mark.parametrize(
    "data",
    [
        [0, 1, 1, 0],
        (False, True, True, False),
        np.array([0.0, 1.0, 1.0, 0.0]),
        {"reward": [0, 1, 1, 0], "arm": ["a"] * 4},
        {"bought": ["false", "true", "True", "0"]},
    ],
)
def test_data_come_in_every_shape(data: object) -> None:
    """A list, a tuple, an array, a dict of columns; true and false are 1 and 0."""
    asked = Question(data=data, lift=0.1, seed=0)
    assert (asked.baseline, asked.past) == (0.5, Past("the data", (0.0, 1.0), (2, 2), 0))
    assert replace(asked, seed=1).past == asked.past


def test_data_of_pandas_are_taken() -> None:
    """A Series is the rewards, and a DataFrame has them in a column that may have any name."""
    pandas = pytest.importorskip("pandas")
    column = pandas.Series([0, 1, 1, 0])
    table = pandas.DataFrame({"bought": [0, 1, 1, 0], "day": [1, 2, 3, 4]})
    for data, name in ((column, "reward"), (table, "bought")):
        assert Question(data=data, column=name, lift=0.1, seed=0).baseline == 0.5


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"a": [1], "b": [0]}, "data has no column 'reward'; name one of its columns as column"),
        ({"reward": [1, 0], "arm": ["x", "y"]}, "data has more than one arm"),
        (np.zeros((2, 2)), "data is a file, a DataFrame"),
        (7, "data is a file, a DataFrame"),
        ([], "data has no rewards"),
        ([0.5, 3.7], "data, line 2: the reward is not in [0, 1]"),
        ([0.5, "often"], "data, line 2: needs a reward that is a number, true or false"),
    ],
)
def test_bad_data_are_refused_in_a_line(data: object, told: str) -> None:
    """The line is named, and no reward is shown."""
    with pytest.raises(ParameterError) as caught:
        Question(data=data, lift=0.1, seed=0)
    assert told in str(caught.value)
    assert "3.7" not in str(caught.value)
    assert "often" not in str(caught.value)


def test_a_plan_is_a_table(made: Plan) -> None:
    """A row for each epsilon and allocation, and one for the test with one look."""
    pytest.importorskip("pandas")
    table = made.to_frame()
    assert list(table["rule"][:4]) == ["duels", "equal shares", "one look", "kl-ucb++"]
    assert len(table) == len(made.rows) + 3
    assert table["power"][0] == made.row(2.0).needed


def test_a_rule_for_a_known_number_of_users_gets_the_responses_of_a_plan() -> None:
    """And the epsilon; without users it is refused by the name of what is missing."""
    asked = Question(baseline=0.3, lift=0.5, users=5_000, missing=0.1, rule="ada-ucb", epsilon=2, seed=0)
    assert Case(asked, 2.0, 0.5).rule == AdaUCB(4_500, epsilon=2)
    assert Case(replace(asked, rule={"kind": "ada-ucb", "horizon": 100}), 2.0, 0.5).rule == AdaUCB(100, epsilon=2)
    with pytest.raises(SpecError, match="horizon"):
        _ = Case(replace(asked, users=None), 2.0, 0.5).rule


def test_a_plan_is_a_picture_and_a_page_of_a_notebook(made: Plan) -> None:
    """The answer comes first, then one picture, then the tables; the picture is that of the page."""
    assert [axes.get_ylabel() for axes in made.plot().axes] == ["responses in all"]
    html, whole = made._repr_html_(), page(made)
    places = [html.index(text) for text in (made.answer, "data:image/svg+xml;base64,", "Responses until the verdict")]
    assert places == sorted(places)
    assert html.count("<img") == 1
    assert re.findall(r'src="([^"]+)', html) == re.findall(r'src="([^"]+)', whole)[:1]
    told = page(made, Provenance("ldpbandits plan --lift 1", "2026-01-31T08:00:00+00:00", "9.9"))
    for words in ("2026-01-31T08:00:00+00:00", "ldpbandits 9.9", "ldpbandits plan --lift 1", "digest of the question"):
        assert f"<td>{words}</td>" in told
    assert whole.index(made.answer) < whole.index("<img") < whole.index(made.verdicts[0]) < whole.index("<table")


@pytest.mark.usefixtures("few")
def test_days_follow_from_users_a_day() -> None:
    """The first day counts, and missing answers take more users; the answer says no where nothing is enough."""
    made = plan(0.3, 1.0, epsilon=4, trials=10, seed=1, missing=0.05, per_day=100, begin="2026-12-30", users=20)
    table = days(made)
    assert table is not None
    needed = made.row(4.0).needed
    assert needed is not None
    count = math.ceil(math.ceil(needed / 0.95) / 100)
    last = date(2026, 12, 29) + timedelta(days=count)
    assert table.rows[0][3:] == [str(count), last.isoformat()]
    assert made.answer.startswith("No: with 20 users you would not see a lift of 100 % at any epsilon")
    assert made.command is None
    with pytest.raises(ParameterError, match="begin must be a day such as 2026-01-31, got 'soon'"):
        plan(0.3, 1.0, seed=1, begin="soon")


@pytest.mark.usefixtures("few")
def test_duels_of_several_arms_are_played_round_by_round() -> None:
    """With three arms they have trials of their own; a rule that is fair itself has no row of its own."""
    made = plan(0.3, 1.0, arms=3, epsilon=4, trials=10, seed=1, rule="duels")
    assert [row.allocation for row in made.rows] == ["duels", "equal"] * 2
    assert (made.row(4.0).trials, made.row(4.0, "equal").trials) == (10, 20)
    assert made.row(4.0).closed_form == pytest.approx(4 / 3 * (made.row(4.0, "equal").closed_form or 0), rel=0.01)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("curator", ["ctb", "ctl"])
def test_the_command_creates_the_experiment(curator: str) -> None:
    """The command line takes it, with a rule that fits its curator."""
    made = plan(3.0, 0.5, declared=(1, 5), epsilon=4, trials=10, seed=1, curator=curator)
    assert made.command is not None
    options = parser().parse_args(shlex.split(made.command)[1:])
    assert (options.epsilon, options.low, options.high, len(options.arm)) == ([4], 1, 5, 2)
    rule = rule_from_json(name_or_json("--rule", options.rule))
    assert rule == Case(made.question, 4.0, 0.5).rule_of(made.best(4.0).allocation)


def test_a_copy_of_a_question_keeps_its_past_rewards() -> None:
    """`replace` gives both the data and the mean that was read from it."""
    asked = Question(data=STARS, declared=(1, 5), lift=0.05, seed=0)
    assert replace(asked, seed=1).baseline == asked.baseline
    with pytest.raises(ParameterError, match="give one of them only"):
        replace(asked, baseline=2.5)


def test_the_laplace_mechanism_is_that_of_the_curator() -> None:
    """ctl plays CTL, with the epsilon of the row."""
    assert Case(replace(QUESTION, curator="ctl"), 2.0, 1.0).curator.mechanism == Laplace(2.0)
