"""The checks in which no chance is involved: a proof in rational arithmetic, and a replay of the device's own code.

The proof. The largest log-ratio over all rewards and responses is compared with epsilon. For a finite table of
probabilities it is the maximum over all pairs of rewards. If somebody gave the table, what is proved holds for the
table, and a response that the table rules out refutes it. For a curator that the audit knows, the probabilities come
from its code: see `bernoulli.py` and `laplace.py`.

The replay. The law that is proved, and sampled in bulk, must be that of the code on a device. The sampler of the audit
and the device get the same words, thousands of rows of them, and must give the same response to the last bit, from as
many words. Rows are random, or random but for one planted tie: a head that ties, a whole word that ties, digits that
run over, minus zero. One row in which they differ is a proof that the device has another law than the one audited, or
that it keeps something beside its words; so it is a violation.
"""

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from itertools import permutations
from math import inf, log
from numbers import Rational
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ldpbandits.audit.evidence import Evidence, ResponseTable
from ldpbandits.audit.result import Finding
from ldpbandits.audit.whitebox.sampling import TAIL, Source, Words, draw_words, source
from ldpbandits.device.randomness import WORD, exp_bounds
from ldpbandits.errors import ParameterError

if TYPE_CHECKING:
    from ldpbandits.audit.whitebox.ours import WhiteBox

PRECISION = 4 * WORD
"""Bits to which powers of e are bracketed."""
ROWS = 1_500
"""For each reward; two laws that differ by one part in a hundred differ in some row nearly always."""
KINDS = 6
"""Number of kinds of rows: four with planted words, and two that are left as drawn."""

Row: TypeAlias = list[int]


def check_law(law: object) -> ResponseTable:
    """Check that each row holds exact probabilities: not negative, and 1 in all."""
    if not isinstance(law, Mapping) or not all(isinstance(row, Mapping) for row in law.values()):
        raise ParameterError("law must map each reward to a table of the probability of each response")
    for number, row in enumerate(law.values()):
        inexact = [p for p in row.values() if not isinstance(p, Rational | Decimal)]
        if inexact:
            where = f"row {number} holds a {type(inexact[0]).__name__}"
            raise ParameterError(f"the probabilities of a law must be exact, such as Fraction(1, 3): {where}")
        if any(p < 0 for p in row.values()) or sum(map(Fraction, row.values())) != 1:
            raise ParameterError(f"the probabilities of row {number} must be >= 0 and add up to 1")
    return {reward: {response: Fraction(p) for response, p in row.items()} for reward, row in law.items()}


def largest_ratio(law: ResponseTable) -> Fraction | None:
    """Return max P(y | r) / P(y | r') over all rewards r, r' and responses y; None where it is infinite."""
    law = check_law(law)
    worst = Fraction(1)
    for one, other in permutations(law.values(), 2):
        for response, p in one.items():
            q = other.get(response, Fraction(0))
            if p and not q:
                return None
            if q:
                worst = max(worst, p / q)
    return worst


def at_most_exp(ratio: Fraction, epsilon: float) -> bool:
    """Tell whether ratio <= e^epsilon, by integers: e^epsilon is bracketed, and is no rational number."""
    low, _ = exp_bounds(Fraction(epsilon), PRECISION)
    return ratio * (1 << PRECISION) <= low


def judge_table(law: ResponseTable, epsilon: float, over: str) -> Finding:
    """Judge a finite table of probabilities over some rewards."""
    ratio = largest_ratio(law)
    if ratio is None:
        return Finding("violated", "some response is possible under one reward only", inf)
    value = log(ratio.numerator) - log(ratio.denominator)
    size = f"largest log-ratio over {over} and all responses: {value:.12g}"
    if at_most_exp(ratio, epsilon):
        return Finding("consistent", f"{size}, at most {epsilon:g} in rational arithmetic")
    return Finding("violated", f"{size}, above {epsilon:g} in rational arithmetic", value)


