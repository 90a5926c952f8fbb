"""`ldpbandits demo`: a real server and a crowd of simulated devices with real curators, over HTTP, on this machine.

The server is a process of its own and sees nothing but what devices send. Here, where both sides meet, we also know how
often each headline is really liked, and can look on as the agent finds out.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from secrets import token_urlsafe
from time import perf_counter, sleep
from typing import Any
from urllib.request import Request, urlopen

from ldpbandits.checks import LARGEST_EPSILON, check_count
from ldpbandits.device.client import Client
from ldpbandits.device.ledger import Ledger, Limits
from ldpbandits.errors import DatabaseError, MissingExtra, ParameterError
from ldpbandits.server.limits import SMALLEST_EPSILON

HELP = "a server and a crowd of simulated devices, on this machine"
LIKED = {"Weather": 0.2, "Sports": 0.35, "Politics": 0.25, "Science": 0.7, "Travel": 0.4}
"""How often each headline is really liked: known to nobody but this simulation."""

AT_ONCE = 8
BAR = 24
_CLEAR_LINE, _UP = "\x1b[K", "\x1b[{}A"


@dataclass(frozen=True)
class Agent:
    """A running server, and the keys to it."""

    url: str
    admin: str
    client: str

    @property
    def report_url(self) -> str:
        """Where all about the experiment is to be seen."""
        return f"{self.url}/v1/experiments/headlines"

    def ask(self, path: str, message: object = None) -> Any:  # noqa: ANN401 - JSON
        """Ask as the experimenter."""
        body = None if message is None else json.dumps(message).encode()
        request = Request(self.url + path, body, {"Authorization": f"Bearer {self.admin}"})  # noqa: S310 - our own URL
        with urlopen(request, timeout=30) as reply:  # noqa: S310 - as above
            return json.load(reply)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what may be set."""
    parser.add_argument("--devices", type=number, default=2000, metavar="N", help="simulated devices (default 2000)")
    parser.add_argument("--pulls", type=number, default=8, metavar="N", help="pulls of each device (default 8)")
    parser.add_argument(
        "--epsilon", type=float, default=1.0, metavar="E", help="epsilon of each response, 0.01 to 50 (default 1)"
    )


def number(text: str) -> float:
    """Read a whole number, also as 1e3; `check_count` says what is wrong with another."""
    return float(text)


def demo(options: argparse.Namespace) -> None:
    """Run it."""
    devices, pulls = check_count("devices", options.devices), check_count("pulls", options.pulls)
    if not SMALLEST_EPSILON <= options.epsilon <= LARGEST_EPSILON:
        limits = f"from {SMALLEST_EPSILON:g} to {LARGEST_EPSILON:g}"
        raise ParameterError(f"a server asks for an epsilon {limits}, got {options.epsilon:g}")
    epsilon = float(options.epsilon)
    for package in ("msgspec", "starlette", "uvicorn"):
        if find_spec(package) is None:
            raise MissingExtra(f"needs {package}: pip install 'ldpbandits[server]'")
    watched = sys.stderr.isatty()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # to be told to end is as good as Ctrl-C
    with running() as agent:
        curator = {"mechanism": "bernoulli", "epsilon": epsilon}
        agent.ask("/v1/experiments", {"name": "headlines", "arms": list(LIKED), "curator": curator})
        say(
            f"{devices:,} devices take part {pulls} times each, at epsilon = {epsilon:g} a response.\n"
            "The server sees random bits; how often a headline is really liked is known here only.\n"
        )
        start = perf_counter()
        report = play(agent, devices, pulls, epsilon, watched=watched)
        seconds = perf_counter() - start
        if options.json:
            print(json.dumps(report, indent=2))
        say(summary(report, seconds))
        look = f"curl -H 'Authorization: Bearer {agent.admin}' {agent.report_url}"
        if watched and sys.stdin.isatty():
            say(f"All about it, until Ctrl-C stops the server:\n  {look}")
            _wait_for_interrupt()
        else:
            say(f"All about it was at {agent.report_url} (in a terminal, the server goes on until Ctrl-C).")


