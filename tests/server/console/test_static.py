"""The files that pages are made with: which they are, and that what others wrote is as they wrote it."""

import asyncio
import json
import re
import shutil
import subprocess
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from tests.server.console.browsing import browser

from ldpbandits.server.console import replies
from ldpbandits.server.service import Service

FOLDER = Path(str(files("ldpbandits.server.console"))) / "static"


def test_vendored_files_are_as_their_authors_published_them() -> None:
    """Each has the checksum that was noted when it was taken over, and the licence is beside it."""
    vendor = FOLDER / "vendor"
    noted = dict(line.split()[::-1] for line in (vendor / "SHA256SUMS").read_text().splitlines())
    assert set(noted) == {path.name for path in vendor.iterdir()} - {"SHA256SUMS"}
    assert all(sha256((vendor / name).read_bytes()).hexdigest() == digest for name, digest in noted.items())
    assert "The MIT License" in (vendor / "uPlot.LICENSE").read_text()


def test_static_files_are_served_as_what_they_are(service: Service) -> None:
    """Each has its type, and may be kept for ever: its address changes with its content. There are no others."""

    async def life() -> None:
        visitor = browser(service)
        types = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
        for name, content in replies.STATIC.items():
            reply = await visitor.send("GET", f"/console/static/{name}?{sha256(content).hexdigest()[:12]}")
            assert (reply.status, reply.body) == (200, content)
            assert reply.headers["content-type"] == types[name.rpartition(".")[2]]
        served = {f"static/{name}" for name in replies.STATIC}
        there = {
            path.relative_to(FOLDER.parent).as_posix() for path in FOLDER.rglob("*.*") if path.suffix != ".LICENSE"
        }
        assert served == there
        for other in ("../sessions.py", "..%2fsessions.py", "vendor/SHA256SUMS", "nothing.css", ""):
            assert (await visitor.send("GET", f"/console/static/{other}")).status in {303, 404}, other

    asyncio.run(life())


def test_our_script_and_style_ask_nobody_else() -> None:
    """No address of another site, no code from text, no HTML from data."""
    script, style = replies.STATIC["console.js"].decode(), replies.STATIC["console.css"].decode()
    assert "//" not in re.sub(r"(?m)^\s*//.*$|\s// .*$", "", script)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(", script)
    assert not re.search(r"url\(|@import|@font-face", style)


LOOKED_AT_AGAIN = """
const asked = [], heard = {};
globalThis.location = { href: "http://x/console/?page=2&find=a#main", search: "?page=2&find=a", reload() {} };
globalThis.addEventListener = () => {};
globalThis.matchMedia = () => ({ addEventListener() {} });
globalThis.fetch = async (url) => { asked.push(url); return { ok: false }; };
const main = { dataset: {}, classList: { add() {} } };
globalThis.document = {
  hidden: false,
  documentElement: main,
  querySelector: (selector) => (selector === "#main" ? main : null),
  querySelectorAll: () => [],
  addEventListener: (name, call) => { heard[name] = call; },
};
(0, eval)(require("node:fs").readFileSync(process.argv[1], "utf8"));
heard.visibilitychange();
setTimeout(() => console.log(JSON.stringify(asked)));
"""


def test_a_page_asks_for_itself_again_with_its_query() -> None:
    """A page of the list stays that page when it is brought up to date, and an arm that was picked stays picked."""
    node = shutil.which("node")
    assert node is not None, "node is needed for this test: install Node.js 20 or newer"
    command = [node, "-e", LOOKED_AT_AGAIN, str(FOLDER / "console.js")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["http://x/console/?page=2&find=a"]
