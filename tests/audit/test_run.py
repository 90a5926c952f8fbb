"""The audit from Python: what it refuses, and what it returns."""

import sys
from typing import NoReturn

import pytest

from ldpbandits import BernoulliCurator, LaplaceCurator, ParameterError
from ldpbandits.audit import audit
from ldpbandits.audit.blackbox.side_channels import response_time
from ldpbandits.audit.evidence import Claim, Evidence
from ldpbandits.audit.target import target_of


def test_bad_calls_from_python() -> None:
    """Each says its rule; a reward that was given is not shown."""
    with pytest.raises(ParameterError, match="epsilon is needed"):
        audit(lambda reward: reward)
    with pytest.raises(ParameterError, match="must be a curator, or a function"):
        audit(3, epsilon=1.0)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="a response must be something that can be sent, got None"):
        audit(lambda _: None, epsilon=1.0)
    with pytest.raises(ParameterError, match="raised ZeroDivisionError on one of the rewards") as caught:
        audit(lambda reward: 1 / (reward - reward), epsilon=1.0)
    assert caught.value.__cause__ is None
    with pytest.raises(ParameterError, match="takes no such rewards"):
        audit(LaplaceCurator(1.0), rewards=(0, 3.25), samples=1_000)


def test_an_audit_is_data() -> None:
    """It prints its verdict first, and compares by what was found."""
    found = audit(BernoulliCurator(1.0), samples=2_000)
    assert str(found).startswith("BernoulliCurator(epsilon=1.0")
    assert found.to_json()["layers"][0]["name"] == "exact"
    with pytest.raises(AttributeError):
        found.samples = 3  # type: ignore[misc]


def test_errors_of_a_curator_neither_end_the_caller_nor_show_the_reward() -> None:
    """An exit, an error once it is timed, a user who cannot be made, an int beyond the floats."""
    curator = BernoulliCurator(1.0)

    def fails(reward: float) -> float:
        if reward == 1:
            raise RuntimeError(f"got {reward}")
        return curator.respond(reward)

    def exits(_reward: float) -> NoReturn:
        sys.exit("gone")

    def none() -> NoReturn:
        raise KeyError(0.25)

    with pytest.raises(ParameterError, match="raised SystemExit on one of the rewards"):
        audit(exits, epsilon=1.0, samples=1_000)
    assert audit(lambda _: 10**400, epsilon=1.0, samples=1_000).verdict == "consistent"
    with pytest.raises(ParameterError, match=r"another_user raised KeyError, and made no curator$"):
        audit(curator.respond, epsilon=1.0, samples=1_000, another_user=none)
    with pytest.raises(ParameterError, match="another_user must make a function"):
        audit(curator.respond, epsilon=1.0, samples=1_000, another_user=lambda: 3)  # type: ignore[arg-type,return-value]
    for respond in (fails, exits):
        timed = response_time(Evidence(target_of(respond), Claim.of(1.0, (0, 1), 1_000, 0.999)), 0)
        assert timed.verdict == "reported"
        assert timed.detail.startswith("not measured: ")
        assert "got 1" not in timed.detail
