"""Reports as a server gives them, made up."""

from dataclasses import replace
from typing import Any

from ldpbandits.admin.messages import History, Report
from ldpbandits.spec.messages import ArmHistory, ArmReport, Best, Forecast, Rejected, Settings

BLUE = ArmReport(
    arm=0,
    name="blue",
    retired=False,
    pulls=301,
    pending=4,
    missing=6,
    decisions=311,
    share=0.24,
    mean=0.31,
    low=0.22,
    high=0.40,
    fits=True,
    warm_pulls=0,
    missing_share=0.02,
    worst_low=0.20,
    worst_high=0.42,
)
GREEN = replace(
    BLUE, arm=1, name="green", pulls=1_955, share=0.76, mean=0.58, low=0.53, high=0.63, worst_low=0.5, worst_high=0.65
)
REPORT = Report(
    name="headline",
    status="running",
    shipped=None,
    created_at=1_700_000_000,
    curator={"mechanism": "bernoulli", "epsilon": 1.0, "transform": {"kind": "range", "low": 0.0, "high": 1.0}},
    guarantee="",
    rule={"kind": "kl-ucb++"},
    ticket_lifetime=3600,
    default_reward=0.0,
    settings=Settings(300.0),
    estimates="reward",
    confidence=0.95,
    responses=2_256,
    best=Best(1, "green", separated=True),
    arms=(BLUE, GREEN),
    rejected=Rejected(0, 0, 0, 0, 0, 0),
    warnings=(),
    forecast=Forecast(separated=True, more_responses=None, sentence="green is better than every other"),
)
HISTORY = History(
    name="headline",
    responses=(1, 10, 100),
    arms=(
        ArmHistory(0, "blue", (0, 4, 40), (None, 0.1, 0.3), (0.0, 0.0, 0.1), (1.0, 0.9, 0.6)),
        ArmHistory(1, "green", (1, 6, 60), (2.1, 0.7, 0.6), (0.0, 0.1, 0.3), (1.0, 1.0, 0.8)),
    ),
)


def report(**changes: Any) -> Report:
    """Return the report with some things changed."""
    return replace(REPORT, **changes)
