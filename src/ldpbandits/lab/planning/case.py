"""A case: one epsilon of a question, at one lift, with its laws, its rules, its test and its forecast."""

from dataclasses import dataclass
from functools import cached_property
from math import ceil, sqrt
from statistics import NormalDist
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from ldpbandits.agent.bound_rule import BoundRule, bind_rule
from ldpbandits.agent.duels import Design
from ldpbandits.agent.inference.estimates import share
from ldpbandits.agent.inference.expected_allocation import ExpectedAllocation, Shape, is_foreseeable
from ldpbandits.agent.inference.forecast import Prospect, more_responses
from ldpbandits.agent.inference.verdicts import Criteria
from ldpbandits.agent.laplace_kernels import above_half, clipped
from ldpbandits.agent.laplace_rules import DuelsLaplace, EqualSharesLaplace
from ldpbandits.agent.rules import Duels, EqualShares, Rule, default_rule, name_of
from ldpbandits.agent.tally import ArmTally
from ldpbandits.checks import LARGEST_EPSILON
from ldpbandits.errors import ParameterError, SpecError
from ldpbandits.lab.algorithms import Algorithm, NotPrivate
from ldpbandits.lab.engine.separation import IntervalTest, judge
from ldpbandits.lab.engine.sums import encode_sums
from ldpbandits.lab.engine.verdicts import EQUAL, VerdictTest, verdict_test, winner
from ldpbandits.lab.planning.question import MAX_RESPONSES, Question
from ldpbandits.lab.rewards import Bernoulli, Empirical
from ldpbandits.spec import mechanisms
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.spec.menu import Menu

Allocation: TypeAlias = Literal["duels", "equal", "rule"]
"""Duels allocate the pulls, every arm gets an equal share, or another rule allocates them."""

ALLOCATIONS: tuple[Allocation, ...] = get_args(Allocation)
LIFTED_LAW_PARTS = 10**9
"""The chances of a lifted law of data are whole multiples of 1 / LIFTED_LAW_PARTS."""


FAIR: tuple[Allocation, ...] = ("duels", "equal")
"""The allocations by a fair coin, whose verdicts hold although the level of all arms moves."""

FORECAST_TOLERANCE = 1.001
"""The ratio within which a forecast is found."""


def allocations(question: Question) -> tuple[Allocation, ...]:
    """Return the allocations to compare: a rule that is one of the fair ones has no row of its own."""
    case = Case(question, question.epsilons[0], question.lift)
    return ALLOCATIONS if case.rule.design is Design.ADAPTIVE else FAIR


