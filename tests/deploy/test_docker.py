"""The image and the compose file: linted, by their schema, with options that exist; and what the image runs, runs.

There is no Docker here: no image is built and no container is run.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from tests.server.namespaces import in_a_namespace
from tests.server.running import HEADLINE, PATIENCE, running
from tests.server.test_read_only import READ_ONLY
from tests.tools import ROOT

from ldpbandits.cli.serve_options import OPTIONS, SECRETS
from ldpbandits.server.process.front_door import FrontDoor

DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
VARIABLES = (
    {each.variable for each in OPTIONS}
    | {f"{each.variable}_FILE" for each in OPTIONS if each.has_file}
    | set(SECRETS)
    | {f"{name}_FILE" for name in SECRETS}
)


def lines() -> list[list[str]]:
    """Return the instructions of the Dockerfile, in words."""
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^\s*#.*\n", "", DOCKERFILE, flags=re.MULTILINE))
    return [line.split(maxsplit=1) for line in joined.splitlines() if line]


def said(instruction: str) -> list[str]:
    """Return what is said by this instruction of the last stage."""
    last = max(place for place, (word, _) in enumerate(lines()) if word == "FROM")
    return [text for word, text in lines()[last:] if word == instruction]


def environment_of_the_image() -> dict[str, str]:
    """Return the variables that the image sets."""
    pairs = [word.partition("=") for text in said("ENV") for word in shlex.split(text)]
    return {name: value for name, _, value in pairs}


def test_the_linter_finds_nothing() -> None:
    """hadolint, with all its rules, and the shell lines by shellcheck."""
    command = [
        str(Path(sys.executable).with_name("hadolint")),
        "--failure-threshold",
        "style",
        str(ROOT / "Dockerfile"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_linter_can_fail(tmp_path: Path) -> None:
    """A file with a fault in it is not passed."""
    (tmp_path / "Dockerfile").write_text("FROM python\nRUN cd /tmp && pip install x\n")
    command = [str(Path(sys.executable).with_name("hadolint")), str(tmp_path / "Dockerfile")]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1


def test_the_image_sets_options_that_exist() -> None:
    """By their variables; and the server in it is found by its own health check."""
    ours = {name for name in environment_of_the_image() if name.startswith("LDPBANDITS_")}
    assert ours <= VARIABLES
    assert {"LDPBANDITS_HOST", "LDPBANDITS_KEYS_FILE", "LDPBANDITS_LOG_FORMAT"} <= ours
    (health,) = said("HEALTHCHECK")
    assert health.endswith('CMD ["ldpbandits", "health"]')
    assert said("ENTRYPOINT") + said("CMD") == ['["ldpbandits"]', '["serve"]']


def test_the_image_runs_as_nobody_in_particular() -> None:
    """Not as root, and by a number, so that Kubernetes can tell."""
    assert said("USER") == ["10001"]
    assert any("--uid 10001" in text for text in said("RUN"))


def test_what_is_sent_to_the_builder_is_what_it_copies() -> None:
    """The ignore file lets in nothing else: no keys, no history, no database."""
    copied = {name for word, text in lines() if word == "COPY" and "--from" not in text for name in text.split()[:-1]}
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied == let_in
    assert all((ROOT / name).exists() for name in copied)


def test_what_the_image_runs_runs_on_a_read_only_root(tmp_path: Path) -> None:
    """With the image's own environment: it serves, is healthy, writes its keys, and stops."""
    folder = tmp_path / "data"
    folder.mkdir()
    environment = {
        name: value.replace("/data", str(folder))
        for name, value in environment_of_the_image().items()
        if name.startswith("LDPBANDITS_")
    }
    # Where the test looks for the address, and for the keys: in a log that is text.
    environment |= {"LDPBANDITS_HOST": "127.0.0.1", "LDPBANDITS_LOG_FORMAT": "text"}
    before = in_a_namespace(READ_ONLY, folder, tmp_path / "not to be made")
    with running(tmp_path, before=before, database=folder / "agent.db", environment=environment) as server:
        written = (folder / "keys").read_text()
        server.keys = {role.lower(): key for role, key in re.findall(r"LDPBANDITS_(\w+)_KEY=(\S+)", written)}
        assert server.ask("POST", "/v1/experiments", HEADLINE).status == 201
        assert server.keys["admin"] not in server.printed()
        known = os.environ | environment | {"LDPBANDITS_PORT": str(server.port)}
        health = [sys.executable, "-m", "ldpbandits", "health", "--ready"]
        assert subprocess.run(health, env=known, capture_output=True, timeout=PATIENCE, check=True).stdout == b"ready\n"
        assert server.stop() == 0


def test_the_compose_file_keeps_its_schema(tmp_path: Path) -> None:
    """That of the Compose specification, which check-jsonschema brings along; and a file that does not is refused."""
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(yaml.safe_dump(COMPOSE | {"services": {"server": {"imag": "ldpbandits"}}}))
    tool = Path(sys.executable).with_name("check-jsonschema")
    command = [str(tool), "--builtin-schema", "vendor.compose-spec"]
    assert subprocess.run([*command, str(ROOT / "compose.yaml")], capture_output=True, check=False).returncode == 0
    refused = subprocess.run([*command, str(wrong)], capture_output=True, text=True, check=False)
    assert (refused.returncode, "imag" in refused.stdout) == (1, True)


def test_the_compose_file_sets_options_and_secrets_that_exist() -> None:
    """Variables of ours are in our table; what is named is defined; no secret stands in the file itself."""
    services: dict[str, Any] = COMPOSE["services"]
    server = services["server"]
    assert set(server["environment"]) <= VARIABLES
    for name, value in server["environment"].items():
        if name.removesuffix("_FILE") in SECRETS or name == "LDPBANDITS_DATABASE_FILE":
            assert name.endswith("_FILE")
            assert value.removeprefix("/run/secrets/") in server["secrets"]
    for service in services.values():
        assert set(service.get("secrets", ())) <= set(COMPOSE["secrets"])
        assert set(service["networks"]) <= set(COMPOSE["networks"])
        assert set(service.get("depends_on", ())) <= set(services)
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (ROOT / source).exists() if source.startswith(".") else source in COMPOSE["volumes"]
        assert ":" in service["image"] or "build" in service  # of a version


def test_only_the_proxy_is_reached_from_outside() -> None:
    """Server and database have no port and no way out; all that can be is read-only and without privileges."""
    services = COMPOSE["services"]
    assert [name for name, service in services.items() if "ports" in service] == ["proxy"]
    assert [name for name, service in services.items() if "outside" in service["networks"]] == ["proxy"]
    assert COMPOSE["networks"]["inside"]["internal"]
    for service in services.values():
        assert service["security_opt"] == ["no-new-privileges:true"]
    for name in ("proxy", "server"):
        assert services[name]["read_only"]
        assert services[name]["cap_drop"] == ["ALL"]
    grace = int(services["server"]["stop_grace_period"].removesuffix("s"))
    assert grace > FrontDoor().stop_seconds + 10