def play(agent: Agent, devices: int, pulls: int, epsilon: float, *, watched: bool) -> Mapping[str, Any]:
    """Let every device take part, and show how the agent learns; return the last report."""
    limits = Limits(epsilon=epsilon, budget=epsilon * pulls)
    with ThreadPoolExecutor(AT_ONCE) as crowd:
        visits = {crowd.submit(visit, agent, limits, pulls) for _ in range(devices)}
        lines = 0
        try:
            while visits:
                done, visits = wait(visits, timeout=0.5)
                for finished in done:
                    finished.result()
                if watched:
                    lines = draw(agent.ask("/v1/experiments/headlines"), lines)
        except BaseException:
            crowd.shutdown(cancel_futures=True)
            raise
    report: Mapping[str, Any] = agent.ask("/v1/experiments/headlines")
    draw(report, lines)
    return report


def visit(agent: Agent, limits: Limits, pulls: int) -> None:
    """Be one device: show what the agent says, see whether the user likes it, respond. Its owner allows just that."""
    user = random.SystemRandom()
    ledger = Ledger(":memory:")
    with Client(agent.url, "headlines", key=agent.client, limits=limits, ledger=ledger, background=False) as client:
        for _ in range(pulls):
            pull = client.decide()
            pull.observe(user.random() < LIKED[pull.name])
    ledger.close()


def draw(report: Mapping[str, Any], lines: int) -> int:
    """Show the arms, over the `lines` that were shown before; return how many lines there are now."""
    text = [f"{'headline':<10}{'really':>7}  {'share of decisions':<{BAR + 6}}{'responses':>10}   estimate, interval"]
    for arm in report["arms"]:
        share = arm["share"] or 0.0
        bar = "█" * round(BAR * share)
        mean = "" if arm["mean"] is None else f"{arm['mean']:6.2f}  in [{arm['low']:.2f}, {arm['high']:.2f}]"
        really = LIKED[arm["name"]]
        text.append(f"{arm['name']:<10}{really:>7.0%}  {bar:<{BAR}}{share:>5.0%} {arm['pulls']:>10,}   {mean}")
    sys.stderr.write(_UP.format(lines) if lines else "")
    sys.stderr.write("".join(f"{line}{_CLEAR_LINE if lines else ''}\n" for line in text))
    sys.stderr.flush()
    return len(text)


def summary(report: Mapping[str, Any], seconds: float) -> str:
    """Name the best arm."""
    best, sure = report["best"], f"at {report['confidence']:.0%} confidence"
    told = f"above all others {sure}" if best["separated"] else f"not yet separated from the others {sure}"
    return (
        f"\nThe best arm is {best['name']}, {told}: after {report['responses']:,} responses in {seconds:.0f} s, each\n"
        "counted once and on disk before it was acknowledged. No reward has left its device."
    )


@contextmanager
def running() -> Iterator[Agent]:
    """Start a server with a database that is gone afterwards."""
    keys = {role: f"{role}-{token_urlsafe(24)}" for role in ("admin", "client")}
    given = {f"LDPBANDITS_{role.upper()}_KEY": key for role, key in keys.items()}
    with tempfile.TemporaryDirectory(prefix="ldpbandits-demo-") as folder:
        command = [sys.executable, "-m", "ldpbandits", "serve", "--port", "0", "--database", f"{folder}/agent.db"]
        server = subprocess.Popen(command, env=os.environ | given, stderr=subprocess.PIPE, text=True)  # noqa: S603 - ourselves
        try:
            words = (server.stderr.readline() if server.stderr else "").split()
            url = next((word.rstrip(",") for word in words if word.startswith("http://")), None)
            if url is None:
                raise DatabaseError("the server did not start: " + " ".join(words))
            yield Agent(url, keys["admin"], keys["client"])
        finally:
            server.terminate()
            server.communicate()


def say(text: str) -> None:
    """Tell whoever looks on."""
    print(text, file=sys.stderr, flush=True)


def _wait_for_interrupt() -> None:
    try:
        while True:
            sleep(3600)
    except KeyboardInterrupt:
        say("")
