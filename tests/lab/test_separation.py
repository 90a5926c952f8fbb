"""The compiled test of separation is that of the server's report."""

import numpy as np
import pytest

from ldpbandits import CuratorSpec
from ldpbandits.agent.inference.estimates import estimate_arm, share
from ldpbandits.agent.inference.missing import worst_case
from ldpbandits.agent.inference.separation import ALPHA, is_separated, leading
from ldpbandits.agent.tally import ArmTally
from ldpbandits.errors import ParameterError
from ldpbandits.lab.engine.separation import first_separated, judge
from ldpbandits.spec.mechanisms import Bernoulli, Laplace
from ldpbandits.spec.menu import Menu

CTB, CTL = CuratorSpec(Bernoulli(2.0)), CuratorSpec(Laplace(1.0))
NONE = CuratorSpec(Bernoulli(50.0))


def by_report(spec: CuratorSpec, pulls: list[int], totals: list[float], missing: list[int]) -> int:
    """Return the arm that intervals separate, found one by one as a report finds them; -1 if none."""
    menu, means, worst = Menu.of(spec), [], []
    for number, (count, total, unanswered) in enumerate(zip(pulls, totals, missing, strict=True)):
        arm = ArmTally(count, total)
        known = estimate_arm(arm, menu, alpha=share(ALPHA, number))
        means.append(known.mean)
        worst.append(worst_case(known, arm, menu, unanswered))
    best = leading(means)
    return best if best is not None and is_separated(best, worst) else -1


def compiled(spec: CuratorSpec, pulls: list[int], totals: list[float], missing: list[int]) -> int:
    """Return the same by the compiled test."""
    alphas = np.array([share(ALPHA, number) for number in range(len(pulls))])
    n, sums, unanswered = (np.array([row], dtype=float) for row in (pulls, totals, missing))
    return int(first_separated(judge(spec), n, sums, unanswered, alphas)[1])


def drawn(spec: CuratorSpec, rng: np.random.Generator) -> tuple[list[int], list[float], list[int]]:
    """Draw tallies of three arms, some of which are separated."""
    pulls = [int(10 ** rng.uniform(1, 5)) for _ in range(3)]
    means = [0.2, 0.25, rng.uniform(0.25, 0.8)]
    rng.shuffle(means)
    missing = [int(count * rng.choice([0, 0, 0.01, 0.1])) for count in pulls]
    totals = []
    for count, mean in zip(pulls, means, strict=True):
        if isinstance(spec.mechanism, Laplace):
            noise = (rng.standard_gamma(count) - rng.standard_gamma(count)) / spec.epsilon
            totals.append(float(rng.binomial(count, mean) + round(noise * 2**20) / 2**20))
        else:
            totals.append(float(rng.binomial(count, spec.mechanism.response_mean(mean))))
    return pulls, totals, missing


@pytest.mark.parametrize("spec", [CTB, CTL, NONE])
def test_it_separates_the_arm_that_the_report_separates(spec: CuratorSpec) -> None:
    """On random tallies, with and without missing answers; both answers occur often."""
    rng = np.random.default_rng(1)
    cases = [drawn(spec, rng) for _ in range(60)]
    found = [by_report(spec, *case) for case in cases]
    assert [compiled(spec, *case) for case in cases] == found
    assert 5 < sum(arm >= 0 for arm in found) < 55


@pytest.mark.parametrize("spec", [CTB, CTL])
@pytest.mark.parametrize("missing", [0, 40])
def test_it_agrees_to_the_last_response(spec: CuratorSpec, missing: int) -> None:
    """The first total at which the second arm is separated is the same for both."""
    tally = [5_000, 20_000], [missing, 2 * missing]
    low, high = 4_000, 20_000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if by_report(spec, tally[0], [1_000.0, middle], tally[1]) == 1 else (middle, high)
    assert compiled(spec, tally[0], [1_000.0, high], tally[1]) == 1
    assert compiled(spec, tally[0], [1_000.0, low], tally[1]) == -1


def test_the_first_moment_is_found() -> None:
    """Of several moments the first at which an arm is separated; none without a response of each arm."""
    alphas = np.array([share(ALPHA, number) for number in range(2)])
    pulls = np.array([[1000.0, 0.0], [1000.0, 1000.0], [9000.0, 9000.0], [10_000.0, 10_000.0]])
    totals = pulls * [0.3, 0.36]
    missing = np.zeros_like(pulls)
    moment, arm = first_separated(judge(CTB), pulls, totals, missing, alphas)
    assert (moment, arm) == (2, 1)
    assert first_separated(judge(CTB), pulls[:2], totals[:2], missing[:2], alphas) == (-1, -1)


def test_means_beyond_the_range_do_not_count() -> None:
    """Bits that are rarer, or more frequent, than any mean allows: then nothing is separated."""
    least, most = (CTB.mechanism.response_mean(value) for value in (0.0, 1.0))
    for shares in ((0.01, 0.07), (0.01, 0.5), (0.3, 0.99), (least - 0.005, 0.5), (0.5, most + 0.005)):
        tally = [100_000, 100_000], [float(round(100_000 * share)) for share in shares], [0, 0]
        assert by_report(CTB, *tally) == compiled(CTB, *tally)
    assert compiled(CTB, [100_000] * 2, [1_000.0, 50_000.0], [0, 0]) == -1
    assert compiled(CTB, [100_000] * 2, [round(100_000 * least - 50), 50_000.0], [0, 0]) == 1


def test_a_mechanism_of_another_kind_is_refused() -> None:
    """One that is derived from Laplace may draw otherwise: nothing is known of its intervals here."""

    class Other(Laplace):
        pass

    spec = CuratorSpec(Laplace(1.0))
    object.__setattr__(spec, "mechanism", Other(1.0))
    with pytest.raises(ParameterError, match="cannot judge responses of the mechanism laplace"):
        judge(spec)
