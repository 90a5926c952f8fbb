"""`ldpbandits experiments create`: an experiment from flags, from a file, or from a file that flags change."""

import argparse
import json
import tomllib
from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Any

from ldpbandits.admin.admin import Admin
from ldpbandits.admin.messages import Report
from ldpbandits.agent.rules import RULES
from ldpbandits.checks import LARGEST_EPSILON, brief
from ldpbandits.cli.common import name_or_json, named_number, number
from ldpbandits.errors import ParameterError
from ldpbandits.server.experiments.limits import SMALLEST_EPSILON
from ldpbandits.spec.mechanisms import MECHANISMS
from ldpbandits.spec.messages import Expectation, Ramp
from ldpbandits.spec.transforms import Range, Sigmoid, Threshold, Transform

KEYS = tuple(signature(Admin.create).parameters)[2:]
"""Keys of the file: the parameters of `Admin.create` besides the name."""

METADATA = {
    "title": "a title, for people",
    "description": "what it is about",
    "hypothesis": "what is expected",
    "owner": "who is responsible",
    "link": "where to read more, with http:// or https://",
    "planned_end": "the day on which it is to end, such as 2026-12-24; nothing happens by itself",
}
"""The options for people, with their help; the parameters of `Admin.describe`."""

FILE_HELP = "TOML or JSON with arms, epsilon, rewards and so on, as in docs/experiments.md; options override it"


