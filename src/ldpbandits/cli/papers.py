"""`ldpbandits papers`: write the papers that a data protection officer asks for, from an experiment's real settings."""

import argparse
import shlex
from contextlib import suppress
from pathlib import Path

from ldpbandits.cli.common import Command, named_number, show_result
from ldpbandits.cli.experiments.server import add_server, admin
from ldpbandits.device.curators import curator_from_json
from ldpbandits.errors import MissingExtra, ParameterError
from ldpbandits.extras import needs
from ldpbandits.output.files import check_folder, write
from ldpbandits.papers.facts import Circumstances, audit_command
from ldpbandits.papers.kit import write_papers
from ldpbandits.spec.menu import Menu
from ldpbandits.spec.messages import Report

ABOUT = """\
Write the papers about an experiment, from its settings on the server: a draft of a data protection impact assessment, a
notice for visitors, an inventory of what a device stores, and, with the extra lab, the audit of its curator.

  ldpbandits papers headline --out papers --controller 'Example Ltd, 1 High Street' --contact privacy@example.com
  ldpbandits papers headline --out papers --device app --budget 5 --window 30

Places that only you can fill in are marked. Nothing here is legal advice."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ldpbandits papers`."""
    parser.add_argument("name", metavar="NAME", help="the experiment")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where the papers are written")
    parser.add_argument(
        "--device", choices=("web", "app"), default="web", help="where it runs: web pages, or an app (default web)"
    )
    parser.add_argument("--controller", metavar="TEXT", help="name and address of the controller (default: a blank)")
    parser.add_argument("--contact", metavar="TEXT", help="whom people may ask (default: a blank)")
    parser.add_argument("--budget", metavar="E", help="the budget that your devices' limits set, in epsilon per window")
    parser.add_argument("--window", metavar="DAYS", default="30", help="the window of that budget (default 30)")
    add_server(parser)


def run(options: argparse.Namespace) -> None:
    """Ask the server for the experiment, write the papers, and list them."""
    about = Circumstances(
        device=options.device,
        controller=options.controller,
        contact=options.contact,
        budget=None if options.budget is None else _positive("budget", options.budget),
        window_days=_positive("window", options.window),
    )
    report = admin(options, is_change=False).show(options.name)
    check_folder(options.out)
    written = {name: text.encode() for name, text in write_papers(report, about, _command_line(options)).items()}
    with suppress(MissingExtra):
        written["audit.html"] = _audit_page(report)
    for name, content in written.items():
        write(options.out / name, content)
    paths = [f"{options.out / name}" for name in written]
    show_result(
        options, lambda: {"files": paths}, lambda: [*paths, *_advice(report, has_audit="audit.html" in written)]
    )


def _advice(report: Report, *, has_audit: bool) -> list[str]:
    """Return what is left to do."""
    lines = ["", "Fill in the places that are marked. Nothing here is legal advice."]
    if not has_audit:
        lines.append(f"The audit needs the extra lab: {audit_command(Menu.from_json(report.curator))}")
    return lines


def _audit_page(report: Report) -> bytes:
    """Audit the curator of an experiment, of a menu that of the largest epsilon, and return the page."""
    with needs("lab"):
        from ldpbandits.audit.page import page
        from ldpbandits.audit.run import audit
    menu = Menu.from_json(report.curator)
    return page(
        audit(curator_from_json(menu.curators[-1]), epsilon=menu.epsilons[-1], command=audit_command(menu))
    ).encode()


def _command_line(options: argparse.Namespace) -> str:
    """Return the command line that wrote the papers."""
    words = ["ldpbandits", "papers", options.name, "--out", str(options.out)]
    for name in ("device", "controller", "contact", "budget", "window"):
        if getattr(options, name) is not None:
            words += [f"--{name}", str(getattr(options, name))]
    return shlex.join(words)


def _positive(name: str, text: str) -> float:
    value = named_number(name, text)
    if not 0 < value < float("inf"):
        raise ParameterError(f"{name} must be finite and > 0, got {text}")
    return value


COMMAND = Command("papers", "write the papers that a data protection officer asks for", add_arguments, run, about=ABOUT)
