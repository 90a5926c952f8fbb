"""An experimenter's verbs: list, show, create, pause, resume, ship, close, delete, arms, forgive, log, export."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias
from urllib.parse import quote

from ldpbandits.admin.http import Experimenter
from ldpbandits.admin.messages import History, Report, Tallies
from ldpbandits.admin.reading import read
from ldpbandits.agent.rules import Rule, rule_to_json
from ldpbandits.checks import brief, check_count
from ldpbandits.errors import ParameterError
from ldpbandits.output.files import writing
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.spec.menu import Menu
from ldpbandits.spec.messages import (
    Change,
    Ending,
    Expectation,
    Goal,
    KeyReport,
    KeyRole,
    Metadata,
    MissingMode,
    Ramp,
    Retain,
    Summary,
)
from ldpbandits.spec.protocol import EXPERIMENT
from ldpbandits.spec.transforms import TRANSFORMS, Transform

Json: TypeAlias = Mapping[str, Any]
PAPER = "paper"


class Writes(Protocol):
    """A file for bytes, or what writes like one."""

    def write(self, content: bytes, /) -> object:
        """Write a piece to the file."""


class Admin:
    """Steers the experiments of a server. Requests that only read work with the viewer key, too.

    An arm is given by its number, an int, or its name, a str. A refusal is a ServerError with the server's sentence. If
    its `status` is 0, the server was not reached, or its reply was lost: a change may have been made, so check.

    >>> admin = Admin(url, key)
    >>> report = admin.create("price", ["9.99", "12.50"], epsilon=1)
    >>> report.status, report.arm("12.50").pulls
    ('running', 0)
    >>> admin.ship("price", "12.50").status
    'shipped'
    >>> [each.name for each in admin.list()]
    ['headline', 'price']
    >>> admin.delete("price").name
    'price'
    """

    def __init__(self, url: str, key: str, *, timeout: float = 30.0) -> None:
        """Check the URL and the key; nothing is sent yet. An exchange takes `timeout` seconds at the most."""
        self._url, self._experimenter = url, Experimenter(url, key, timeout)

    def __repr__(self) -> str:
        """Show which server; the key is shown nowhere."""
        return f"Admin({self._url!r})"

    def ask(self, method: str, path: str, message: Json | None = None) -> Any:  # noqa: ANN401 - JSON
        """Ask for what has no verb here, such as `("POST", "/v1/keys/client/rotate", {"grace": 3600})`; return JSON."""
        return self._experimenter.ask(method, path, message)

    def list(self) -> tuple[Summary, ...]:
        """Return a summary of every experiment."""
        return read(tuple[Summary, ...], self.ask("GET", "/v1/experiments"))

    def show(self, name: str) -> Report:
        """Return the report of an experiment: the estimate of each arm, and the best arm."""
        return read(Report, self.ask("GET", experiment_path(name)))

    def tallies(self, name: str) -> Tallies:
        """Return the exact tallies; a new experiment can start from them."""
        return read(Tallies, self.ask("GET", experiment_path(name, "tallies")))

    def history(self, name: str) -> History:
        """Return how estimates and intervals have developed, over responses."""
        return read(History, self.ask("GET", experiment_path(name, "history")))

    def create(  # noqa: PLR0913 - all that an experiment may have, by name
        self,
        name: str,
        arms: Sequence[str],
        *,
        epsilon: float | Sequence[float] | None = None,
        rewards: Transform | Json | None = None,
        mechanism: str | None = None,
        curator: Json | Menu | CuratorSpec | None = None,
        rule: Rule | Json | str | None = None,
        report_after: float | None = None,
        sticky: float | None = None,
        ticket_lifetime: float | None = None,
        default_reward: float | None = None,
        minimum_share: float | None = None,
        warm_up: int | None = None,
        ramp: Ramp | Json | None = None,
        goal: Goal | None = None,
        stop_when_decided: Ending | Literal["never"] | None = None,
        stop_when_separated: Ending | None = None,
        stop_after: float | None = None,
        responses_per_hour: int | None = None,
        allowance_required: bool | None = None,
        warm_start: Tallies | Json | None = None,
        expect: Expectation | Json | None = None,
        forged: float | None = None,
        worth: float | None = None,
        harm: float | None = None,
        control: int | str | None = None,
        may_add_arms: bool | None = None,
        accept_drift_risk: bool | None = None,
        missing: MissingMode | None = None,
        one_look: int | None = None,
        retain: Retain | None = None,
        about_page: bool | None = None,
        metadata: Metadata | Json | None = None,
    ) -> Report:
        """Create an experiment, and start it. Names of experiments are lower-case letters, digits and hyphens.

        - `epsilon`: of each response; of several, the owner of each device picks one. `rewards`: `Range(0, 1)`, which
          is the default, `Range(1, 5)`, `Sigmoid()`, `Threshold(0.9)`. `mechanism`: "bernoulli", or "laplace". Or all
          of it as one `curator`.
        - `rule`: an object, JSON, or a kind such as "imed"; "paper" for the paper's.
        - `report_after`: seconds from the arm to the response, the same whatever the reward. 0 sends it at once, and
          then its time reveals the reward.
        - `sticky`: seconds for which a device keeps its arm.
        - `ticket_lifetime`: seconds that a device has to answer. `default_reward`: what silence counts as.
        - `minimum_share`: of the traffic, for each arm. `warm_up`: equal traffic for this many responses of each arm.
        - `ramp`: `Ramp(0.1, 500)` gives an arm that is added later a tenth of the traffic until it has 500 responses.
        - `goal`: "decide" finds the best arm with the fewest answers, by duels, then stops; "earn" loses as little as
          possible while it runs. Where a rule is named, it says the goal; else the default is "decide".
        - `stop_when_decided`: "pause", or "ship" the best arm, at the verdict, or "never"; "pause" if it decides.
          `stop_when_separated` is its old name. `stop_after`: not before that many seconds from now, by default a day.
        - `expect`: `Expectation(0.05, 0.01)`, the gain over a baseline that it is planned for: found sooner. `forged`:
          the share of forged answers in spite of which a verdict must stand. `worth`: the smallest gain over the
          `control`, by default the first arm, that matters: it also ends when there is none. `harm`: a loss that is
          not accepted. `missing`: "answered", or "worst": the verdict holds whatever the others would have said.
        - `may_add_arms`: by default, if it earns. `accept_drift_risk`: stop also on verdicts of adaptive rules, which
          hold only if the means stayed what they were.
        - `one_look`: judge once, at this number of responses, in equal shares; nobody sees any result before.
        - `retain`: "tallies" drops single responses when the experiment is shipped or closed; exact tallies stay.
        - `about_page`: anybody may read the page `/about/NAME` on what the experiment asks of a device.
        - `responses_per_hour`: above this number, by default 10,000, the experiment pauses itself. 0 is no limit.
        - `allowance_required`: a decision needs an allowance that the site's own backend has signed.
        - `metadata`: `Metadata(title=..., owner=...)`, for people; `describe` changes it.
        - `warm_start`: what `tallies` has returned of another experiment.
        """
        message: dict[str, Any] = {
            **locals(),  # a parameter is a field of the message, but for the parts of the curator and an old name
            "arms": arms_json(arms),
            "curator": curator_json(curator, epsilon, rewards, mechanism),
            "rule": rule_json(rule),
            "stop_when_decided": stop_when_decided or stop_when_separated,
        }
        for part in ("self", "epsilon", "rewards", "mechanism", "stop_when_separated"):
            del message[part]
        # The server chooses the default of each parameter that is not given.
        given = {key: plain(value) for key, value in message.items() if value is not None}
        return read(Report, self.ask("POST", "/v1/experiments", given))

    def pause(self, name: str) -> Report:
        """Stop assigning arms; responses still outstanding count."""
        return self._change(name, "pause")

    def resume(self, name: str) -> Report:
        """Resume the assignment of arms."""
        return self._change(name, "resume")

    def close(self, name: str) -> Report:
        """End an experiment for good: no decisions, and no response counts any more."""
        return self._change(name, "close")

    def ship(self, name: str, arm: int | str) -> Report:
        """Assign this arm to everybody, and collect no more responses; `resume` takes it back."""
        return self._change(name, "ship", {"arm": arm})

    def delete(self, name: str) -> Summary:
        """Remove an experiment and all its responses, for good."""
        return read(Summary, self.ask("DELETE", experiment_path(name)))

    def add_arm(self, name: str, arm: str) -> Report:
        """Add an arm of this name; it gets the next number."""
        return self._change(name, "arms", {"name": arm})

    def retire_arm(self, name: str, arm: int | str) -> Report:
        """Stop assigning this arm; its number and its name are not used again."""
        number = self.show(name).arm(arm).arm if isinstance(arm, str) else arm
        return self._change(name, f"arms/{number}/retire")

    def forgive(self, name: str) -> Report:
        """Make a new start for missing answers: those so far do not count any more, for good."""
        return self._change(name, "forgive")

    def describe(  # noqa: PLR0913 - all that may be said, by name
        self,
        name: str,
        *,
        title: str | None = None,
        description: str | None = None,
        hypothesis: str | None = None,
        owner: str | None = None,
        link: str | None = None,
        planned_end: str | None = None,
    ) -> Report:
        """Change title, owner and the like; what is not given stays, and "" empties it.

        `planned_end`: a day, such as "2026-12-24". `link`: with http:// or https://.
        """
        given = {**locals()}
        del given["self"], given["name"]
        return self._change(name, "describe", {key: text for key, text in given.items() if text is not None})

    def log(self, name: str | None = None, *, most: int = 100) -> tuple[Change, ...]:
        """Return the newest changes, the newest first: of an experiment, even a deleted one, or of all and of keys."""
        path, most = "/v1/log" if name is None else experiment_path(name, "log"), check_count("most", most)
        found = page = read(tuple[Change, ...], self.ask("GET", path))
        while page and len(found) < most:
            page = read(tuple[Change, ...], self.ask("GET", f"{path}?before={page[-1].number}"))
            found += page
        return found[:most]

    def keys(self) -> tuple[KeyReport, ...]:
        """Return all keys, without the keys themselves: who has one, what it may do, and the day of its last use."""
        return read(tuple[KeyReport, ...], self.ask("GET", "/v1/keys"))

    def add_key(self, name: str, role: KeyRole, experiments: Sequence[str] = ()) -> str:
        """Return a new key for a person or a machine; the server shows it this once.

        `role`: "admin", "editor" of the experiments of these names, or "viewer".
        """
        message = {"name": name, "role": role, "experiments": arms_json(experiments, "experiments")}
        return str(self.ask("POST", "/v1/keys", message)["key"])

    def change_key(self, name: str, role: KeyRole, experiments: Sequence[str] = ()) -> KeyReport:
        """Change what the key of this name may do, at once; the key stays the same."""
        message = {"role": role, "experiments": arms_json(experiments, "experiments")}
        return read(KeyReport, self.ask("POST", f"/v1/keys/{quote(name, safe='')}", message))

    def remove_key(self, name: str) -> KeyReport:
        """Remove the key of this name: it opens nothing any more, and its sessions end."""
        return read(KeyReport, self.ask("DELETE", f"/v1/keys/{quote(name, safe='')}"))

    def export(
        self,
        name: str,
        to: str | PathLike[str] | Writes,
        *,
        in_order: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Write the responses as CSV; return how many there are.

        They are shuffled, or with `in_order` in the order in which they were counted. A file given by its path appears
        once it is complete. `progress` is told how many there are so far.
        """
        if isinstance(to, str | PathLike):
            with writing(Path(to)) as file:
                return self.export(name, file, in_order=in_order, progress=progress)
        lines, path = 0, experiment_path(name, "responses-in-order.csv" if in_order else "responses.csv")
        for piece in self._experimenter.stream(path):
            to.write(piece)
            lines += piece.count(b"\n")
            if progress is not None:
                progress(max(lines - 1, 0))
        return lines - 1

    def _change(self, name: str, verb: str, message: Mapping[str, Any] | None = None) -> Report:
        return read(Report, self.ask("POST", experiment_path(name, verb), message or {}))