def add_create(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ldpbandits experiments create`."""
    add = parser.add_argument
    add("name", metavar="NAME", help="lower-case letters, digits and hyphens")
    add("--from", dest="file", type=Path, metavar="FILE", help=FILE_HELP)
    add("--arm", action="append", metavar="ARM", help="the name of an arm; give the option once for each")
    menu = "given several times, the owner of each device picks one"
    limits = f"from {SMALLEST_EPSILON:g} to {LARGEST_EPSILON:g}"
    add("--epsilon", action="append", type=number, metavar="E", help=f"epsilon of each response, {limits}; {menu}")
    add("--low", type=number, metavar="LOW", help="rewards lie in [LOW, HIGH] (default 0)")
    add("--high", type=number, metavar="HIGH", help="(default 1)")
    add("--sigmoid", action="store_true", help="instead: rewards are any numbers, seen through the sigmoid")
    add("--threshold", type=number, metavar="T", help="instead: a reward counts as 1 if it is above T, else as 0")
    add("--mechanism", metavar="M", help=f"{' or '.join(MECHANISMS.kinds)} (default bernoulli: bits)")
    rules = ", ".join(kind for kind in RULES.kinds if kind != "ucb")
    add("--rule", metavar="R", help=f"how the agent chooses: {rules}, paper, or JSON (default: see docs/rules.md)")
    add(
        "--report-after",
        type=number,
        metavar="S",
        help="seconds from the arm to the response, within which a reward may come"
        " (default 25, as web pages need it; 0: at once, and then its time reveals the reward)",
    )
    add("--sticky", type=number, metavar="S", help="seconds for which a device keeps its arm (default 604800: 7 days)")
    add("--ticket-lifetime", type=number, metavar="S", help="seconds that a device has to answer (default 3600)")
    add(
        "--default-reward",
        type=number,
        metavar="R",
        help="the reward that a device privatises when none comes (default 0, or LOW)",
    )
    add("--minimum-share", type=number, metavar="P", help="least share of the traffic for each arm, such as 0.1")
    add("--warm-up", type=number, metavar="N", help="equal traffic until each arm has N responses")
    add("--ramp", metavar="P:N", help="an arm that is added later gets at most the share P until it has N responses")
    goals = "decide: find the best arm with the fewest answers, then stop; earn: lose as little as possible meanwhile"
    add("--goal", choices=["decide", "earn"], help=f"{goals} (default decide, unless a rule is named)")
    stop, endings = "what to do at the verdict (default pause, if it decides)", ["pause", "ship", "never"]
    add("--stop-when-decided", choices=endings, help=stop)
    add("--stop-when-separated", dest="stop_when_decided", choices=endings, help=argparse.SUPPRESS)  # its old name
    add("--expect", metavar="B:G", help="the planned gain G over a baseline B: the verdict comes sooner")
    forged = "share of each arm's answers that may be forged: the verdict waits until it stands (default 0)"
    add("--forged", type=number, metavar="P", help=forged)
    add("--worth", type=number, metavar="G", help="gain over the control that matters: that no arm has it is a verdict")
    add("--harm", type=number, metavar="L", help="loss against the control that is a verdict, at which it pauses")
    add("--control", metavar="ARM", help="the present arm, by name (default the first)")
    add("--may-add-arms", action="store_true", default=None, help="arms may be added later; it takes more responses")
    drift = "stop also on verdicts of adaptive rules, which hold only if the means stayed what they were"
    add("--accept-drift-risk", action="store_true", default=None, help=drift)
    silent = "answered: judge by those who answered (default); worst: count missing answers at worst"
    add("--missing", choices=["answered", "worst"], help=silent)
    look = "judge once, at N responses, in equal shares: nobody sees any result before"
    add("--one-look", type=number, metavar="N", help=look)
    kept = "keep single responses (default), or drop them at ship or close: exact tallies stay"
    add("--retain", choices=["responses", "tallies"], help=kept)
    add("--about-page", action="store_true", default=None, help="show a public page for visitors: /about/NAME")
    least = "seconds from creation before which it never stops by itself (default 86400, a day)"
    add("--stop-after", type=number, metavar="S", help=least)
    cap = "responses counted in an hour at most; above it the experiment pauses itself (default 10000; 0: no limit)"
    add("--responses-per-hour", type=number, metavar="N", help=cap)
    signed = "a decision needs an allowance that the site's own backend has signed (see ldpbandits allow)"
    add("--allowance-required", action="store_true", default=None, help=signed)
    add("--warm-start", type=Path, metavar="FILE", help="start from these tallies (export --tallies)")


def add_metadata(parser: argparse.ArgumentParser) -> None:
    """Add the options for title, owner and the like."""
    for name, told in METADATA.items():
        parser.add_argument(f"--{name.replace('_', '-')}", metavar="TEXT", help=told)


def create(admin: Admin, options: argparse.Namespace) -> Report:
    """Create what the file and the flags say; where both say something, the flags."""
    flags = {
        "arms": options.arm,
        "epsilon": options.epsilon if options.epsilon is None or len(options.epsilon) > 1 else options.epsilon[0],
        "rewards": _rewards(options),
        "rule": name_or_json("--rule", options.rule),
        "ramp": None if options.ramp is None else _ramp(options.ramp),
        "expect": None if options.expect is None else _expectation(options.expect),
        "metadata": {key: text for key in METADATA if (text := getattr(options, key)) is not None} or None,
        "warm_start": None if options.warm_start is None else _read(options.warm_start),
    }
    flags |= {key: getattr(options, key) for key in KEYS if hasattr(options, key) and key not in flags}
    told = {} if options.file is None else _from_file(options.file)
    given = told | {key: value for key, value in flags.items() if value is not None}
    if "arms" not in given:
        raise ParameterError("an experiment needs arms: give --arm once for each")
    if not {"epsilon", "curator"} & given.keys():
        raise ParameterError("--epsilon is needed: the limit on the privacy loss of a response")
    return admin.create(options.name, given.pop("arms"), **given)


def _rewards(options: argparse.Namespace) -> Transform | None:
    """Return what rewards are said to be; None when nothing is said."""
    is_range = options.low is not None or options.high is not None
    if is_range + options.sigmoid + (options.threshold is not None) > 1:
        raise ParameterError("rewards lie in --low to --high, or go through --sigmoid or --threshold: give one")
    if options.threshold is not None:
        return Threshold(options.threshold)
    if options.sigmoid:
        return Sigmoid()
    low, high = (0 if options.low is None else options.low), (1 if options.high is None else options.high)
    return Range(low, high) if is_range else None


def _ramp(text: str) -> Ramp:
    share, colon, responses = text.partition(":")
    if not colon:
        raise ParameterError(f"--ramp is SHARE:RESPONSES, such as 0.1:500, got {brief(text)}")
    return Ramp(named_number("--ramp", share), named_number("--ramp", responses))


def _expectation(text: str) -> Expectation:
    baseline, colon, gain = text.partition(":")
    if not colon:
        raise ParameterError(f"--expect is BASELINE:GAIN, such as 0.05:0.01, got {brief(text)}")
    return Expectation(named_number("--expect", baseline), named_number("--expect", gain))


def _from_file(path: Path) -> dict[str, Any]:
    told = _read(path)
    if unknown := sorted(set(told) - set(KEYS)):
        raise ParameterError(f"{path}: an experiment has no {', '.join(unknown)}; its keys are {', '.join(KEYS)}")
    return dict(told)


def _read(path: Path) -> Mapping[str, Any]:
    """Read an object from a file: TOML if it is called so, else JSON."""
    try:
        text = path.read_text(encoding="utf-8")
        told = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise ParameterError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError, JSONDecodeError and TOMLDecodeError are some
        kind = "TOML" if path.suffix == ".toml" else "JSON"
        raise ParameterError(f"{path}: is not {kind}: {error}") from None
    if not isinstance(told, dict):
        raise ParameterError(f"{path}: it must hold one object")
    return told
