"""Count the functions and files of this package that one call enters: a measure of how much a reader has to follow.

Three walks, each counted over its second, equal call, so that what is only prepared once does not count:

    reward      a reward on a device, its response on the way to a live server, and the next arm: a response, a
                decision and an acceptance
    simulate    `lab.simulate` of one algorithm on two arms
    audit       `ldpbandits audit --curator ctl`

A function counts once, however often it is entered; lambdas, comprehensions and generator expressions do not count.
Compiled kernels are not seen. The profile covers every thread of the process; `--list` names the functions.
"""

import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import CodeType, FrameType

import ldpbandits
from ldpbandits import Client, Limits, Range
from ldpbandits.cli import main as command
from ldpbandits.lab import simulate
from ldpbandits.server.process.front_door import FrontDoor
from ldpbandits.server.process.server import Server
from ldpbandits.server.service import Service
from ldpbandits.server.store.sqlite.store import SqliteStore

SOURCE = str(Path(ldpbandits.__file__).parent)
KEYS = {f"LDPBANDITS_{role}_KEY": f"{role.lower()}-key-of-the-walk" for role in ("ADMIN", "VIEWER", "CLIENT")}
STARTING_TIMEOUT_S = 60.0


class Walk:
    """The functions that were entered while `count` ran."""

    def __init__(self) -> None:
        """Start to watch this thread, and every thread that starts later."""
        self.codes: set[CodeType] = set()
        self.is_counting = False
        threading.setprofile(self._entered)
        sys.setprofile(self._entered)

    def _entered(self, frame: FrameType, event: str, _: object) -> None:
        if self.is_counting and event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            self.codes.add(frame.f_code)

    def count(self, title: str, call: Callable[[], object]) -> None:
        """Print how many functions in how many files the second of two calls enters."""
        call()
        self.codes.clear()
        self.is_counting = True
        call()
        self.is_counting = False
        functions = {code for code in self.codes if not code.co_name.startswith("<")}
        files = {code.co_filename for code in functions}
        print(f"{title:<10} {len(functions):>4} functions in {len(files):>3} files")
        if "--list" in sys.argv:
            listed = sorted((code.co_filename[len(SOURCE) + 1 :], code.co_qualname) for code in functions)
            print("\n".join(f"    {file}  {name}" for file, name in listed))


def walk_of_a_reward(walk: Walk, folder: Path) -> None:
    """Count one reward, from the device to the next arm."""
    service = Service(SqliteStore(folder / "agent.db"), KEYS)
    server = Server(service, FrontDoor())
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    path, limits = folder / "ledger.db", Limits(rewards=Range(0, 1), epsilon=1, budget=1_000)
    thread.start()
    try:
        admin = ldpbandits.Admin(url, KEYS["LDPBANDITS_ADMIN_KEY"])
        admin.create("walk", ["a", "b"], epsilon=1.0, rewards=Range(0, 1), sticky=0)
        key = KEYS["LDPBANDITS_CLIENT_KEY"]
        with Client(url, "walk", key=key, limits=limits, ledger=path) as client:
            pulls = [client.decide()]

            def answer_and_ask() -> None:
                pulls[-1].observe(1.0)
                client.leave()
                pulls.append(client.decide())

            walk.count("reward", answer_and_ask)
    finally:
        server.stop()
        thread.join(STARTING_TIMEOUT_S)


def main() -> None:
    """Print the three walks."""
    walk = Walk()
    with tempfile.TemporaryDirectory() as folder:
        walk_of_a_reward(walk, Path(folder))
    arms = ["bernoulli(0.5)", "bernoulli(0.6)"]
    walk.count("simulate", lambda: simulate("ldp-kl-ucb++", arms, horizon=1_000, trials=2, epsilon=1.0, seed=1))

    def audit() -> None:
        with redirect_stdout(StringIO()):
            command(["audit", "--curator", "ctl", "--epsilon", "1", "--samples", "20000", "--seed", "1"])

    walk.count("audit", audit)


if __name__ == "__main__":
    main()
