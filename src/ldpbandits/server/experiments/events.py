"""The kinds of events that an experiment counts."""

DECISION, MISSING, UNACCEPTED, STOPPED = "decision", "missing", "unaccepted", "stopped"
"""Kinds of events; the other kinds are the outcomes of rejected responses.

`missing`: an accepted ticket expired without a response. `unaccepted`: a ticket expired that nobody had accepted.
`stopped`: the experiment stopped itself.
"""

FORGIVEN = "forgiven"
"""The kind of the event by which an experimenter makes a new start for the missing: it takes those so far off."""

OF_TICKETS = (DECISION, MISSING, UNACCEPTED)
"""Kinds of events whose totals agree with the open tickets: each decision is answered, open, missing or unaccepted."""

UNKNOWN_VERDICT = "unknown"
"""The kind of the verdict by which an experiment was stopped before the start, or by another worker."""

JUMP, CAPPED = "jump", "capped"
"""Kinds of incidents, which are events too: the traffic jumped; the experiment paused itself above its cap."""

INCIDENTS = {
    JUMP: "the traffic of the experiment %s has jumped within a minute: it will not ship an arm by itself",
    CAPPED: "the experiment %s paused itself: more responses came within an hour than its responses_per_hour",
}
"""The log line of each incident."""