@dataclass(frozen=True)
class Case:
    """A question with one of its epsilons. Without an epsilon there is no privacy: the rule sees the rewards.

    Rewards of 0 and 1 are then played as CTB at the largest epsilon that there is, where one response in 10^21 is
    noise: its bits leap. The intervals of bits hold for all rewards of the same range, since their martingale does not
    grow (a^x b^(1 - x) <= x a + (1 - x) b), and the rules for bits take rewards between as they are.
    """

    question: Question
    epsilon: float | None
    lift: float

    @cached_property
    def curator(self) -> CuratorSpec:
        """The curator, on values in [0, 1]; without privacy one by whose intervals rewards are judged."""
        if self.epsilon is None:
            return CuratorSpec(mechanisms.Bernoulli(LARGEST_EPSILON))
        kind = mechanisms.Bernoulli if self.question.curator == "ctb" else mechanisms.Laplace
        return CuratorSpec(kind(self.epsilon))

    @cached_property
    def menu(self) -> Menu:
        """The curator, as those take it who could take several epsilons."""
        return Menu.of(self.curator)

    @cached_property
    def rule(self) -> Rule:
        """The rule that is played; without privacy the default one, where the one that is asked for does not fit."""
        asked = self.question.rule_for(self.curator)
        try:
            bind_rule(asked, self.menu)
        except SpecError:
            if self.epsilon is not None:
                raise
            return default_rule(self.curator)
        return asked

    @cached_property
    def bound_rule(self) -> BoundRule:
        """The kernel of the rule, with its numbers."""
        return bind_rule(self.rule, self.menu)

    def rule_of(self, allocation: Allocation) -> Rule:
        """Return the rule behind an allocation."""
        is_laplace = isinstance(self.curator.mechanism, mechanisms.Laplace)
        match allocation:
            case "rule":
                return self.rule
            case "equal":
                return EqualSharesLaplace(self.curator.epsilon) if is_laplace else EqualShares()
            case "duels":
                return DuelsLaplace(self.curator.epsilon) if is_laplace else Duels()

    def name_of(self, allocation: Allocation) -> str:
        """Return the name of an allocation in tables and sentences."""
        return {"duels": "duels", "equal": "equal shares", "rule": name_of(self.rule)}[allocation]

    @property
    def rule_name(self) -> str:
        """The name of the rule in tables and sentences."""
        return self.name_of("rule")

    @cached_property
    def criteria(self) -> Criteria:
        """When the experiment is decided: for a fixed set of arms, which is the server's default for `decide`."""
        return Criteria(self.question.arms, self.question.alpha)

    def verdict_test(self, allocation: Allocation) -> VerdictTest | None:
        """Return the test of the verdict; None where the responses that a rule counts have none, only intervals."""
        try:
            return verdict_test(self.rule_of(allocation), self.menu, self.criteria, self.worst_each)
        except ParameterError:
            return None

    @cached_property
    def interval_test(self) -> IntervalTest:
        """The test of disjoint intervals, for responses that have no other."""
        return IntervalTest(judge(self.curator), self.alphas, self.worst_each)

    @cached_property
    def values(self) -> tuple[float, ...]:
        """The mean value of each arm, in [0, 1]."""
        asked = self.question
        low, width = asked.range.low, asked.range.high - asked.range.low
        baseline, best = ((reward - low) / width for reward in (asked.of(0.0), asked.of(self.lift)))
        return (*[baseline] * (asked.arms - 1), min(best, 1.0))

    @cached_property
    def laws(self) -> tuple[Bernoulli | Empirical, ...]:
        """The law of each arm's values.

        CTB makes the same bits of all laws of one mean. For CTL, and without privacy, they are those of the data, and
        the best arm's are lifted by making some rewards the largest: for rewards of 0 and 1 that is what a lift is.
        """
        past, (baseline, *_, best) = self.question.past, self.values
        are_bits = self.epsilon is not None and self.question.curator == "ctb"
        if past is None or are_bits or set(past.values) <= {0.0, 1.0}:
            return tuple(Bernoulli(value) for value in self.values)
        raised = (best - baseline) / (1 - baseline)
        chances = [count / past.rewards for count in past.counts]
        lifted = [(1 - raised) * chance for chance in chances]
        ends = (*past.values, 1.0) if past.values[-1] < 1 else past.values
        lifted = [*lifted, raised] if past.values[-1] < 1 else [*lifted[:-1], lifted[-1] + raised]
        old, new = _law(past.values, chances), _law(ends, lifted)
        return (*[old] * (self.question.arms - 1), new)

    @cached_property
    def sees_rewards(self) -> bool:
        """Whether the rule sees rewards that are not 0 or 1, as they are."""
        return self.epsilon is None and not isinstance(self.laws[0], Bernoulli)

    def algorithm(self, allocation: Allocation) -> Algorithm:
        """Return the rule behind an allocation and its curator as an algorithm of the lab."""
        curator = NotPrivate() if self.sees_rewards else self.curator
        return Algorithm(self.name_of(allocation), self.rule_of(allocation), curator)

    @cached_property
    def gaps(self) -> NDArray[np.float64]:
        """By how much a pull of each arm falls short, in rewards."""
        asked = self.question
        return np.array([*[asked.of(self.lift) - asked.of(0.0)] * (asked.arms - 1), 0.0])

    @property
    def missing_each(self) -> float:
        """How many answers are missing for each that comes."""
        return self.question.missing / (1 - self.question.missing)

    @property
    def worst_each(self) -> float:
        """How many of these count at worst for each answer that comes."""
        return self.missing_each if self.question.worst else 0.0

    @cached_property
    def alphas(self) -> NDArray[np.float64]:
        """Each arm's share of alpha."""
        return np.array([share(self.question.alpha, arm) for arm in range(self.question.arms)])

    @cached_property
    def prospects(self) -> list[Prospect]:
        """The arms as a forecast takes them, each with one pull that is like the mean of all."""
        mechanism, arms = self.curator.mechanism, self.question.arms
        return [
            Prospect(ArmTally(1, mechanism.response_mean(value)), alpha, 1, self.worst_each, 0, 1 / arms)
            for value, alpha in zip(self.values, self.alphas.tolist(), strict=True)
        ]

    def closed_form(self, allocation: Allocation, beyond: float = MAX_RESPONSES) -> int | None:
        """Return about how many responses it takes until the verdict, without playing: by a forecast.

        None: more than `beyond`, or nothing is known of how the rule sends its pulls.
        """
        test = self.verdict_test(allocation)
        if test is None:
            return self._forecast_by_intervals(beyond)
        by_rule = self._allocation_by_rule() if allocation == "rule" else None
        if allocation == "rule" and by_rule is None:
            return None
        if allocation == "duels":
            test = test._replace(design=EQUAL)  # the pairs that matter have equal shares
        means = np.array(self._means_read(allocation))

        def is_decided(t: float) -> bool:
            pulls = np.array(self._expected_pulls(allocation, t, by_rule))
            return bool(winner(test, pulls, pulls * means) == self.question.arms - 1)

        least, most = 2.0 * self.question.arms, float(beyond)
        if least >= most or not is_decided(most):
            return None
        while most > least * FORECAST_TOLERANCE:
            middle = sqrt(least * most)
            least, most = (least, middle) if is_decided(middle) else (middle, most)
        return ceil(most)

    def _expected_pulls(self, allocation: Allocation, t: float, by_rule: ExpectedAllocation | None) -> list[float]:
        """Return the pulls of each arm when there were t in all; under duels, those of the pairs that matter.

        All challengers are alike: each has its share of the duels with the best arm.
        """
        arms = self.question.arms
        if by_rule is not None:
            best, *others = by_rule.pulls_at(t)
            return [*others, best]
        return [t / (2 * (arms - 1))] * arms if allocation == "duels" else [t / arms] * arms

    def _forecast_by_intervals(self, beyond: float) -> int | None:
        by_rule = self._allocation_by_rule()
        if by_rule is None:
            return None
        *others, best = self.prospects
        more = more_responses(best, others, self.menu, by_rule.shares, beyond)
        return None if more is None else more + self.question.arms

    def _allocation_by_rule(self) -> ExpectedAllocation | None:
        """Return where the rule sends its pulls, the best arm first; None where its index may move in any way."""
        if not is_foreseeable(self.bound_rule):
            return None
        *others, best = self._means_read("rule")
        return ExpectedAllocation(self.bound_rule, tuple(map(Shape, (best, *others))), (1.0,) * self.question.arms)

    def _means_read(self, allocation: Allocation) -> list[float]:
        """Return the mean of what the rule reads of each arm's responses."""
        reading = self.rule_of(allocation).reading
        if reading is above_half:
            return [float(chance) for chance in encode_sums(self.algorithm(allocation), self.laws).chance]
        if reading is None or reading is clipped:  # clipping keeps the mean
            return [self.curator.mechanism.response_mean(value) for value in self.values]
        raise SpecError(f"the rule {self.rule_name} reads responses in a way that is not known here")

    def textbook(self) -> int:
        """Return how many responses, in equal shares, the z-test of the best arm against one other takes.

        2 (z(alpha / 2) + z(power))^2 variance / gap^2 for each arm, with the variance of a debiased response. This test
        compares two arms alone, once, after all responses.
        """
        asked, normal = self.question, NormalDist()
        quantiles = normal.inv_cdf(1 - asked.alpha / 2) + normal.inv_cdf(asked.power)
        one, other = self._variance(0), self._variance(asked.arms - 1)
        each = quantiles**2 * (one + other) / (self.values[-1] - self.values[0]) ** 2
        return ceil(each) * asked.arms

    def _variance(self, arm: int) -> float:
        """Return the variance of a response of this arm, divided by the square of what a unit of value makes of it."""
        mechanism, law = self.curator.mechanism, self.laws[arm]
        if self.sees_rewards:
            return _spread(law)
        if isinstance(mechanism, mechanisms.Laplace):
            return _spread(law) + 2 / mechanism.epsilon**2
        chance = mechanism.response_mean(self.values[arm])
        return chance * (1 - chance) / (mechanism.response_mean(1.0) - mechanism.response_mean(0.0)) ** 2

    def half_width(self, pulls: float) -> float:
        """Return half the width of the interval of an arm at the baseline after `pulls` responses of it."""
        known = self.prospects[0].worst(self.menu, max(pulls - 1, 0.0), share=1.0)
        return (known.high - known.low) / 2 * (self.question.range.high - self.question.range.low)


def _spread(law: Bernoulli | Empirical) -> float:
    if isinstance(law, Bernoulli):
        return law.mean * (1 - law.mean)
    squares = sum(value * value * count for value, count in zip(law.values, law.counts, strict=True))
    return squares / sum(law.counts) - law.mean**2


def _law(values: tuple[float, ...], chances: list[float]) -> Empirical:
    return Empirical("", "", values, tuple(round(LIFTED_LAW_PARTS * chance) for chance in chances), "")
