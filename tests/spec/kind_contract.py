"""What every mechanism, transform and rule promises, as checks that any of them is put through.

test_registries.py runs them on all that is registered, so that what is added is tested by being added; tests of kinds
of one's own call `CURATOR_CONTRACT` with a `CuratorSpec` and `RULE_CONTRACT` with a rule.
"""

import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from tests.agent.walks import Walk

from ldpbandits import UCB, Agent, Arm, CuratorSpec, Response, Rule, SpecError, estimate
from ldpbandits.agent.duels import Design
from ldpbandits.agent.inference.mechanisms import inference_for
from ldpbandits.agent.rules import RULES, check_fit, check_rule, default_rule, rule_from_json, rule_to_json
from ldpbandits.agent.tally import ArmTally, Tally
from ldpbandits.device.curators import curator_from_json
from ldpbandits.lab.algorithms import Algorithm
from ldpbandits.lab.engine.channels import known_response
from ldpbandits.lab.engine.duels import state_size
from ldpbandits.lab.engine.laws import reward as draw_reward
from ldpbandits.lab.engine.step import compile_steps, encode
from ldpbandits.lab.rewards import Choice, parse_arms
from ldpbandits.spec.mechanisms import MECHANISMS
from ldpbandits.spec.transforms import TRANSFORMS

DRAWS = 4_000
STANDARD_ERRORS = 5
"""A mean of many independent responses strays further with probability 6e-7, by the normal law; all is seeded."""

CuratorPromise: TypeAlias = Callable[[CuratorSpec], None]
RulePromise: TypeAlias = Callable[[Rule], None]
CURATOR_CONTRACT: list[CuratorPromise] = []
RULE_CONTRACT: list[RulePromise] = []


def curator_promise(check: CuratorPromise) -> CuratorPromise:
    """Add a check to the contract of mechanisms and transforms."""
    CURATOR_CONTRACT.append(check)
    return check


def rule_promise(check: RulePromise) -> RulePromise:
    """Add a check to the contract of rules."""
    RULE_CONTRACT.append(check)
    return check


def example(kind: type[Any]) -> Any:
    """Return an object of a kind: fields that have no default are 1, and so is epsilon, which curators have, too."""
    ones = [f.name for f in fields(kind) if f.name == "epsilon" or f.default is f.default_factory is MISSING]
    return kind(**dict.fromkeys(ones, 1.0))


def specs() -> list[CuratorSpec]:
    """Return every pair of a mechanism and a transform that are registered and go together."""
    pairs = [(example(mechanism), example(transform)) for mechanism in MECHANISMS for transform in TRANSFORMS]
    return [CuratorSpec(*pair) for pair in pairs if pair[1].bounded or pair[0].takes_any_value]


def rules() -> list[Rule]:
    """Return a rule of every kind that is registered."""
    return [example(kind) for kind in RULES]


def curator_for(rule: Rule) -> CuratorSpec:
    """Return a curator whose responses the rule takes: the first of those that are registered."""

    def fits(spec: CuratorSpec) -> bool:
        try:
            check_fit(rule, spec)
        except SpecError:
            return False
        return True

    return next(filter(fits, specs()))


def rewards(spec: CuratorSpec) -> list[float]:
    """Return some rewards that can be taken: two neighbours, and what silence counts as."""
    return [*spec.transform.ends, spec.transform.default_reward]


def device_responses(spec: CuratorSpec, reward: float) -> list[float]:
    """Draw responses as a device does, but from seeded words."""
    rng, curator = random.Random(1), curator_from_json(spec)

    def words(count: int) -> Sequence[int]:
        return [rng.getrandbits(64) for _ in range(count)]

    return [curator.respond_not_private(reward, words) for _ in range(DRAWS)]


def lab_responses(spec: CuratorSpec, reward: float) -> list[float]:
    """Draw responses as the lab does, in its compiled loop."""
    advance = compile_steps(Algorithm("one", UCB(1.0), spec), [Choice((reward,))])
    rng, drawn = np.random.default_rng(2), []
    for _ in range(DRAWS):
        pulls, totals = np.ones(1), np.zeros(1)
        advance(rng, pulls, totals, 1, 2)
        drawn.append(float(totals[0]))
    return drawn


