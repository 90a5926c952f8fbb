"""The Prometheus page of the server and its experiments.

Prometheus scrapes the page every few seconds and stores it for months, so its size is bounded: of very many experiments
and arms only some have lines of their own, and the totals include all. The page contains nothing about a person: no
address, no user agent, no reward, no single response.

A request reaches any worker, so a page of one worker's own counts would change from scrape to scrape. Each worker
publishes its counts every few seconds as a note, and the page has those of all live workers, with the number of the
worker as a label.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from heapq import heappop, heappush, nlargest
from itertools import accumulate, chain
from time import time

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from ldpbandits.server.experiments.events import DECISION, MISSING, UNACCEPTED
from ldpbandits.server.experiments.live import LiveExperiment
from ldpbandits.server.peers.peers import Peers
from ldpbandits.server.process.meters import Histogram
from ldpbandits.server.service import Service
from ldpbandits.server.store import StoreSizes, Unavailable

MEDIA_TYPE = "text/plain; version=0.0.4"

MOST_EXPERIMENTS, MOST_ARMS = 100, 1000
"""Experiments, and arms over all experiments, that have lines of their own."""

DATABASE_TIMEOUT_S = 2.0
"""Seconds that the page waits for the database; without an answer it omits the database's part."""

_ARMS_A_TURN, _SAMPLES_A_TURN = 2000, 100
"""Arms summed and samples written before the event loop serves other requests: half a millisecond each."""

SHOWN_EXPERIMENTS = (
    f"at most {MOST_EXPERIMENTS} experiments, running ones and busy ones first, and {MOST_ARMS} arms in all"
)


NOTE_PREFIX = b"metrics "
"""Prefix of the names of notes with metrics."""

NOTE_LIFETIME_S = 20
"""Seconds for which published metrics are shown; a worker without newer ones has ended."""


@dataclass
class Totals:
    """Sums over all experiments, and the experiments that have lines of their own."""

    decisions: int = 0
    pulls: int = 0
    missing: int = 0
    unaccepted: int = 0
    accepted: int = 0
    arms: int = 0
    status: Counter[str] = field(default_factory=Counter)
    shown: list[tuple[LiveExperiment, Sequence[int]]] = field(default_factory=list)
    """The experiments with lines of their own, and the numbers of their arms."""


async def text(service: Service) -> str:
    """Return the page. It is written in many short turns of the event loop, so that no decision waits for it."""
    totals = await _totals(service)
    sizes = await _sizes(service)
    pieces = []
    server_metrics = await _server_metrics(service)
    process = ProcessCollector(registry=None).collect()
    for family in chain(await _experiment_metrics(service, totals), server_metrics, _disk_metrics(sizes), process):
        async for piece in _lines(family):
            pieces.append(piece)  # noqa: PERF401 - others get their turn in between
    return "".join(pieces)


async def _lines(family: Metric) -> AsyncIterator[str]:
    """Yield the lines of a family in chunks; only the first chunk has the HELP and TYPE lines."""
    part = copy(family)
    for first in range(0, max(1, len(family.samples)), _SAMPLES_A_TURN):
        part.samples = family.samples[first : first + _SAMPLES_A_TURN]
        registry = CollectorRegistry(auto_describe=False)  # of this part alone: several servers may run in one process
        registry.register(_Family(part))
        written = generate_latest(registry).decode()
        yield written.split("\n", 2)[2] if first else written
        await asyncio.sleep(0)


async def _totals(service: Service) -> Totals:
    totals, seen = Totals(), 0
    busiest: list[tuple[bool, int, int, LiveExperiment]] = []
    for experiment in list(service.experiments.values()):
        decisions = missing = unaccepted = waiting = 0
        for record in experiment.records:  # there may be a hundred thousand: no property, no generator
            decisions += record.here[DECISION] + record.elsewhere[DECISION]
            missed = record.here[MISSING] + record.elsewhere[MISSING]
            if missed > 0:
                missing += missed
            unaccepted += record.here[UNACCEPTED] + record.elsewhere[UNACCEPTED]
            if record.acceptances is not None:
                waiting += record.acceptances.total
        totals.decisions += decisions
        totals.pulls += experiment.responses - sum(experiment.settings.warm_pulls)
        totals.missing += missing
        totals.unaccepted += max(0, unaccepted)
        totals.accepted += experiment.responses - sum(experiment.settings.warm_pulls) + waiting
        totals.arms += len(experiment.records)
        totals.status[experiment.status] += 1
        heappush(busiest, (experiment.status == "running", decisions, -experiment.number, experiment))
        if len(busiest) > MOST_EXPERIMENTS:
            heappop(busiest)
        seen += len(experiment.records)
        if seen >= _ARMS_A_TURN:
            seen = 0
            await asyncio.sleep(0)
    room = MOST_ARMS
    for *_, experiment in sorted(busiest, reverse=True):
        records = experiment.records
        numbers: Sequence[int] = range(len(records))
        if len(records) > room:
            numbers = sorted(nlargest(room, numbers, key=lambda arm: records[arm].decisions))
        room -= len(numbers)
        totals.shown.append((experiment, numbers))
    return totals


