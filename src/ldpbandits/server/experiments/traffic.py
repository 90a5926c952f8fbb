"""Traffic of an experiment: its decisions and responses, sampled over the time that matters.

**Cap.** At most `responses_per_hour` responses are counted within any hour, to the minute. Devices retry those beyond
it later, and the experiment pauses itself. Each process counts by itself: a restart begins a new hour.

**Jumps.** A minute is a jump when its decisions or its responses are more than the pace of the cap allows
(`responses_per_hour` / 60), or, once an hour was seen, more than `JUMP_FACTOR` times the mean minute before it.
Minutes of fewer than `JUMP_LEAST` are none.

**Weight of open tickets.** A rule counts open pulls, so that thousands of them do not all go to one arm. Tickets that
will never be answered must not count: otherwise a client that asks without answering keeps the rule from exploring.
Devices answer within T seconds, or not at all. T is twice the longest time that one of the last answers took, and at
most `report_after` + `ANSWER_DELAY_S`, which it is before there are answers. With D(t) decisions up to the
time t,
    share  = responses since t - 3 T / decisions from t - 4 T to t - T    the part of due decisions that is answered
    coming = share (D(t) - D(t - T))                                      answers that are still to be expected
    weight = coming / open tickets                                        at most 1

Where all devices answer the weight is 1. With twenty silent clients for each honest device it is the honest share.
"""

from collections import deque
from typing import NamedTuple

HOUR_S, MINUTE_S = 3600, 60

JUMP_FACTOR = 5.0
"""A jump is this multiple of the mean traffic; a busy hour has two or three times the mean."""

JUMP_LEAST = 100
"""Decisions or responses of a minute below which there is no jump: fewer decide nothing, and vary by chance."""

ANSWER_DELAY_S = 60.0
"""Seconds from the planned report of an answer to its arrival, retries included."""

ANSWER_LEAST_S = 10.0
"""The minimum of T: samples are seconds apart."""

ANSWERS_KEPT, ANSWERS_NEEDED = 64, 16
"""The last answers whose delays are stored, and the number of them that an estimate of T needs."""

SHARE_SPAN = 3
"""The share of answers is estimated over this many times T."""

STEPS_PER_ANSWER = 32
"""Samples within the largest T."""


class Sample(NamedTuple):
    """The numbers of decisions and responses up to a time."""

    time: float
    decisions: int
    responses: int


class Samples:
    """A sliding window of samples, one every `step` seconds, of `span` seconds."""

    def __init__(self, span: float, step: float, first: Sample) -> None:
        """Start with one sample: no change is known before it."""
        self._span, self._step = span, step
        self._samples = deque([first])

    @property
    def last(self) -> Sample:
        """The newest sample of the window."""
        return self._samples[-1]

    @property
    def seconds(self) -> float:
        """Seconds from the first to the last sample."""
        return self.last.time - self._samples[0].time

    def is_due(self, now: float) -> bool:
        """Tell whether the next sample is due; after a clock was set back it is."""
        return not 0 <= now - self.last.time < self._step

    def add(self, sample: Sample) -> None:
        """Add a sample, and drop those before the window."""
        if sample.time < self.last.time:  # the clock was set back
            self._samples.clear()
        self._samples.append(sample)
        while len(self._samples) > 1 and self._samples[1].time <= sample.time - self._span:
            self._samples.popleft()

    def at(self, time: float) -> Sample:
        """Return the last sample at or before this time, or else the first one."""
        return next((sample for sample in reversed(self._samples) if sample.time <= time), self._samples[0])


