"""Worst-case intervals under missing data: they hold whatever the unanswered would have said.

An arm was assigned N times; n of these are answered, the rest, the *unanswered*, are missing or pending. Whether
somebody answers, and when, may depend on the reward: those who click leave the page at once, those who do not stay, or
are lost. Then the n responses are a biased sample, and an interval from them alone covers another mean. But all N have
the law of the arm. In the order in which the arm was assigned, their responses are independent and have the arm's
mean, and the confidence sequence of all N covers it at all times, whatever decides which of them are seen. The interval
here is the union of that sequence's intervals over all possible responses of the unanswered. Where there are none it is
the interval itself.

**Bits.** M(p) from s ones among N is, for each component of precision rho, changed by one more 1 in the place of a 0 by
(rho p + s) (1 - p) / ((rho (1 - p) + N - s - 1) p), which is at least 1 exactly when s >= (N - 1) p. A mean p below the
interval has p < s / N: so with more ones M(p) grows further, and p stays below. No end of the interval falls when s
rises, so the extremes are those of zeros only and of ones only. The interval holds for each arm at all times, even when
an adversary who sees the bits drops some.

**Other responses.** The same argument with the least and the largest possible response holds for every mechanism whose
intervals have ends that do not fall when the total rises.

**Several epsilons.** The unanswered may have any of them: see `mixed_worst_interval`.

**Laplace.** Responses are not bounded, but values are: by 0 and 1. The noise of those who answer is averaged as ever,
the values of all N are sampled as ever, and `log_laplace_martingale` has both in one. It holds when dropping depends on
the reward, the arm, the moment, or on anything but the noise: a device that drops responses because they are large is
not covered. (A response beyond 28 / epsilon is refused for what it says, with probability 7e-13.)
"""

from dataclasses import replace
from math import inf

from ldpbandits.agent.inference.estimates import HOEFFDING, Estimate, in_rewards
from ldpbandits.agent.inference.mechanisms import inference_for
from ldpbandits.agent.inference.sequences import bernoulli_edge, mixed_worst_interval
from ldpbandits.agent.levels import Levels
from ldpbandits.agent.tally import ArmTally
from ldpbandits.spec.menu import Menu


def worst_case(known: Estimate, arm: ArmTally, menu: Menu, unanswered: int) -> Estimate:
    """Return the estimate with an interval that holds whatever the unanswered would have said.

    `known` is the estimate from the answered pulls. Its alpha is spent once: with probability 1 - alpha the returned
    interval covers the mean at all times, including those when all have answered and it equals the estimate's own. It
    is never narrower than the estimate's own.
    """
    if unanswered == 0:
        return known
    edges = -inf, inf
    if arm.pulls and menu.transform.bounded:
        if len(menu) == 1:
            inference = inference_for(menu.first)
            edges = inference.worst_interval(arm.pulls, arm.total, unanswered, known.alpha, HOEFFDING)
        else:
            cells = [number for cell in arm.cells for number in cell]
            edges = mixed_worst_interval(cells, Levels.of(menu).numbers, unanswered, known.alpha)
    worst = replace(in_rewards(menu.transform, None, edges, known.alpha, arm.pulls), mean=known.mean)
    if not known.fits:  # no mean fits the answered responses, but one may fit all N
        return worst
    # The interval contains the estimate's own but for rounding, which min and max correct.
    return replace(worst, low=min(worst.low, known.low), high=max(worst.high, known.high), fits=True)


def missing_interval(answered: int, missing: int, out: int, alpha: float) -> tuple[float, float]:
    """Return an anytime-valid interval for the share of an arm's decisions that end without an answer.

    Answers come soon, but a missing answer is known only when its ticket has expired, so a new arm has none at first.
    The interval holds whatever becomes of the pending pulls, by the argument for bits above.
    """
    decisions = answered + missing + out
    if decisions == 0:
        return 0.0, 1.0
    return bernoulli_edge(decisions, missing, alpha, 0.0), bernoulli_edge(decisions, missing + out, alpha, 1.0)
