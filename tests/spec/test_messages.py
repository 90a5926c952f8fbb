"""The day by which an experiment would be decided."""

from dataclasses import replace
from datetime import date

import pytest
from tests.admin.reports import REPORT

from ldpbandits.spec.messages import Forecast, Report, forecast_day

DAY_S = 86_400


def running(more: int | None, responses: int = 1_000, **changes: object) -> Report:
    """Return an experiment that began on 1 January 2026, with this forecast."""
    forecast = Forecast(separated=False, more_responses=more, sentence="")
    settings = replace(REPORT.settings, warm_pulls=())
    told = replace(REPORT, status="running", created_at=1_767_225_600, responses=responses, settings=settings)
    return replace(told, forecast=forecast, **changes)  # type: ignore[arg-type]


def test_it_is_the_forecast_at_the_average_traffic() -> None:
    """100 a day for ten days, and 500 more: five days later."""
    assert forecast_day(running(500), 1_767_225_600 + 10 * DAY_S) == date(2026, 1, 16)


def test_responses_of_a_warm_start_are_no_traffic() -> None:
    """They came before."""
    warm = replace(running(500), settings=replace(REPORT.settings, warm_pulls=(500, 0)))
    assert forecast_day(warm, 1_767_225_600 + 10 * DAY_S) == date(2026, 1, 21)


@pytest.mark.parametrize(
    "told",
    [running(None), running(0), running(500, 0), running(10**9), running(500, status="paused")],
    ids=["no forecast", "decided", "no responses", "too far", "paused"],
)
def test_there_is_none(told: Report) -> None:
    """Where nothing tells it, or nobody would wait."""
    assert forecast_day(told, 1_767_225_600 + 10 * DAY_S) is None
