"""Replies of a server that print, draw and export themselves. Their fields are those of `ldpbandits.spec.messages`."""

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from ldpbandits.errors import ArmError
from ldpbandits.extras import needs
from ldpbandits.output.frames import frame
from ldpbandits.spec import messages
from ldpbandits.spec.messages import ArmReport

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SERIES = ("pulls", "mean", "low", "high")


class Report(messages.Report):
    """An experiment. All intervals together cover the means at all times with the stated confidence.

    `print` shows it as a table.
    """

    __slots__ = ()

    @property
    def measure(self) -> str:
        """The quantity that means and intervals estimate, in words: a mean, or a probability."""
        if self.estimates.startswith("P("):
            return self.estimates
        return "the mean reward" if self.estimates == "reward" else f"the mean of {self.estimates}"

    def arm(self, arm: int | str) -> ArmReport:
        """Return an arm by its number or its name."""
        for each in self.arms:
            if arm == (each.name if isinstance(arm, str) else each.arm):
                return each
        listed = ", ".join(f"{each.arm} ({each.name})" for each in self.arms[:20])
        raise ArmError(f"the experiment {self.name} has no arm {arm!r}; it has {listed}")

    def to_json(self) -> dict[str, Any]:
        """Return the message as JSON-able data."""
        return asdict(self)

    def to_frame(self) -> Any:  # noqa: ANN401 - of pandas, which need not be there
        """Return a pandas DataFrame with a row for each arm."""
        names = [each.name for each in fields(ArmReport)]
        return frame({name: [getattr(arm, name) for arm in self.arms] for name in names})

    def plot(self) -> "Figure":
        """Draw each arm's mean as a dot in its interval; return matplotlib's Figure, which notebooks show."""
        with needs("lab", who="plot"):
            from ldpbandits.admin.figures import draw_report  # noqa: PLC0415 - it imports matplotlib

        return draw_report(self)

    def __str__(self) -> str:
        from ldpbandits.admin.text import report  # noqa: PLC0415 - it imports this module

        return report(self, 80)

    def __repr__(self) -> str:
        return f"<Report {self.name}: {self.status}, {len(self.arms)} arms, {self.responses:,} responses>"


class Tallies(messages.Tallies):
    """Everything that the agent learns from. Another experiment can start from it: `warm_start`."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """Return the message as JSON-able data."""
        return asdict(self)


class History(messages.History):
    """The estimates by number of responses to all arms; the last moment is now. Times are not stored, on purpose."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """Return the message as JSON-able data."""
        return asdict(self)

    def to_frame(self) -> Any:  # noqa: ANN401 - of pandas, which need not be there
        """Return a tidy pandas DataFrame: a row for each moment and arm."""
        rows = [(at, number, arm) for at, number in enumerate(self.responses) for arm in self.arms]
        whole = {
            "responses": [number for _, number, _ in rows],
            "arm": [arm.arm for _, _, arm in rows],
            "name": [arm.name for _, _, arm in rows],
        }
        return frame(whole | {name: [getattr(arm, name)[at] for at, _, arm in rows] for name in _SERIES})

    def plot(self) -> "Figure":
        """Draw each arm's mean and interval over responses; return matplotlib's Figure, which notebooks show."""
        with needs("lab", who="plot"):
            from ldpbandits.admin.figures import draw_history  # noqa: PLC0415 - it imports matplotlib

        return draw_history(self)

    def __repr__(self) -> str:
        return f"<History {self.name}: {len(self.arms)} arms at {len(self.responses)} moments>"
