"""`ldpbandits demo --open`: the console opens in a browser, signed in by a link that works once."""

import os
import re
import signal
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from tests.server.running import PATIENCE


def test_the_demo_opens_the_console_signed_in(tmp_path: Path) -> None:
    """It prints the link and opens the same one; that signs in as admin, and the server stays until Ctrl-C."""
    opened, script = tmp_path / "opened", tmp_path / "browser.py"
    script.write_text(f"import sys; open({str(opened)!r}, 'w').write(sys.argv[1])", encoding="utf-8")
    command = [sys.executable, "-m", "ldpbandits", "demo", "--open", "--devices", "5", "--pulls", "2", "--epsilon", "4"]
    environment = {**os.environ, "BROWSER": f"{sys.executable} {script} %s"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as demo:
        try:
            assert demo.stderr is not None
            said = ""
            while said.count("/console/enter/") < 2:  # one before the crowd comes, and a new one afterwards
                line = demo.stderr.readline()
                assert line, said
                said += line
            url = opened.read_text(encoding="utf-8")
            links = re.findall(r"http://\S+/console/enter/\S+", said)
            assert links[0] == url
            assert links[1] != url
            assert _signed_in(url)
            assert not _signed_in(url), "it works once"
            assert _signed_in(links[1])
            demo.send_signal(signal.SIGINT)
            assert demo.wait(PATIENCE) == 0
        finally:
            demo.kill()


def _signed_in(link: str) -> bool:
    """Follow a link as a browser does; tell whether it led to the experiments."""
    parts = urlsplit(link)
    assert parts.hostname is not None
    connection = HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE)
    form = f"link={parts.path.rpartition('/')[2]}"
    connection.request("POST", "/console/sign-in", form, {"Origin": f"http://{parts.netloc}"})
    reply = connection.getresponse()
    reply.read()
    cookie = (reply.getheader("Set-Cookie") or "").partition(";")[0]
    connection.request("GET", "/console/", headers={"Cookie": cookie})
    page = connection.getresponse()
    shown = page.read().decode()
    connection.close()
    return page.status == 200 and "New experiment" in shown and "headlines" in shown
