"""A read-only root: a server writes beside its database, and nowhere else."""

import random
from pathlib import Path

from tests.server.namespaces import in_a_namespace
from tests.server.running import HEADLINE, running

READ_ONLY = (
    'mount --bind "$1" "$1" && mount -o remount,bind,ro /'
    " && for place in /tmp /var/tmp /usr/tmp; do mount -o remount,bind,ro $place 2>/dev/null || true; done"
    ' && if touch "$2" 2>/dev/null; then false; fi'
)
KEYS = {role: f"{role}-key-of-the-environment" for role in ("admin", "viewer", "client")}
AT_ONCE = 99
"""And one more, which came before."""
BATCHES = 50


def test_every_response_is_counted_on_a_read_only_root(tmp_path: Path) -> None:
    """4,950 responses in batches, with no folder for temporary files: each counts once, also those that come twice.

    In the order of their tickets they would go to one end of the table of nonces, and need no temporary file.
    """
    folder = tmp_path / "data"
    folder.mkdir()
    before = in_a_namespace(READ_ONLY, folder, tmp_path / "not to be made")
    environment = {f"LDPBANDITS_{role.upper()}_KEY": key for role, key in KEYS.items()}
    with running(tmp_path, before=before, database=folder / "agent.db", environment=environment, keys=KEYS) as server:
        assert server.ask("POST", "/v1/experiments", HEADLINE).status == 201
        responses = [
            {"ticket": each["ticket"], "response": 1}
            for _ in range(BATCHES)
            for each in server.ask("POST", "/v1/experiments/headline/decisions/batch", {"count": AT_ONCE}).json
        ]
        random.Random(1).shuffle(responses)
        for start in range(0, len(responses), AT_ONCE):
            batch = [*responses[start : start + AT_ONCE], responses[0]]
            replies = server.ask("POST", "/v1/responses/batch", {"responses": batch}).json
            assert [each["status"] for each in replies] == ["counted"] * AT_ONCE + ["duplicate"]
        exported = server.ask("GET", "/v1/experiments/headline/responses.csv").body
        assert exported.count(b"\n") == 1 + len(responses)
        assert server.ask("DELETE", "/v1/experiments/headline").status == 200
        assert server.stop() == 0
    assert {path.name for path in folder.iterdir()} == {"agent.db", "agent.db-lock"}
