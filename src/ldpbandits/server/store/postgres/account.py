"""What has happened at a worker and what is pending there, in absolute numbers: told twice, they are told once."""

from collections import Counter
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import TypeAlias

from ldpbandits.server.store import Event, Pending

EventKey: TypeAlias = tuple[int, int, str]
"""Experiment, arm and kind."""


class Account:
    """All of it under one number of the worker. The event loop adds to it, the thread that looks tells it."""

    def __init__(self) -> None:
        """Start with nothing, as nobody."""
        self.worker = 0
        self._lock = Lock()
        self._events: Counter[EventKey] = Counter()
        self._told_events: Counter[EventKey] = Counter()
        self._new_events: set[EventKey] = set()
        """What is other than it was told."""
        self._pending: dict[tuple[int, int], Pending] = {}
        self._told_pending: dict[tuple[int, int], Pending] = {}
        self._new_pending: set[tuple[int, int]] = set()

    def add(self, pending: Iterable[Pending], events: Iterable[Event]) -> None:
        """Take note of what is pending now, and of what has happened besides."""
        with self._lock:
            for each in pending:
                self._pending[each[:2]] = each
                self._new_pending.add(each[:2])
            for event in events:
                self._events[event[:3]] += event.times
                self._new_events.add(event[:3])

    def untold(self) -> tuple[list[Pending], dict[EventKey, int]]:
        """Return what is to be told, in order."""
        with self._lock:
            pending = [self._pending[key] for key in sorted(self._new_pending)]
            return pending, {key: self._events[key] for key in sorted(self._new_events)}

    def told(self, pending: Iterable[Pending], events: Mapping[EventKey, int]) -> None:
        """Take note that so much was told; what has changed meanwhile is still to be told."""
        with self._lock:
            for each in pending:
                self._told_pending[each[:2]] = each
                if self._pending[each[:2]] == each:
                    self._new_pending.discard(each[:2])
            for key, count in events.items():
                self._told_events[key] = count
                if self._events[key] == count:
                    self._new_events.discard(key)

    def tell_all_again(self) -> None:
        """Doubt what was told: a database that has crashed may have lost the last of it."""
        with self._lock:
            self._new_pending, self._new_events = set(self._pending), set(self._events)

    def settle(self, worker: int) -> list[Pending]:
        """Go on under a new number, since the others have settled what was told; return what of it was pending.

        What happened and was told is theirs by now. All that is pending is to be told anew.
        """
        with self._lock:
            settled = list(self._told_pending.values())
            self.worker = worker
            left = {key: count - self._told_events[key] for key, count in self._events.items()}
            self._events = Counter({key: count for key, count in left.items() if count})
            self._told_events, self._told_pending = Counter(), {}
            self._new_pending, self._new_events = set(self._pending), set(self._events)
        return settled

    def forget(self, experiment: int) -> None:
        """Drop an experiment that is gone."""
        with self._lock:
            for events in (self._events, self._told_events):
                for key in [key for key in events if key[0] == experiment]:
                    del events[key]
            for pending in (self._pending, self._told_pending):
                for place in [place for place in pending if place[0] == experiment]:
                    del pending[place]
            self._new_events &= self._events.keys()
            self._new_pending &= self._pending.keys()
