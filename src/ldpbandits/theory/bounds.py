"""The theory: one function for each theorem, corollary, lemma or remark of Ren, Zhou, Liu, Shroff (2020), and beyond.

`gaps` are the Delta_a of all arms, zeros included. Lower bounds are multiples of log T, for T to infinity and for
policies that are consistent on every instance, which Theorem 1 needs and does not say. They hold for a best mean below
1: their proofs compare with an instance in which a bad arm is better than the best one. Where the best mean is 1 there
is none, and the regret of a consistent policy may stay bounded. Upper bounds hold at every T.
"""

from collections.abc import Callable, Mapping, Sequence
from math import cosh, e, inf, log, pi, sinh, sqrt, tanh

from ldpbandits.agent.kernels import kl, kl_term
from ldpbandits.checks import check_epsilon
from ldpbandits.spec.mechanisms import response_mean

PAPER_GENERAL = 0.0765 / e
"""c_s of Lemma 4 for sub-Gaussian noise, as printed; its tail step needs variance proxy one, not variance one."""

PAPER_GAUSSIAN = 0.2066 / e
"""c_s of Lemma 4 for Gaussian noise of variance one, as the paper has it."""

JENSEN = 1 / (4 * cosh(sqrt(2) / 2) ** 2)
"""c_s = h(sqrt 2) = 0.1573 with h(x) = sech(x / 2)^2 / 4, for any zero-mean noise Z of variance <= 1, means in [0, 1].

h is the slope of the sigmoid and convex in x^2, so E h(m + Z) >= h(sqrt(E (m + Z)^2)) >= h(sqrt 2) by Jensen.
"""


_PULLS_B = 1 + pi**2 / 3
"""Number of pulls of a suboptimal arm that do not grow with T, in UCB1's theorem and in Theorem 3."""

_PULLS_L = 1 + 2 * pi**2 / 3
"""Number of pulls of a suboptimal arm that do not grow with T, in Theorem 2."""


def privacy_factor_b(epsilon: float) -> float:
    """((e^epsilon + 1) / (e^epsilon - 1))^2: theory's factor of LDP-UCB-B over UCB1 (remark i after Theorem 3).

    A ratio of two upper bounds: it does not bound the ratio of the regrets.
    """
    return tanh(check_epsilon(epsilon) / 2) ** -2


def privacy_factor_l(epsilon: float) -> float:
    """(1 + 4 / epsilon)^2: theory's factor of LDP-UCB-L over UCB1 (remark i after Theorem 2); not a bound either."""
    return (1 + 4 / check_epsilon(epsilon)) ** 2


def ucb1_bound(gaps: Sequence[float], horizon: float) -> float:
    """Auer, Cesa-Bianchi, Fischer (2002), Theorem 1: regret of UCB1 <= sum 8 log T / Delta + (1 + pi^2 / 3) Delta."""
    return _upper(gaps, horizon, factor=1, constant=_PULLS_B)


def theorem_2(gaps: Sequence[float], epsilon: float, horizon: float) -> float:
    """Regret of LDP-UCB-L <= sum 8 (1 + 4 / epsilon)^2 log T / Delta + (1 + 2 pi^2 / 3) Delta."""
    return _upper(gaps, horizon, factor=privacy_factor_l(epsilon), constant=_PULLS_L)


def theorem_2_free(arms: int, epsilon: float, horizon: float) -> float:
    """Regret of LDP-UCB-L on any instance with gaps <= 1, with the constants of the proof.

    Arms with Delta <= alpha cost at most T alpha, each other one at most C log T / alpha + (1 + 2 pi^2 / 3), where
    C = 8 (1 + 4 / epsilon)^2; alpha = sqrt(n C log T / T) gives 2 sqrt(C n T log T) + n (1 + 2 pi^2 / 3).
    """
    return _distribution_free(arms, horizon, factor=privacy_factor_l(epsilon), constant=_PULLS_L)


