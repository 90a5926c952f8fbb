"""The benchmark of pulls that are out plays what is deployed."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from ldpbandits import IMED, Agent, KLUCBPlus, Rule

FILE = Path(__file__).parents[2] / "benchmarks" / "pending.py"


@pytest.fixture(scope="module")
def pending() -> ModuleType:
    """The script, without a run of it."""
    spec = importlib.util.spec_from_file_location("pending", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("rule", [KLUCBPlus(), IMED()], ids=str)
def test_before_the_first_response_arms_are_handed_out_as_live(pending: ModuleType, rule: Rule) -> None:
    """With all pulls out, the compiled play errs as often as an agent that issues arms."""
    agent = Agent(rule, pending.ARMS)
    wrong = sum(agent.issue() != pending.BEST for _ in range(300))
    play, counting = pending.loop(rule), True
    assert play(np.random.default_rng(1), np.array(pending.BITS), 300, 300, counting) == wrong
    assert play(np.random.default_rng(1), np.array(pending.BITS), 3_000, 10, counting) < 2_700
