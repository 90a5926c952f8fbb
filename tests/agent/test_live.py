"""An agent with thousands of pulls out still spreads its arms, and arms come and go."""

import random
from collections import deque

import pytest

from ldpbandits import UCB, Agent, Arm, ArmError, Response, ldp_ucb_b, ldp_ucb_l
from ldpbandits.agent.tally import ArmTally, Tally
from ldpbandits.spec.mechanisms import response_mean

ARMS, BEST, GAP, HORIZON, OUTSTANDING = 10, 5, 0.1, 50_000, 10_000
TUNED = UCB(0.5)
"""The width of UCB1-Tuned where the variance is at most 1/4, as that of a bit is."""


def playing(*arms: ArmTally) -> Agent:
    """Make an agent of LDP-UCB-B that has these tallies."""
    agent = Agent(ldp_ucb_b(), len(arms))
    agent.tally = Tally(arms)
    return agent


def share_of_uniform_regret(seed: int, *, counts_what_is_out: bool) -> float:
    """Play with 10,000 tickets outstanding; return the regret beside that of uniform play."""
    rng = random.Random(seed)
    bits = [response_mean(0.5 + GAP * (arm == BEST), epsilon=1.0) for arm in range(ARMS)]
    agent = Agent(TUNED, ARMS)
    out: deque[Arm] = deque()
    wrong = 0
    for _ in range(HORIZON):
        arm = agent.issue()
        wrong += arm != BEST
        out.append(arm)
        if not counts_what_is_out:
            agent.take_back(arm)
        if len(out) > OUTSTANDING:
            back = out.popleft()
            if counts_what_is_out:
                agent.take_back(back)
            agent.tally.add(back, 1, float(rng.random() < bits[back]))
    return wrong / HORIZON * ARMS / (ARMS - 1)


def test_regret_with_ten_thousand_tickets_out() -> None:
    """Counting what is out, the mean of ten runs is below 40 % of uniform play's; the plain rule is worse than uniform.

    Over many runs the mean is 34.6 % with a standard deviation of 7 % a run: the mean of ten is above 40 % in fewer
    than 1 of 100 sets of seeds, and these seeds are fixed.
    """
    shares = [share_of_uniform_regret(seed, counts_what_is_out=True) for seed in range(10)]
    assert sum(shares) / len(shares) <= 0.4
    assert share_of_uniform_regret(0, counts_what_is_out=False) > 1


@pytest.mark.parametrize("rule", [ldp_ucb_b(), ldp_ucb_l(1.0), TUNED])
def test_without_delay_it_is_the_agent(rule: UCB) -> None:
    """When each response is in before the next decision, it chooses as `Agent` does, for 2,000 rounds."""
    rng = random.Random(1)
    agent, live = Agent(rule, 4), Agent(rule, 4)
    for _ in range(2_000):
        arm = live.issue()
        assert arm == agent.select()
        agent.update(arm, Response(rng.random()))
        live.take_back(arm)
        live.tally.replace(arm, agent.pulls[arm], agent.totals[arm])
        assert live.t == agent.t


@pytest.mark.parametrize("rule", [ldp_ucb_b(), ldp_ucb_l(0.5)])
def test_before_any_response_arms_are_handed_out_evenly(rule: UCB) -> None:
    """A hundred decisions over five arms that nobody has answered: twenty each."""
    live = Agent(rule, 5)
    handed = [live.issue() for _ in range(100)]
    assert [handed.count(Arm(arm)) for arm in range(5)] == [20] * 5


def test_an_arm_that_never_answers_does_not_take_everything() -> None:
    """An added arm whose pulls all stay out gets a share of the next 5,000 decisions, and not all of them."""
    rng = random.Random(2)
    live = playing(ArmTally(1_000, 700.0), ArmTally(1_000, 600.0))
    added = live.add_arm()
    handed = 0
    for _ in range(5_000):
        arm = live.issue()
        if arm == added:
            handed += 1
        else:
            live.take_back(arm)
            live.tally.add(arm, 1, float(rng.random() < 0.7 - 0.1 * arm))
    assert 50 < handed < 2_500


def test_a_retired_arm_is_not_handed_out_and_its_number_is_not_used_again() -> None:
    """Its late responses still count; a new arm gets the next number; the last arm cannot be missing unnoticed."""
    live = Agent(ldp_ucb_b(), 3)
    out = [live.issue() for _ in range(6)]
    live.retire(Arm(1))
    assert {live.issue() for _ in range(50)} == {0, 2}
    live.take_back(Arm(1))
    live.tally.replace(Arm(1), 1, 1.0)
    assert live.tally.arms[1] == ArmTally(1, 1.0, out.count(Arm(1)) - 1, retired=True)
    assert live.add_arm() == 3
    assert 3 in {live.issue() for _ in range(50)}
    for arm in (0, 2, 3):
        live.retire(Arm(arm))
    with pytest.raises(ArmError):
        live.issue()


def test_among_arms_that_are_in_use_only() -> None:
    """Of one arm there is nothing to choose; none, a retired one, or one that there is not is refused."""
    agent = Agent(ldp_ucb_b(), 4)
    agent.retire(Arm(3))
    assert [agent.issue(among=[Arm(2)]) for _ in range(5)] == [2] * 5
    assert agent.tally.arms[2].out == 5
    assert agent.select(among=[Arm(1), Arm(2)]) == 1
    for among in ([], [Arm(3)], [Arm(0), Arm(4)]):
        with pytest.raises(ArmError, match=r"arms to choose among must be of \[0, 1, 2\], got "):
            agent.select(among)


def test_t_counts_what_is_in_and_what_is_out() -> None:
    """The agent's clock is the sum of pulls and pulls out, whatever happens."""
    rng = random.Random(3)
    live = playing(ArmTally(5, 2.0), ArmTally(3, 1.0, out=2))
    out: list[Arm] = [Arm(1), Arm(1)]
    for _ in range(500):
        if out and rng.random() < 0.5:
            arm = out.pop(rng.randrange(len(out)))
            live.take_back(arm)
            if rng.random() < 0.5:
                live.tally.add(arm, 1, 0.0)
        else:
            out.append(live.issue())
        assert live.t == sum(arm.n for arm in live.tally.arms)
