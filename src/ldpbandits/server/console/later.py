"""Stand-ins until the real ones are merged."""

import asyncio
from types import SimpleNamespace
import msgspec
from ldpbandits.agent.estimates import estimate, share
from ldpbandits.server.messages import Report


class ArmHistory(msgspec.Struct):
    arm: int
    name: str
    pulls: list[int]
    mean: list[float | None]
    low: list[float]
    high: list[float]


class History(msgspec.Struct):
    name: str
    responses: list[int]
    arms: list[ArmHistory]


def _history(service, name):
    experiment = service._find(name)
    rows = [r for piece in service._store.export(experiment.number, 5000) for r in piece]
    n = len(rows)
    moments = sorted({max(1, round(n * (i / 60))) for i in range(1, 61)}) if n else []
    arms = [ArmHistory(i, r.name, [], [], [], []) for i, r in enumerate(experiment.records)]
    pulls, totals, at = [0] * len(arms), [0] * len(arms), 0
    for m in moments:
        for _, arm, value, _ in rows[at:m]:
            pulls[arm] += 1
            totals[arm] += value
        at = m
        for i, a in enumerate(arms):
            e = estimate(pulls[i], totals[i] * experiment.menu.unit, experiment.menu.curators[0], alpha=share(0.05, i))
            a.pulls.append(pulls[i])
            a.mean.append(e.mean)
            a.low.append(e.low)
            a.high.append(e.high)
    return History(name, moments, arms)


async def history(service, name):
    if hasattr(service, "history"):
        return await service.history(name)
    return await asyncio.to_thread(_history, service, name)


async def report(service, name):
    found = await service.report(name)
    if hasattr(found, "forecast"):
        return found
    arms = []
    for arm in found.arms:
        slack = arm.missing / max(1, arm.pulls + arm.missing) + 0.01
        arms.append(
            SimpleNamespace(
                **msgspec.structs.asdict(arm),
                worst_low=max(0, arm.low - slack),
                worst_high=min(1, arm.high + slack),
                missing_share=arm.missing / arm.decisions if arm.decisions else None,
                warm_pulls=0,
            )
        )
    fields = msgspec.structs.asdict(found) | {"arms": arms}
    sep = bool(found.best and found.best.separated)
    sentence = (
        "Its interval lies above those of all other arms, whatever the missing answers would have said."
        if sep
        else "About 2,300 more responses are needed to tell it from Travel."
        if found.best
        else "Nothing can be said before responses have come."
    )
    return SimpleNamespace(
        **fields, warnings=[], forecast=SimpleNamespace(separated=sep, more_responses=None, sentence=sentence)
    )
