"""Metrics of all workers on one page, whichever worker serves it.

A request reaches any worker, so a page of one worker's own counts would change from scrape to scrape. Each worker
publishes its counts every few seconds as a note, and the page has those of all live workers, with the number of the
worker as a label. The lines of a worker end with it, as those of a process that is scraped directly would.
"""

import json
from collections.abc import Iterable, Iterator

from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

NOTE_PREFIX = b"metrics "
"""Prefix of the names of notes with metrics."""

NOTE_LIFETIME_S = 20
"""Seconds for which published metrics are shown; a worker without newer ones has ended."""


def to_note(families: Iterable[Metric]) -> bytes:
    """Serialise metric families as JSON."""
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
