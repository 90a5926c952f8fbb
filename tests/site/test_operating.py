"""What docs/operating.md shows, runs: its configuration, and its commands in their order, in one shell."""

import os
import re
import shutil
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from ldpbandits.cli import COMMANDS
from ldpbandits.cli.config import Option
from ldpbandits.cli.serve_options import OPTIONS, SECRETS

PAGE = (Path(__file__).parents[2] / "docs" / "operating.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
NOT_RUN = re.findall(r"^```console\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
(TOML,) = re.findall(r"^```toml\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
BASH = shutil.which("bash") or "bash"
END = 'jobs=$(jobs -p); [ -z "$jobs" ] || kill $jobs; wait'


def row(option: Option) -> str:
    """Return the line of an option in the table."""
    default = option.default if option.kind is not float else f"{option.default:g}"
    shown = "" if option.default in {None, "", ()} else f"`{default}`"
    more = f" (also `{option.variable}_FILE`)" if option.has_file else ""
    return f"| `{option.name}` | `{option.flag}` | `{option.variable}` | {shown} | {option.help}{more} |"


def test_the_table_of_options_is_the_table_of_options() -> None:
    """Each with its three forms and its default."""
    assert "\n|---|---|---|---|---|\n" + "\n".join(map(row, OPTIONS)) + "\n\n" in PAGE


def test_every_secret_of_the_environment_is_named() -> None:
    """With what it is for."""
    for name in ("LDPBANDITS_ADMIN_KEY", "LDPBANDITS_SIGNING_SECRET"):
        assert name in SECRETS
        assert name in PAGE


def test_the_commands_run(tmp_path: Path) -> None:
    """One after the other, each with exit code 0, and no process is left behind."""
    (tmp_path / "server.toml").write_text(TOML)
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LDPBANDITS_")}
    environment = clean | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{clean['PATH']}",
        "LDPBANDITS_PORT": str(port),  # 8000 may be somebody's
        "LDPBANDITS_URL": f"http://127.0.0.1:{port}",
    }
    script = "\n".join(["set -eu", f"trap '{END}' EXIT", *BLOCKS])
    done = subprocess.run(
        [BASH, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    said = f"{done.stdout}\n{done.stderr}\n{(tmp_path / 'log').read_text()}"
    assert done.returncode == 0, said
    assert '"event": "started"' in said
    assert {"keys", "viewer-key", "client-key", "secrets"} <= {path.name for path in tmp_path.iterdir()}
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700


def test_what_is_not_run_here_needs_what_is_not_here() -> None:
    """Root, Docker, systemd, the network or a PostgreSQL; and each of our commands in it exists."""
    for block in NOT_RUN:
        assert re.search(r"docker|systemctl|pip install|/etc/|psql", block), block
    names = {command.name for command in COMMANDS}
    for name in re.findall(r"\bldpbandits ([a-z]+)\b(?! agent)", "\n".join([*NOT_RUN, *BLOCKS])):
        assert name in names | {"serve"}


def test_it_says_what_was_not_run() -> None:
    """Plainly, at its end."""
    last = PAGE.rpartition("\n## ")[2]
    assert last.startswith("How much of this was run")
    for what in (
        "No image was built and no container was run here",
        "no systemd has run it",
        "no Prometheus has scraped",
    ):
        assert what in last
