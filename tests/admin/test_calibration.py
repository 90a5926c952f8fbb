"""A threshold is found by the devices of a live server, whatever is killed and lost meanwhile."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Event, Thread
from time import sleep, time
from typing import Any

import pytest

from ldpbandits import Admin, Client, Ledger, Limits, ParameterError, ServerError, Threshold
from ldpbandits.admin.calibration import IN_TURN, search_live
from ldpbandits.agent.bisection import Bisection
from ldpbandits.cli import main
from ldpbandits.demo import DemoServer, running
from ldpbandits.server.experiments.limits import LARGEST_PARAMETER

ARMS = ("blue", "green")
EPSILON = 4.0
PULLS = 2_000


class Crowd:
    """A device that takes part in one step after the other, as docs/live.md shows, and counts what is acknowledged."""

    def __init__(self, agent: DemoServer, name: str, seed: int) -> None:
        """Nothing is counted yet."""
        self.agent, self.name, self.rng = agent, name, random.Random(seed)
        self.stop, self.counted = Event(), Counter[str]()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Take part until the block ends."""
        thread = Thread(target=self._work)
        thread.start()
        try:
            yield
        finally:
            self.stop.set()
            thread.join()

    def _work(self) -> None:
        ledger, limits = Ledger(":memory:"), Limits(Threshold, EPSILON, budget=EPSILON * PULLS)
        for number in count(1):
            step = f"{self.name}-calibration-{number}"
            with Client(
                self.agent.url, step, key=self.agent.client, limits=limits, ledger=ledger, background=False
            ) as client:
                while not self.stop.is_set():
                    try:
                        pull = client.decide()
                        pull.observe(self.rng.gauss({"blue": 20, "green": 21}[pull.name], 4))
                        self.counted[pull.name] += client.flush(now=time() + 300).acknowledged
                    except ServerError as error:
                        if error.code == "closed":
                            break
                        self.stop.wait(0.01)
            if self.stop.is_set():
                break
        ledger.close()


class Killed(Exception):  # noqa: N818 - reads as what it is
    """The driver is gone."""


class Faulty(Admin):
    """The way to a server on which replies get lost, and whose user dies now and then."""

    DEATHS = (3, 20, 55, 100, 150)
    """The requests after which the driver dies."""

    asked = 0
    """Requests so far."""

    def ask(self, method: str, path: str, message: Mapping[str, Any] | None = None) -> Any:
        """Ask; lose every eleventh answer, or die, after the server has done what it was asked."""
        answer = super().ask(method, path, message)
        self.asked += 1
        if self.asked in self.DEATHS:
            raise Killed
        if self.asked % 11 == 0:
            raise ServerError("lost")
        return answer


def test_it_ends_near_the_median_whatever_is_lost_or_killed() -> None:
    """A driver that is killed starts again from nothing and comes to the same end; each response is counted once."""
    start = Bisection(-100, 100, EPSILON)
    with running() as agent:
        crowd, faulty, deaths = Crowd(agent, "colour", 1), Faulty(agent.url, agent.admin), 0
        with crowd.working():
            while True:
                try:
                    ended = search_live(faulty, "colour", ARMS, start, wait=lambda: sleep(0.02))
                    break
                except Killed:
                    deaths += 1
        again = search_live(Admin(agent.url, agent.admin), "colour", ARMS, start, wait=lambda: None)
        assert agent.ask("/v1/experiments/colour-calibration-1")["estimates"] == "P(reward > 0)"
    assert deaths >= 2
    assert ended == again
    assert ended.done
    assert abs(ended.theta - 20.5) < 4
    assert ended.spent == crowd.counted.total()
    assert abs(crowd.counted["blue"] - crowd.counted["green"]) <= 2 * (ended.step + 1)  # handed out in turn


def test_steps_say_when_devices_report() -> None:
    """Each step is created with the reporting moment that was asked for."""

    def stop() -> None:
        raise Killed

    with running() as agent:
        admin, start = Admin(agent.url, agent.admin), Bisection(-100, 100, EPSILON)
        with pytest.raises(Killed):
            search_live(admin, "x", ARMS, start, wait=stop, report_after=60)
        assert admin.show("x-calibration-1").settings.report_after == 60


def test_a_step_of_another_calibration_is_not_taken_up() -> None:
    """Other arms, another epsilon or interval: said in one line, and nothing is closed."""
    with running() as agent:
        curator = Bisection(-100, 100, EPSILON).curator.to_json()
        agent.ask("/v1/experiments", {"name": "x-calibration-1", "arms": ["blue"], "curator": curator})
        with pytest.raises(ParameterError, match="the server has a x-calibration-1 of another calibration"):
            search_live(Admin(agent.url, agent.admin), "x", ARMS, Bisection(-100, 100, EPSILON), wait=lambda: None)
        assert agent.ask("/v1/experiments/x-calibration-1")["status"] == "running"