async def _sizes(service: Service) -> StoreSizes:
    try:
        async with asyncio.timeout(DATABASE_TIMEOUT_S):
            return await service.sizes()
    except (Unavailable, OSError, TimeoutError):
        return StoreSizes(None)


async def _server_metrics(service: Service) -> Iterable[Metric]:
    """Return the process metrics since the start; with several workers, those of each."""
    if service.peers is None:
        return _process_metrics(service)
    try:
        async with asyncio.timeout(DATABASE_TIMEOUT_S):
            await publish_metrics(service)
            return _with_workers(await service.peers.find_all(NOTE_PREFIX))
    except (Unavailable, TimeoutError):  # the database cannot be reached
        return _with_workers({_name(service.peers): _to_note(_process_metrics(service))})


async def publish_metrics(service: Service) -> None:
    """Publish this worker's metrics, so that other workers can show them."""
    if service.peers is not None:
        note = _to_note(_process_metrics(service))
        await service.peers.put(_name(service.peers), note, int(time()) + NOTE_LIFETIME_S)


def _to_note(families: Iterable[Metric]) -> bytes:
    """Serialise metric families as JSON."""
    return json.dumps(
        [
            [family.name, family.documentation, family.type, [list(sample[:3]) for sample in family.samples]]
            for family in families
        ]
    ).encode()


def _with_workers(notes: dict[bytes, bytes]) -> Iterator[Metric]:
    """Return the families of all workers, each sample with the number of its worker.

    The lines of a worker end with it, as those of a process that is scraped directly would.
    """
    merged: dict[str, Metric] = {}
    for name, note in sorted(notes.items()):
        worker = name.removeprefix(NOTE_PREFIX).decode()
        for family, what, kind, samples in json.loads(note):
            metric = merged.setdefault(family, Metric(family, what, kind))
            metric.samples += [Sample(sample, {**labels, "worker": worker}, value) for sample, labels, value in samples]
    yield from merged.values()


def _name(peers: Peers) -> bytes:
    return NOTE_PREFIX + str(peers.worker).encode()


def _disk_metrics(sizes: StoreSizes) -> Iterator[Metric]:
    for name, size, what in (
        ("database_bytes", sizes.database, "Size of the database."),
        ("log_bytes", sizes.log, "Size of its write-ahead log."),
        ("disk_free_bytes", sizes.free, "Free space on the disk of the database."),
    ):
        if size is not None:
            yield _gauge(name, what, size)


