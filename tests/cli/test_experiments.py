"""`ldpbandits experiments`: every verb, in a terminal and for machines, against a real server."""

import argparse
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from tests.server.running import PATIENCE, Running, running

from ldpbandits import Admin
from ldpbandits.cli import main, parser
from ldpbandits.cli.experiments.verbs import VERBS

NUMBERS = count()
EXPERIMENTS = [sys.executable, "-m", "ldpbandits", "experiments"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server in a process of its own."""
    with running(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def environment(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the server is, and the key to it."""
    monkeypatch.setenv("LDPBANDITS_URL", server.url)
    monkeypatch.setenv("LDPBANDITS_ADMIN_KEY", server.keys["admin"])
    monkeypatch.delenv("LDPBANDITS_VIEWER_KEY", raising=False)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def name(server: Running, environment: None) -> str:
    """An experiment with two arms and three responses."""
    name = f"test-{next(NUMBERS)}"
    Admin(server.url, server.keys["admin"]).create(name, ["blue", "green"], epsilon=1, goal="earn")
    for response in (0, 1, 1):
        assert server.respond(server.decide(name)["ticket"], response).status == 200
    return name


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run a verb in this process."""
    try:
        code = main(["experiments", *arguments])
    except SystemExit as end:
        code = int(end.code or 0)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_there_is_a_verb_for_each_that_is_promised() -> None:
    """list, show, create, pause, resume, ship, close, delete, add-arm, retire-arm, forgive, describe, log, export."""
    promised = "list show create pause resume ship close delete add-arm retire-arm forgive describe log export"
    assert [verb.name for verb in VERBS] == promised.split()


def test_list_is_a_table_and_json(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The same experiments in both."""
    code, out, err = run(capsys, "list")
    assert (code, err) == (0, "")
    assert out.splitlines()[0].split() == ["name", "status", "arms", "responses", "created"]
    assert [line.split()[:4] for line in out.splitlines() if line.startswith(f"{name} ")] == [
        [name, "running", "2", "3"]
    ]
    code, out, err = run(capsys, "list", "--json")
    (listed,) = (each for each in json.loads(out) if each["name"] == name)
    assert (code, err, listed["status"], listed["responses"]) == (0, "", "running", 3)


def test_show_is_a_table_with_bars_and_json(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As wide as the terminal; all that the server says is in the JSON."""
    code, out, err = run(capsys, "show", name)
    assert (code, err) == (0, "")
    assert out.startswith(f"{name}: running; 3 responses at epsilon = 1, by kl-ucb++\n")
    assert "█" in out
    assert "├" in out
    assert 80 < max(map(len, out.splitlines())) <= 100
    code, out, err = run(capsys, "show", name, "--json")
    shown = json.loads(out)
    assert (code, err, shown["responses"], len(shown["arms"])) == (0, "", 3, 2)
    assert shown["settings"]["report_after"] == 25


def test_an_output_without_such_letters_gets_others(name: str) -> None:
    """A terminal in ASCII shows the same table."""
    done = subprocess.run(
        [*EXPERIMENTS, "show", name],
        capture_output=True,
        check=True,
        timeout=60,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.stdout.isascii()
    assert b"#" in done.stdout


def test_changes_are_made_and_shown(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each prints what it led to; an arm goes by its name or its number."""
    for arguments, told in (
        (["pause", name], f"{name}: paused; "),
        (["resume", name], f"{name}: running; "),
        (["add-arm", name, "red"], "2 red "),
        (["retire-arm", name, "red"], "2 red (retired) "),
        (["add-arm", name, "1"], "3 1 "),
        (["ship", name, "1", "--yes"], f"{name}: shipped to 1; "),
        (["ship", name, "0", "--yes"], f"{name}: shipped to blue; "),
        (["ship", name, "green", "--yes"], f"{name}: shipped to green; "),
        (["resume", name], f"{name}: running; "),
        (["retire-arm", name, "0"], "0 blue (retired) "),
        (["close", name, "--yes"], f"{name}: closed; "),
    ):
        code, out, err = run(capsys, *arguments)
        assert (code, err, told in out) == (0, "", True), (arguments, out)
    code, out, err = run(capsys, "pause", name)
    assert (code, out) == (2, "")
    assert err == f"ldpbandits experiments: the server refuses (409): the experiment {name} is closed for good\n"
    assert run(capsys, "delete", name, "--yes") == (0, f"{name} is deleted, with 3 responses\n", "")
    assert run(capsys, "show", name)[0] == 2


def test_changes_are_json_for_machines(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What it led to, as the server says it."""
    assert json.loads(run(capsys, "ship", name, "green", "--yes", "--json")[1])["shipped"] == 1
    assert json.loads(run(capsys, "delete", name, "--yes", "--json")[1])["responses"] == 3


@pytest.mark.parametrize("verb", [["delete"], ["close"], ["ship", "green"]])
def test_what_cannot_be_undone_needs_a_yes(name: str, verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Where nobody can be asked, nothing is done without --yes."""
    code, out, err = run(capsys, verb[0], name, *verb[1:])
    assert (code, out) == (2, "")
    assert err == "ldpbandits experiments: --yes is needed without a terminal: nobody can confirm\n"
    assert json.loads(run(capsys, "show", name, "--json")[1])["status"] == "running"


class Terminal:
    """A command in a terminal of its own."""

    def __init__(self, *arguments: str) -> None:
        """Start it."""
        self._mine, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [*EXPERIMENTS, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        self.shown = ""

    def until(self, text: str, times: int = 1) -> None:
        """Read until it has shown this."""
        end = time.monotonic() + PATIENCE
        while self.shown.count(text) < times:
            assert select.select([self._mine], [], [], end - time.monotonic())[0], self.shown
            self.shown += os.read(self._mine, 1 << 16).decode()

    def type(self, text: str) -> None:
        """Answer."""
        os.write(self._mine, text.encode())

    def ended(self) -> int:
        """Wait for its end."""
        try:
            return self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            os.close(self._mine)


@pytest.mark.parametrize(("answer", "code", "there"), [("n\n", 1, True), ("\n", 1, True), ("yes\n", 0, False)])
def test_in_a_terminal_it_asks(name: str, server: Running, answer: str, code: int, there: bool) -> None:  # noqa: FBT001 - a row
    """With what would be lost; any answer but yes changes nothing."""
    terminal = Terminal("delete", name)
    terminal.until(f"Delete {name} and its 3 responses for good? [y/N] ")
    terminal.type(answer)
    terminal.until("is deleted" if not there else "nothing was changed")
    assert terminal.ended() == code
    assert (name in [each.name for each in Admin(server.url, server.keys["admin"]).list()]) is there


def test_it_says_what_is_lost(name: str, server: Running) -> None:
    """Pulls that are out when an experiment is closed; and which arm is the better one when it is not shipped."""
    server.decide(name)
    terminal = Terminal("close", name)
    terminal.until("The server would refuse 1 pending response.")
    terminal.type("no\n")
    assert terminal.ended() == 1
    best = Admin(server.url, server.keys["admin"]).show(name).best
    assert best is not None
    terminal = Terminal("ship", name, str(1 - best.arm))
    terminal.until(f"(the best so far is {best.name}) to everybody, and collect no more responses? [y/N]")
    terminal.type("y\n")
    terminal.until("shipped to")
    assert terminal.ended() == 0


def test_watch_draws_anew_until_ctrl_c(name: str, server: Running) -> None:
    """What has come meanwhile is shown, and Ctrl-C is no error."""
    terminal = Terminal("show", name, "--watch")
    terminal.until("3 responses")
    assert server.respond(server.decide(name)["ticket"], 1).status == 200
    terminal.until("\x1b[H\x1b[J" + f"{name}: running; 4 responses")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.ended() == 0
    assert "Traceback" not in terminal.shown


def test_watch_is_for_terminals(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Elsewhere it would be a heap of drawings."""
    assert run(capsys, "show", name, "--watch")[2].endswith("--watch needs a terminal, and this is not one\n")
    assert run(capsys, "show", name, "--watch", "--json")[2].endswith("leave out --json\n")


def test_an_export_is_a_file_or_stdout(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The same bytes; how many there are is said on stderr."""
    path = tmp_path / "out.csv"
    code, out, err = run(capsys, "export", name, "--in-order", "--out", str(path))
    assert (code, out, err) == (0, "", f"{path}: 3 responses\n")
    assert run(capsys, "export", name, "--in-order") == (0, path.read_text(encoding="utf-8"), "")
    assert [item.name for item in tmp_path.iterdir()] == ["out.csv"]
    assert run(capsys, "export", name, "--out", str(tmp_path / "no" / "out.csv"))[2].endswith("no such folder\n")


def test_tallies_are_exported_as_json(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Exact sums, from which another experiment can start."""
    path = tmp_path / "tallies.json"
    code, out, err = run(capsys, "export", name, "--tallies", "--out", str(path))
    assert (code, out, err) == (0, "", f"{path}: the tallies of {name}\n")
    assert run(capsys, "export", name, "--tallies") == (0, path.read_text(encoding="utf-8"), "")
    assert sum(row["pulls"] for row in json.loads(path.read_text(encoding="utf-8"))["arms"]) == 3


def test_what_was_exported_starts_another(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`export --tallies` and `create --warm-start` go together."""
    path = tmp_path / "tallies.json"
    assert run(capsys, "export", name, "--tallies", "--out", str(path))[0] == 0
    flags = ["--arm", "blue", "--arm", "green", "--epsilon", "1", "--warm-start", str(path), "--json"]
    made = json.loads(run(capsys, "create", f"{name}-next", *flags)[1])
    assert made["responses"] == sum(arm["warm_pulls"] for arm in made["arms"]) == 3


def test_who_has_read_enough_ends_an_export(name: str) -> None:
    """A closed pipe is no error, and says nothing."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w", encoding="utf-8") as closed:
        command = [*EXPERIMENTS, "export", name]
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_export_onto_a_full_disk_is_one_line(name: str) -> None:
    """With exit code 1."""
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        command = [*EXPERIMENTS, "export", name]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False, timeout=60)
    assert (done.returncode, done.stderr.count(b"\n"), b"No space left" in done.stderr) == (1, 1, True)


FLAGS = [
    *("--arm", "blue", "--arm", "green", "--epsilon", "0.5", "--epsilon", "2", "--low", "1", "--high", "5"),
    *("--rule", "imed", "--report-after", "60", "--sticky", "86400", "--ticket-lifetime", "7200"),
    *("--default-reward", "2", "--minimum-share", "0.1", "--warm-up", "50", "--ramp", "0.2:100"),
    *("--stop-when-separated", "pause"),
    "--accept-drift-risk",
]
TOML = """
arms = ["blue", "green"]
epsilon = [0.5, 2]
rewards = { kind = "range", low = 1, high = 5 }
rule = "imed"
report_after = 60
sticky = 86400
ticket_lifetime = 7200
default_reward = 2
minimum_share = 0.1
warm_up = 50
ramp = { share = 0.2, responses = 100 }
stop_when_separated = "pause"
accept_drift_risk = true
"""


def same(report: dict[str, object]) -> dict[str, object]:
    """Return what two experiments that are set up alike have in common."""
    return {key: value for key, value in report.items() if key not in {"name", "created_at"}}


def test_create_by_flags_and_by_a_file_are_one(
    environment: None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """All that can be set, by flags, TOML or JSON; where a flag is given beside a file, it wins."""
    toml, text = tmp_path / "mine.toml", tmp_path / "mine.json"
    toml.write_text(TOML, encoding="utf-8")
    names = [f"created-{next(NUMBERS)}" for _ in range(4)]
    code, out, err = run(capsys, "create", names[0], *FLAGS, "--json")
    by_flags = json.loads(out)
    assert (code, err, by_flags["name"]) == (0, "", names[0])
    assert by_flags["curator"]["epsilon"] == [0.5, 2.0]
    assert by_flags["curator"]["transform"] == {"kind": "range", "low": 1.0, "high": 5.0}
    assert by_flags["settings"]["ramp"] == {"share": 0.2, "responses": 100}
    by_toml = json.loads(run(capsys, "create", names[1], "--from", str(toml), "--json")[1])
    assert same(by_toml) == same(by_flags)
    text.write_text(json.dumps({"arms": ["blue"], "epsilon": 1, "sticky": 60}), encoding="utf-8")
    by_json = json.loads(run(capsys, "create", names[2], "--from", str(text), "--json")[1])
    assert (by_json["settings"]["sticky"], len(by_json["arms"])) == (60, 1)
    both = json.loads(run(capsys, "create", names[3], "--from", str(text), "--sticky", "90", "--json")[1])
    assert both["settings"]["sticky"] == 90


@pytest.mark.parametrize(
    ("flags", "transform"),
    [
        ([], {"kind": "range", "low": 0.0, "high": 1.0}),
        (["--high", "5"], {"kind": "range", "low": 0.0, "high": 5.0}),
        (["--low", "-1"], {"kind": "range", "low": -1.0, "high": 1.0}),
        (["--sigmoid"], {"kind": "sigmoid"}),
        (["--threshold", "-0.5"], {"kind": "threshold", "theta": -0.5}),
        (["--mechanism", "laplace"], {"kind": "range", "low": 0.0, "high": 1.0}),
        (["--rule", '{"kind": "ucb", "width": 0.5}'], {"kind": "range", "low": 0.0, "high": 1.0}),
    ],
)
def test_create_says_what_rewards_are(
    environment: None, capsys: pytest.CaptureFixture[str], flags: list[str], transform: dict[str, object]
) -> None:
    """In a range, or behind the sigmoid or a threshold."""
    arguments = ["create", f"created-{next(NUMBERS)}", "--arm", "blue", "--epsilon", "1", *flags, "--json"]
    made = json.loads(run(capsys, *arguments)[1])
    assert made["curator"]["transform"] == transform
    assert made["curator"]["mechanism"] == ("laplace" if "laplace" in flags else "bernoulli")


ONE = ["create", "x", "--arm", "blue", "--epsilon", "1"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "arguments are required: VERB"),
        (["sing"], "invalid choice: 'sing'"),
        (["show"], "arguments are required: NAME"),
        (["show", "none"], "the server refuses (404): there is no experiment named"),
        (["show", "none", "--wach"], "unrecognized arguments: --wach"),
        (["list", "--url", "agent.example"], "a server's URL looks like https://agent.example"),
        (["list", "--url", "http://127.0.0.1:9"], "the server at 127.0.0.1:9 cannot be reached"),
        (["list", "--key-file", "none"], "none cannot be read: No such file or directory"),
        (["create", "x", "--epsilon", "1"], "an experiment needs arms: give --arm once for each"),
        (["create", "x", "--arm", "blue"], "--epsilon is needed: the limit on the privacy loss of a response"),
        ([*ONE, "--epsilon", "x"], "must be a number, got 'x'"),
        (
            ["create", "x", "--arm", "blue", "--epsilon", "-1"],
            "the server refuses (422): epsilon must be finite and > 0",
        ),
        ([*ONE, "--low", "3"], "a range needs two finite numbers low < high, got [3, 1]"),
        ([*ONE, "--low", "0", "--sigmoid"], "--low to --high, or go through --sigmoid or --threshold: give one"),
        ([*ONE, "--rule", "{"], "--rule is not JSON"),
        ([*ONE, "--rule", "exp3"], "a rule's kind must be one of ucb,"),
        ([*ONE, "--ramp", "0.5"], "--ramp is SHARE:RESPONSES, such as 0.1:500, got '0.5'"),
        ([*ONE, "--ramp", "a:5"], "--ramp must be a number, got 'a'"),
        ([*ONE, "--stop-when-separated", "shout"], "invalid choice: 'shout'"),
        ([*ONE, "--warm-start", "none.json"], "none.json: cannot be read: No such file"),
        ([*ONE, "--from", "list.json"], "list.json: it must hold one object"),
        ([*ONE, "--from", "bad.toml"], "bad.toml: "),
        ([*ONE, "--from", "odd.toml"], "odd.toml: an experiment has no colour; its keys are arms, epsilon, rewards,"),
        (["ship", "none", "blue", "--yes"], "there is no experiment named"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    environment: None,
    arguments: list[str],
    told: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing on stdout, one line on stderr that names the rule."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "list.json").write_text("[]", encoding="utf-8")
    (tmp_path / "bad.toml").write_text("arms = [", encoding="utf-8")
    (tmp_path / "odd.toml").write_text("colour = 1", encoding="utf-8")
    code, out, err = run(capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert told in err
    assert err.startswith("ldpbandits experiments")


def test_a_key_is_never_on_the_command_line(environment: None, capsys: pytest.CaptureFixture[str]) -> None:
    """There is no --key; who gives one is told why, and the key is not repeated. The help says so too."""
    code, out, err = run(capsys, "list", "--key", "admin-secret")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "there is no --key, because everybody on this machine can read a command line" in err
    assert "admin-secret" not in err
    assert "There is no --key: everybody on this machine can" in run(capsys, "--help")[1]


def test_the_key_is_in_the_environment_or_in_a_file(
    name: str, server: Running, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The viewer key will do for what only reads, and for nothing else; a file comes first."""
    monkeypatch.delenv("LDPBANDITS_ADMIN_KEY")
    told = "LDPBANDITS_ADMIN_KEY or LDPBANDITS_VIEWER_KEY is needed, or --key-file: the key that the server has printed"
    assert run(capsys, "list") == (2, "", f"ldpbandits experiments: {told}\n")
    monkeypatch.setenv("LDPBANDITS_VIEWER_KEY", server.keys["viewer"])
    for verb in (["list"], ["show", name], ["export", name], ["export", name, "--tallies"]):
        assert run(capsys, *verb)[0] == 0
    code, _, err = run(capsys, "pause", name)
    assert (code, "LDPBANDITS_ADMIN_KEY is needed, or --key-file" in err) == (2, True)
    file = tmp_path / "key"
    file.write_text(f"{server.keys['admin']}\n", encoding="ascii")
    assert run(capsys, "pause", name, "--key-file", str(file))[0] == 0
    file.write_text(server.keys["viewer"], encoding="ascii")
    assert "this needs the admin key" in run(capsys, "pause", name, "--key-file", str(file))[2]
    file.write_text("schlüssel", encoding="utf-8")
    assert "holds no key" in run(capsys, "list", "--key-file", str(file))[2]
    monkeypatch.setenv("LDPBANDITS_ADMIN_KEY", "wrong")
    assert run(capsys, "list") == (2, "", "ldpbandits experiments: the server does not know this key\n")


@pytest.mark.parametrize("verb", [[], *([verb.name] for verb in VERBS)])
def test_each_verb_has_help(verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """On stdout, with exit code 0; every option is explained."""
    code, out, err = run(capsys, *verb, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"usage: ldpbandits experiments {' '.join(verb)}".rstrip())


def test_every_option_is_explained() -> None:
    """Of every verb, but for the one that there is not."""
    whole = parser(chosen="experiments")
    (commands,) = (action for action in whole._actions if isinstance(action, argparse._SubParsersAction))
    (verbs,) = (a for a in commands.choices["experiments"]._actions if isinstance(a, argparse._SubParsersAction))
    for verb in verbs.choices.values():
        for action in verb._actions:
            assert action.help, action
