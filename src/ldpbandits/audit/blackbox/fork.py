"""Noise that fork copies.

Parent and children get rewards that coins choose, each coins of its own. If a child has the noise of its parent,
or of another child, then its rewards, once known, betray the other's: where two responses are the same, guess the same
coin, else the other one. All coins of the one are disclosed, those of the other are guessed, so that each guess is
right with probability e^epsilon / (1 + e^epsilon) at most, whatever the law of the responses, and betting.py applies.
One may be a few responses behind the other.
"""

import os
import select
import warnings
from collections.abc import Sequence
from math import ceil, exp
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.betting import Bet, bets_on_likeness, judge_bets
from ldpbandits.audit.evidence import Evidence
from ldpbandits.audit.result import Finding
from ldpbandits.audit.target import Target
from ldpbandits.audit.texts import hash_texts

Hashes = NDArray[np.uint64]
LENGTH, LONGEST = 1024, 1 << 14
"""Responses of parent and child: more if epsilon is large, since bits that hardly vary say little."""
BEGINNINGS = (4, 2)
"""A copied buffer may last for a while only: so the first quarter, and the first half, are looked at too."""
BEHIND = 4
"""By how many responses one may be behind another."""
FORKED_CHILD_TIMEOUT_S = 60.0
"""Timeout for the responses of a forked child."""


def fork(evidence: Evidence, alpha: float) -> Finding:
    """Fork twice, and ask parent and children."""
    target, claim = evidence.target, evidence.claim
    if target.respond is None:
        return Finding("not applicable", "a program is started anew for each user; see short runs")
    if not hasattr(os, "fork"):
        return Finding("not applicable", "this system has no fork")
    evidence.check_time()
    length = min(LONGEST, max(LENGTH, ceil(64 * exp(claim.epsilon))))
    chosen = evidence.rng(1).integers(2, size=(3, length))
    rewards = [[(claim.low, claim.high)[each] for each in row.tolist()] for row in chosen]
    target.ask(rewards[0][:8])  # so that what is made at the first response is there to be copied
    one, two = (_ask_in_child(target, rewards[child], evidence.seconds(1.0)) for child in (1, 2))
    if one is None or two is None:
        evidence.check_time()
        return Finding("not applicable", "the curator does not respond in a forked process")
    parent = hash_texts(target.ask(rewards[0], evidence.seconds(1.0)))
    users = [(parent, chosen[0]), (one, chosen[1]), (two, chosen[2])]
    spans = [(0, length // part) for part in BEGINNINGS] + [(lag, length) for lag in range(-BEHIND, BEHIND + 1)]
    bets = list[Bet]()
    for who, guessed, known in (("child and parent", users[0], users[1]), ("two children", users[1], users[2])):
        for lag, span in spans:
            here, there = slice(max(lag, 0), span + min(lag, 0)), slice(max(-lag, 0), span - max(lag, 0))
            said_same, chose_same = guessed[0][here] == known[0][there], guessed[1][here] == known[1][there]
            bets += bets_on_likeness(who, said_same, chose_same, lag=lag)
    finding = judge_bets([bets], claim.epsilon, alpha)
    told = "share their noise" if finding.verdict == "violated" else "draw different noise"
    return Finding(finding.verdict, f"parent and children {told}: {finding.detail}", finding.epsilon_lower)


def _ask_in_child(target: Target, rewards: Sequence[float], seconds: float) -> Hashes | None:
    """Ask in a forked child for hashes of its responses; None if it fails or takes too long."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads are about, but the child needs none of them
        child = os.fork()
    if child == 0:
        try:
            data, sent = hash_texts(target.ask(rewards)).tobytes(), 0
            while sent < len(data):
                sent += os.write(write, data[sent:])
        finally:
            os._exit(0)  # whatever happened: this process is a copy, and must not go on as one
    os.close(write)
    data, until = b"", monotonic() + min(FORKED_CHILD_TIMEOUT_S, seconds)
    try:
        while select.select([read], [], [], max(0.0, until - monotonic()))[0]:
            part = os.read(read, 1 << 16)
            if not part:
                break
            data += part
    finally:
        os.close(read)
        os.kill(child, 9)
        os.waitpid(child, 0)
    return np.frombuffer(data, np.uint64) if len(data) == 8 * len(rewards) else None
