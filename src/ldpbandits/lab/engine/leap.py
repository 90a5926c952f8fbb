"""The leaping simulator: exactly the law of the per-round simulator, without playing every round.

While one arm is sure to stay the one to pull, only the sum of its responses matters, and that can be drawn at once.
docs/leaping.md has the proofs. Each rule that leaps has a file here: its region, and what it does at the edge.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

from ldpbandits.agent.laplace_rules import IMEDLaplaceBit, KLUCBPlusLaplaceBit
from ldpbandits.agent.rules import IMED, KLUCB, UCB, KLUCBPlus, Rule, Thompson
from ldpbandits.errors import ParameterError
from ldpbandits.lab.algorithms import Algorithm
from ldpbandits.lab.engine.channels import Known
from ldpbandits.lab.engine.leap_imed import leap_imed
from ldpbandits.lab.engine.leap_kl_ucb import leap_kl_ucb, leap_kl_ucb_plus
from ldpbandits.lab.engine.leap_thompson import leap_thompson
from ldpbandits.lab.engine.leap_ucb import leap_ucb
from ldpbandits.lab.engine.step import Advance, Play, encode
from ldpbandits.lab.engine.sums import BITS, Sums, encode_sums
from ldpbandits.lab.rewards import Law

LEAPS: dict[type[Rule], Callable[[Play, Sums], Advance]] = {
    UCB: leap_ucb,
    KLUCB: leap_kl_ucb,
    KLUCBPlus: leap_kl_ucb_plus,
    IMED: leap_imed,
    Thompson: leap_thompson,
    KLUCBPlusLaplaceBit: leap_kl_ucb_plus,
    IMEDLaplaceBit: leap_imed,
}
"""How to leap, by the type of the rule."""


@lru_cache(maxsize=64)  # needed twice: when the engine is chosen, and when the loop is compiled
def encode_leaps(algorithm: Algorithm, arms: tuple[Law, ...]) -> tuple[Play, Sums]:
    """Write an algorithm and its arms as numbers; raise ParameterError with the reason where it cannot leap."""
    if type(algorithm.rule) not in LEAPS:
        raise ParameterError(f"the rule of {algorithm.name} is not one of those that leap")
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
    return LEAPS[type(algorithm.rule)](play, sums)
