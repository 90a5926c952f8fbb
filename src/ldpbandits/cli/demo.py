"""`ldpbandits demo`: look on as an agent finds the best of five headlines, which it shows to a simulated crowd."""

import argparse
import signal
import sys
import webbrowser
from time import perf_counter, sleep

from ldpbandits.checks import LARGEST_EPSILON, check_count
from ldpbandits.cli.common import Command, number, say, show_json
from ldpbandits.demo import LIKED, DemoServer, ReportJson, play, running
from ldpbandits.errors import ParameterError
from ldpbandits.extras import needs
from ldpbandits.server.experiments.limits import SMALLEST_EPSILON

BAR_COLUMNS = 24
_CLEAR_LINE, _UP = "\x1b[K", "\x1b[{}A"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ldpbandits demo`."""
    parser.add_argument("--devices", type=number, default=2000, metavar="N", help="simulated devices (default 2000)")
    parser.add_argument("--pulls", type=number, default=8, metavar="N", help="pulls of each device (default 8)")
    parser.add_argument(
        "--epsilon", type=number, default=1.0, metavar="E", help="epsilon of each response, 0.01 to 50 (default 1)"
    )
    parser.add_argument("--open", action="store_true", help="open the console in a browser, and stay until Ctrl-C")


def run(options: argparse.Namespace) -> None:
    """Start a server, let the crowd take part, and name the best arm."""
    devices, pulls = check_count("devices", options.devices), check_count("pulls", options.pulls)
    if not SMALLEST_EPSILON <= options.epsilon <= LARGEST_EPSILON:
        limits = f"from {SMALLEST_EPSILON:g} to {LARGEST_EPSILON:g}"
        raise ParameterError(f"a server asks for an epsilon {limits}, got {options.epsilon:g}")
    epsilon = float(options.epsilon)
    with needs("server"):
        import ldpbandits.server.process.server  # noqa: F401 - another process runs it; here we learn whether it can
    is_watched, chart = sys.stderr.isatty(), Chart()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # to be told to end is as good as Ctrl-C
    with running() as agent:
        agent.create(epsilon)
        say(
            f"{devices:,} devices take part {pulls} times each, at epsilon = {epsilon:g} per response.\n"
            "The server sees random bits; how often a headline is really liked is known here only.\n"
        )
        _show_console(agent, is_to_open=options.open)
        start = perf_counter()
        report = play(agent, devices, pulls, epsilon, chart.draw if is_watched else None)
        chart.draw(report)
        seconds = perf_counter() - start
        if options.json:
            show_json(report)
        say(summary(report, seconds))
        if options.open or (is_watched and sys.stdin.isatty()):
            settings = f"LDPBANDITS_URL={agent.url} LDPBANDITS_ADMIN_KEY={agent.admin}"
            say(f"Until Ctrl-C stops the server:\n  {settings} ldpbandits experiments show headlines\n")
            _show_console(agent)
            _wait_for_interrupt()
        else:
            say(f"The report was at {agent.report_url} (in a terminal, the server goes on until Ctrl-C).")


def _show_console(agent: DemoServer, *, is_to_open: bool = False) -> None:
    """Print a link into the console, and open it."""
    link = agent.console_link()
    say(f"The console, signed in (this link works once, within five minutes):\n  {link}\n")
    if is_to_open and not webbrowser.open(link):
        say("No browser was found: open the link yourself.\n")


class Chart:
    """The arms on stderr: each drawing takes the place of the one before."""

    def __init__(self) -> None:
        """Start with no lines on the screen."""
        self._lines = 0

    def draw(self, report: ReportJson) -> None:
        """Draw the share of decisions and the estimate of each arm."""
        shares = f"{'share of decisions':<{BAR_COLUMNS + 6}}"
        text = [f"{'headline':<10}{'truth':>7}  {shares}{'responses':>10}   estimate, interval"]
        for arm in report["arms"]:
            share = arm["share"] or 0.0
            bar = "█" * round(BAR_COLUMNS * share)
            mean = "" if arm["mean"] is None else f"{arm['mean']:6.2f}  in [{arm['low']:.2f}, {arm['high']:.2f}]"
            really = LIKED[arm["name"]]
            text.append(
                f"{arm['name']:<10}{really:>7.0%}  {bar:<{BAR_COLUMNS}}{share:>5.0%} {arm['pulls']:>10,}   {mean}"
            )
        up, clear = (_UP.format(self._lines), _CLEAR_LINE) if self._lines else ("", "")
        say(up + "\n".join(f"{line}{clear}" for line in text))
        self._lines = len(text)


def summary(report: ReportJson, seconds: float) -> str:
    """Return a summary that names the best arm."""
    best, confidence = report["best"], f"at {report['confidence']:.0%} confidence"
    share = report["arms"][best["arm"]]["share"] or 0.0
    verdict = "lies above all others" if best["separated"] else "still overlaps those of others"
    return (
        f"\nThe best arm is {best['name']}: {share:.0%} of all decisions were for it. Its interval {verdict}\n"
        f"{confidence}, after {report['responses']:,} responses in {seconds:.0f} s. Each was counted once, and on disk "
        "before it was acknowledged.\nNo reward has left its device."
    )


def _wait_for_interrupt() -> None:
    try:
        while True:
            sleep(3600)
    except KeyboardInterrupt:
        say("")


COMMAND = Command("demo", "a server and a crowd of simulated devices, on this machine", add_arguments, run)
