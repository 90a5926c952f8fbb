"""The leaping simulator: exactly the law of the per-round simulator, without playing every round.

While one arm is sure to stay the one to pull, only the sum of its responses matters, and that can be drawn at once.
docs/leaping.md has the proofs. Each rule that leaps has a file here: its region, and what it does at the edge.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

from ldpbandits.agent.laplace_rules import IMEDLaplaceBit, KLUCBPlusLaplaceBit
from ldpbandits.agent.rules import IMED, KLUCB, UCB, Duels, EqualShares, KLUCBPlus, Rule, Thompson
from ldpbandits.errors import ParameterError
from ldpbandits.lab.algorithms import Algorithm
from ldpbandits.lab.engine.channels import Known
from ldpbandits.lab.engine.leap_imed import leap_imed
from ldpbandits.lab.engine.leap_kl_ucb import leap_kl_ucb
from ldpbandits.lab.engine.leap_thompson import leap_thompson
from ldpbandits.lab.engine.leap_ucb import leap_ucb
from ldpbandits.lab.engine.step import Advance, Play, encode
from ldpbandits.lab.engine.sums import BITS, Sums, encode_sums
from ldpbandits.lab.engine.verdicts import share_bits
from ldpbandits.lab.rewards import Drift, Law

DUELLISTS = 2


def leap_shares(play: Play, sums: Sums, *state: Any, is_duel: bool) -> None:  # noqa: ANN401, ARG001 - as any leap
    """Play many rounds of a fair coin at once: where nothing depends on the responses, a block has any length."""
    share_bits(is_duel, sums.chance, *state)


LEAPS: dict[type[Rule], Callable[..., None]] = {
    UCB: leap_ucb,
    KLUCB: partial(leap_kl_ucb, is_plus=False),
    KLUCBPlus: partial(leap_kl_ucb, is_plus=True),
    IMED: leap_imed,
    Thompson: leap_thompson,
    KLUCBPlusLaplaceBit: partial(leap_kl_ucb, is_plus=True),
    IMEDLaplaceBit: leap_imed,
    EqualShares: partial(leap_shares, is_duel=False),
    Duels: partial(leap_shares, is_duel=True),
}
"""The loop that leaps, by the type of the rule; it takes a play, its sums, and what an `Advance` takes."""


@lru_cache(maxsize=64)  # needed twice: when the engine is chosen, and when the loop is compiled
def encode_leaps(algorithm: Algorithm, arms: tuple[Law, ...]) -> tuple[Play, Sums]:
    """Write an algorithm and its arms as numbers; raise ParameterError with the reason where it cannot leap."""
    if type(algorithm.rule) not in LEAPS:
        raise ParameterError(f"the rule of {algorithm.name} is not one of those that leap")
    if type(algorithm.rule) is Duels and len(arms) != DUELLISTS:
        raise ParameterError("duels leap between two arms: with more, the responses choose the pair")
    if any(isinstance(arm, Drift) for arm in arms):
        raise ParameterError("the mean reward of some arm changes from round to round")
    play, _ = encode(algorithm, arms)
    sums = encode_sums(algorithm, arms)
    if not isinstance(play.channel, Known):
        raise ParameterError(f"the curator of {algorithm.name} is not one of the paper's")
    if type(algorithm.rule) is not UCB and (sums.kinds != BITS).any():
        raise ParameterError(
            f"the rule of {algorithm.name} leaps on responses that are bits, and those of some arm are not"
        )
    return play, sums


def leap_obstacle(algorithm: Algorithm, arms: Sequence[Law]) -> str | None:
    """Say why an algorithm cannot leap on these arms; None if it can."""
    try:
        encode_leaps(algorithm, tuple(arms))
    except ParameterError as error:
        return str(error)
    return None


def compile_leaps(algorithm: Algorithm, arms: Sequence[Law]) -> Advance:
    """Return the compiled loop that plays in leaps."""
    try:
        play, sums = encode_leaps(algorithm, tuple(arms))
    except ParameterError as error:
        raise ParameterError(f"{algorithm.name} cannot leap, only step: {error}") from None
    return partial(LEAPS[type(algorithm.rule)], play, sums)
