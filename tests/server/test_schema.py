"""What /openapi.json says is what the server does."""

import subprocess
import sys
from pathlib import Path

from tests.server.running import PATIENCE, running

from ldpbandits.server.api.operations import OPERATIONS

CONFIG = """
# These refuse some bodies that are right by themselves, for a reason that is written in /openapi.json.

[[operations]]  # a response may be impossible for the curator of its ticket; a ticket that is made up is forged
include-name = "POST /v1/responses"
checks.positive_data_acceptance.expected-statuses = ["2xx", "403", "409", "410", "422"]

[[operations]]  # a range must have low < high, and hold the default reward; a name is taken once
include-name = "POST /v1/experiments"
checks.positive_data_acceptance.expected-statuses = ["2xx", "409", "422"]

[[operations]]  # the planned end may be no day of the calendar
include-name = "POST /v1/experiments/{name}/describe"
checks.positive_data_acceptance.expected-statuses = ["2xx", "404", "422"]

[[operations]]  # experiments are an editor's, who has some
include-name = "POST /v1/keys"
checks.positive_data_acceptance.expected-statuses = ["2xx", "409", "422"]

[[operations]]
include-name = "POST /v1/keys/{key}"
checks.positive_data_acceptance.expected-statuses = ["2xx", "404", "409", "422"]

[[operations]]  # an experiment may be paused, or closed
include-name = "POST /v1/experiments/{name}/decisions"
checks.positive_data_acceptance.expected-statuses = ["2xx", "404", "409", "410"]

[[operations]]
include-name = "POST /v1/experiments/{name}/decisions/batch"
checks.positive_data_acceptance.expected-statuses = ["2xx", "404", "409", "410"]
"""
KEY = "admin-key-of-the-tests"
ENVIRONMENT = {"LDPBANDITS_ADMIN_KEY": KEY, "LDPBANDITS_CLIENT_KEY": "client-key-of-the-tests"}


def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    """Schemathesis, with all of its checks and phases, finds no request that the server does not answer as it says."""
    config = tmp_path / "schemathesis.toml"
    config.write_text(CONFIG)
    options = ["--admin-rate", "0"]  # more requests than a burst of this key may have
    with running(tmp_path, environment=ENVIRONMENT, keys={"admin": KEY}, options=options) as server:
        command = [
            *(sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()"),
            *("--config-file", str(config), "run", f"{server.url}/openapi.json", "--no-color"),
            *("--header", f"Authorization: Bearer {KEY}", "--checks", "all", "--max-examples", "8"),
            "--generation-deterministic",
        ]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=5 * PATIENCE, check=False)
        assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2_000:]
        assert f"Tested: {len(OPERATIONS)}\n" in done.stdout
        assert server.ask("GET", "/healthz", role=None).status == 200
        assert "Traceback" not in server.printed()
