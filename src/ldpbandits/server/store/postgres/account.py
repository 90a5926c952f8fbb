"""The updates that a worker publishes, as absolute values, so that publishing them is idempotent."""

from collections import Counter
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import TypeAlias

from ldpbandits.server.store import Event, Pending

EventKey: TypeAlias = tuple[int, int, str]
"""Experiment, arm and kind."""


class Account:
    """Events and open tickets under one worker number. The event loop adds them, the polling thread publishes them."""

    def __init__(self) -> None:
        """Start without updates and without a worker number."""
        self.worker = 0
        self._lock = Lock()
        self._events: Counter[EventKey] = Counter()
        self._published_events: Counter[EventKey] = Counter()
        self._unpublished_events: set[EventKey] = set()
        """Keys whose value differs from the published one."""
        self._pending: dict[tuple[int, int], Pending] = {}
        self._published_pending: dict[tuple[int, int], Pending] = {}
        self._unpublished_pending: set[tuple[int, int]] = set()

    def add(self, pending: Iterable[Pending], events: Iterable[Event]) -> None:
        """Set the open tickets of these arms, and add these events."""
        with self._lock:
            for each in pending:
                self._pending[each[:2]] = each
                self._unpublished_pending.add(each[:2])
            for event in events:
                self._events[event[:3]] += event.times
                self._unpublished_events.add(event[:3])

    def list_unpublished(self) -> tuple[list[Pending], dict[EventKey, int]]:
        """Return the unpublished values, ordered by key."""
        with self._lock:
            pending = [self._pending[key] for key in sorted(self._unpublished_pending)]
            return pending, {key: self._events[key] for key in sorted(self._unpublished_events)}

    def mark_published(self, pending: Iterable[Pending], events: Mapping[EventKey, int]) -> None:
        """Mark these values as published; those that have changed meanwhile stay unpublished."""
        with self._lock:
            for each in pending:
                self._published_pending[each[:2]] = each
                if self._pending[each[:2]] == each:
                    self._unpublished_pending.discard(each[:2])
            for key, count in events.items():
                self._published_events[key] = count
                if self._events[key] == count:
                    self._unpublished_events.discard(key)

    def republish_all(self) -> None:
        """Publish everything again: a database that has crashed may have lost the last updates."""
        with self._lock:
            self._unpublished_pending, self._unpublished_events = set(self._pending), set(self._events)

    def settle(self, worker: int) -> list[Pending]:
        """Switch to a new worker number after the peers have settled the old one; return its published open tickets.

        The peers own the published events by now. All open tickets are published again.
        """
        with self._lock:
            settled = list(self._published_pending.values())
            self.worker = worker
            left = {key: count - self._published_events[key] for key, count in self._events.items()}
            self._events = Counter({key: count for key, count in left.items() if count})
            self._published_events, self._published_pending = Counter(), {}
            self._unpublished_pending, self._unpublished_events = set(self._pending), set(self._events)
        return settled

    def forget(self, experiment: int) -> None:
        """Drop the updates of a deleted experiment."""
        with self._lock:
            for events in (self._events, self._published_events):
                for key in [key for key in events if key[0] == experiment]:
                    del events[key]
            for pending in (self._pending, self._published_pending):
                for place in [place for place in pending if place[0] == experiment]:
                    del pending[place]
            self._unpublished_events &= self._events.keys()
            self._unpublished_pending &= self._pending.keys()
