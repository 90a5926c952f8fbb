"""nginx in front, with a limit for each address: a real nginx runs here, and two addresses of this machine ask it."""

import re
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

from tests.server.running import HEADLINE, PATIENCE, running
from tests.tools import ROOT, tool

from ldpbandits.server.experiments.limits import LARGEST_EXPERIMENT_BYTES
from ldpbandits.server.process.front_door import FrontDoor

SITE = ROOT / "deploy" / "nginx.conf"
STRANGER, VISITOR = "127.0.0.66", "127.0.0.77"
BURST = 120


def main_file(folder: Path, site: str) -> Path:
    """Write the file that nginx reads first, in which this site is included; everything stays in this folder."""
    (folder / "site.conf").write_text(site, encoding="utf-8")
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    http = f"http {{ {paths} include {folder}/site.conf; }}"
    file = folder / "nginx.conf"
    file.write_text(f"daemon off; pid {folder}/pid; events {{}} {http}\n", encoding="utf-8")
    return file


@contextmanager
def nginx(folder: Path, upstream: str) -> Iterator[tuple[int, Path]]:
    """Run nginx without TLS before a server; yield its port and its log."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    site = SITE.read_text(encoding="utf-8").replace("listen 443 ssl;", f"listen 127.0.0.1:{port};")
    site = re.sub(r"\n\s*ssl_\w+ .*;", "", site).replace("server 127.0.0.1:8000;", f"server {upstream};")
    log = folder / "log"
    command = [tool("nginx"), "-p", str(folder), "-e", "stderr", "-c", str(main_file(folder, site))]
    with log.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        try:
            until = time.monotonic() + PATIENCE
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    assert process.poll() is None, log.read_text()
                    assert time.monotonic() < until
                    time.sleep(0.05)
            yield port, log
        finally:
            process.terminate()


def ask(port: int, address: str, path: str, times: int, key: str) -> Counter[int]:
    """Ask from an address over one connection; count the replies by their status."""
    statuses: Counter[int] = Counter()
    with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE, source_address=(address, 0))) as connection:
        for _ in range(times):
            connection.request("POST", path, "{}", {"Authorization": f"Bearer {key}"})
            reply = connection.getresponse()
            reply.read()
            statuses[reply.status] += 1
    return statuses


def test_one_address_cannot_use_up_what_others_need(tmp_path: Path) -> None:
    """A stranger gets a burst of decisions and then 429; a visitor from elsewhere gets every one. Nobody is logged."""
    path = "/v1/experiments/headline/decisions"
    (tmp_path / "nginx").mkdir()
    with running(tmp_path) as server:
        assert server.ask("POST", "/v1/experiments", HEADLINE).status == 201
        key = server.keys["client"]
        with nginx(tmp_path / "nginx", f"127.0.0.1:{server.port}") as (port, log):
            started = time.monotonic()
            stranger = ask(port, STRANGER, path, 4 * BURST, key)
            refilled = time.monotonic() - started + 1  # one decision a second comes back meanwhile
            visitor = ask(port, VISITOR, path, 20, key)
            batch = ask(port, VISITOR, path + "/batch", 1, key)
            told = log.read_text()
    assert set(stranger) <= {200, 429}
    assert BURST <= stranger[200] <= BURST + 1 + refilled or refilled > 3 * BURST
    assert visitor == {200: 20}
    assert batch == {403: 1}
    assert STRANGER not in told
    assert VISITOR not in told


def test_nginx_finds_the_file_valid(tmp_path: Path) -> None:
    """As it is, with a certificate of its own."""
    made = [tmp_path / "certificate", tmp_path / "key"]
    arguments = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=agent.example.org"]
    certify = [tool("openssl"), *arguments, "-out", str(made[0]), "-keyout", str(made[1])]
    subprocess.run(certify, check=True, capture_output=True, timeout=PATIENCE)
    site = SITE.read_text(encoding="utf-8")
    for directive, file in zip(("ssl_certificate ", "ssl_certificate_key "), made, strict=True):
        site = re.sub(rf"{directive}.*;", f"{directive}{file};", site)
    file = main_file(tmp_path, site.replace("listen 443", "listen 127.0.0.1:8443"))
    command = [tool("nginx"), "-t", "-p", str(tmp_path), "-e", "stderr", "-c", str(file)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert "warn" not in done.stderr


def test_the_limits_are_those_of_the_front_door() -> None:
    """Each is below the comment that names its option."""
    door, text = FrontDoor(), SITE.read_text(encoding="utf-8")
    for name, line in {
        "header_bytes": f"large_client_header_buffers 4 {door.header_bytes // 1024}k;",
        "head_seconds": f"client_header_timeout {door.head_seconds:g}s;",
        "body_seconds": f"client_body_timeout {door.body_seconds:g}s;",
        "idle_seconds": f"keepalive_timeout {door.idle_seconds:g}s;",
    }.items():
        assert f"# {name}\n    {line}" in text
    assert f"client_max_body_size {LARGEST_EXPERIMENT_BYTES};" in text
