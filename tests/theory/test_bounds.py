"""The theory's numbers are the paper's, and the sharper ones are sharper."""

import json
import math
import random
from collections.abc import Callable
from decimal import Decimal, localcontext

import pytest

from ldpbandits.agent.kernels import kl, upper_confidence
from ldpbandits.errors import ParameterError
from ldpbandits.lab.panels import paper
from ldpbandits.lab.rewards import Bernoulli, Law, gaps, parse_arms
from ldpbandits.spec.mechanisms import response_mean
from ldpbandits.theory import bounds
from ldpbandits.theory.table import Bound, BoundTable

MEANS = [arm.mean for arm in paper.BERNOULLI]
GAPS = gaps(paper.BERNOULLI)


def per_log(bound: Callable[[float], float]) -> float:
    """The coefficient of log T."""
    return bound(math.e**2) - bound(math.e)


@pytest.mark.parametrize(
    ("epsilon", "theorem_1", "exact", "upper_b", "upper_l"),
    [
        (0.1, "2533", "20343", "325876", "1367213"),
        (0.2, "627", "5093", "81876", "358680"),
        (0.5, "93.6", "823", "13559", "65880"),
        (1, "18.4", "214", "3809", "20333"),
        (2, "1.93", "63.2", "1402", "7320"),
        (4, "0.034", "29.7", "875", "3253"),
    ],
)
def test_the_table_of_constants(epsilon: float, theorem_1: str, exact: str, upper_b: str, upper_l: str) -> None:
    """Multiples of log T on the paper's Bernoulli arms, to the last digit given."""
    made = {
        theorem_1: bounds.theorem_1(GAPS, epsilon),
        exact: bounds.exact_constant(MEANS, epsilon),
        upper_b: per_log(lambda t: bounds.theorem_3(GAPS, epsilon, t)),
        upper_l: per_log(lambda t: bounds.theorem_2(GAPS, epsilon, t)),
    }
    for given, value in made.items():
        decimals = len(given.partition(".")[2])
        assert f"{value:.{decimals}f}" == given


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 4.0, 50.0])
def test_lower_bounds_are_ordered(epsilon: float) -> None:
    """Theorem 1, four times that, the exact constant, the upper bounds: each at most the next; privacy has a price."""
    tightened = bounds.theorem_1_tightened(GAPS, epsilon)
    exact = bounds.exact_constant(MEANS, epsilon)
    assert tightened == pytest.approx(4 * bounds.theorem_1(GAPS, epsilon))
    assert tightened <= exact <= per_log(lambda t: bounds.theorem_3(GAPS, epsilon, t))
    assert bounds.lai_robbins(MEANS) <= exact * (1 + 1e-9)


def test_exact_constant_meets_its_limits() -> None:
    """As epsilon grows it becomes Lai and Robbins' constant; as epsilon goes to 0, 2 / epsilon^2 sum 1 / Delta."""
    assert bounds.exact_constant(MEANS, 40.0) == pytest.approx(bounds.lai_robbins(MEANS))
    small = 2 / 1e-6**2 * sum(1 / gap for gap in GAPS if gap > 0)
    assert bounds.exact_constant(MEANS, 1e-6) == pytest.approx(small, rel=1e-6)


def test_kl_is_the_divergence() -> None:
    """It agrees with the definition, is infinite where it must be, and stays accurate for close p and q."""
    assert kl(0.3, 0.6) == pytest.approx(0.3 * math.log(0.3 / 0.6) + 0.7 * math.log(0.7 / 0.4))
    assert kl(0.5, 1.0) == kl(0.5, 0.0) == math.inf
    assert kl(1.0, 1.0) == kl(0.0, 0.0) == 0
    assert kl(0.0, 0.5) == pytest.approx(math.log(2))
    assert kl(0.5, 0.5 + 1e-7) == pytest.approx(2e-14, rel=1e-6)
    for p, q in ((0.3, 0.30002), (0.3, 0.31), (0.9, 0.05), (1e-9, 0.5)):
        with localcontext() as context:
            context.prec = 50
            x, y = Decimal(p), Decimal(q)
            exact = x * (x / y).ln() + (1 - x) * ((1 - x) / (1 - y)).ln()
        assert kl(p, q) == pytest.approx(float(exact), rel=1e-9)


