"""Side channels: errors on refused rewards, standard error between responses, and the time that a response takes.

REFUSALS. A curator refuses NaN, infinity and rewards out of range, and its error must not depend on the reward: errors
travel into logs, into crash reports, to the server's operator. For each side of the range there are two rewards, whose
digits are drawn anew for each audit. A fair coin chooses one, many times over, and is guessed from everything that is
said: type, message, arguments, attributes and notes of the exception and of its causes, and all that was printed or
logged. If that does not depend on the reward, each guess is right with probability one half, whatever else varies in
it: a counter, a date, the name of a worker. Therefore betting.py applies, with epsilon = 0. The same is done with
rewards in range and what is printed or logged meanwhile; that may depend on the response, so there epsilon is the
claim's.

Where any reward on a side is answered, the only bet there is that an answer is the reward itself: nothing is claimed of
answers to rewards out of range, nor of what is said beside them. This keeps the level. Where words on refusal do not
depend on the reward, the chance of some coins, some words and no answer is at most that of the same with fair coins,
whatever decides on answering; and a fortune on fair coins is 1 at the most.

Two things are reported, not judged. An error may say on which side of the range the reward lies: a refused reward
becomes no response, so no promise covers it, but a reader of the errors learns its side. And frames of a traceback hold
local variables, which error collectors send along; only for our own curators is a reward in a frame a violation, since
elsewhere the frame may be the caller's.

ONE AT A TIME. A program may answer otherwise if each reward waits for the response to the one before: by a pause, by a
batch of one. Half of the level is for a rule by single responses and by their neighbours, half for bets, also on words
to standard error. They belong to the call that was just asked, or to the one before, if a program writes after it has
responded. Guesses depend on all output, and coins are fair, so the level holds whenever words come.

TIME. The time that a response takes is reported, never judged: its median for each of two rewards, how well the reward
is guessed by time alone, and by time and size together, which is more than by size where time tells of the noise. A
program is asked one reward at a time. No law of responses closes this channel. The remedy is outside of the curator.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf, isnan, log10, nan
from time import monotonic, perf_counter_ns

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.betting import Bet, Cells, Event, judge_bets
from ldpbandits.audit.blackbox.events import Sorted, judge_sorted, size_bins, sorts
from ldpbandits.audit.blackbox.neighbours import BINS, coarse, ways_among
from ldpbandits.audit.blackbox.single import bets_on
from ldpbandits.audit.evidence import FEWEST_CALLS, Evidence
from ldpbandits.audit.guess import count_cells
from ldpbandits.audit.program import FIRST_RESPONSE_TIMEOUT_S
from ldpbandits.audit.result import Finding, LayerVerdict, Reals
from ldpbandits.audit.sample import MOST_DEATHS, Sample, sample_of
from ldpbandits.audit.target import Late, RunOutput, Turn
from ldpbandits.audit.texts import numbers, text_of

TIMES = 40
"""How often a coin chooses a reward on either side, and rewards in range that show what a response looks like.

