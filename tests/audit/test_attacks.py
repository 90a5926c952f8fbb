"""The known attacks: their p-values, what they report, and what they do when they cannot be run."""

import os
import random
import time

import numpy as np
import pytest

from ldpbandits import BernoulliCurator, LaplaceCurator
from ldpbandits.audit import audit
from ldpbandits.audit.blackbox import fork as forking
from ldpbandits.audit.blackbox.fork import fork
from ldpbandits.audit.blackbox.side_channels import out_of_range, response_time, shows
from ldpbandits.audit.evidence import Claim, Evidence
from ldpbandits.audit.result import Finding
from ldpbandits.audit.target import Respond, target_of

CLAIM = Claim.of(1.0, (0, 1), 1_000, 0.999)


def test_a_curator_that_hardly_varies_is_not_accused() -> None:
    """At epsilon 50 all responses are the truth: streams are equal, and that proves nothing."""
    found = audit(BernoulliCurator(50.0), samples=1_000)
    assert found.verdict == "consistent"


def forked(respond: Respond) -> Finding:
    """Judge a function by fork alone."""
    return fork(Evidence(target_of(respond), CLAIM), CLAIM.alpha(0.01))


def test_a_child_that_fails_or_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The layer says that it could not be run; no process is left behind, and none goes on as a copy of this one."""
    here = os.getpid()

    def fails(_reward: float) -> float:
        if os.getpid() != here:
            raise KeyboardInterrupt
        return random.random()

    def hangs(_reward: float) -> float:
        if os.getpid() != here:
            time.sleep(60)
        return random.random()

    children: list[int] = []
    fork_as_ever = os.fork

    def fork_and_tell() -> int:
        child = fork_as_ever()
        children.append(child)
        return child

    monkeypatch.setattr(os, "fork", fork_and_tell)
    monkeypatch.setattr(forking, "FORKED_CHILD_TIMEOUT_S", 0.2)
    for respond in (fails, hangs):
        assert forked(respond).verdict == "not applicable"
    assert len(children) >= 2
    for child in children:  # by its number: another test in this process may have children of its own
        with pytest.raises(ChildProcessError):
            os.waitpid(child, os.WNOHANG)
    assert os.getpid() == here


def test_time_that_tells_of_noise_is_reported_with_a_remedy() -> None:
    """A curator that counts up to its noise takes longer for more of it. Correlation 5 standard errors or more."""
    curator = LaplaceCurator(1.0)

    def slow(reward: float) -> float:
        response = curator.respond(reward)
        for _ in range(int(400 * abs(response - reward))):
            pass
        return response

    layer = response_time(Evidence(target_of(slow), CLAIM), 0)
    assert layer.verdict == "reported"
    assert "time reveals noise" in layer.detail
    assert "send responses at a fixed delay" in layer.detail


@pytest.mark.parametrize("ends", [(0, 1), (-5, 1234), (-1e9, 1e-3), (0, 2e-9)])
def test_rewards_out_of_range_are_so(ends: tuple[float, float]) -> None:
    """Beyond either end, whatever the range."""
    above, below = out_of_range(*ends, np.random.default_rng(1))
    assert max(below) < ends[0] < ends[1] < min(above)
    assert len({*above, *below}) == 4


def test_a_reward_is_recognised_however_it_is_written() -> None:
    """Rounded, cut, in groups of three, in scientific form; other numbers are not taken for it."""
    reward = 1751.9283
    for text in (f"{reward}", f"{reward:.1f}", f"{reward:g}", f"{reward:.3e}", f"{reward:,.4f}", f"got {int(reward)}!"):
        assert shows(text, reward), text
    for text in ("a reward must lie in [0, 1]", "object at 0x7f1951", "line 1750", ""):
        assert not shows(text, reward), text
