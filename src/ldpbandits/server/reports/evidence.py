"""The evidence for the present leader by number of responses, by the test of the verdict."""

from collections.abc import Sequence
from math import exp
from typing import NamedTuple

from ldpbandits.agent.inference.verdicts import LARGEST_LOG_EVIDENCE, leader_of, log_evidence
from ldpbandits.server.experiments.history import MOST_RIVALS, KnownEvidence, Moment
from ldpbandits.server.experiments.live import LiveExperiment
from ldpbandits.server.experiments.stored_agent import restored_agent
from ldpbandits.server.reports.verdicts import criteria_of
from ldpbandits.server.store import StoredArm


class Evidence(NamedTuple):
    """The least evidence for the leader against any other arm in use at each moment; none without a leader."""

    leader: int | None = None
    needed: float | None = None
    values: Sequence[float] = ()
    known: KnownEvidence | None = None
    """The cache for the next time, when most moments are the same."""


def evidence_over(experiment: LiveExperiment, moments: Sequence[Moment], known: KnownEvidence) -> Evidence:
    """Return the evidence at each moment; none where the past has no such test.

    Moments know neither which pulls were unanswered, nor the rivals of very many arms. With one look there is one.
    """
    settings, in_use = experiment.settings, experiment.agent.tally.in_use
    is_told = settings.missing == "answered" and settings.one_look is None and len(experiment.records) <= MOST_RIVALS
    kept = experiment.kept_verdict
    is_better = kept is not None and kept.kind == "better"
    leader = kept.arm if kept is not None and is_better else leader_of(in_use, experiment.agent.pair)
    if not is_told or leader is None or len(in_use) == 1 or experiment.agent.bound_rule.unit is None:
        return Evidence()
    criteria = criteria_of(settings, experiment.menu, len(experiment.records))
    rivals = [arm for arm in in_use if arm != leader]
    shown: KnownEvidence = {}
    for moment in moments:
        key = (leader, *rivals), moment.cells
        found = known.get(key)
        if found is None:
            cells = moment.by_arm()
            stored = [StoredArm(each.name, cells=cells.get(arm, ())) for arm, each in enumerate(experiment.records)]
            agent = restored_agent(stored, experiment.rule, experiment.menu, experiment.agent.bound_rule)
            logs = [log_evidence(agent.pair(leader, arm), criteria, criteria.forged) for arm in rivals]
            found = exp(min(*logs, LARGEST_LOG_EVIDENCE))
        shown[key] = found
    values = [shown[(leader, *rivals), moment.cells] for moment in moments]
    return Evidence(leader, criteria.needed(leader), values, shown)