def test_divergence_of_responses_where_they_are_nearly_certain() -> None:
    """At epsilon 38 the response to a reward of 1 is 0 once in 10^16.5: the constant is still right, not 0."""
    epsilon = 38.0
    with localcontext() as context:
        context.prec = 60
        q = 1 / (1 + Decimal(epsilon).exp())
        exact = (Decimal("0.5") / (1 - q)).ln() / 2 + (Decimal("0.5") / q).ln() / 2
    assert bounds.response_kl(0.5, 1.0, epsilon) == pytest.approx(float(exact))


def test_a_best_mean_of_1_has_no_lower_bound() -> None:
    """No arm could be better than 1: every lower bound is 0, and marked, alone, behind a threshold, in a mixture."""
    for best in (1.0, 1 - 2**-53):
        arms = [Bernoulli(best), Bernoulli(0.5)]
        table = BoundTable(arms, 1.0, 1e6, theta=0.5, mix={1.0: 0.5, 2.0: 0.5})
        lower = [bound for bound in table.bounds() if bound.kind == "lower"]
        assert len(lower) == 6
        for bound in lower:
            assert "below 1" in bound.assumes
            assert bound.applies == (best < 1)
            assert (bound.per_log_t == bound.at_horizon == 0) == (best == 1)
    assert bounds.exact_constant([1.0, 0.5], 1.0) == 0
    assert bounds.mixed_constant([1.0, 0.5], [1.0, 0.5], {1.0: 1.0}) == 0
    assert bounds.threshold_constant([3.0, 5.0], [1.0, 0.5], 1.0) == math.inf
    alone = BoundTable([Bernoulli(1.0), *parse_arms("gaussian(-1,1)")], 1.0, 1e6).bounds()
    assert {bound.per_log_t for bound in alone if bound.kind == "lower"} == {None}


def test_regret_stays_bounded_where_the_best_mean_is_1() -> None:
    """KL-UCB on CTB's bits, its indexes cut at the mean response to 1, pulls no bad arm after a while.

    Means 1 and 0.5 at epsilon 1: the sum Delta / kl, 4.16, would have regret grow by 19 from T = 100 to 10,000. The
    mean of 60 trials grows by less than 3. Over 300 trials of other seeds it grew by 0.16, a standard deviation of 1.5
    per trial: 3 is fifteen standard errors away.
    """
    ones = [response_mean(1.0, 1.0), response_mean(0.5, 1.0)]
    early, late = zip(
        *(_pulls_of_the_second(ones, random.Random(trial), (100, 10_000)) for trial in range(60)), strict=True
    )
    grown = (sum(late) - sum(early)) / 2 / 60
    assert 0.5 / bounds.response_kl(0.5, 1.0, 1.0) * math.log(100) > 19
    assert grown < 3


def _pulls_of_the_second(ones: list[float], rng: random.Random, at: tuple[int, int]) -> tuple[int, int]:
    """Play KL-UCB with indexes of ones[0] at most, ties to the larger mean; count pulls of the second arm."""
    pulls, sums, counted = [0, 0], [0, 0], []
    for t in range(at[-1]):
        arm = t
        if t > 1:
            keys = []
            for n, s in zip(pulls, sums, strict=True):
                mean, level = s / n, math.log(t) / n
                is_cut = mean >= ones[0] or kl(mean, ones[0]) <= level
                keys.append((ones[0] if is_cut else upper_confidence(mean, level), mean))
            arm = keys.index(max(keys))
        pulls[arm] += 1
        sums[arm] += rng.random() < ones[arm]
        if t + 1 in at:
            counted.append(pulls[1])
    return counted[0], counted[1]