@curator_promise
def goes_through_json_without_loss(spec: CuratorSpec) -> None:
    """The JSON of a spec, as text, gives an equal spec back, and an equal curator on the device."""
    told = json.loads(json.dumps(spec.to_json()))
    assert told["mechanism"] == spec.mechanism.kind
    assert told["transform"]["kind"] == spec.transform.kind
    assert CuratorSpec.from_json(told) == spec
    assert curator_from_json(told).spec == spec
    assert curator_from_json(told).to_json() == spec.to_json()


@curator_promise
def says_what_it_promises(spec: CuratorSpec) -> None:
    """The guarantee has the epsilon, a distance and words; the ends can be taken and are neighbours."""
    guarantee, (one, other) = spec.guarantee, spec.transform.ends
    assert guarantee.epsilon == spec.epsilon == spec.mechanism.epsilon > 0
    assert guarantee.neighbours == spec.transform.neighbours > 0
    assert guarantee.covers in str(guarantee)
    assert 0 < abs(one - other) <= guarantee.neighbours


@curator_promise
def takes_rewards_and_refuses_others(spec: CuratorSpec) -> None:
    """Rewards are mapped to values that the mechanism takes; infinity is refused, or has a nearest reward."""
    transform = spec.transform
    for reward in rewards(spec):
        assert transform.refusal(reward) is None
        assert transform.nearest(reward) in (reward, None)
        assert not transform.bounded or 0 <= spec.value(reward) <= 1
    rule = transform.refusal(math.inf)
    assert rule is not None
    assert "inf" not in rule.replace("finite", "")


@curator_promise
def debiases_what_it_says_of_the_mean(spec: CuratorSpec) -> None:
    """`debiased_mean` is the inverse of `response_mean`, which is linear and grows."""
    mechanism = spec.mechanism
    low, high = mechanism.response_mean(0.0), mechanism.response_mean(1.0)
    assert low < high
    for mean in (0.0, 0.25, 0.7, 1.0):
        assert math.isclose(mechanism.response_mean(mean), low + mean * (high - low), rel_tol=1e-12)
        assert math.isclose(inference_for(mechanism).debiased_mean(mechanism.response_mean(mean)), mean, abs_tol=1e-9)


@curator_promise
def tells_possible_responses_from_others(spec: CuratorSpec) -> None:
    """What a device responds is a whole number of units; half a unit, and what is beyond the limits, is none."""
    mechanism = spec.mechanism
    assert math.frexp(mechanism.unit)[0] == 0.5  # a power of two
    for response in device_responses(spec, spec.transform.default_reward):
        units = spec.in_units(response)
        assert units is not None
        assert units * mechanism.unit == response
    assert spec.in_units(mechanism.unit / 2) is None
    assert spec.in_units(math.nan) is None
    if spec.transform.bounded:
        least, most = mechanism.limits
        assert spec.in_units(least * mechanism.unit) == least
        assert spec.in_units(most * mechanism.unit) == most
        assert spec.in_units((most + 1) * mechanism.unit) is None
        assert spec.in_units((least - 1) * mechanism.unit) is None


@curator_promise
def draws_what_the_law_says(spec: CuratorSpec) -> None:
    """Responses of device and lab have the mean of the public law, within 5 standard errors (false alarm 6e-7)."""
    for reward in rewards(spec):
        mean = spec.mechanism.response_mean(spec.value(reward))
        for responses in (device_responses(spec, reward), lab_responses(spec, reward)):
            error = np.std(responses, ddof=1) / math.sqrt(len(responses))
            assert abs(np.mean(responses) - mean) < STANDARD_ERRORS * error


@curator_promise
def is_estimated(spec: CuratorSpec) -> None:
    """An agent of the default rule counts its responses, and the interval covers the mean. False alarm: 1e-9."""
    agent = Agent.for_curator(spec, arms=1, rule=default_rule(spec))
    reward = spec.transform.ends[1]
    for response in device_responses(spec, reward):
        agent.update(agent.select(), Response(response))
    sigma = None if spec.transform.bounded else 0.0
    found = agent.estimates(sub_gaussian=sigma)["0"]
    assert (found.of, found.pulls, found.fits) == (spec.transform.of, DRAWS, True)
    assert found.mean is not None
    sure = estimate(DRAWS, agent.totals[0], spec, alpha=1e-9, sub_gaussian=sigma)
    assert sure.low <= spec.transform.reward(spec.value(reward)) <= sure.high
    assert sure.low <= found.low <= found.high <= sure.high
    assert Agent.from_json(json.loads(json.dumps(agent.to_json()))).to_json() == agent.to_json()


