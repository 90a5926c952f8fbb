"""Counts of the server in the text format of Prometheus."""

from collections.abc import Iterable

from ldpbandits.server.service import Service

MEDIA_TYPE = "text/plain; version=0.0.4"


def text(service: Service) -> str:
    """Write every count; all of them, but for commits, are over all starts."""
    decisions, pulls, pending, missing, rejected = [], [], [], [], []
    for experiment in service.experiments.values():
        experiment.expire(service.now)
        for number, (record, arm) in enumerate(zip(experiment.records, experiment.arms, strict=True)):
            labels = _labels(experiment=experiment.name, arm=record.name)
            decisions.append((labels, record.decisions))
            pulls.append((labels, arm.pulls - experiment.settings.warm(number)))
            pending.append((labels, experiment.pending(number)))
            missing.append((labels, record.missing))
        rejected += [
            (_labels(experiment=experiment.name, reason=reason), count)
            for reason, count in sorted(experiment.rejected.items())
        ]
    rejected += [(_labels(reason=reason), count) for reason, count in sorted(service.rejected.items())]
    return "".join(
        [
            _family("ldpbandits_decisions_total", "counter", "Arms handed out.", decisions),
            _family("ldpbandits_pulls_total", "counter", "Responses counted.", pulls),
            _family("ldpbandits_pending", "gauge", "Tickets neither answered nor expired.", pending),
            _family("ldpbandits_missing_total", "counter", "Tickets that expired unanswered.", missing),
            _family(
                "ldpbandits_rejected_total", "counter", "Responses not counted, or counted before, by reason.", rejected
            ),
            _family("ldpbandits_commits_total", "counter", "Commits of responses.", [("", service.committer.commits)]),
        ]
    )


def _family(name: str, kind: str, text: str, samples: Iterable[tuple[str, int]]) -> str:
    lines = [
        f"# HELP {name} {text}",
        f"# TYPE {name} {kind}",
        *(f"{name}{labels} {value}" for labels, value in samples),
    ]
    return "\n".join(lines) + "\n"


def _labels(**labels: str) -> str:
    escaped = (
        (name, value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")) for name, value in labels.items()
    )
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped) + "}"