def test_gaps_of_one_bit_make_large_numbers_not_errors() -> None:
    """Means that differ in their last bit, or by less than any square can show."""
    assert 1e16 < bounds.exact_constant([0.15, (0.1 + 0.2) / 2], 2) < 1e17
    assert bounds.exact_constant([1e-170, 0.0], 2) == math.inf
    table = BoundTable([Bernoulli(1e-170), Bernoulli(0.0)], 2, 1e5).to_json()
    assert table["bounds"][3]["per_log_t"] is None
    json.dumps(table, allow_nan=False)
    far = [*parse_arms("gaussian(1e100,1)"), *parse_arms("gaussian(0,1)")]
    json.dumps(BoundTable(far, 2, 1e5).to_json(), allow_nan=False)


def test_lemma_7_holds_for_random_private_channels() -> None:
    """For random epsilon-LDP channels the divergence is below the tightened bound, a fourth of the paper's."""
    rng = random.Random(3)
    tightest = 0.0
    for _ in range(2_000):
        epsilon = rng.uniform(0.1, 3)
        ratios = [math.exp(rng.choice([-1, 1]) * epsilon * rng.random() ** 0.2) for _ in range(6)]
        # g is any law, f = ratio g; both are scaled to sum to one, which keeps ratios within e^(+-epsilon) only if
        # the extremes are on both sides, so keep the channels that are epsilon-LDP.
        g = [rng.random() for _ in ratios]
        f = [ratio * weight for ratio, weight in zip(ratios, g, strict=True)]
        f, g = [x / sum(f) for x in f], [x / sum(g) for x in g]
        if max(abs(math.log(x / y)) for x, y in zip(f, g, strict=True)) > epsilon:
            continue
        p, q = rng.random(), rng.random()
        a = [p * x + (1 - p) * y for x, y in zip(f, g, strict=True)]
        b = [q * x + (1 - q) * y for x, y in zip(f, g, strict=True)]
        divergence = sum(x * math.log(x / y) for x, y in zip(a, b, strict=True))
        bound = bounds.kl_bound(p, q, epsilon)
        assert divergence <= bound
        assert bounds.kl_bound_paper(p, q, epsilon) == pytest.approx(4 * bound)
        tightest = max(tightest, divergence / bound)
    assert tightest > 0.4  # the bound is not far from the channels


def test_theorys_factors() -> None:
    """The paper prints 1.7 and 9.0 at epsilon 2, 101 and 441 at 0.2, 17 and 81 at 0.5."""
    assert bounds.privacy_factor_b(2) == pytest.approx(1.7, abs=0.05)
    assert bounds.privacy_factor_l(2) == 9
    assert bounds.privacy_factor_b(0.2) == pytest.approx(101, abs=0.7)
    assert bounds.privacy_factor_l(0.2) == pytest.approx(441)
    assert bounds.privacy_factor_b(0.5) == pytest.approx(17, abs=0.4)
    assert bounds.privacy_factor_l(0.5) == pytest.approx(81)


