"""Responses drawn in bulk are the device's, bit for bit, given the device's words."""

import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldpbandits import BernoulliCurator, LaplaceCurator
from ldpbandits.audit.sampling import HEAD, TAIL, Words, bits, noise, responses, source
from ldpbandits.device.randomness import Draw
from ldpbandits.wire import GRID_BITS

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


def parsed(case: dict[str, Any]) -> list[int]:
    """The words of a case."""
    return [int(case["words"][i : i + 16], 16) for i in range(0, len(case["words"]), 16)]


@pytest.mark.parametrize("name", ["ctl", "ctl-range", "ctl-s", "ctl-real-line"])
def test_ctl_in_bulk_reproduces_every_shared_vector(name: str) -> None:
    """Same words, same noise, same number of words consumed: rare cases planted in the vectors included."""
    cases = json.loads((VECTORS / f"{name}.json").read_text(encoding="ascii"))
    checked = 0
    for epsilon in {case["spec"]["epsilon"] for case in cases}:
        law = LaplaceCurator(epsilon).noise
        listed = [case for case in cases if case["spec"]["epsilon"] == epsilon]
        rows = [parsed(case) for case in listed]
        words, consumed = words_of(rows, 2 + len(law.digits))
        drawn = noise(law, words)
        for i, row in enumerate(rows):
            position = iter(row)
            expected = law.sample(lambda count, position=position: [next(position) for _ in range(count)])  # type: ignore[misc]
            assert drawn[i] == expected
            assert consumed[i] == len(row)
            checked += 1
    assert checked == len(cases) >= 200


@pytest.mark.parametrize("name", ["ctb", "ctb-range", "ctb-s"])
def test_ctb_in_bulk_reproduces_every_shared_vector(name: str) -> None:
    """A word at the threshold, and one beside it, are decided as the device decides them."""
    for case in json.loads((VECTORS / f"{name}.json").read_text(encoding="ascii")):
        curator = BernoulliCurator(case["spec"]["epsilon"])
        (word,) = parsed(case)
        for threshold in (curator.threshold(0.0), curator.threshold(0.3), curator.threshold(1.0), word, word + 1):
            words, _ = words_of([[word]], 1)
            assert bits(threshold, words)[0] == (word < threshold)


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
    words = Words.drawn(1, 2000, lambda count: next(calls, None) or made(count))
    share = bits(threshold, words).mean()
    assert abs(share - 0.5) < 0.06  # five standard errors: false alarm 6e-7


def test_without_a_seed_the_words_are_the_operating_systems() -> None:
    """Bulk sampling uses the device's source of randomness; a seed, for tests, makes it repeatable."""
    assert source(None) is os.urandom
    curator = LaplaceCurator(1.0)
    one, other = (responses(curator, 1.0, 500, source(7)) for _ in range(2))
    assert np.array_equal(one, other)
    assert not np.array_equal(responses(curator, 1.0, 500, source(None)), one)


def test_heads_and_tails_make_words() -> None:
    """16 and 48 bits are a word."""
    assert HEAD + TAIL == 64