async def _experiment_metrics(service: Service, totals: Totals) -> list[Metric]:
    by_arm = ("experiment", "arm")
    decisions = _counter("decisions", f"Arms assigned: {SHOWN_EXPERIMENTS}.", (), by_arm)
    pulls = _counter("pulls", f"Responses counted: {SHOWN_EXPERIMENTS}.", (), by_arm)
    pending = GaugeMetricFamily(
        "ldpbandits_pending", f"Tickets neither answered nor expired: {SHOWN_EXPERIMENTS}.", labels=by_arm
    )
    missing = _counter("missing", f"Accepted pulls that expired unanswered: {SHOWN_EXPERIMENTS}.", (), by_arm)
    accepted = _counter("accepted", f"Pulls that devices have accepted: {SHOWN_EXPERIMENTS}.", (), by_arm)
    told = f"Tickets that expired, and nobody had accepted: {SHOWN_EXPERIMENTS}."
    unaccepted = _counter("unaccepted", told, (), by_arm)
    told = "Minutes in which the traffic jumped, and pauses above responses_per_hour."
    incidents = _counter("incidents", told, (), ("experiment", "kind"))
    told = "Responses not counted, or counted before, by reason; without an experiment, requests that belong to none."
    rejected = _counter("rejected", told, (), ("experiment", "reason"))
    for experiment, numbers in totals.shown:
        experiment.expire(service.now)
        for number in numbers:
            record, arm = experiment.records[number], experiment.arms[number]
            labels = (experiment.name, record.name)
            decisions.add_metric(labels, record.decisions)
            pulls.add_metric(labels, arm.pulls - experiment.settings.warm(number))
            pending.add_metric(labels, record.out)
            missing.add_metric(labels, record.missing_ever)
            accepted.add_metric(labels, arm.pulls - experiment.settings.warm(number) + record.waiting)
            unaccepted.add_metric(labels, record.unaccepted)
        for reason, count in sorted(experiment.rejected.items()):
            rejected.add_metric((experiment.name, reason), count)
        for kind, count in sorted(experiment.incidents.items()):
            incidents.add_metric((experiment.name, kind), count)  # 0 too: Prometheus sees an increase from there
        await asyncio.sleep(0)
    for reason, count in sorted(service.rejected.items()):
        rejected.add_metric(("", reason), count)
    of_all = "in all experiments that are not deleted."
    sums = [
        CounterMetricFamily("ldpbandits_all_decisions", f"Arms assigned, {of_all}", value=totals.decisions),
        CounterMetricFamily("ldpbandits_all_pulls", f"Responses counted, {of_all}", value=totals.pulls),
        CounterMetricFamily("ldpbandits_all_missing", f"Accepted pulls unanswered, {of_all}", value=totals.missing),
        CounterMetricFamily("ldpbandits_all_accepted", f"Pulls accepted, {of_all}", totals.accepted),
        CounterMetricFamily("ldpbandits_all_unaccepted", f"Tickets expired unaccepted, {of_all}", totals.unaccepted),
    ]
    statuses = GaugeMetricFamily("ldpbandits_experiments", "Experiments by status.", labels=("status",))
    for status, count in sorted(totals.status.items()):
        statuses.add_metric((status,), count)
    shown = sum(len(numbers) for _, numbers in totals.shown)
    without = _gauge("arms_without_lines", "Arms without lines of their own on this page.", totals.arms - shown)
    return [decisions, accepted, pulls, pending, missing, unaccepted, rejected, incidents, *sums, statuses, without]


def _process_metrics(service: Service) -> Iterator[Metric]:
    """Yield the metrics of this process since its start."""
    meters, committer = service.meters, service.committer
    yield CounterMetricFamily("ldpbandits_commits", "Commits of responses.", value=committer.commits)
    yield _gauge("queued_responses", "Responses that wait for the next commit.", committer.queued)
    yield _histogram("commit_seconds", "Time that a commit of responses takes.", [((), meters.commit_seconds)])
    yield _histogram("commit_responses", "Responses in a commit.", [((), meters.batch)])
    yield _histogram("queue_responses", "Responses that waited when a commit began.", [((), meters.queue)])
    yield _histogram(
        "request_seconds",
        "Time from the last byte of a request to its reply.",
        [((operation,), histogram) for operation, histogram in meters.latency.items()],
        ("operation",),
    )
    yield _counter(
        "requests",
        "Requests answered.",
        [((operation, str(status)), count) for (operation, status), count in sorted(meters.replies.items())],
        ("operation", "status"),
    )
    yield _counter(
        "unavailable",
        "Replies with status 503, after which a client retries.",
        _by_word(meters.unavailable),
        ("reason",),
    )
    yield _gauge("open_connections", "Connections that are open.", meters.open_connections())
    yield _counter(
        "closed_connections",
        "Connections that the server closed, by the limit that was reached.",
        _by_word(meters.closed),
        ("limit",),
    )


def _by_word(counts: Counter[str]) -> list[tuple[tuple[str, ...], float]]:
    return [((word,), count) for word, count in sorted(counts.items())]


def _counter(
    name: str, what: str, samples: Iterable[tuple[tuple[str, ...], float]], labels: Sequence[str]
) -> CounterMetricFamily:
    family = CounterMetricFamily(f"ldpbandits_{name}", what, labels=labels)
    for values, count in samples:
        family.add_metric(values, count)
    return family


def _gauge(name: str, what: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"ldpbandits_{name}", what, value=value)


def _histogram(
    name: str, what: str, samples: Iterable[tuple[tuple[str, ...], Histogram]], labels: Sequence[str] = ()
) -> HistogramMetricFamily:
    family = HistogramMetricFamily(f"ldpbandits_{name}", what, labels=labels)
    for values, histogram in samples:
        if any(histogram.counts):
            bounds = [*(f"{bound:g}" for bound in histogram.bounds), "+Inf"]
            buckets = list(zip(bounds, map(float, accumulate(histogram.counts)), strict=True))
            family.add_metric(values, buckets, histogram.total)
    return family


class _Family(Collector):
    """A collector of one complete family."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return [self._family]
