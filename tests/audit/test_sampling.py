"""Responses drawn in bulk are the device's, bit for bit, given the device's words."""

import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldpbandits import BernoulliCurator, Curator, LaplaceCurator, curator_from_json
from ldpbandits.audit.whitebox.bernoulli import bits
from ldpbandits.audit.whitebox.known import KNOWN
from ldpbandits.audit.whitebox.laplace import noise
from ldpbandits.audit.whitebox.sampling import HEAD, TAIL, Integers, Words, source
from ldpbandits.device.randomness import Draw
from ldpbandits.spec.mechanisms import GRID_BITS

VECTORS = Path(__file__).parent.parent.parent / "vectors"


def words_of(rows: list[list[int]], first: int) -> tuple[Words, list[int]]:
    """Give each device its own list of words, of which the first ones are drawn at once; count what each consumes."""
    table = np.array([row[:first] for row in rows], np.uint64).T
    consumed = [first] * len(rows)

    def further(device: int) -> Draw:
        def draw(count: int) -> list[int]:
            at = consumed[device]
            consumed[device] = at + count
            assert consumed[device] <= len(rows[device])
            return rows[device][at : at + count]

        return draw

    heads = (table >> np.uint64(TAIL)).astype(np.uint16)
    tail = (1 << TAIL) - 1
    return Words(heads, lambda word, device: int(table[word, device]) & tail, further), consumed


def words_each(curator: Curator) -> int:
    """How many words a response of this curator takes."""
    return KNOWN[type(curator.spec.mechanism)].words_each(curator)


def responses(curator: Curator, reward: float, words: Words) -> Integers:
    """The responses to one reward, in bulk."""
    return KNOWN[type(curator.spec.mechanism)].responses(curator, curator.spec.value(reward), words)


def parsed(case: dict[str, Any]) -> list[int]:
    """The words of a case."""
    return [int(case["words"][i : i + 16], 16) for i in range(0, len(case["words"]), 16)]


@pytest.mark.parametrize("name", ["ctb", "ctb-range", "ctb-s", "ctl", "ctl-range", "ctl-s"])
def test_bulk_sampling_reproduces_every_shared_vector(name: str) -> None:
    """Same words, same response, same number of words consumed: the rare cases planted in the vectors included."""
    cases = json.loads((VECTORS / f"{name}.json").read_text(encoding="ascii"))
    for case in cases:
        curator = curator_from_json(case["spec"])
        assert isinstance(curator, BernoulliCurator | LaplaceCurator)
        row = parsed(case)
        words, consumed = words_of([row], words_each(curator))
        scale = 1 if isinstance(curator, BernoulliCurator) else 2**GRID_BITS
        assert responses(curator, case["reward"], words).tolist() == [case["response"] * scale]
        assert consumed == [len(row)]
    assert len(cases) >= 200


@pytest.mark.parametrize("epsilon", [1e-6, 0.05, 1.0, 4.0, 50.0])
def test_ctl_in_bulk_is_the_device_on_random_and_on_tied_words(epsilon: float) -> None:
    """On random words, words whose head ties, words that tie whole, heads beyond the last digit, and minus zero."""
    curator, rng = LaplaceCurator(epsilon), random.Random(3)
    law = curator.noise
    first = 2 + len(law.digits)
    rows = []
    for case in range(600):
        row = [rng.getrandbits(64) for _ in range(first + 200)]
        if case % 6 == 1:  # a head that ties
            k = rng.randrange(len(law.digits))
            row[2 + k] = law.digits[k].threshold >> TAIL << TAIL | rng.getrandbits(TAIL)
        elif case % 6 == 2:  # a whole word that ties
            k = rng.randrange(len(law.digits))
            row[2 + k] = law.digits[k].threshold
        elif case % 6 == 3:  # the rest: a tie, then a word so small that it may show heads
            row[1], row[first] = law.rest.threshold, 0
        elif case % 6 == 4:  # minus zero
            row[0], row[1] = 2**63 | row[0], 2**64 - 1
            row[2:first] = [2**64 - 1] * len(law.digits)
        rows.append(row)
    words, consumed = words_of(rows, first)
    drawn = noise(law, words)
    for i, row in enumerate(rows):
        position = 0

        def draw(count: int, row: list[int] = row) -> list[int]:
            nonlocal position
            position += count
            return row[position - count : position]

        response = curator.respond_not_private(0.0, draw)
        assert drawn[i] / 2**GRID_BITS == response
        assert consumed[i] == position
    assert len({*consumed}) >= 3


def test_undrawn_tails_are_drawn_when_a_head_ties() -> None:
    """With heads all at the threshold's, bulk sampling draws 48 more bits a word, and decides by them. Seeded."""
    threshold = (5 << TAIL) + (1 << (TAIL - 1))
    heads = np.full(2000, 5, np.uint16).tobytes()
    made = source(1)
    calls = iter([heads])
    words = Words.draw(1, 2000, lambda count: next(calls, None) or made(count))
    share = bits(threshold, words).mean()
    assert abs(share - 0.5) < 0.06  # five standard errors: false alarm 6e-7


def test_without_a_seed_the_words_are_the_operating_systems() -> None:
    """Bulk sampling uses the device's source of randomness; a seed, for tests, makes it repeatable."""
    assert source(None) is os.urandom
    curator = LaplaceCurator(1.0)
    made = [responses(curator, 1.0, Words.draw(words_each(curator), 500, source(seed))) for seed in (7, 7, None)]
    assert np.array_equal(made[0], made[1])
    assert not np.array_equal(made[0], made[2])


def test_heads_and_tails_make_words() -> None:
    """16 and 48 bits are a word."""
    assert HEAD + TAIL == 64