def prove_law(evidence: Evidence, _alpha: float) -> Finding:
    """Judge a table that somebody gave: its ratios, whether it has all rewards, and whether the responses fit it."""
    if evidence.law is None:
        text = "only responses are seen; give law, the probability of each, to prove a claim"
        return Finding("not applicable", text)
    law, claim = check_law(evidence.law), evidence.claim
    missing = sum(reward not in law for reward in claim.rewards)
    if missing:
        raise ParameterError(f"law must have a row for each of the rewards, and {missing} of them have none")
    finding = judge_table(law, claim.epsilon, f"{len(law)} rewards")
    if finding.verdict == "violated":
        return finding
    sample = evidence.sample
    for number, reward in enumerate(sample.rewards):
        possible = {_key(response) for response, p in law[reward].items() if p}
        outside = {_key(each) for each in np.unique(sample.responses[sample.chosen == number]).tolist()} - possible
        if outside:
            text = f"not the law of these responses: {len(outside):,} of them are impossible for a reward of {reward:g}"
            return Finding("violated", f"the table that you gave is {text}")
    return Finding("consistent", f"{finding.detail}: proved for the table you gave, not for the code behind it")


def _key(response: object) -> str:
    """Write a response so that equal ones read the same: 1 as 1.0, -0.0 as 0.0, NaN as nan."""
    try:
        return repr(float(response) + 0.0)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return f"no number: {response!r}"


def prove_code(evidence: "WhiteBox", _alpha: float) -> Finding:
    """Judge a curator by its code, over all its rewards and responses."""
    return evidence.known.prove(evidence.curator, evidence.claim.epsilon)


def replay(evidence: "WhiteBox", _alpha: float) -> Finding:
    """Give the same words to the sampler and to the device, for the lowest reward, the highest and the middle."""
    claim = evidence.claim
    random_bytes, rewards = source(claim.seed), (claim.low, (claim.low + claim.high) / 2, claim.high)
    differing = sum(_count_differing(evidence, reward, random_bytes) for reward in rewards)
    rows = ROWS * len(rewards)
    if differing:
        text = f"{differing:,} of {rows:,} rows of words give a device another response than the law that is audited"
        return Finding("violated", text)
    return Finding("consistent", f"the same response, bit for bit, to {rows:,} rows of words, planted ties included")


def _count_differing(evidence: "WhiteBox", reward: float, random_bytes: Source) -> int:
    """Count the rows on which the two sides differ, in the response or in how many words they take."""
    curator, known, value = evidence.curator, evidence.known, evidence.spec.value(reward)
    first = known.words_each(curator)
    rows: list[Row] = []
    for number in range(ROWS):
        row = list(draw_words(first + 1, random_bytes))
        known.plant(curator, value, number % KINDS, number // KINDS, row)
        rows.append(row)
    sampler = [_Reader(row, random_bytes, first) for row in rows]
    device = [_Reader(row, random_bytes, 0) for row in rows]
    table = np.array([row[:first] for row in rows], np.uint64).T
    tail = (1 << TAIL) - 1
    words = Words(
        (table >> np.uint64(TAIL)).astype(np.uint16),
        lambda word, number: int(table[word, number]) & tail,
        lambda number: sampler[number].draw,
    )
    sampled = known.responses(curator, value, words) * evidence.spec.mechanism.unit
    answers = np.array([curator.respond_not_private(reward, reader.draw) for reader in device], np.float64)
    same_response = sampled.view(np.int64) == answers.view(np.int64)  # as bits: -0.0 is not 0.0
    same_place = np.array([one.at == other.at for one, other in zip(sampler, device, strict=True)])
    return int(np.count_nonzero(~(same_response & same_place)))


class _Reader:
    """One side's place in a row of words, which grows as either side reads on."""

    def __init__(self, row: Row, random_bytes: Source, at: int) -> None:
        self._row, self._random_bytes, self.at = row, random_bytes, at

    def draw(self, count: int) -> Row:
        """Return the next `count` words of the row."""
        self.at += count
        self._row.extend(draw_words(max(0, self.at - len(self._row)), self._random_bytes))
        return self._row[self.at - count : self.at]
