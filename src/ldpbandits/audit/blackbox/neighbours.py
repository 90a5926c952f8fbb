"""Leaks among neighbours: a response that betrays a reward together with the calls around it, or by its place.

A curator promises that no sequence of responses is more than e^epsilon times likelier under one value of any one
reward than under another, all others being the same. So, given all responses and all coins but one, that one is
guessed with the same chance at most (guess.py), from whichever responses. The coins of some calls are disclosed; a
guess may use them, and all responses:

    a neighbour         the response itself, one at a distance before or after, and the coin of that one if disclosed:
                        noise that is drawn once for several calls or with both signs, the reward of a call before
    a window            what all calls around say together (linear_sums.py), or three or four of them
                        (parity.py)
    a text              all that can be learned from the text of a call soon after it, and from the step of each number
                        in it to the next (text.py); sums of the numbers in a few texts (linear_sums.py)
    a group             the calls before and after among those of one key: a session, a worker, a user in the text
    a batch             sums, parities and balanced noise of up to a thousand calls (linear_sums.py)
    a place             the response, and where it stands: every fourth call, the first of a run, all after the
                        thousandth
    the same noise      response minus reward, for either reward: whether that difference, or its negative, occurs at a
                        disclosed call, however far away: a generator of short period; or exactly at a call at
                        a fixed distance: noise that is used again now and then

How far away neighbours are is not known. Small distances are all tried. Large ones are proposed by a Fourier transform:
those at which what is known of the noise, or its size, is most like itself, and those at which responses depend most on
disclosed coins. They serve as periods too, and so do those at one place of which the size of the noise is least like
that at the others.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from scipy.fft import next_fast_len

from ldpbandits.audit.blackbox.events import LOW_BITS, Cells, Sorted, judge_sorted
from ldpbandits.audit.blackbox.linear_sums import (
    LENGTHS,
    WINDOW_REACH,
    judge_batches,
    last_numbers,
    sort_by_sums,
    sort_by_window,
)
from ldpbandits.audit.blackbox.parity import fold_score, folded, sort_by_parity
from ldpbandits.audit.blackbox.text import learn, some_texts, steps, ways_apart
from ldpbandits.audit.evidence import Evidence
from ldpbandits.audit.result import Finding, Reals
from ldpbandits.audit.sample import TEST, Sample, sample_of

CALLS = 1 << 20
"""Calls that are looked at."""
BINS = 12
"""Cells of a response: neighbours have as many squared, and thrice that, for what is known of a coin."""
NEAR, NEAR_KNOWN = 16, 4
"""Distances up to this are all tried; of texts, and of a curator that is known by its code, up to the latter."""
PROPOSED = 4
"""Distances that each signal proposes."""
LONGEST = 1 << 12
"""The longest period at whose places calls are sorted one by one."""
WINDOW_PART, TEXT_PART, BATCH_PART = 0.25, 0.25, 0.1
"""The parts of the level for windows, for texts of later calls, and for batches."""
WINDOW_CALLS, TEXT_CALLS = 1 << 18, 1 << 16
"""Calls that are looked at for windows and batches, and for texts of later calls."""
GROUP_WORDS, GROUP_REACH, LEAST_GROUP = 8, 2, 4
"""Words of a text that may be a key, calls of one group that are compared, and how large groups are on average."""
WORD = re.compile(rb"[^\s,;:|/={}\[\]()\"']+")
DIGITS = 9
"""Decimals of a difference: what is lost when a double is added to a reward and subtracted again is beyond them."""


def neighbours(evidence: Evidence, alpha: float) -> Finding:
    """Choose the neighbour or the place that tells most, and test it on coins that were not disclosed."""
    whole, epsilon = evidence.sample, evidence.claim.epsilon
    sample = whole.first(min(CALLS, len(whole.chosen)))
    if evidence.is_known:  # its code is proved, and counts nothing: what may repeat is the randomness that it is given
        near = _besides(sample, coarse(sample), range(1, NEAR_KNOWN + 1))
        return judge_sorted(chain(near, _same_noise(sample)), sample, sample.pairs, alpha, epsilon)
    far, alphas = proposed(sample), alpha / len(sample.pairs)
    single = (1 - WINDOW_PART - TEXT_PART - BATCH_PART) * alpha
    sorts = evidence.in_time(chain(ways_among(sample, far), _noise_again(sample, far)))
    found = [judge_sorted(sorts, sample, sample.pairs, single, epsilon)]
    windows = sample.first(min(WINDOW_CALLS, len(sample.chosen)))
    learned = ((windows, WINDOW_PART, _windows), (some_texts(sample, TEXT_CALLS), TEXT_PART, _texts_later))
    for part, part_of_level, bets_of in learned:
        if found[-1].verdict == "violated":
            return found[-1]
        each = [
            judge_sorted(evidence.in_time(bets_of(part, pair, far)), part, [pair], part_of_level * alphas, epsilon)
            for pair in part.pairs
        ]
        found.append(max(each, key=lambda finding: finding.epsilon_lower))
    if found[-1].verdict != "violated":
        evidence.check_time()
        part = some_texts(sample, WINDOW_CALLS)
        lengths, cells = dict.fromkeys((*LENGTHS, *_periods(part), *far)), by_last_number(part)
        found += [judge_batches(part, pair, cells, lengths, BATCH_PART * alphas, epsilon) for pair in part.pairs]
    return max(found, key=lambda finding: (finding.verdict == "violated", finding.epsilon_lower))


def ways_among(sample: Sample, far: Sequence[int]) -> Iterator[Sorted]:
    """Sort calls in all the ways named above, with neighbours at these distances too."""
    bins = coarse(sample)
    yield from _besides(sample, bins, (*range(1, NEAR + 1), *far))
    for period in dict.fromkeys((*LENGTHS, *_periods(sample), *(each for each in far if each <= LONGEST))):
        yield Sorted(f"place modulo {period}", (sample.place % period) * BINS + bins, period * BINS)
    first = np.minimum(sample.place, 255)
    yield Sorted("place among the first of a run", first * BINS + bins, 256 * BINS)
    magnitude = np.log2(sample.place + 1).astype(np.int64)
    yield Sorted("magnitude of the place", magnitude * BINS + bins, 64 * BINS)
    stretch = np.arange(len(bins)) * 64 // max(len(bins), 1)
    yield Sorted("stretch of calls", stretch * BINS + bins, 64 * BINS)
    yield from _same_noise(sample)


def _windows(sample: Sample, pair: tuple[int, int], far: Sequence[int]) -> Iterator[Sorted]:
    """Guess the reward of a call by all that can be learned from the calls around it."""
    bins = coarse(sample)
    beside = list(_besides(sample, bins, (*range(1, WINDOW_REACH + 1), *far[:PROPOSED])))
    yield sort_by_window(sample, pair, Sorted("the response", bins, BINS), beside)
    yield from sort_by_parity(sample, pair, bins)


def _texts_later(sample: Sample, pair: tuple[int, int], _far: Sequence[int]) -> Iterator[Sorted]:
    """Guess the reward of a call by the text of a call after it, or by the step to its own: by all that is learned."""
    stepped = [each for each in steps(sample.said, sample.responses) if (each.at != each.at[0]).any()]
    takes = list(ways_apart(sample))
    yield from stepped
    yield from sort_by_sums(sample, pair)
    yield from _within_groups(sample)
    for distance in range(1, NEAR_KNOWN + 1):
        moved = [replace(each, at=np.roll(each.at, -distance), cells=None) for each in (*stepped, *takes)]
        where = f"{distance} {'calls' if distance > 1 else 'call'} later"
        for feature in moved:
            if feature.name in LOW_BITS or feature.name.startswith("step"):
                yield replace(feature, name=f"{feature.name} of the call {where}")
        yield replace(learn(moved, sample, pair), name=f"a guesser learned from the text of the call {where}")


def _within_groups(sample: Sample) -> Iterator[Sorted]:
    """Sort calls by their neighbours among those of the same key: a session, a worker, a user that the text names.

    Any word of a text may be the key. The order of calls within a group depends on responses only, and so do groups.
    """
    if np.isnan(sample.responses).mean() <= 0.5:  # noqa: PLR2004 - a number names nothing
        return
    rows = [WORD.findall(sample.said[call])[:GROUP_WORDS] for call in range(len(sample.chosen))]
    words = [[row[at] if at < len(row) else b"" for row in rows] for at in range(max(map(len, rows)))]
    columns = [sample_of(sample.rewards, sample.chosen, column) for column in words]
    binned = [coarse(each) for each in columns if (each.said.codes != each.said.codes[0]).any()]
    for key in columns:
        if not 1 < len(np.unique(key.said.hashes)) <= len(rows) // LEAST_GROUP:
            continue
        order = np.argsort(key.said.codes, kind="stable")
        moved = sample.some(order, sample.roles[order])
        for bins in binned:
            for each in _besides(moved, bins[order], range(1, GROUP_REACH + 1)):
                at = np.empty_like(each.at)
                at[order] = each.at
                yield replace(each, name=f"{each.name} of the same key", at=at)


def coarse(sample: Sample) -> NDArray[np.int64]:
    """Sort responses into a few cells: the most frequent texts if they make up most, else bins of size."""
    codes = sample.said.codes
    if np.mean(codes < BINS - 1) > 0.9:  # noqa: PLR2004 - most
        return np.minimum(codes, BINS - 1)
    finite = sample.responses[np.isfinite(sample.responses)]
    if not len(finite):
        return (sample.said.hashes % np.uint64(BINS)).astype(np.int64)
    cuts = np.quantile(finite, np.arange(1, BINS - 1) / (BINS - 1), method="inverted_cdf")
    bins = np.searchsorted(cuts, sample.responses).astype(np.int64)
    return np.where(np.isnan(sample.responses), BINS - 1, np.minimum(bins, BINS - 2))


def by_last_number(sample: Sample) -> Sorted:
    """Sort responses as above; by the last number in them if they are texts, hardly any of which come again."""
    is_told = np.isfinite(sample.responses).all() or np.mean(sample.said.codes < BINS - 1) > 0.9  # noqa: PLR2004 - most
    numbered = sample if is_told else Sample(sample.rewards, sample.chosen, last_numbers(sample.said))
    return Sorted("the response", coarse(numbered), BINS)


def _besides(sample: Sample, bins: Cells, distances: Sequence[int]) -> Iterator[Sorted]:
    """Sort calls by their neighbours at each of these distances, before and after."""
    known = np.where(sample.roles == TEST, len(sample.rewards), sample.chosen)
    for distance in distances:
        for sign in (-1, 1):
            if distance < len(bins):
                yield _beside(sample, bins, known, sign * distance)


def _beside(sample: Sample, bins: Cells, known: Cells, shift: int) -> Sorted:
    """Sort calls by their response, and by response and coin of the call `shift` calls later."""
    other = np.roll(bins * (len(sample.rewards) + 1) + known, -shift)
    size = BINS * (len(sample.rewards) + 1)
    at = bins * size + other
    at[_outside(shift)] = -1
    return Sorted(f"the response and that of the call {_where(shift)}", at, BINS * size)


def _outside(shift: int) -> slice:
    """Return the calls at the end that have no call `shift` calls later."""
    return slice(-shift, None) if shift > 0 else slice(None, -shift)


def _where(shift: int) -> str:
    return f"{abs(shift)} {'calls' if abs(shift) > 1 else 'call'} {'later' if shift > 0 else 'before'}"


def proposed(sample: Sample) -> list[int]:
    """Return distances at which a coin shows, or the noise, as far as it is known, is like itself."""
    found: dict[int, None] = dict.fromkeys(_shown_at(sample))
    for signal in _signals(sample):
        for distance in _alike(signal):
            found[distance] = None
    return list(found)


def _shown_at(sample: Sample) -> list[int]:
    """Return the distances at which responses depend most on coins that are disclosed: chi-squares, by Fourier."""
    length = len(sample.chosen)
    if length < 2:  # noqa: PLR2004 - no neighbour
        return []
    size = next_fast_len(2 * length - 1, real=True)
    side = np.where(sample.roles == TEST, 0.0, sample.chosen - (len(sample.rewards) - 1) / 2)
    coins = np.conj(np.fft.rfft(side, size))
    score = np.zeros(size)
    for cells in (coarse(sample), np.minimum(sample.said.lengths, BINS - 1)):
        for cell, count in enumerate(np.bincount(cells).tolist()):
            if 0 < count < length:
                met = np.fft.irfft(coins * np.fft.rfft((cells == cell) - count / length, size), size)
                score += met**2 / count
    later, before = score[: length // 2], score[: size - length // 2 : -1]
    both = np.concatenate([later[1:], before])
    distances = np.concatenate([np.arange(1, len(later)), np.arange(1, len(before) + 1)])
    return [int(each) for each in dict.fromkeys(distances[np.argsort(-both)[: 4 * PROPOSED]].tolist()) if each > NEAR][
        :PROPOSED
    ]


def _signals(sample: Sample) -> Iterator[Reals]:
    """Yield signals of the noise: response minus its mean under that reward, in ranks, and its size."""
    values = coarse(sample).astype(np.float64)
    is_known = sample.roles != TEST
    if not is_known.any():
        return
    finite = np.isfinite(sample.responses)
    if finite.all():
        _, rank = np.unique(sample.responses, return_inverse=True)
        values = rank / max(1, int(rank.max()))
    noise = values - values.mean()
    yield noise
    for number in range(len(sample.rewards)):
        mine = is_known & (sample.chosen == number)
        noise[mine] = values[mine] - values[mine].mean() if mine.any() else 0.0
    for signal in (noise, np.abs(noise)):
        centred = np.where(is_known, signal, 0.0)
        centred[is_known] -= centred[is_known].mean()
        yield centred


def _periods(sample: Sample) -> list[int]:
    """Return the periods at one place of which the known noise is smallest or largest, in standard errors."""
    *_, size = (*_signals(sample), np.zeros(0))[:3]
    known = np.flatnonzero(sample.roles != TEST)
    if not len(known) or not len(size):
        return []
    # First by place, then by period: to add up rows is much faster than to sort calls for each period.
    totals = np.bincount(sample.place[known], size[known] / (float(size[known].std()) or 1.0)).astype(np.float64)
    scores = {period: fold_score(folded(totals, period), len(known)) for period in range(2, LENGTHS[-1])}
    return sorted(scores, key=scores.__getitem__, reverse=True)[:PROPOSED]


def _alike(signal: Reals) -> list[int]:
    """Return the distances of the largest correlations of a signal with itself, the smallest of those first."""
    length = len(signal)
    size = next_fast_len(2 * length - 1, real=True)
    power = np.abs(np.fft.rfft(signal, size)) ** 2
    likeness = np.abs(np.fft.irfft(power, size)[: length // 2 + 1])
    likeness[: min(2, len(likeness))] = 0  # a call is like itself; the nearest are tried anyway
    best = np.argsort(-likeness)[: 8 * PROPOSED]
    strong = best[likeness[best] > 0.5 * likeness[best[0]]] if len(best) else best
    smallest = np.sort(strong)[:PROPOSED]
    return [int(each) for each in dict.fromkeys((*best[:PROPOSED].tolist(), *smallest.tolist())) if each > 0]


def _same_noise(sample: Sample) -> Iterator[Sorted]:
    """Sort calls by whether response minus reward, for the rewards of each pair, occurs at disclosed calls too."""
    if not _are_small(sample):
        return
    is_known = sample.roles != TEST
    own = _key(sample.responses - np.asarray(sample.rewards)[sample.chosen])
    keys, counts = np.unique(own[is_known], return_counts=True)
    if not len(keys):
        return
    cell = np.zeros(len(own), np.int64)
    for number, reward in enumerate(sample.rewards[:3]):
        for turn, difference in enumerate((sample.responses - reward, reward - sample.responses)):
            key = _key(difference)
            at = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
            often = np.where(keys[at] == key, counts[at], 0)
            often -= is_known & (key == own) & (keys[at] == key)  # not with itself
            cell |= (often > 0).astype(np.int64) << (2 * number + turn)
    yield Sorted("noise that occurs at another call", cell, 64)


def _noise_again(sample: Sample, far: Sequence[int]) -> Iterator[Sorted]:
    """Sort calls by which reward a response is to if its noise is exactly that, or minus that, of another call.

    The coin of that one is disclosed. Such a match is rare by chance, so that noise which is used again now and then
    shows, where it would be lost in cells of size.
    """
    if sample.are_bits or not _are_small(sample):
        return
    known, size = sample.roles != TEST, len(sample.rewards) + 1
    own = [_key(sample.responses - reward) for reward in sample.rewards]
    noise = np.stack(own)[sample.chosen, np.arange(len(known))]
    for distance in dict.fromkeys((*range(1, NEAR + 1), *_said_again_at(sample), *far)):
        for shift in (-distance, distance) if distance < len(noise) else ():
            others = np.roll(noise, -shift)
            same, minus = (
                np.add.reduce([(each == sign * others) * (number + 1) for number, each in enumerate(own)])
                for sign in (1, -1)
            )
            at = np.where(np.roll(known, -shift), same * size + minus, -1)
            at[_outside(shift)] = -1
            yield Sorted(f"noise that is that of the call {_where(shift)}, or minus that", at, size * size)


def _said_again_at(sample: Sample) -> list[int]:
    """Return the distances, larger than those that are all tried, at which most texts come again."""
    codes = sample.said.codes
    order = np.argsort(codes, kind="stable")
    apart = np.diff(order)[np.diff(codes[order]) == 0]
    counts = np.bincount(apart[apart > NEAR])
    return [int(each) for each in np.argsort(-counts, kind="stable")[:PROPOSED] if counts[each]]


def _are_small(sample: Sample) -> bool:
    """Tell whether responses are numbers whose differences are kept to some digits."""
    largest = max(np.abs(sample.responses).max(initial=0), np.abs(sample.rewards).max(initial=0))
    return bool(np.isfinite(sample.responses).all() and largest <= 1e6)  # noqa: PLR2004 - as it says


def _key(difference: Reals) -> NDArray[np.int64]:
    return np.round(difference * 10.0**DIGITS).astype(np.int64)