def theorem_3(gaps: Sequence[float], epsilon: float, horizon: float) -> float:
    """Regret of LDP-UCB-B <= sum 8 ((e^epsilon + 1) / (e^epsilon - 1))^2 log T / Delta + (1 + pi^2 / 3) Delta."""
    return _upper(gaps, horizon, factor=privacy_factor_b(epsilon), constant=_PULLS_B)


def theorem_3_free(arms: int, epsilon: float, horizon: float) -> float:
    """Regret of LDP-UCB-B on any instance with gaps <= 1: `theorem_2_free` with factor and constant of Theorem 3."""
    return _distribution_free(arms, horizon, factor=privacy_factor_b(epsilon), constant=_PULLS_B)


def corollary_1(gaps: Sequence[float], epsilon: float, horizon: float, c_s: float = JENSEN) -> float:
    """Regret of LDP-UCB-LS: Theorem 2 with 1 / c_s^2 on its log term, where alone the gap of the responses enters."""
    return _upper(gaps, horizon, factor=privacy_factor_l(epsilon) / c_s**2, constant=_PULLS_L)


def corollary_1_paper(gaps: Sequence[float], epsilon: float, horizon: float, c_s: float = JENSEN) -> float:
    """Regret of LDP-UCB-LS as printed: 1 / c_s^2 times all of Theorem 2. Valid too, and larger."""
    return theorem_2(gaps, epsilon, horizon) / c_s**2


def corollary_2(gaps: Sequence[float], epsilon: float, horizon: float, c_s: float = JENSEN) -> float:
    """Regret of LDP-UCB-BS: Theorem 3 with 1 / c_s^2 on its log term."""
    return _upper(gaps, horizon, factor=privacy_factor_b(epsilon) / c_s**2, constant=_PULLS_B)


def corollary_2_paper(gaps: Sequence[float], epsilon: float, horizon: float, c_s: float = JENSEN) -> float:
    """Regret of LDP-UCB-BS as printed: 1 / c_s^2 times all of Theorem 3."""
    return theorem_3(gaps, epsilon, horizon) / c_s**2


def kl_bound(p: float, q: float, epsilon: float) -> float:
    """Lemma 7, tightened: KL(p f + (1 - p) g, q f + (1 - q) g) <= sinh(epsilon)^2 (p - q)^2 for epsilon-LDP f, g.

    The paper's last step puts 1/2 where x^2 + (1 - x)^2 + x (1 - x) (e^epsilon + e^-epsilon) >= 1 does, twice.
    """
    root = sinh(check_epsilon(epsilon)) * (p - q)
    return root * root


def kl_bound_paper(p: float, q: float, epsilon: float) -> float:
    """Lemma 7 as printed: (e^epsilon - e^-epsilon)^2 (p - q)^2, four times the tightened one."""
    return 4 * kl_bound(p, q, epsilon)


def theorem_1(gaps: Sequence[float], epsilon: float) -> float:
    """liminf R(T) / log T >= sum 1 / Delta / (e^epsilon - e^-epsilon)^2 for Bernoulli arms, any epsilon-LDP policy.

    For a best mean below 1, which the gaps do not tell.
    """
    return _lower(gaps, lambda gap: kl_bound_paper(gap, 0, epsilon))


def theorem_1_tightened(gaps: Sequence[float], epsilon: float) -> float:
    """Theorem 1 with the tightened Lemma 7: four times as large; for a best mean below 1, too."""
    return _lower(gaps, lambda gap: kl_bound(gap, 0, epsilon))


def exact_constant(means: Sequence[float], epsilon: float) -> float:
    """liminf R(T) / log T >= sum Delta / kl(mu_a_epsilon, mu*_epsilon), for Bernoulli arms; it can be reached.

    Every epsilon-LDP channel on {0, 1} is a garbling of randomised response, which is CTB there. Let f and g be its
    laws of the response to 0 and 1; then K(x|1) = (e^epsilon g - f) / (e^epsilon - 1) and
    K(x|0) = (e^epsilon f - g) / (e^epsilon - 1) are non-negative just because it is epsilon-LDP, and CTB followed by K
    is that channel. It is 0 where the best mean is 1.
    """
    return threshold_constant(means, means, epsilon)


