"""The search for a threshold on a live server: each step is an experiment of its own, `NAME-calibration-1`, `-2`, ...

All of them have the arms of the experiment proper, and CTB behind the threshold of their step; arms are handed out in
turn. A step is closed once its tally decides it, and only then is its tally read for good: a closed experiment counts
nothing more. So the search is a function of what the server has on disk. Whoever runs it may be killed at any time and
start again: it goes through the closed steps as before, and takes up the one that is open. Each response is counted
once, as ever. A response that is still out when its step is closed is refused, though its user has spent epsilon.

It asks a server as an experimenter does, and sees tallies only. It needs the standard library alone.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from itertools import count
from typing import Any, TypeAlias
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from ldpbandits.agent.bisection import Bisection
from ldpbandits.agent.rules import UCB, rule_to_json
from ldpbandits.checks import brief
from ldpbandits.errors import ParameterError, ServerError
from ldpbandits.server.limits import LARGEST_PARAMETER
from ldpbandits.spec.protocol import EXPERIMENT, Code

Ask: TypeAlias = Callable[[str, Mapping[str, Any] | None], Any]
"""Asks a server: a path, and a message to POST or None to GET. A refusal is a ServerError."""

IN_TURN = UCB(width=LARGEST_PARAMETER)
"""An interval so wide that the arm with the fewest pulls always leads."""


@dataclass(frozen=True)
class Experimenter:
    """Who holds the admin key of a server."""

    url: str
    key: str

    def __post_init__(self) -> None:
        """Check the URL."""
        if not self.url.startswith(("http://", "https://")):
            raise ParameterError(f"a server's URL looks like https://agent.example, got {brief(self.url)}")

    def ask(self, path: str, message: Mapping[str, Any] | None) -> Any:  # noqa: ANN401 - JSON
        """Ask once."""
        body = None if message is None else json.dumps(message).encode()
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        try:
            request = Request(self.url.rstrip("/") + path, body, headers)  # noqa: S310 - checked above
            with urlopen(request, timeout=30) as reply:  # noqa: S310 - as above
                return json.load(reply)
        except HTTPError as error:
            raise _refusal(error) from None
        except (OSError, HTTPException, ValueError) as error:
            raise ServerError(f"the server cannot be reached: {type(error).__name__}") from None


def _refusal(error: HTTPError) -> ServerError:
    try:
        told = json.load(error)
        return ServerError(f"the server refuses: {told['message']}", status=error.code, code=told["code"])
    except (OSError, ValueError, LookupError, TypeError):
        return ServerError(f"the server answers {error.code}", status=error.code, code="nonsense")


def search_live(  # noqa: PLR0913 - whom to ask what, and how to pass the time
    ask: Ask,
    name: str,
    arms: Sequence[str],
    search: Bisection,
    *,
    wait: Callable[[], None],
    tell: Callable[[str, Bisection], None] = lambda _step, _search: None,
) -> Bisection:
    """Bring a search from its start to its end by the users of a server; `wait` is called between two looks.

    `tell` is called at each step that is open, with the name that devices have to ask for.
    """
    asks = _patient(ask, wait)
    for number in count(1):
        if search.done:
            break
        step = f"{name}-calibration-{number}"
        path = EXPERIMENT.format(name=step)
        _create(asks, path, step, arms, search)
        is_told = False
        while asks(path, None)["status"] != "closed":
            if not is_told:
                tell(step, search)
                is_told = True
            after = search.count(*_tally(asks, path))
            if after.done or after.step > search.step:
                _unless(Code.CLOSED, asks, f"{path}/close", {})
            else:
                wait()
        search = search.count(*_tally(asks, path))
    return search


def _create(asks: Ask, path: str, step: str, arms: Sequence[str], search: Bisection) -> None:
    """Create a step, or find it as it was left."""
    curator = search.curator.to_json()
    message = {"name": step, "arms": list(arms), "curator": curator, "rule": rule_to_json(IN_TURN)}
    _unless(Code.EXISTS, asks, "/v1/experiments", message)
    report = asks(path, None)
    if report["curator"] != curator or [arm["name"] for arm in report["arms"]] != list(arms):
        raise ParameterError(f"the server has a {step} of another calibration: choose another name")


def _tally(asks: Ask, path: str) -> tuple[int, int]:
    """Return how many responses there are, and how many of them are ones."""
    rows = asks(f"{path}/tallies", None)["arms"]
    return sum(row["pulls"] for row in rows), sum(row["total"] for row in rows)


def _unless(code: Code, asks: Ask, path: str, message: Mapping[str, Any]) -> None:
    """Ask for a change, unless the server says that it is done: an answer may have been lost."""
    try:
        asks(path, message)
    except ServerError as error:
        if error.code != code:
            raise


def _patient(ask: Ask, wait: Callable[[], None]) -> Ask:
    """Ask again while the server is away: it may be started again."""

    def asks(path: str, message: Mapping[str, Any] | None) -> Any:  # noqa: ANN401 - JSON
        while True:
            try:
                return ask(path, message)
            except ServerError as error:
                if error.status not in {0, HTTPStatus.SERVICE_UNAVAILABLE}:
                    raise
            wait()

    return asks
