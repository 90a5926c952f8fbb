"""Verdicts: the one place that says when an experiment is decided, for agents, servers, plans and the command line.

Arm b is *better* once its evidence against every other arm in use reaches `Criteria.needed(b)`. An arm that is not
strictly best has a rival that is as good, so the evidence against that rival reaches K / alpha with probability at most
alpha / K; over the K arms that could be declared, a wrong verdict ever has probability at most alpha, ties included.
Where arms may be added later, the first K share alpha K / (K + 1), and the j-th later one has 1 / (j (j + 1)) of the
rest: no verdict so far has to be taken back.

There is *no gain* once every arm is shown to be less than `worth` better than the control: if one of them is that much
better, its own test fails with probability at most alpha. An arm does *harm* once it is shown to be more than `harm`
worse than the control. Better, no gain and harm are three statements, each with an alpha of its own.

If at most a share f of the responses of each arm (with several epsilons: at each of them) is forged, by users who
would forge under any arm, the honest ones are at worst those without f N ones of the leader and without f N zeros of
the other arm. `Verdict.forged` is the largest f at which the verdict stands.

A fair coin is fair among the responses too, unless whether or when people answer depends on the arm. Then the coin test
may declare an arm whose zeros are missing. `unequal_answers` finds that by the numbers of responses alone: they are the
e-process of all coins of chance p, uniform in p, against those of chance 1/2.

With `one_look` a verdict is made once, of this number of responses, by Fisher's exact test. Its evidence is 1 / p: the
verdict is wrong with probability at most alpha by the same count of winners.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations
from math import exp, floor, inf, lgamma, log
from typing import Literal, TypeAlias

from ldpbandits.agent.inference.differences import CELL, Pair, coin_table, log_coin_evidence
from ldpbandits.agent.inference.one_look import fisher_p, fixed_difference, fixed_ratio
from ldpbandits.checks import brief, check_count, check_probability, is_number
from ldpbandits.errors import ParameterError
from ldpbandits.output.numbers import percent

ALPHA = 0.05
"""The probability of ever reaching a wrong verdict."""

LARGEST_LOG_EVIDENCE = 700.0
"""Evidence beyond e^700 is reported as that: it decides nothing any more."""

LARGEST_WRITTEN = 1e6
"""Evidence from which on words give no more digits."""

FORGED_STEP = 0.001
"""The shares of forged responses that are told apart."""

Kind: TypeAlias = Literal["better", "no-gain", "undecided"]
Pairs: TypeAlias = Callable[[int, int], Pair | None]
"""pairs(b, a): the responses by which two arms are compared; None where there are none."""


@dataclass(frozen=True, slots=True)
class Criteria:
    """When an experiment is decided: fixed before its first response, and public."""

    arms: int
    """The number of arms at the start."""
    alpha: float = ALPHA
    may_add_arms: bool = False
    """Whether arms may be added later: then a part of alpha is kept for them."""
    planned: tuple[float, float] | None = None
    """The mean values of the present arm and of a better one for which the experiment was planned."""
    forged: float = 0.0
    """The share of each arm's responses that may be forged: a verdict waits until it stands in spite of them."""
    worth: float | None = None
    """The smallest gain over the control that matters, in mean values."""
    harm: float | None = None
    """The loss against the control, in mean values, that is not accepted."""
    control: int = 0
    one_look: int | None = None
    """The number of responses at which it is judged, once; None: at every number."""

    def __post_init__(self) -> None:
        check_count("arms", self.arms)
        check_probability("alpha", self.alpha)
        if not is_number(self.forged) or not 0 <= self.forged < 1:
            raise ParameterError(f"forged must be a share of the answers, >= 0 and < 1, got {brief(self.forged)}")
        for name in ("worth", "harm"):
            size = getattr(self, name)
            if size is not None and (not is_number(size) or not 0 < size < 1):
                raise ParameterError(f"{name} is in mean values, above 0 and below 1, got {brief(size)}")
        if self.planned is not None and not 0 <= self.planned[0] < self.planned[1] <= 1:
            raise ParameterError(f"planned must be two rising mean values in [0, 1], got {brief(self.planned)}")

    def needed(self, arm: int) -> float:
        """Return the evidence that declares this arm.

        >>> Criteria(arms=2).needed(1), Criteria(arms=2, may_add_arms=True).needed(2)
        (40.0, 120.0)
        """
        return self._needed(arm, self.arms)

    def harm_needed(self, arm: int) -> float:
        """Return the evidence that an arm does harm. It stays what it is when other arms are retired or added.

        >>> Criteria(arms=3).harm_needed(1), Criteria(arms=2, may_add_arms=True).harm_needed(2)
        (40.0, 80.0)
        """
        return self._needed(arm, max(self.arms - 1, 1))

    def pair_alpha(self, b: int, a: int) -> float:
        """Return the probability with which the interval of two arms may ever miss; those of all pairs add up to alpha.

        A later arm shares its part of alpha among its pairs with the arms before it.

        >>> round(1 / Criteria(arms=3).pair_alpha(0, 1))
        60
        """
        newest = max(b, a)
        pairs = newest if newest >= self.arms else (self.arms - 1) / 2
        return 1 / (self.needed(newest) * pairs)

    def _needed(self, arm: int, among: int) -> float:
        """Return the evidence that each of some first arms needs, or one that was added later."""
        first = among + 1 if self.may_add_arms else among
        later = arm - self.arms + 1
        return first / self.alpha * (later * (later + 1) if later > 0 else 1)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The known facts about the best arm."""

    kind: Kind
    leader: int | None
    """The arm that is ahead, also while nothing is decided; None before there is a response."""
    evidence: float
    """The least evidence for the leader against any other arm."""
    needed: float
    rivals: tuple[tuple[int, float], ...]
    """The other arms in use, and the evidence that the leader is better than each."""
    drift_proof: bool
    """Whether the verdict holds although the level of all arms moves; else only if all means stayed what they were."""
    forged: float = 0.0
    """The largest share of forged responses of each arm at which a decided verdict stands."""
    harmful: tuple[int, ...] = ()
    """The arms that are shown to do harm."""

    @property
    def is_decided(self) -> bool:
        """Whether the experiment may end."""
        return self.kind != "undecided"


def judge(arms: Sequence[int], pairs: Pairs, criteria: Criteria) -> Verdict:
    """Return the verdict on the arms in use."""
    leader = leader_of(arms, pairs)
    if leader is None:
        return Verdict("undecided", None, 1.0, criteria.needed(0), (), drift_proof=False)
    found = [(arm, pairs(leader, arm)) for arm in arms if arm != leader]
    rivals = [(arm, log_evidence(pair, criteria, criteria.forged)) for arm, pair in found]
    least, needed = min((known for _, known in rivals), default=0.0), criteria.needed(leader)
    kind: Kind = "undecided"
    if rivals and least >= log(needed):
        kind = "better"
    elif criteria.worth is not None and _is_no_gain(arms, pairs, criteria):
        kind = "no-gain"
    return Verdict(
        kind,
        leader,
        _evidence(least),
        needed,
        tuple((arm, _evidence(known)) for arm, known in rivals),
        all(pair.is_fair for _, pair in found if pair is not None),
        _forged(leader, arms, pairs, criteria) if kind == "better" else 0.0,
        tuple(_harmful(arms, pairs, criteria)),
    )


def log_evidence(pair: Pair | None, criteria: Criteria, forged: float = 0.0) -> float:
    """Return the logarithm of the evidence that b is better than a, if this share of the responses is forged."""
    if pair is None:
        return 0.0
    honest = without_forged(pair, forged)
    if criteria.one_look is not None:
        return -log(fisher_p(honest.cells, pair.scale))
    if pair.is_fair:
        return log_coin_evidence(honest.cells, coin_table(pair.scale, criteria.planned), *pair.missing)
    return honest.log_evidence()


def without_forged(pair: Pair, share: float) -> Pair:
    """Return the pair without this share of ones of b and of zeros of a, rounded up: the worst that can be forged.

    Where there are fewer ones or zeros than that, all of them are left out, and nothing that speaks against b.
    """
    if share == 0:
        return pair
    cells = []
    for place in range(0, len(pair.cells), CELL):
        pulls_b, ones_b, pulls_a, ones_a = pair.cells[place : place + CELL]
        forged_b, forged_a = min(-floor(-share * pulls_b), ones_b), min(-floor(-share * pulls_a), pulls_a - ones_a)
        cells += [pulls_b - forged_b, ones_b - forged_b, pulls_a - forged_a, ones_a]
    return replace(pair, cells=tuple(cells))


def unequal_answers(arms: Sequence[int], pairs: Pairs, alpha: float) -> tuple[int, int] | None:
    """Return two arms of which the first has more responses than a fair coin explains, or None.

    It is wrong, ever, with probability at most alpha, also when arms are added: the arm of number a has 1 / (a (a + 1))
    of alpha for its comparisons with the a arms before.
    """
    for b, a in combinations(sorted(arms), 2):
        pair = pairs(b, a)
        if pair is not None and pair.is_fair:
            of_b, of_a = sum(pair.cells[::CELL]), sum(pair.cells[2::CELL])
            known = lgamma(of_b + 1) + lgamma(of_a + 1) - lgamma(of_b + of_a + 2) + (of_b + of_a) * log(2)
            if known >= log(a * a * (a + 1) / alpha):
                return (b, a) if of_b > of_a else (a, b)
    return None


def leader_of(arms: Sequence[int], pairs: Pairs) -> int | None:
    """Return the arm that is ahead of the others in turn; None where no two arms can be compared.

    Arms are compared two by two, since under a level that moves the means of all responses are not comparable.
    """

    def winner(b: int, a: int) -> int:
        pair = pairs(b, a)
        return b if pair is None or pair.gain >= 0 else a

    is_known = len(arms) == 1 or any(pairs(b, a) is not None for b, a in combinations(arms, 2))
    return reduce(winner, arms) if is_known else None


def _is_no_gain(arms: Iterable[int], pairs: Pairs, criteria: Criteria) -> bool:
    limit = -log(criteria.alpha)
    for arm in arms:
        if arm != criteria.control:
            pair = pairs(criteria.control, arm)
            if pair is None:
                return False
            honest = without_forged(pair, criteria.forged)
            if honest.log_evidence(-(criteria.worth or 0.0), enough=limit) < limit:
                return False
    return True


def _harmful(arms: Sequence[int], pairs: Pairs, criteria: Criteria) -> Iterable[int]:
    """List the arms that are more than `harm` worse than the control; each has its part of alpha."""
    if criteria.harm is not None and criteria.control in arms:
        for arm in arms:
            limit = log(criteria.harm_needed(arm))
            pair = pairs(criteria.control, arm) if arm != criteria.control else None
            if pair is not None:
                honest = without_forged(pair, criteria.forged)
                if honest.log_evidence(criteria.harm, enough=limit) >= limit:
                    yield arm


def _forged(leader: int, arms: Sequence[int], pairs: Pairs, criteria: Criteria) -> float:
    """Return the largest share of forged responses, in steps, at which the verdict stands."""
    limit = log(criteria.needed(leader))
    low, high = round(criteria.forged / FORGED_STEP), round(1 / FORGED_STEP)
    others = [pairs(leader, arm) for arm in arms if arm != leader]
    while high - low > 1:
        middle = (low + high) // 2
        stands = all(log_evidence(pair, criteria, middle * FORGED_STEP) >= limit for pair in others)
        low, high = (middle, high) if stands else (low, middle)
    return low * FORGED_STEP


def _evidence(log_of_it: float) -> float:
    return exp(min(log_of_it, LARGEST_LOG_EVIDENCE)) if log_of_it > -inf else 0.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """The leader against one other arm, in the units of the rewards."""

    arm: int
    evidence: float
    difference: float
    low: float
    high: float
    lift: float | None
    """The relative gain over the other arm; None where its mean reward may be 0 or less."""
    lift_low: float | None
    lift_high: float | None


def compare(leader: int, arm: int, pair: Pair, criteria: Criteria, ends: tuple[float, float]) -> Comparison:
    """Return the difference between the leader and another arm, with intervals that hold for all pairs of arms at once.

    `ends` are the rewards that the mean values 0 and 1 stand for. Intervals do not become narrower because other arms
    are retired: pairs of arms that are gone have had their part of alpha. With one look they are those of the textbook,
    at the level of the test.
    """
    least, most = ends
    width = most - least
    if criteria.one_look is None:
        alpha = criteria.pair_alpha(leader, arm)
        edges = pair.difference(alpha)
    else:
        alpha = 2 * criteria.alpha / criteria.arms
        edges = fixed_difference(pair.cells, pair.scale, alpha)
    low, high = (width * edge for edge in edges)
    found = _evidence(log_evidence(pair, criteria, criteria.forged))
    lift: tuple[float | None, float | None, float | None] = (None, None, None)
    mean = least + width * pair.mean_a
    if least >= 0 and mean > 0:
        if criteria.one_look is None:
            ratio_low, ratio_high = pair.ratio(alpha, least / width)
        else:
            ratio_low, ratio_high = fixed_ratio(pair.cells, pair.scale, alpha, least / width)
        lift = (width * pair.gain / mean, ratio_low - 1, ratio_high - 1)
    return Comparison(arm, found, width * pair.gain, low, high, *lift)


def describe(
    verdict: Verdict,
    comparisons: Sequence[Comparison],
    names: Sequence[str],
    ends: tuple[float, float] = (0.0, 1.0),
    criteria: Criteria | None = None,
) -> str:
    """Return a verdict in words: the leader, its gain over the arm that is nearest to it, and the promise.

    `comparisons` are of the leader with other arms, and `ends` as in `compare`: shares are told in points of 100. The
    `criteria` say what no gain and harm mean.

    >>> found = Verdict("better", 1, 740.0, 40.0, ((0, 740.0),), drift_proof=True)
    >>> against = Comparison(0, 740.0, 0.023, 0.009, 0.037, 0.12, 0.05, 0.2)
    >>> print(describe(found, [against], ["A", "B"]).partition(" You")[0])
    B is better than A by 2.3 points (0.9 to 3.7), a lift of 12 % (5 % to 20 %). Evidence 740, 40 needed.
    """
    if verdict.leader is None:
        return "There is nothing to compare yet."
    leader, said = names[verdict.leader], []
    is_once = criteria is not None and criteria.one_look is not None
    if criteria is not None and verdict.harmful:
        listed, control = ", ".join(names[arm] for arm in verdict.harmful), names[criteria.control]
        harm, verb = _size((criteria.harm or 0.0) * (ends[1] - ends[0]), ends), "are" if verdict.harmful[1:] else "is"
        said.append(f"{listed} {verb} worse than {control} by more than {harm}, the harm that is accepted.")
    nearest = min(comparisons, key=lambda each: (each.evidence, each.difference), default=None)
    match verdict.kind:
        case "better" if nearest is not None and len(comparisons) == 1:
            said.append(f"{leader} is better than {names[nearest.arm]} by {_gain_words(nearest, ends)}.")
        case "better":
            said.append(f"{leader} is better than every other arm.")
        case "no-gain" if criteria is not None:
            worth = _size((criteria.worth or 0.0) * (ends[1] - ends[0]), ends)
            said.append(f"No arm is better than {names[criteria.control]} by {worth} or more.")
        case "no-gain":
            said.append("No arm is better than the control by as much as matters.")
        case "undecided":
            said.append("Not decided." if is_once else "Not decided yet.")
    if nearest is not None and (verdict.kind != "better" or len(comparisons) > 1):
        which = "" if len(comparisons) == 1 else f", the nearest of {len(comparisons)} other arms,"
        who = "It" if verdict.kind == "better" else leader
        said.append(f"{who} leads {names[nearest.arm]}{which} by {_gain_words(nearest, ends)}.")
    said.append(_evidence_words(verdict, criteria))
    if verdict.forged:
        said.append(f"It stands even if {percent(verdict.forged)} of the answers to each arm are forged.")
    return " ".join(said)


def _evidence_words(verdict: Verdict, criteria: Criteria | None) -> str:
    holds = "although traffic rises and falls" if verdict.drift_proof else "if the means stayed what they were"
    if criteria is None or criteria.one_look is None:
        known = f"Evidence {_short(verdict.evidence)}, {_short(verdict.needed)} needed."
        return f"{known} You may look at any time; this holds {holds}."
    test = f"p = {1 / max(verdict.evidence, 1.0):.2g} by Fisher's exact test, at most {1 / verdict.needed:.2g} needed"
    return f"Evidence of one look, at {criteria.one_look:,} responses: {test}; this holds {holds}."


def _gain_words(found: Comparison, ends: tuple[float, float]) -> str:
    is_share = ends == (0.0, 1.0)
    factor = 100 if is_share else 1
    width = abs(ends[1] - ends[0]) * factor
    digits = 1 if is_share else max(0, 4 - len(f"{width:.0f}"))
    gain, low, high = (f"{factor * number:.{digits}f}" for number in (found.difference, found.low, found.high))
    told = f"{gain}{' points' if is_share else ''} ({low} to {high})"
    if found.lift is None or found.lift_low is None or found.lift_high is None:
        return told
    most = "any" if found.lift_high == inf else _signed_percent(found.lift_high)
    return f"{told}, a lift of {_signed_percent(found.lift)} ({_signed_percent(found.lift_low)} to {most})"


def _size(number: float, ends: tuple[float, float]) -> str:
    return f"{100 * number:g} points" if ends == (0.0, 1.0) else f"{number:g}"


def _signed_percent(share: float) -> str:
    return percent(share) if share >= 0 else f"-{percent(-share)}"


def _short(number: float) -> str:
    """Write evidence by its first digits."""
    if number >= LARGEST_WRITTEN:
        return f"more than {LARGEST_WRITTEN:,.0f}"
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"  # noqa: PLR2004 - two digits