def threshold_constant(means: Sequence[float], chances: Sequence[float], epsilon: float) -> float:
    """liminf R(T) / log T >= sum Delta_a / kl(p_a_epsilon, p*_epsilon), p_a = P(reward of a > theta), p* the largest.

    For policies that see rewards only as CTB's responses behind Threshold(theta): those are bits of means p_epsilon,
    whatever the law. The sum is over arms with p_a < p*; it is infinite where no arm of largest p has the largest mean:
    a policy that finds the largest p on every instance then has regret in proportion to T. It is 0 where p* is 1. The
    bound can be reached.
    """
    return _information_bound(means, chances, lambda chance, best: response_kl(chance, best, epsilon))


def mixed_constant(means: Sequence[float], chances: Sequence[float], mix: Mapping[float, float]) -> float:
    """liminf R(T) / log T >= sum Delta_a / sum over epsilons of share kl(p_a_epsilon, p*_epsilon).

    For policies that see bits of CTB, each by an epsilon that its user picks whatever the arm and the reward: `mix`
    has the share of the users who pick each. A pull then tells on average what the bits of all epsilons tell.
    """

    def information(chance: float, best: float) -> float:
        return sum(share * response_kl(chance, best, epsilon) for epsilon, share in mix.items())

    return _information_bound(means, chances, information)


def lai_robbins(means: Sequence[float]) -> float:
    """liminf R(T) / log T >= sum Delta / kl(mu_a, mu*): the price of learning with Bernoulli arms and no privacy."""
    return _information_bound(means, means, kl)


def response_kl(mean: float, other: float, epsilon: float) -> float:
    """The divergence of CTB's responses to rewards of these two means: `kl` of Lemma 3's map, without cancellation."""
    epsilon = check_epsilon(epsilon)
    step = (other - mean) * tanh(epsilon / 2)
    ones = kl_term(response_mean(mean, epsilon), response_mean(other, epsilon), step)
    zeros = kl_term(response_mean(1 - mean, epsilon), response_mean(1 - other, epsilon), -step)
    return ones + zeros


def _suboptimal(gaps: Sequence[float]) -> list[float]:
    return [gap for gap in gaps if gap > 0]


def _upper(gaps: Sequence[float], horizon: float, *, factor: float, constant: float) -> float:
    return sum(8 * factor * log(horizon) / gap + constant * gap for gap in _suboptimal(gaps))


def _distribution_free(arms: int, horizon: float, *, factor: float, constant: float) -> float:
    return 2 * sqrt(8 * factor * arms * horizon * log(horizon)) + arms * constant


def _lower(gaps: Sequence[float], information: Callable[[float], float]) -> float:
    return sum(_ratio(gap, information(gap)) for gap in _suboptimal(gaps))


def _information_bound(
    means: Sequence[float], chances: Sequence[float], information: Callable[[float, float], float]
) -> float:
    """Sum Delta / information over the arms whose responses are of smaller mean than the largest.

    The information is the least that tells an arm's chance from a chance above the largest. No chance is above 1, so
    that there the least is infinite, and the sum 0.
    """
    top, largest = max(means), max(chances)
    arms = list(zip(means, chances, strict=True))
    if all(mean < top for mean, chance in arms if chance == largest):
        return inf
    if largest >= 1:
        return 0.0
    return sum(_ratio(top - mean, information(chance, largest)) for mean, chance in arms if chance < largest)


def _ratio(gap: float, information: float) -> float:
    if gap == 0:
        return 0.0
    return gap / information if information > 0 else inf  # gaps so small that their square is 0