If they are told apart each time, chance has 2^-80."""
TIMES_WITHIN = 400
"""How often in range, of a function; of a program that is done with its standard error, by its short runs."""
LEAST_TIMES = 8
ENOUGH = 24
"""Tries that are made whatever the time: 2^-48 is enough to find a refusal that always tells."""
MIN_RUN_S = 0.2
"""For a run that begins when the time is up: some of them are asked at once."""
TIME_PART, MOST_TIME_PART = 0.1, 0.5
"""Shares of the remaining time; the larger one where a program takes long to start."""
ITSELF = "a reward out of range is answered with itself"
SHOWN = "a refusal shows the reward: in an error, or in a printed line"
TOLD = "the text of a refusal depends on the reward: two rewards out of range get different texts"
CHECK_FIRST = "The claim is for the rewards given: check others first"
NUMBER = re.compile(r"\d[\d,]*(?:\.\d*)?(?:[eE][+-]?\d+)?")
ADDRESS = re.compile(rb"\bat 0x[0-9a-fA-F]+")
"""Where an object lies in memory, as Python writes it; a number in hexadecimal stands by itself."""
TURNS = 20_000
"""Number of rewards that are sent one at a time: each takes some hundred microseconds."""
TURNS_TIME_PART = 0.15
"""Share of the remaining time."""
HELD_BACK = "no response before the input ended: a program that sends each response at once is asked one by one"
TIMED_CALLS = 4_000
CHANCE = 1e-6
"""The chance that time is reported to reveal the reward where it does not."""
REMEDY = "send responses at a fixed delay after the reward, so that their time tells nothing"


def out_of_range(low: float, high: float, rng: np.random.Generator) -> list[list[float]]:
    """Return two numbers above, and two below, with eight digits of their own."""
    power = 3 + max((int(log10(abs(end))) + 1 for end in (low, high) if abs(end) >= 1), default=0)
    leads = rng.permutation(np.arange(11, 99))[:4] * 1_000_000  # no two of them are near each other
    digits = leads + rng.integers(123_457, 999_999, size=4)
    one, two, three, four = (float(f"{each}e{power - 7}") for each in digits.tolist())
    return [[one, two], [-three, -four]]


def shows(text: str, reward: float, span: float = inf) -> bool:
    """Tell whether a text holds the reward to a thousandth of it or of the span, signs aside: written, rounded, cut."""
    found = (float(number.replace(",", "")) for number in NUMBER.findall(text))
    return any(abs(number - abs(reward)) <= min(abs(reward), span) / 1000 for number in found)


@dataclass(frozen=True)
class Tries:
    """Two rewards, which of them a coin chose each time, and what was said."""

    rewards: Sequence[float]
    coins: NDArray[np.int64]
    heard: list[RunOutput]

    @property
    def words(self) -> list[bytes]:
        """All output of each try, without memory addresses."""
        return [ADDRESS.sub(b"at", b"\n".join([each.beside, _ending(each), *each.texts])) for each in self.heard]

    @property
    def itself(self) -> Event:
        """Stake on responses that are the reward itself."""
        pairs = [(self.rewards[coin], self.rewards[1 - coin]) for coin in self.coins.tolist()]
        given = [each.number for each in self.heard]
        right, wrong = (sum(number == pair[side] for number, pair in zip(given, pairs, strict=True)) for side in (0, 1))
        return Event(ITSELF, right, wrong)

    def bets(self, words: Sequence[bytes], what: str) -> Iterator[Bet]:
        """Stake on words by what reward is near a number in them, as a whole, and by each of their parts."""
        right = wrong = 0
        for coin, text in zip(self.coins.tolist(), words, strict=True):
            near = [shows(text.decode(errors="replace"), reward) for reward in self.rewards]
            right += near[coin] and not near[1 - coin]
            wrong += near[1 - coin] and not near[coin]
        yield Event(f"{what} by a number near the reward", right, wrong)
        yield from bets_on(sample_of((0.0, 1.0), self.coins, words), what)


def _ending(heard: RunOutput) -> bytes:
    """Return how a program ended, in words that hold no number near a reward."""
    return b"" if not heard.code else b"ended with " + bytes(97 + int(digit) for digit in str(abs(heard.code)))


def _try(evidence: Evidence, rewards: Sequence[float], times: int, rng: np.random.Generator) -> Tries:
    """Give one of two rewards, by a coin, many times over; fewer times if the time runs out."""
    coins, heard = rng.integers(2, size=times), list[RunOutput]()
    until, at_last = (monotonic() + evidence.seconds(part) for part in (TIME_PART, MOST_TIME_PART))

    def run_once(given: list[float]) -> RunOutput:
        return evidence.target.run_once(given, max(MIN_RUN_S, at_last - monotonic()))

    for start in range(0, times, LEAST_TIMES):
        heard += evidence.target.run_many(
            run_once, [[rewards[coin]] for coin in coins[start : start + LEAST_TIMES].tolist()]
        )
        if monotonic() > (until if len(heard) >= ENOUGH else at_last):
            break
    return Tries(rewards, coins[: len(heard)], heard)


def _answers(evidence: Evidence) -> Callable[[RunOutput], bool]:
    """Return what tells answers from refusals: an answer is a number, unless responses in range are none either."""
    claim = evidence.claim
    size = min(TIMES, claim.calls_per_run or TIMES)
    given = numbers(evidence.target.ask(([claim.low, claim.high] * TIMES)[:size], evidence.seconds(TIME_PART)))
    if np.isnan(given).mean() > 0.5:  # noqa: PLR2004 - most
        return lambda heard: heard.response is not None
    return lambda heard: heard.number is not None and (not isnan(heard.number) or heard.response in {b"nan", b"NaN"})


def bad_rewards(evidence: Evidence, alpha: float) -> Finding:
    """Give rewards that cannot be taken, and judge what comes back."""
    evidence.check_time()
    answers, rng = _answers(evidence), evidence.rng(5)
    kinds = {"infinity": [inf, -inf], "NaN": [nan]}
    probes = {
        kind: [evidence.target.run_once([reward], max(1.0, evidence.seconds(0.1))) for reward in rewards]
        for kind, rewards in kinds.items()
    }
    outside = [_try(evidence, pair, TIMES, rng) for pair in _rewards_out_of_range(evidence, rng)]
    if outside:
        probes["out of range"] = [heard for tries in outside for heard in tries.heard]
    refused_all = [tries for tries in outside if not any(map(answers, tries.heard))]
    words = [tries.words for tries in refused_all]
    bets: list[Bet] = [tries.itself for tries in outside]
    for tries, said in zip(refused_all, words, strict=True):
        bets += tries.bets(said, "the text of a refusal")
    if bets and (finding := judge_bets([bets], 0.0, alpha / 2)).verdict == "violated":
        is_shown = any(
            shows(text.decode(errors="replace"), tries.rewards[coin])
            for tries, said in zip(refused_all, words, strict=True)
            for coin, text in zip(tries.coins.tolist(), said, strict=True)
        )
        return Finding("violated", ITSELF if ITSELF in finding.detail else SHOWN if is_shown else TOLD)
    if _is_said_within(evidence, alpha / 2, rng):
        return Finding("violated", "rewards in range are shown: in a printed or logged line, or in an error")
    if any(len(tries.heard) < min(ENOUGH, TIMES) for tries in outside):  # a run that was cut short has refused nothing
        raise Late("the time was up (--time)")
    answered = [kind for kind, heard in probes.items() if any(map(answers, heard))]
    is_side_told = len(words) > 1 and len({*words[0]}) == len({*words[1]}) == 1 and words[0][0] != words[1][0]
    is_in_frame = any(each.is_in_frame for heard in probes.values() for each in heard)
    if_not_refused: LayerVerdict = "reported" if evidence.spec is None else "violated"
    if answered:
        text = f"answered, not refused: {', '.join(answered)}"
        return Finding(if_not_refused, text if evidence.spec is not None else f"{text}. {CHECK_FIRST}")
    if is_in_frame:
        text = "refused; but a frame of the traceback keeps the reward, for collectors of errors to send on"
        return Finding("violated" if evidence.is_known else "reported", text)
    refused = f"{', '.join(probes)}: refused"
    if is_side_told:
        text = "the error tells its reader on which side of the range the reward lay; no response does"
        return Finding("reported", f"{refused}; {text}")
    return Finding("consistent", f"{refused}, and no text depends on the reward")


def _is_said_within(evidence: Evidence, alpha: float, rng: np.random.Generator) -> bool:
    """Tell whether what a function prints or logs while it responds tells which of two rewards in range it got."""
    if evidence.target.respond is None:
        return False
    low, high = evidence.claim.low, evidence.claim.high
    tries = _try(evidence, (low, high), TIMES_WITHIN, rng)
    words = [ADDRESS.sub(b"at", each.beside) for each in tries.heard]
    if not any(words):
        return False
    return judge_bets([[*tries.bets(words, "what is printed")]], evidence.claim.epsilon, alpha).verdict == "violated"


def _rewards_out_of_range(evidence: Evidence, rng: np.random.Generator) -> list[list[float]]:
    """Return two rewards above the range, and two below; none if any number can be taken."""
    spec, claim = evidence.spec, evidence.claim
    low, high = (claim.low, claim.high) if spec is None else spec.transform.ends
    pairs = out_of_range(low, high, rng)
    is_refused = spec is None or all(spec.transform.refusal(reward) is not None for pair in pairs for reward in pair)
    return pairs if is_refused else []


def turns_of(evidence: Evidence) -> tuple[Sample, list[Turn]] | None:
    """Return the turns that the checks of one audit share; None for a function, or a program that buffers responses."""
    return evidence.once("turns", lambda: _draw_turns(evidence))


def _draw_turns(evidence: Evidence) -> tuple[Sample, list[Turn]] | None:
    claim, take = evidence.claim, evidence.target.turns
    if take is None:
        return None
    evidence.check_time()
    count = min(TURNS, claim.samples, claim.calls_per_run or TURNS)
    chosen = evidence.rng(6).integers(2, size=count)
    seconds = evidence.seconds(TURNS_TIME_PART)
    rewards, until = [(claim.low, claim.high)[each] for each in chosen.tolist()], monotonic() + seconds
    taken: list[Turn] = []
    for _ in range(MOST_DEATHS):
        more = take(rewards[len(taken) :], until - monotonic())
        taken += more
        if not more or len(taken) >= count or monotonic() > until:
            break
    if not taken and min(seconds, FIRST_RESPONSE_TIMEOUT_S) > 2 * evidence.seconds_to_respond():
        return None
    if len(taken) < min(FEWEST_CALLS, count):
        raise Late(f"{len(taken):,} rewards, one at a time, in the time given (--time allows more)")
    texts = [turn.text for turn in taken]
    return sample_of((claim.low, claim.high), chosen[: len(taken)], texts, evidence.rng(9)), taken


def one_at_a_time(evidence: Evidence, alpha: float) -> Finding:
    """Judge what a program says to rewards that are sent one at a time: its responses, and its words beside them."""
    if evidence.target.turns is None:
        return Finding("not applicable", "a function is called once for each reward anyway")
    turns = turns_of(evidence)
    if turns is None:
        return Finding("not applicable", HELD_BACK)
    sample, taken = turns
    told, epsilon = f"{len(taken):,} rewards, one at a time", evidence.claim.epsilon
    groups, before = [bets_on(sample, "a response")], [turn.beside for turn in taken]
    if any(before):
        both = [turn.text + b"\n" + turn.beside for turn in taken]
        said = {"before": before, "after": [*before[1:], b""], "with": both}
        groups.append([_whether(sample, where, said[where]) for where in ("before", "after")])
        words_of = {where: sample_of(sample.rewards, sample.chosen, words) for where, words in said.items()}
        groups.append(
            [bet for where, of in words_of.items() for bet in bets_on(of, f"standard error {where} a response")]
        )
    found = judge_bets(groups, epsilon, alpha / 2)
    if found.verdict != "violated":
        found = judge_sorted((*sorts(sample), *ways_among(sample, ())), sample, sample.pairs, alpha / 2, epsilon)
    return Finding(found.verdict, f"{told}: {found.detail}", found.epsilon_lower)


def _whether(sample: Sample, where: str, words: Sequence[bytes]) -> Bet:
    """Bet on whether anything is written before a response, or after it."""
    is_said = np.array(list(map(bool, words))).astype(np.int64)
    return Cells(f"whether anything is said {where} a response", count_cells(is_said, sample.chosen, (0, 1), 2))


def response_time(evidence: Evidence, _alpha: float) -> Finding:
    """Guess the reward by the time of its response, and by time and size together: rules chosen on disclosed coins."""
    timed = _timed(evidence)
    if timed is None:
        return Finding("not applicable", f"not measured through a pipe; to be safe, {REMEDY}")
    if isinstance(timed, str):
        return Finding("reported", f"not measured: {timed}")
    sample, times = timed
    medians = [1e6 * float(np.median(times[sample.chosen == side])) for side in (0, 1)]
    text = f"median {medians[0]:.2f} and {medians[1]:.2f} us for the two rewards"
    alone = size_bins(times)
    bins = np.searchsorted(np.quantile(times, np.arange(1, BINS) / BINS), times)
    both = Sorted("time and size", coarse(sample) * BINS + bins, BINS * BINS)
    by_size = judge_sorted([Sorted("size", coarse(sample), BINS)], sample, [(0, 1)], CHANCE, 0.0).epsilon_lower
    for name, way, least in (("the reward", alone, 0.0), ("noise", both, max(evidence.claim.epsilon, by_size))):
        guessed = judge_sorted([replace(way, cells=None)], sample, [(0, 1)], CHANCE, least)
        if guessed.verdict == "violated":
            text += f": time reveals {name}, like a response with epsilon {guessed.epsilon_lower:.2f} or more"
            break
    return Finding("reported", f"{text}. To be safe, {REMEDY}")


def _timed(evidence: Evidence) -> tuple[Sample, Reals] | str | None:
    """Return responses and how long each took; why there are none, or None. The message of an error is not repeated."""
    respond, rewards, rng = evidence.target.respond, (evidence.claim.low, evidence.claim.high), evidence.rng(10)
    if respond is None:
        turns = turns_of(evidence)
        return None if turns is None else (turns[0], np.array([turn.seconds for turn in turns[1]]))
    chosen, times, texts = rng.integers(2, size=TIMED_CALLS), np.empty(TIMED_CALLS), list[bytes]()
    for call, side in enumerate(chosen.tolist()):
        evidence.check_time()
        try:
            started = perf_counter_ns()
            response = respond(rewards[side])
            times[call] = (perf_counter_ns() - started) / 1e9
        except (Exception, SystemExit) as error:  # noqa: BLE001 - anybody's code may raise anything
            return f"the curator raised {type(error).__name__} on a reward that it had answered before"
        texts.append(text_of(response))
    return sample_of(rewards, chosen, texts, rng), times