def test_upper_bounds_are_the_expressions_of_the_paper() -> None:
    """Written out for one suboptimal arm of gap 1/4 at T = e^10."""
    gaps_, t, epsilon = [0.0, 0.25], math.e**10, 1.5
    factor_b = ((math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)) ** 2
    factor_l = (1 + 4 / epsilon) ** 2
    log_term = 8 * 10 / 0.25
    one, two = (1 + math.pi**2 / 3) * 0.25, (1 + 2 * math.pi**2 / 3) * 0.25
    assert bounds.ucb1_bound(gaps_, t) == pytest.approx(log_term + one)
    assert bounds.theorem_2(gaps_, epsilon, t) == pytest.approx(factor_l * log_term + two)
    assert bounds.theorem_3(gaps_, epsilon, t) == pytest.approx(factor_b * log_term + one)
    c = bounds.PAPER_GENERAL
    assert bounds.corollary_1(gaps_, epsilon, t, c) == pytest.approx(factor_l * log_term / c**2 + two)
    assert bounds.corollary_1_paper(gaps_, epsilon, t, c) == pytest.approx((factor_l * log_term + two) / c**2)
    assert bounds.corollary_2(gaps_, epsilon, t, c) == pytest.approx(factor_b * log_term / c**2 + one)
    assert bounds.corollary_2_paper(gaps_, epsilon, t, c) == pytest.approx((factor_b * log_term + one) / c**2)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_distribution_free_bounds_hold_for_the_worst_gap(epsilon: float) -> None:
    """At no gap does the smaller of T Delta and the distribution-dependent bound exceed the distribution-free one."""
    n, t = 20, 1e7
    for dependent, free in (
        (bounds.theorem_2, bounds.theorem_2_free),
        (bounds.theorem_3, bounds.theorem_3_free),
    ):
        limit = free(n, epsilon, t)
        for exponent in range(-60, 1):
            gap = 10 ** (exponent / 10)
            assert min(t * gap, dependent([0.0, *[gap] * (n - 1)], epsilon, t)) <= limit
        assert free(n, epsilon, 4 * t) < 2.2 * limit  # of the order sqrt(T log T)


def test_the_sigmoid_constants() -> None:
    """0.0281 and 0.0760 from the paper, 0.1573 by Jensen."""
    assert pytest.approx(0.0281, abs=5e-5) == bounds.PAPER_GENERAL
    assert pytest.approx(0.0760, abs=5e-5) == bounds.PAPER_GAUSSIAN
    assert pytest.approx(0.1573, abs=5e-5) == bounds.JENSEN


@pytest.mark.parametrize("spread", [0.0, 0.3, 1.0])
def test_jensens_constant_bounds_the_gap_of_sigmoid_means(spread: float) -> None:
    """For two-point noise of variance up to one, also lopsided, E s(a + Z) - E s(b + Z) >= c_s (a - b)."""
    for share in (0.01, 0.2, 0.5, 0.9):
        low, high = -spread * math.sqrt(share / (1 - share)), spread * math.sqrt((1 - share) / share)

        def mean(mu: float, share: float = share, low: float = low, high: float = high) -> float:
            return share / (1 + math.exp(-mu - high)) + (1 - share) / (1 + math.exp(-mu - low))

        for a, b in ((1.0, 0.0), (1.0, 0.9), (0.5, 0.4), (0.1, 0.0)):
            assert mean(a) - mean(b) >= bounds.JENSEN * (a - b)


def test_the_table_says_what_applies() -> None:
    """Bernoulli arms satisfy what theorems assume, Gaussian arms what corollaries assume; others are marked."""

    def applying(arms: list[Law]) -> set[str]:
        return {bound.name.split(",")[0] for bound in BoundTable(arms, 1.0, 1e5).bounds() if bound.applies}

    bounded = {"UCB1", "Theorem 2", "Theorem 3"}
    lower = {"Lai and Robbins", "Theorem 1", "exact constant"}
    sigmoid = {"Corollary 1", "Corollary 1 printed", "Corollary 2", "Corollary 2 printed"}
    assert applying(list(paper.BERNOULLI)) == bounded | lower
    assert applying(list(paper.MIXED)) == bounded
    assert applying(list(paper.GAUSSIAN)) == sigmoid
    assert applying([*parse_arms("gaussian(0.5,1)"), *parse_arms("gaussian(0.4,0.5)")]) == set()
    assert applying(parse_arms("gaussian(0.5,1.5)")) == set()
    assert applying(parse_arms("uniform(0,3)")) == set()


