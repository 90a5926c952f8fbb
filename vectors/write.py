"""Write the shared vectors, (spec, reward, random words) -> response, as README.md beside this file describes them."""

import json
import random
from collections.abc import Callable, Iterator, Mapping
from math import inf, nextafter
from pathlib import Path
from typing import Any

from ldpbandits import BernoulliCurator, Curator, LaplaceCurator, Range, RealLine, Sigmoid, Threshold
from ldpbandits.device.curators import transformed
from ldpbandits.device.randomness import Coin, first_bits
from ldpbandits.spec.transforms import Transform

FOLDER = Path(__file__).parent
EPSILONS = (1e-6, 0.01, 0.1, 0.2, 0.5, 1.0, 1.1, 2.0, 4.0, 8.0, 20.0, 50.0)
RANDOM_CASES = 17
"""A curator and epsilon; with the planted ones this makes more than 200 cases a file."""

Case = dict[str, Any]
Rewards = Callable[[random.Random], float]


class Words:
    """Seeded words, some of them planted by position, that remember what was consumed."""

    def __init__(self, rng: random.Random, planted: Mapping[int, int] | None = None) -> None:
        """Plant words at these positions, and take all others from `rng`."""
        self.rng, self.planted, self.consumed = rng, planted or {}, list[int]()

    def __call__(self, count: int) -> list[int]:
        """Hand out `count` words."""
        for _ in range(count):
            drawn = self.rng.getrandbits(64)
            self.consumed.append(self.planted.get(len(self.consumed), drawn))
        return self.consumed[-count:]


def case(curator: Curator, reward: float, words: Words) -> Case:
    """Run the curator on these words and write down what happened."""
    response = curator.respond_not_private(reward, words)
    check_robust(curator, reward, words.consumed, response)
    text = "".join(f"{word:016x}" for word in words.consumed)
    return {"spec": curator.to_json(), "reward": reward, "words": text, "response": response}


def check_robust(curator: Curator, reward: float, consumed: list[int], response: float) -> None:
    """Refuse a sigmoid case that an `exp` off by four units in the last place would change."""
    if isinstance(curator.spec.transform, Sigmoid):
        value = float(transformed(curator.spec.transform, reward))
        for direction in (-inf, inf):
            moved = value
            for _ in range(4):
                moved = min(max(nextafter(moved, direction), 0.0), 1.0)
            unit = type(curator)(curator.epsilon)
            if unit.respond_not_private(moved, Words(random.Random(0), dict(enumerate(consumed)))) != response:
                raise SystemExit(f"not robust: {curator}")


def planted_bernoulli(curator: BernoulliCurator, reward: float, rng: random.Random) -> Iterator[Case]:
    """Words just below and at the threshold."""
    if not isinstance(curator.spec.transform, Sigmoid):
        threshold = curator.threshold(float(transformed(curator.spec.transform, reward)))
        for word in (threshold - 1, threshold):
            yield case(curator, reward, Words(rng, {0: word}))


def planted_laplace(curator: LaplaceCurator, reward: float, rng: random.Random) -> Iterator[Case]:
    """Coins that need a second word, a rest that shows heads, and minus zero."""
    noise = curator.noise
    digits = len(noise.digits)
    after = 2 + digits

    def second_word(coin: Coin) -> int:
        return first_bits(coin.x, coin.plus, 128) % 2**64

    k = rng.randrange(digits)
    for change in (-1, 1):
        second = min(max(second_word(noise.digits[k]) + change, 0), 2**64 - 1)
        yield case(curator, reward, Words(rng, {2 + k: noise.digits[k].threshold, after: second}))
    heads = {1: noise.rest.threshold, after: max(second_word(noise.rest) - 1, 0)}
    if noise.rest.threshold == 0 and second_word(noise.rest) > 0:
        yield case(curator, reward, Words(rng, heads))
    minus_zero = {0: 2**63, **{2 + i: 2**64 - 1 for i in range(digits)}}
    yield case(curator, reward, Words(rng, minus_zero))


def cases(kind: type[Curator], transform: Transform, rewards: Rewards, ends: tuple[float, ...]) -> Iterator[Case]:
    """All cases of one file."""
    rng = random.Random(f"{kind.__name__} {transform}")
    for epsilon in EPSILONS:
        curator = kind(epsilon, transform)
        for _ in range(RANDOM_CASES):
            yield case(curator, rewards(rng), Words(rng))
        for reward in ends:
            yield case(curator, reward, Words(rng))
        if isinstance(curator, BernoulliCurator):
            yield from planted_bernoulli(curator, rewards(rng), rng)
        elif isinstance(curator, LaplaceCurator):
            yield from planted_laplace(curator, rewards(rng), rng)


def files() -> dict[str, list[Case]]:
    """Every file by name."""
    unit, declared = Range(), Range(-2.0, 10.0)
    unit_ends = (0.0, 1.0, 5e-324, 1 - 2**-53, 0.5)
    threshold_ends = (0.9, nextafter(0.9, inf), 0.0, -1e300, 1e300)
    made: dict[str, list[Case]] = {}
    for prefix, kind in (("ctb", BernoulliCurator), ("ctl", LaplaceCurator)):
        made[prefix] = list(cases(kind, unit, random.Random.random, unit_ends))
        made[f"{prefix}-range"] = list(cases(kind, declared, lambda rng: rng.uniform(-2, 10), (-2.0, 10.0, 0.0)))
        made[f"{prefix}-s"] = list(cases(kind, Sigmoid(), lambda rng: rng.gauss(0, 3), (0.0, -800.0, 800.0)))
        made[f"{prefix}-t"] = list(cases(kind, Threshold(0.9), lambda rng: rng.gauss(0.9, 3), threshold_ends))
    made["ctl-real-line"] = list(cases(LaplaceCurator, RealLine(), lambda rng: rng.gauss(0, 100), (0.0, -1e6, 1e300)))
    return made


def written(listed: list[Case]) -> str:
    """Return the text of a file: JSON, one case a line."""
    return "[\n" + ",\n".join(json.dumps(one) for one in listed) + "\n]\n"


if __name__ == "__main__":
    for name, listed in files().items():
        (FOLDER / f"{name}.json").write_text(written(listed), encoding="ascii")
        print(f"{name}.json: {len(listed)} cases")
