"""Rewards that cannot be taken: NaN, infinity, out of range. Refuse them, and do not show them while doing so.

An error travels: into logs, into crash reports, to the server's operator. So what is said on refusal must not depend
on the reward: not the type, message, arguments, attributes or notes of the exception, not its causes, no line that was
printed or logged. That is judged by coins. For each side of the range there are two rewards, whose digits are drawn
anew for each audit. A fair coin chooses one, many times over, and is guessed from everything that is said: from the
words as a whole, from each of their characters, and by which of the two rewards is near some number in them. If what
is said does not depend on the reward, each guess is right with probability one half, whatever else varies in it: a
counter, a date, the name of a worker. So betting.py applies, with epsilon = 0. The same is done with rewards
in range and what is printed or logged meanwhile; that may depend on the response, so there epsilon is the claim's.

Where any reward on a side is answered nothing is staked there but that an answer is the reward itself: what is said
beside an answer may depend on the answer, and nothing is claimed of answers to rewards out of range. This keeps the
level. Where words on refusal do not depend on the reward, the chance of some coins, some words and no answer is at most
that of the same with coins that are fair, whatever decides on answering; and a fortune on fair coins is 1 at the most.

An error may say on which side of the range the reward lies, and that is reported: a refused reward becomes no response,
so that no promise covers it, but a reader of the errors learns its side.

Frames of a traceback hold local variables, which collectors of errors send along: our own curators must not keep the
reward there. For all else it is reported, also for what claims to be one of ours: the frame may be the caller's own.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import inf, isnan, log10, nan
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.betting import Bet, Cells, Event, judge_bets
from ldpbandits.audit.blackbox.text import ways_apart
from ldpbandits.audit.evidence import Evidence
from ldpbandits.audit.guess import count_cells
from ldpbandits.audit.result import Finding, LayerVerdict
from ldpbandits.audit.target import Late, RunOutput
from ldpbandits.audit.texts import Texts, numbers

TIMES = 40
"""How often a coin chooses a reward on either side. If they are told apart each time, chance has 2^-80."""
TIMES_WITHIN = 400
"""How often in range, of a function; of a program that is done with its standard error, by its short runs."""
IN_RANGE = 40
"""Rewards in range by which it is seen what a response looks like."""
LEAST_TIMES = 8
ENOUGH = 24
"""Tries that are made whatever the time: 2^-48 is enough to find a refusal that always tells."""
LEAST_SECONDS = 0.2
"""For a run that begins when the time is up: some of them are asked at once."""
TIME_PART, MOST_TIME_PART = 0.1, 0.5
"""Shares of the remaining time; the larger one where a program takes long to start."""
ITSELF = "a reward out of range is answered with itself"
SHOWN = "what is said on refusal shows the reward: in an error, or in a printed line"
TOLD = "what is said on refusal depends on the reward: two rewards out of range are told different things"
CHECK_FIRST = "The claim is for the rewards given: check others first"
NUMBER = re.compile(r"\d[\d,]*(?:\.\d*)?(?:[eE][+-]?\d+)?")
ADDRESS = re.compile(rb"\bat 0x[0-9a-fA-F]+")
"""Where an object lies in memory, as Python writes it; a number in hexadecimal stands by itself."""


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
        said = Texts.of(list(words))
        for calls in ways_apart(said, numbers(words)):
            if (calls.at != calls.at[0]).any():
                counts = count_cells(calls.at, self.coins, (0, 1), calls.size)
                yield Cells(f"{what} by its {calls.name}", counts)


def _ending(heard: RunOutput) -> bytes:
    """Return how a program ended, in words that hold no number near a reward."""
    return b"" if not heard.code else b"ended with " + bytes(97 + int(digit) for digit in str(abs(heard.code)))


def _try(evidence: Evidence, rewards: Sequence[float], times: int, rng: np.random.Generator) -> Tries:
    """Give one of two rewards, by a coin, many times over; fewer times if the time runs out."""
    coins, heard = rng.integers(2, size=times), list[RunOutput]()
    until, at_last = (monotonic() + evidence.seconds(part) for part in (TIME_PART, MOST_TIME_PART))

    def run_once(given: list[float]) -> RunOutput:
        return evidence.target.run_once(given, max(LEAST_SECONDS, at_last - monotonic()))

    with ThreadPoolExecutor(evidence.target.workers) as pool:
        for start in range(0, times, LEAST_TIMES):
            given = [[rewards[coin]] for coin in coins[start : start + LEAST_TIMES].tolist()]
            heard += pool.map(run_once, given) if evidence.target.workers > 1 else map(run_once, given)
            if monotonic() > (until if len(heard) >= ENOUGH else at_last):
                break
    return Tries(rewards, coins[: len(heard)], heard)


def _answers(evidence: Evidence) -> Callable[[RunOutput], bool]:
    """Return what tells answers from refusals: an answer is a number, unless responses in range are none either."""
    claim = evidence.claim
    size = min(IN_RANGE, claim.calls_per_run or IN_RANGE)
    given = numbers(evidence.target.ask(([claim.low, claim.high] * IN_RANGE)[:size], evidence.seconds(TIME_PART)))
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
        bets += tries.bets(said, "what is said on refusal")
    if bets and (finding := judge_bets(bets, 0.0, alpha / 2)).verdict == "violated":
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
    return Finding("consistent", f"{refused}, and nothing that is said depends on the reward")


def _is_said_within(evidence: Evidence, alpha: float, rng: np.random.Generator) -> bool:
    """Tell whether what a function prints or logs while it responds tells which of two rewards in range it got."""
    if evidence.target.respond is None:
        return False
    low, high = evidence.claim.low, evidence.claim.high
    tries = _try(evidence, (low, high), TIMES_WITHIN, rng)
    words = [ADDRESS.sub(b"at", each.beside) for each in tries.heard]
    if not any(words):
        return False
    return judge_bets([*tries.bets(words, "what is printed")], evidence.claim.epsilon, alpha).verdict == "violated"


def _rewards_out_of_range(evidence: Evidence, rng: np.random.Generator) -> list[list[float]]:
    """Return two rewards above the range, and two below; none if any number can be taken."""
    spec, claim = evidence.spec, evidence.claim
    low, high = (claim.low, claim.high) if spec is None else spec.transform.ends
    pairs = out_of_range(low, high, rng)
    is_refused = spec is None or all(spec.transform.refusal(reward) is not None for pair in pairs for reward in pair)
    return pairs if is_refused else []
