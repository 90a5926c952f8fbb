"""What each of several workers measures of itself, on one page, whichever of them is asked for it.

Whoever asks gets any worker, so a page of one worker's own counts would jump from page to page. So each puts its counts
where the others find them, every few seconds, and a page has those of all that live, with the number of the worker as a
label. When a worker ends its lines end, as those of a process that is scraped by itself would.
"""

import json
from collections.abc import Iterable, Iterator

from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

NOTE_PREFIX = b"metrics "
"""Notes with the counts of workers begin with this."""

NOTE_LIFETIME_S = 20
"""Seconds for which counts are shown: a worker that has put none for so long is gone."""


def to_note(families: Iterable[Metric]) -> bytes:
    """Write families down."""
    return json.dumps(
        [
            [family.name, family.documentation, family.type, [list(sample[:3]) for sample in family.samples]]
            for family in families
        ]
    ).encode()


def with_workers(notes: dict[bytes, bytes]) -> Iterator[Metric]:
    """Return the families of all workers, each sample with the number of its worker."""
    merged: dict[str, Metric] = {}
    for name, note in sorted(notes.items()):
        worker = name.removeprefix(NOTE_PREFIX).decode()
        for family, what, kind, samples in json.loads(note):
            metric = merged.setdefault(family, Metric(family, what, kind))
            metric.samples += [Sample(sample, {**labels, "worker": worker}, value) for sample, labels, value in samples]
    yield from merged.values()
