"""Two streams of noise that are the same: a seed left in, a seed shared by two users, a generator copied by fork.

Ask two curators for responses to the same rewards. If both draw fresh noise, then for each reward the responses of the
second are exchangeable: given which values occur how often, every order of them is equally likely. So the chance that
they come in exactly the order of the first is at most

    1 / product over rewards of (count)! / product of (multiplicities)!

whatever the law. It is a p-value that needs no model: 2^-120 or so for 128 fair bits, and 1 for a curator that always
says the same, of which nothing can be told in this way.

One stream may also run a few responses behind the other, so they are compared at several lags too, over those calls
that had the same reward; and a seed of few bits repeats among many users only, so many are asked. The level is divided
by the number of all these comparisons.
"""

import os
import select
import warnings
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from math import exp, lgamma
from time import monotonic

import numpy as np

from ldpbandits.audit.claim import Claim
from ldpbandits.audit.features import Reals
from ldpbandits.audit.result import Layer
from ldpbandits.audit.subject import Ask, Subject

LENGTH = 256
LAGS = (0, *(sign * lag for lag in (1, 2, 3, 4) for sign in (1, -1)))
"""By how many responses one stream may be behind the other."""
USERS = 16
"""Among so many users a seed of 4 bits is repeated all but once in a million times, one of 6 bits 6 times in 7."""
RUNS = 4
"""Users, where each is a run of a program."""
PATIENCE = 60.0
"""Seconds that a forked child may take."""


def chance_of_repeat(rewards: Sequence[float], responses: Reals) -> float:
    """Return how likely a second stream is to repeat the first, at most, if its noise is fresh."""
    log_orders = 0.0
    for reward in set(rewards):
        values = responses[np.asarray(rewards) == reward]
        counts = Counter(map(repr, values.tolist()))  # repr: NaN is the same as NaN here
        log_orders += lgamma(len(values) + 1) - sum(lgamma(count + 1) for count in counts.values())
    return exp(-log_orders)


def judge(name: str, rewards: Sequence[float], streams: dict[str, Reals], alpha: float) -> Layer:
    """Compare streams pairwise, at every lag; the pair whose likeness is the least likely decides."""
    given = np.asarray(rewards)
    pairs = list(combinations(streams.items(), 2))
    alike = []
    for (one, first), (other, second) in pairs:
        for lag in LAGS:
            overlap = slice(max(lag, 0), len(given) + min(lag, 0)), slice(max(-lag, 0), len(given) - max(lag, 0))
            kept = given[overlap[0]] == given[overlap[1]]
            if np.array_equal(first[overlap[0]][kept], second[overlap[1]][kept], equal_nan=True):
                chance = chance_of_repeat(given[overlap[0]][kept].tolist(), first[overlap[0]][kept])
                behind = f", {abs(lag)} apart," if lag else ""
                alike.append((chance, f"{one} and {other}{behind} give the same {np.count_nonzero(kept)} responses"))
    if not alike:
        who = ", ".join(streams) if len(streams) <= RUNS else f"{len(streams)} users"
        return Layer(name, "consistent", f"{who} draw different noise, over {len(rewards)} responses")
    chance, told = min(alike)
    if chance < alpha / (len(pairs) * len(LAGS)):
        by_chance = f"by chance: {max(chance, 1e-99):.0e} at most"
        return Layer(name, "violated", f"{told}; {by_chance}. Whoever knows one reward knows both")
    return Layer(name, "reported", f"{told}, which may be chance: they hardly vary")


def asked_of_each(claim: Claim) -> list[float]:
    """Return the same reward for a while, then another: so that streams can be compared at a lag."""
    return [claim.low] * (LENGTH // 2) + [claim.high] * (LENGTH // 2)


def seed_layer(subject: Subject, claim: Claim) -> Layer:
    """Ask the curators of many users, each made from scratch."""
    name = "known attacks: repeated seed"
    if subject.another_user is None:
        return Layer(name, "not applicable", "give another_user, a function that makes the curator of another user")
    asked, users = asked_of_each(claim), RUNS if subject.respond is None else USERS
    streams = {f"user {i + 1}": subject.another_user()(asked) for i in range(users)}
    return judge(name, asked, streams, claim.alpha("seed"))


def fork_layer(subject: Subject, claim: Claim) -> Layer:
    """Fork twice, and ask parent and children."""
    name = "known attacks: fork"
    if subject.respond is None:
        return Layer(name, "not applicable", "a program is started anew for each user; see repeated seed")
    if not hasattr(os, "fork"):
        return Layer(name, "not applicable", "this system has no fork")
    asked = asked_of_each(claim)
    subject.ask(asked[:8])  # so that what is made at the first response is there to be copied
    children = {f"child {i}": _in_child(subject.ask, asked) for i in (1, 2)}
    if any(responses is None for responses in children.values()):
        return Layer(name, "not applicable", "the curator does not respond in a forked process")
    streams = {"parent": subject.ask(asked), **{who: made for who, made in children.items() if made is not None}}
    return judge(name, asked, streams, claim.alpha("fork"))


def _in_child(ask: Ask, rewards: Sequence[float]) -> Reals | None:
    """Ask in a forked child; None if it fails or takes too long."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads are about, but the child needs none of them
        child = os.fork()
    if child == 0:
        try:
            os.write(write, ask(rewards).tobytes())
        finally:
            os._exit(0)  # whatever happened: this process is a copy, and must not go on as one
    os.close(write)
    data, until = b"", monotonic() + PATIENCE
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
    return np.frombuffer(data) if len(data) == 8 * len(rewards) else None
