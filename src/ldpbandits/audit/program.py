"""A program as a curator: it reads one reward a line and writes one response a line. Every run is another user.

What goes wrong is said in one line.
"""

import shlex
from collections.abc import Sequence
from math import nan

import numpy as np

from ldpbandits.audit.exchange import Exchange, exchange
from ldpbandits.audit.features import Reals
from ldpbandits.audit.subject import Probe, Subject, Unanswered
from ldpbandits.checks import shown
from ldpbandits.errors import ParameterError
from ldpbandits.spec.curator import CuratorSpec

TIMEOUT = 300.0
"""Seconds that one run may take, unless said otherwise."""
LINE = 64
"""Bytes that a response may take on average: more than any number."""
LEAST_OUTPUT = 1 << 16
"""Bytes that a program may write however few the rewards: a refusal takes more than a number."""


def program(command: str, *, spec: CuratorSpec | None = None, timeout: float = TIMEOUT) -> Subject:
    """Return the subject behind a command line, such as 'node my-curator.js'."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ParameterError(f"the command cannot be read: {error}") from None
    if not words:
        raise ParameterError("the command is empty")

    def ask(rewards: Sequence[float]) -> Reals:
        done = _run(words, rewards, timeout)
        if done.is_too_long:
            raise Unanswered(f"{words[0]} must write one response a line, and wrote far more")
        if done.code != 0:
            raise Unanswered(f"{words[0]} ended with code {done.code}{_last_line(done.errors)}")
        return _read(words[0], done.output, len(rewards))

    def probe(reward: float) -> Probe:
        done = _run(words, [reward], timeout)
        response = _number(done.output)
        said = f"{done.errors}\n{'' if response is not None else done.output}"
        return Probe(None if done.code or response is None else response, said)

    return Subject(command, ask, probe, another_user=lambda: ask, spec=spec, batch=1 << 62)


def _run(words: Sequence[str], rewards: Sequence[float], timeout: float) -> Exchange:
    lines = "".join(f"{reward:.17g}\n" for reward in rewards)
    try:
        done = exchange(words, lines, timeout, most=max(LEAST_OUTPUT, LINE * len(rewards)))
    except OSError as error:
        raise ParameterError(f"{words[0]} cannot be run: {error.strerror}") from None
    if done.code is None:
        raise ParameterError(f"{words[0]} did not finish within {timeout:g} s (--timeout allows more)")
    return done


def _read(name: str, text: str, count: int) -> Reals:
    lines = text.strip().splitlines()
    if len(lines) != count:
        raise Unanswered(f"{name} must write one response a line: {count:,} rewards, {len(lines):,} responses")
    try:
        return np.array(lines, np.float64)
    except ValueError:
        bad = next((line for line in lines if _number(line) is None), "something else")
        raise Unanswered(f"{name} must write numbers, got {shown(bad)}") from None


def _number(text: str) -> float | None:
    """Return the number that a text is, NaN for 'NaN', or None."""
    if text.strip().lower() == "nan":
        return nan
    try:
        return float(text)
    except ValueError:
        return None


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return f": {lines[-1][:200]}" if lines else ""