def test_arms_are_handed_out_in_turn_by_the_widest_interval_that_a_server_takes() -> None:
    """The server's limit and the width of the steps are one number."""
    assert IN_TURN.width == LARGEST_PARAMETER


class Strange(Admin):
    """A server of another version."""

    def ask(self, *_: object) -> Any:
        """Answer with something else."""
        return {"version": 2}


def test_a_server_that_speaks_otherwise_is_not_waited_for() -> None:
    """What will never be right is an error at once; what may pass is waited for."""
    with pytest.raises(ServerError, match=r"has no Report.name"):
        search_live(Strange("http://127.0.0.1:9", "key"), "x", ARMS, Bisection(-1, 1, 1), wait=pytest.fail)


LIVE = ["calibrate", "--low", "-10", "--high", "10", "--epsilon", "4", "--arm", "blue"]


def test_the_command_asks_a_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It names the experiment of each step, and at the end the curator of the experiment proper.

    URL and key may come from the environment or a file, as with the other commands.
    """
    monkeypatch.setattr("ldpbandits.cli.calibrate.SERVER_POLL_INTERVAL_S", 0.01)
    with running() as agent:
        monkeypatch.setenv("LDPBANDITS_ADMIN_KEY", agent.admin)
        # A step that nobody decides: as many zeros as ones.
        create = {"name": "x-calibration-1", "arms": ["blue"], "curator": Bisection(-10, 10, 4).curator.to_json()}
        agent.ask("/v1/experiments", create)
        for number in range(Bisection(-10, 10, 4).longest):
            ticket = _ask(agent, "/v1/experiments/x-calibration-1/decisions", {})["ticket"]
            _ask(agent, "/v1/responses", {"ticket": ticket, "response": number % 2})
        assert main([*LIVE, "--server", agent.url, "--experiment", "x", "--report-after", "60"]) == 0
        out, err = capsys.readouterr()
        assert "theta = 0\n" in out
        assert '{"mechanism": "bernoulli", "epsilon": 4.0, "transform": {"kind": "threshold", "theta": 0.0}}' in out
        assert "x-calibration-1: is the reward above 0?" in err
        assert main([*LIVE, "--server", agent.url, "--experiment", "x", "--json"]) == 0
        assert '"theta": 0.0' in capsys.readouterr().out
        key_file = tmp_path / "key"
        key_file.write_text(agent.admin, encoding="ascii")
        monkeypatch.delenv("LDPBANDITS_ADMIN_KEY")
        monkeypatch.setenv("LDPBANDITS_URL", agent.url)
        assert main([*LIVE, "--server", "--experiment", "x", "--key-file", str(key_file)]) == 0
        assert "theta = 0\n" in capsys.readouterr().out
        monkeypatch.setenv("LDPBANDITS_ADMIN_KEY", agent.client)
        assert main([*LIVE, "--server", agent.url, "--experiment", "x"]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def _ask(agent: DemoServer, path: str, message: Mapping[str, Any]) -> Any:
    return DemoServer(agent.url, agent.client, agent.client).ask(path, message)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (["--server", "http://127.0.0.1:9"], "--experiment is needed with --server"),
        (["--experiment", "x"], "--experiment goes with --server"),
        (["--report-after", "60"], "--report-after goes with --server"),
        (["--key-file", "key"], "--key-file goes with --server"),
        (["--server", "http://127.0.0.1:9", "--experiment", "x", "--seed", "1"], "--seed is for simulated users"),
        (["--server", "ftp://x", "--experiment", "x"], "a server's URL looks like https://agent.example"),
        (["--server", "http://127.0.0.1:9", "--experiment", "x"], "the server at 127.0.0.1:9 cannot be reached"),
    ],
)
def test_a_bad_call_is_one_line_and_exit_code_2(
    options: list[str], rule: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing on stdout."""
    monkeypatch.setenv("LDPBANDITS_ADMIN_KEY", "some-key")
    assert main([*LIVE, *options]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert rule in err


def test_it_needs_the_key(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """From the environment, where a list of processes does not show it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LDPBANDITS_ADMIN_KEY", raising=False)
    assert main([*LIVE, "--server", "http://127.0.0.1:9", "--experiment", "x"]) == 2
    assert "LDPBANDITS_ADMIN_KEY is needed" in capsys.readouterr().err