def experiment_path(name: str, *more: str) -> str:
    """Return where an experiment is, or a part of it.

    >>> experiment_path("headline", "tallies")
    '/v1/experiments/headline/tallies'
    """
    if name in {"", ".", ".."}:  # a path would mean something else by these
        raise ParameterError(f"an experiment is given by its name, got {brief(name)}")
    return "/".join([EXPERIMENT.format(name=quote(name, safe="")), *more])


def arms_json(arms: Sequence[str], what: str = "arms") -> list[str]:
    """Return the names of arms, or of `what`; one text is not a list of letters."""
    if isinstance(arms, str) or not isinstance(arms, Sequence):
        raise ParameterError(f"{what} is a list of names, got {brief(arms)}")
    return [*arms]


def curator_json(
    curator: Json | Menu | CuratorSpec | None,
    epsilon: float | Sequence[float] | None,
    rewards: Transform | Json | None,
    mechanism: str | None,
) -> dict[str, Any]:
    """Return a curator that is given as a whole, or by its parts.

    >>> from ldpbandits import Range
    >>> curator_json(None, [0.5, 2], Range(1, 5), None)
    {'mechanism': 'bernoulli', 'epsilon': [0.5, 2], 'transform': {'kind': 'range', 'low': 1.0, 'high': 5.0}}
    """
    if (curator is None) == (epsilon is None):
        raise ParameterError("give epsilon (and rewards, unless they lie in [0, 1]), or a whole curator")
    if curator is None:
        several = [*epsilon] if isinstance(epsilon, Sequence) else epsilon
        data = rewards if rewards is None or isinstance(rewards, Mapping) else TRANSFORMS.to_json(rewards)
        transform = {} if data is None else {"transform": data}
        return {"mechanism": mechanism or "bernoulli", "epsilon": several, **transform}
    if rewards is not None or mechanism is not None:
        raise ParameterError("rewards and mechanism are part of the curator: give them there")
    return {**curator} if isinstance(curator, Mapping) else Menu.of(curator).to_json()


def rule_json(rule: Rule | Json | str | None) -> Json | str | None:
    """Return a rule that is given as an object, as its JSON, or by its kind; "paper" stands for the paper's."""
    if rule is None or rule == PAPER or isinstance(rule, Mapping):
        return rule
    return {"kind": rule} if isinstance(rule, str) else rule_to_json(rule)


def plain(data: object) -> object:
    """Return a message of ours, such as a ramp or tallies, as JSON; anything else as it is."""
    return asdict(data) if is_dataclass(data) and not isinstance(data, type) else data
