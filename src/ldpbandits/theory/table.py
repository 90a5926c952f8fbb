"""Every bound of the theory for one bandit, with its assumption and whether the bandit satisfies it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from math import isfinite, log
from typing import Any, Literal, TypeAlias

from ldpbandits.checks import brief, check_epsilon, is_number
from ldpbandits.errors import ParameterError
from ldpbandits.lab.rewards import Bernoulli, Drift, Gaussian, Law, arm_text, gaps
from ldpbandits.spec.mechanisms import response_mean
from ldpbandits.spec.transforms import Threshold
from ldpbandits.theory import bounds

Kind: TypeAlias = Literal["lower", "upper"]

CONSISTENT = "Bernoulli arms of best mean below 1, consistent policies"
"""The assumption of the lower bounds. A best mean of 1 has the trivial bound 0: no arm could be better."""

ON_BITS = "any policy on those bits"

C_S = {"general c_s": bounds.PAPER_GENERAL, "Gaussian c_s": bounds.PAPER_GAUSSIAN, "Jensen c_s": bounds.JENSEN}


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound: one line of the table.

    A lower bound is `per_log_t` times log T for T to infinity: `at_horizon` is that product, not a bound at this T.
    An upper bound holds at this T.
    """

    name: str
    kind: Kind
    of: str
    per_log_t: float | None
    at_horizon: float | None
    assumes: str
    applies: bool