class Traffic:
    """The traffic of one experiment. Only the event loop uses it."""

    def __init__(self, cap: int | None, report_after: float, ticket_lifetime: float) -> None:
        """Use the settings of the experiment; call `start` before anything else."""
        self._cap = cap
        latest = report_after + ANSWER_DELAY_S if report_after else ticket_lifetime
        self._latest_answer = min(latest, ticket_lifetime)
        self._answer_times: deque[float] = deque(maxlen=ANSWERS_KEPT)
        self.counting = 0
        """Responses whose commit is running."""
        self.weight = 1.0
        """The weight of an open ticket in the rule's counts."""
        self.start(0.0, 0, 0)

    def start(self, now: float, settled: int, responses: int) -> None:
        """Start with the present counts, without any history.

        `settled` is the number of decisions that are answered or missing: open ones count as made just now.
        """
        first = Sample(now, settled, responses)
        step = self._latest_answer / STEPS_PER_ANSWER
        self._answers = Samples((SHARE_SPAN + 1) * self._latest_answer, step, first)
        self._minutes = Samples(HOUR_S, MINUTE_S, first)
        self.weight = 1.0
        self.resume(settled, responses)

    def resume(self, decisions: int, responses: int) -> None:
        """Start a new hour of the cap, after an experimenter has resumed the experiment."""
        self._minutes = Samples(HOUR_S, MINUTE_S, Sample(self._minutes.last.time, decisions, responses))
        self._hour_ago = responses
        """The number of responses an hour before the last sample."""
        self.is_over_cap = False
        """Whether a response was refused since the hour began."""

    def admits(self, responses: int) -> bool:
        """Tell whether one more response may be counted now; if not, set `is_over_cap`."""
        if self._cap is None or responses + self.counting - self._hour_ago < self._cap:
            return True
        self.is_over_cap = True
        return False

    def answered(self, seconds: float) -> None:
        """Record the seconds from a decision to its answer."""
        self._answer_times.append(seconds)

    @property
    def _answer_after(self) -> float:
        """T, the seconds within which a decision is answered, if it ever is."""
        if len(self._answer_times) < ANSWERS_NEEDED:
            return self._latest_answer
        return min(self._latest_answer, max(ANSWER_LEAST_S, 2 * max(self._answer_times)))

    def is_due(self, now: float) -> bool:
        """Tell whether a sample of the traffic is due."""
        return self._minutes.is_due(now) or self._answers.is_due(now)

    def sample(self, now: float, decisions: int, responses: int, out: int) -> bool:
        """Sample the traffic; return whether it has jumped in the last minute."""
        sample = Sample(now, decisions, responses)
        has_jumped = False
        if self._minutes.is_due(now):
            has_jumped = self._has_jumped(sample)
            self._minutes.add(sample)
            self._hour_ago = self._minutes.at(now - HOUR_S).responses
        if self._answers.is_due(now):
            self._answers.add(sample)
            self.weight = self._weigh(sample, out)
        return has_jumped

    def _has_jumped(self, sample: Sample) -> bool:
        """Compare the last minute with the cap's pace and with the hour before it."""
        last, first = self._minutes.last, self._minutes.at(sample.time - HOUR_S)
        minutes = (sample.time - last.time) / MINUTE_S
        if minutes <= 0:
            return False
        now_rates = ((sample.decisions - last.decisions) / minutes, (sample.responses - last.responses) / minutes)
        if max(now_rates) < JUMP_LEAST:
            return False
        if self._cap is not None and max(now_rates) > self._cap / (HOUR_S / MINUTE_S):
            return True
        span = self._minutes.seconds / MINUTE_S
        if span < (HOUR_S - MINUTE_S) / MINUTE_S:
            return False
        before = ((last.decisions - first.decisions) / span, (last.responses - first.responses) / span)
        return any(now > max(JUMP_FACTOR * usual, JUMP_LEAST) for now, usual in zip(now_rates, before, strict=True))

    def _weigh(self, now: Sample, out: int) -> float:
        """Return the share of the open tickets that will be answered, at most 1."""
        if out <= 0:
            return 1.0
        late = self._answer_after
        due, begun = self._answers.at(now.time - late), self._answers.at(now.time - SHARE_SPAN * late)
        asked = due.decisions - self._answers.at(now.time - (SHARE_SPAN + 1) * late).decisions
        share = min(1.0, (now.responses - begun.responses + 1) / (asked + 1))
        return min(1.0, share * (now.decisions - due.decisions) / out)
