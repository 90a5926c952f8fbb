"""An arm of an experiment in memory: its name, its totals and its counts of events."""

from collections import Counter
from dataclasses import dataclass, field

from ldpbandits.server.experiments.events import DECISION, FORGIVEN, MISSING, UNACCEPTED
from ldpbandits.server.store import CellTotal


@dataclass
class ArmRecord:
    """An arm's name, its exact totals, in units, its events and its open tickets."""

    name: str
    cells: dict[int, CellTotal] = field(default_factory=dict)
    here: Counter[str] = field(default_factory=Counter)
    """Events of this process, by kind."""
    elsewhere: Counter[str] = field(default_factory=Counter)
    """Events before this process started, or of other workers, by kind."""
    out_here: int = 0
    """Open tickets that were issued here, minus answers here to tickets of other workers."""
    out_elsewhere: int = 0
    """The same of other workers, or of the time before this process started."""
    acceptances: CellTotal | None = None
    """The cell of its acceptances."""
    has_dropped: bool = False
    """Whether single responses of it were dropped."""

    @property
    def waiting(self) -> int:
        """The number of accepted pulls without a response, open or missing ever. It is exact, and durable."""
        return 0 if self.acceptances is None else self.acceptances.total

    @property
    def unanswered(self) -> int:
        """The number of accepted pulls without a response, without those that were forgiven."""
        return max(0, self.waiting - self.forgiven)

    @property
    def forgiven(self) -> int:
        """The number of missing answers that an experimenter has forgiven."""
        return self.here[FORGIVEN] + self.elsewhere[FORGIVEN]

    @property
    def out(self) -> int:
        """The number of open tickets of all workers."""
        return max(0, self.out_here + self.out_elsewhere)

    @property
    def decisions(self) -> int:
        """The number of decisions for this arm."""
        return self.here[DECISION] + self.elsewhere[DECISION]

    @property
    def missing(self) -> int:
        """The number of its accepted pulls whose tickets expired without a response, without those forgiven."""
        return max(0, self.missing_ever - self.forgiven)

    @property
    def missing_ever(self) -> int:
        """The number of missing answers, also those that were forgiven.

        Events may be a few ahead of the exact counts, as after a crash: those are unaccepted, and all adds up.
        """
        return max(0, min(self.missing_events, self.expired, self.waiting))

    @property
    def unaccepted(self) -> int:
        """The number of its tickets that expired, and that no device had accepted."""
        return self.expired - self.missing_ever

    @property
    def expired(self) -> int:
        """The number of its tickets that expired without a response."""
        return max(0, self.missing_events + self.here[UNACCEPTED] + self.elsewhere[UNACCEPTED])

    @property
    def missing_events(self) -> int:
        """The total of the events of missing answers; for a while it may be ahead of `expired` after a restart."""
        return self.here[MISSING] + self.elsewhere[MISSING]

    @property
    def total(self) -> int:
        """The sum of its responses, in units."""
        return sum(cell.total for cell in self.cells.values())