class BoundTable:
    """The bounds for these arms at this epsilon and horizon."""

    def __init__(
        self,
        arms: Sequence[Law],
        epsilon: float,
        horizon: float,
        *,
        theta: float | None = None,
        mix: Mapping[float, float] | None = None,
    ) -> None:
        """Check the bandit; all bounds are worked out when asked for.

        With a theta, rewards may be thresholded too; with a mix, users may have epsilons of their own: by each epsilon
        the share of the users who pick it.
        """
        if not arms:
            raise ParameterError("a bandit needs at least one arm")
        if any(isinstance(arm, Drift) for arm in arms):
            raise ParameterError("bounds are for arms whose mean rewards stay what they are, not for drift")
        if not is_number(horizon) or horizon < max(len(arms), 2):
            least = max(len(arms), 2)
            raise ParameterError(
                f"horizon must be finite and at least {least} (the number of arms, and 2), got {brief(horizon)}"
            )
        self.arms, self.epsilon, self.horizon = tuple(arms), check_epsilon(epsilon), float(horizon)
        self.gaps, self.means = gaps(arms), [arm.mean for arm in arms]
        self.threshold = None if theta is None else Threshold(theta)
        self.mix = None if mix is None else dict(mix)
        self._is_bernoulli = all(isinstance(arm, Bernoulli) for arm in arms)
        self._in_unit = all(0 <= arm.range[0] <= arm.range[1] <= 1 for arm in arms)
        self._means_in_unit = all(0 <= mean <= 1 for mean in self.means)
        sds = {arm.sd if isinstance(arm, Gaussian) else None for arm in arms}
        self._has_lower = self._is_bernoulli and max(self.means) < 1
        self._same_noise = self._means_in_unit and len(sds) == 1 and all(sd is not None and sd <= 1 for sd in sds)

    def bounds(self) -> list[Bound]:
        """All bounds of the table, lower bounds first."""
        return [
            *self._lower(),
            *self._threshold_lower(),
            *self._mixed_lower(),
            *self._bounded_upper(),
            *self._sigmoid_upper(),
        ]

    def factors(self) -> dict[str, float]:
        """Theory's factors over UCB1: ratios of upper bounds, which bound nothing themselves."""
        return {
            "ldp-ucb-l": bounds.privacy_factor_l(self.epsilon),
            "ldp-ucb-b": bounds.privacy_factor_b(self.epsilon),
        }

    def to_json(self) -> dict[str, Any]:
        """Return what `ldpbandits bounds --json` prints."""
        return {
            "epsilon": self.epsilon,
            "horizon": self.horizon,
            **({} if self.threshold is None else {"theta": self.threshold.theta}),
            **({} if self.mix is None else {"mix": [list(pair) for pair in self.mix.items()]}),
            "arms": [_finite(self._arm(arm, gap)) for arm, gap in zip(self.arms, self.gaps, strict=True)],
            "bounds": [_finite(asdict(bound)) for bound in self.bounds()],
            "theorys_factor": self.factors(),
        }

    def _arm(self, arm: Law, gap: float) -> dict[str, Any]:
        best = max(self.means)
        return {
            "arm": arm_text(arm),
            "mean": arm.mean,
            "gap": gap,
            "response_mean": response_mean(arm.mean, self.epsilon) if self._means_in_unit else None,
            "kl": bounds.response_kl(arm.mean, best, self.epsilon) if self._means_in_unit else None,
            "kl_bound": bounds.kl_bound(arm.mean, best, self.epsilon),
            "kl_bound_paper": bounds.kl_bound_paper(arm.mean, best, self.epsilon),
            **({} if self.threshold is None else {"chance_above": arm.above(self.threshold.theta)}),
        }

    def _lower(self) -> list[Bound]:
        def line(name: str, of: str, constant: Callable[[], float]) -> Bound:
            value = None if not self._means_in_unit else constant() if max(self.means) < 1 else 0.0
            return self._multiple(name, of, value, CONSISTENT, applies=self._has_lower)

        private = "any private policy"
        return [
            line("Lai and Robbins", "any policy", lambda: bounds.lai_robbins(self.means)),
            line("Theorem 1", private, lambda: bounds.theorem_1(self.gaps, self.epsilon)),
            line("Theorem 1, tightened", private, lambda: bounds.theorem_1_tightened(self.gaps, self.epsilon)),
            line("exact constant", private, lambda: bounds.exact_constant(self.means, self.epsilon)),
        ]

    def _threshold_lower(self) -> list[Bound]:
        if self.threshold is None:
            return []
        chances = [arm.above(self.threshold.theta) for arm in self.arms]
        value = bounds.threshold_constant(self.means, chances, self.epsilon)
        applies, of = isfinite(value) and max(chances) < 1, self.threshold.of
        return [self._multiple(f"exact constant of {of}", ON_BITS, value, _ordered(self.threshold), applies=applies)]

    def _mixed_lower(self) -> list[Bound]:
        """Return the exact constant for users of their own epsilons; behind the threshold, if there is one."""
        if self.mix is None:
            return []
        behind, name = self.threshold, "exact constant, own epsilons"
        if behind is None:
            chances, assumes, applies = self.means, CONSISTENT, self._has_lower
        else:
            chances = [arm.above(behind.theta) for arm in self.arms]
            name, assumes, applies = f"{name}, of {behind.of}", _ordered(behind), max(chances) < 1
        value = bounds.mixed_constant(self.means, chances, self.mix) if self._means_in_unit or behind else None
        applies = applies and value is not None and isfinite(value)
        return [self._multiple(name, ON_BITS, value, assumes, applies=applies)]

    def _multiple(self, name: str, of: str, value: float | None, assumes: str, *, applies: bool) -> Bound:
        at_horizon = None if value is None else value * log(self.horizon)
        return Bound(name, "lower", of, value, at_horizon, assumes, applies)

    def _bounded_upper(self) -> list[Bound]:
        n, epsilon = len(self.arms), self.epsilon
        assumes = "rewards in [0, 1]"

        def dependent(name: str, of: str, bound: Callable[[float], float]) -> Bound:
            return self._upper(name, of, bound, assumes, applies=self._in_unit)

        def free(name: str, of: str, value: float) -> Bound:
            return Bound(name, "upper", of, None, value, assumes, self._in_unit)

        return [
            dependent("UCB1", "ucb1", lambda t: bounds.ucb1_bound(self.gaps, t)),
            dependent("Theorem 2", "ldp-ucb-l", lambda t: bounds.theorem_2(self.gaps, epsilon, t)),
            free("Theorem 2, any gaps", "ldp-ucb-l", bounds.theorem_2_free(n, epsilon, self.horizon)),
            dependent("Theorem 3", "ldp-ucb-b", lambda t: bounds.theorem_3(self.gaps, epsilon, t)),
            free("Theorem 3, any gaps", "ldp-ucb-b", bounds.theorem_3_free(n, epsilon, self.horizon)),
        ]

    def _sigmoid_upper(self) -> list[Bound]:
        corollaries = {
            ("Corollary 1", "ldp-ucb-ls"): bounds.corollary_1,
            ("Corollary 1 printed", "ldp-ucb-ls"): bounds.corollary_1_paper,
            ("Corollary 2", "ldp-ucb-bs"): bounds.corollary_2,
            ("Corollary 2 printed", "ldp-ucb-bs"): bounds.corollary_2_paper,
        }
        assumes = "one law of noise of variance <= 1, means in [0, 1]"

        def line(name: str, of: str, corollary: Callable[..., float], c_s: float) -> Bound:
            bound = partial(corollary, self.gaps, self.epsilon, c_s=c_s)
            return self._upper(name, of, bound, assumes, applies=self._same_noise)

        return [
            line(f"{name}, {choice}", of, corollary, c_s)
            for (name, of), corollary in corollaries.items()
            for choice, c_s in C_S.items()
        ]

    def _upper(self, name: str, of: str, bound: Callable[[float], float], assumes: str, *, applies: bool) -> Bound:
        constant = bound(1.0)  # log 1 = 0 leaves the terms that do not grow
        value = bound(self.horizon)
        return Bound(name, "upper", of, (value - constant) / log(self.horizon), value, assumes, applies)


def _ordered(threshold: Threshold) -> str:
    """Return the assumption of the lower bounds for thresholded rewards."""
    return f"that the best arm has the largest {threshold.of}, below 1"


def _finite(fields: dict[str, Any]) -> dict[str, Any]:
    """Replace infinity, which JSON cannot express, by None."""
    return {name: None if isinstance(value, float) and not isfinite(value) else value for name, value in fields.items()}