@curator_promise
def has_intervals_that_rise_with_the_total(spec: CuratorSpec) -> None:
    """Neither end falls when the total rises, so that the worst case of missing responses is that of the extremes.

    The interval for the worst case is the plain one when none is missing, and contains it otherwise.
    """
    mechanism, inference, pulls = spec.mechanism, inference_for(spec.mechanism), 200
    totals = [round(pulls * mechanism.response_mean(m / 20) / mechanism.unit) * mechanism.unit for m in range(21)]
    intervals = [inference.interval(pulls, total, 0.05, 0.5) for total in totals]
    for ends in zip(*intervals, strict=True):
        assert all(before <= after + 1e-9 for before, after in pairwise(ends))
    low, high = intervals[10]
    assert inference.worst_interval(pulls, totals[10], 0, 0.05, 0.5) == (low, high)
    wider = inference.worst_interval(pulls, totals[10], 100, 0.05, 0.5)
    assert max(wider[0], 0) <= max(low, 0)
    assert min(wider[1], 1) >= min(high, 1)


@rule_promise
def is_data(rule: Rule) -> None:
    """A rule is checked, compared and hashed; its JSON, as text, gives an equal rule back."""
    assert check_rule(rule) is rule
    assert rule_from_json(json.loads(json.dumps(rule_to_json(rule))), may_import=True) == rule
    assert hash(rule) == hash(rule_from_json(rule_to_json(rule), may_import=True))


@rule_promise
def plays_the_same_live_and_compiled(rule: Rule) -> None:
    """For 3,000 rounds on the same stream, the compiled loop and `Agent` choose the same arm."""
    arms = [law for text in ("bernoulli(0.8)", "3*beta(4,4)", "uniform(0,1)") for law in parse_arms(text)]
    played = Algorithm("replay", rule, curator_for(rule))
    (play, _), advance = encode(played, arms), compile_steps(played, arms)
    compiled_rng, live_rng = (np.random.Generator(np.random.PCG64(17)) for _ in range(2))
    pulls, totals, before = np.zeros(len(arms)), np.zeros(state_size(rule.design, len(arms))), np.zeros(len(arms))
    agent = Agent(rule, len(arms), random=live_rng)
    for t in range(3_000):
        advance(compiled_rng, pulls, totals, t, t + 1)
        arm, rival = agent.choose()
        reward = draw_reward.py_func(live_rng, play.laws, arm, t)  # type: ignore[attr-defined]
        response = known_response.py_func(live_rng, play.channel, reward)  # type: ignore[attr-defined]
        agent.update(arm, Response(float(response)), rival=rival)
        before[arm] += 1
        assert pulls[arm] == before[arm], t
    assert tuple(arm.counted for arm in agent.tally.arms) == tuple(totals[: len(arms)])


@rule_promise
def hands_out_every_arm_to_a_crowd(rule: Rule) -> None:
    """With nothing answered yet, no arm waits for more than one full round, however many are out."""
    agent = Agent(rule, 5, random=random.Random(1))
    first = {agent.issue() for _ in range(5 if rule.design is Design.ADAPTIVE else 100)}  # a coin takes its time
    assert first == set(range(5))
    for _ in range(20):
        agent.issue()
    assert agent.t == (25 if rule.design is Design.ADAPTIVE else 120)


@rule_promise
def chooses_among_some_as_if_the_others_were_retired(rule: Rule) -> None:
    """With the same tally and the same draws, the choice among some arms is that of an agent who has no others."""
    rng = random.Random(3)
    tallies = [(pulls, sum(rng.random() for _ in range(pulls))) for pulls in (30, 0, 7, 12, 1, 25)]
    some = [Arm(0), Arm(1), Arm(3), Arm(5)]
    for seed in range(10):
        one, other = (Agent(rule, len(tallies), random=random.Random(seed)) for _ in range(2))
        for agent in (one, other):
            agent.tally = Tally(ArmTally(pulls, total, out=1) for pulls, total in tallies)
        other.retire(Arm(2))
        other.retire(Arm(4))
        assert [one.issue(some) for _ in range(5)] == [other.issue() for _ in range(5)]


@rule_promise
def moves_as_it_declares(rule: Rule) -> None:
    """A rule that says how its index moves is chosen for as by a look at every arm; one may say nothing."""
    if rule.moves is not None:
        assert all(Walk(rule, arms, seed=arms, played=20).agrees(100) for arms in (2, 10, 60))