def test_the_constant_of_thresholded_responses() -> None:
    """On Bernoulli arms it is the exact constant; on Gaussian ones sum Delta / kl of the bits' means, as by hand."""
    for epsilon in (0.2, 1.0, 4.0):
        chances = [arm.above(0.5) for arm in paper.BERNOULLI]
        assert bounds.threshold_constant(MEANS, chances, epsilon) == bounds.exact_constant(MEANS, epsilon)
    truth = math.e / (1 + math.e)
    half, low = 0.5, 0.158655254 * (2 * truth - 1) + 1 - truth  # of P(Z > 0) and P(Z > 1), from a table
    by_hand = 1 / (low * math.log(low / half) + (1 - low) * math.log((1 - low) / half))
    (line,) = _thresholded("gaussian(2,1)", "gaussian(1,1)", theta=2)
    assert line.per_log_t == pytest.approx(by_hand, rel=1e-6)
    assert line.at_horizon == pytest.approx(by_hand * math.log(1e5), rel=1e-6)
    assert (line.name, line.applies) == ("exact constant of P(reward > 2)", True)
    assert [bound for bound in BoundTable(paper.GAUSSIAN, 1.0, 1e5).bounds() if "reward >" in bound.name] == []


def _thresholded(*arms: str, theta: float) -> list[Bound]:
    laws = [law for arm in arms for law in parse_arms(arm)]
    return [bound for bound in BoundTable(laws, 1.0, 1e5, theta=theta).bounds() if "reward >" in bound.name]


def test_a_threshold_that_turns_the_order_round_has_no_constant() -> None:
    """Where the best arm has not the largest chance, regret grows with T itself: infinite, marked, and null in JSON.

    Arms that tie for the largest chance are no such case as long as one of them is best.
    """
    (line,) = _thresholded("gaussian(1,1)", "gaussian(0.5,10)", theta=3)
    assert (line.per_log_t, line.applies) == (math.inf, False)
    made = BoundTable([*parse_arms("gaussian(1,1)"), *parse_arms("gaussian(0.5,10)")], 1.0, 1e5, theta=3).to_json()
    assert [bound["per_log_t"] for bound in made["bounds"] if "reward >" in bound["name"]] == [None]
    assert (made["theta"], made["arms"][0]["chance_above"]) == (3, pytest.approx(0.02275, rel=1e-3))
    (tied,) = _thresholded("choice(1,9)", "choice(1,5)", "choice(1,1)", theta=3)
    assert tied.applies
    assert tied.per_log_t == pytest.approx(4 / bounds.response_kl(0.0, 0.5, 1.0))


def test_the_table_has_every_bound_and_every_arm() -> None:
    """4 lower bounds, 5 upper ones, 12 for the sigmoid, and for each arm the maps of Lemmas 3 and 7."""
    made = BoundTable(paper.BERNOULLI, 2, 1e7).to_json()
    assert len(made["bounds"]) == 21
    values = {bound["name"]: bound for bound in made["bounds"]}
    assert values["Theorem 3"]["at_horizon"] == pytest.approx(bounds.theorem_3(GAPS, 2, 1e7))
    assert values["Theorem 3"]["per_log_t"] == pytest.approx(1402.24, abs=0.01)
    assert values["exact constant"]["per_log_t"] == pytest.approx(63.19, abs=0.01)
    assert values["exact constant"]["at_horizon"] == pytest.approx(63.1904 * math.log(1e7), rel=1e-5)
    assert made["theorys_factor"]["ldp-ucb-l"] == 9
    assert len(made["arms"]) == 20
    assert made["arms"][1]["response_mean"] == pytest.approx(response_mean(0.8, 2))
    assert made["arms"][1]["kl"] <= made["arms"][1]["kl_bound"] < made["arms"][1]["kl_bound_paper"]


@pytest.mark.parametrize(
    ("arms", "epsilon", "horizon"), [([], 1, 10), ([Bernoulli(0.5)] * 3, 1, 2), ([Bernoulli(0.5)], 0, 9)]
)
def test_a_bad_bandit_is_refused(arms: list[Law], epsilon: float, horizon: float) -> None:
    """No arms, a horizon below the number of arms, an epsilon of 0."""
    with pytest.raises(ParameterError):
        BoundTable(arms, epsilon, horizon)
