"""The page of metrics: it can be read, it has an end, and there is nobody on it."""

import asyncio
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from tests.server.inprocess import Reply, ask
from tests.server.local import CLIENT, CURATOR, VIEWER, E, Local

from ldpbandits.server import service as service_module
from ldpbandits.server.process import metrics
from ldpbandits.server.process.meters import Histogram
from ldpbandits.server.service import Service
from ldpbandits.server.single_flight import REST_RATIO, Paced
from ldpbandits.server.store import Unavailable


def page(local: Local) -> dict[str, Metric]:
    """Ask for the page with the viewer key and read it as Prometheus does."""
    reply = local("GET", "/metrics", key=VIEWER)
    assert reply.status == 200
    return {family.name: family for family in text_string_to_metric_families(reply.body.decode())}


def value(families: dict[str, Metric], name: str, sample: str | None = None, **labels: str) -> float:
    """Return the one value with these labels."""
    (found,) = [
        one.value
        for one in families[name].samples
        if one.name == (sample or one.name) and labels.items() <= one.labels.items()
    ]
    return found


def test_what_happened_is_on_the_page(local: Local) -> None:
    """Decisions, responses, commits, batches, refusals, times and sizes are there; by operation, where there is one."""
    for turn in range(3):
        ticket = local.decide()["ticket"]
        if turn:
            assert local.respond(ticket) == (200, "counted")
    assert local.respond("no ticket") == (403, "forged")
    families = page(local)
    assert sum(sample.value for sample in families["ldpbandits_decisions"].samples) == 3
    assert value(families, "ldpbandits_all_decisions") == 3
    assert value(families, "ldpbandits_all_pulls") == 2
    assert value(families, "ldpbandits_experiments", status="running") == 1
    assert value(families, "ldpbandits_commits") == 2
    assert value(families, "ldpbandits_commit_seconds", "ldpbandits_commit_seconds_count") == 2
    assert value(families, "ldpbandits_commit_responses", "ldpbandits_commit_responses_sum") == 2
    assert value(families, "ldpbandits_queue_responses", "ldpbandits_queue_responses_bucket", le="1") == 2
    assert value(families, "ldpbandits_queued_responses") == 0
    decisions = "POST /v1/experiments/{name}/decisions"
    assert value(families, "ldpbandits_request_seconds", "ldpbandits_request_seconds_count", operation=decisions) == 3
    assert 0 < value(families, "ldpbandits_request_seconds", "ldpbandits_request_seconds_sum", operation=decisions) < 3
    assert value(families, "ldpbandits_requests", operation=decisions, status="200") == 3
    assert value(families, "ldpbandits_requests", operation="POST /v1/responses", status="403") == 1
    assert value(families, "ldpbandits_rejected", experiment="", reason="forged") == 1
    assert value(families, "ldpbandits_unavailable", reason="store") == 0
    assert value(families, "ldpbandits_open_connections") == 0
    assert value(families, "ldpbandits_closed_connections", limit="connections") == 0
    assert value(families, "ldpbandits_database_bytes") > 4096
    assert value(families, "ldpbandits_log_bytes") > 0
    assert value(families, "ldpbandits_disk_free_bytes") > 0
    assert value(families, "ldpbandits_arms_without_lines") == 0
    assert value(families, "process_resident_memory_bytes") > 1e6


def test_names_are_as_prometheus_wants_them(local: Local) -> None:
    """Every family has a help text; counters end in _total, times are in seconds and sizes in bytes."""
    local.decide()
    text = local("GET", "/metrics", key=VIEWER).body.decode()
    for family in page(local).values():
        assert family.documentation.endswith("."), family.name
        assert f"# TYPE {family.name}{'_total' if family.type == 'counter' else ''} {family.type}" in text
        if family.type == "histogram":
            assert family.name.endswith(("_seconds", "_responses"))
    assert "_milliseconds" not in text


def test_nobody_is_on_the_page(local: Local) -> None:
    """Neither an address nor a user agent nor a key gets onto it, whoever asks for what."""
    local("POST", f"{E}/decisions", {}, CLIENT, **{"User-Agent": "marker-of-a-person", "X-Forwarded-For": "192.0.2.7"})
    local("GET", "/nowhere/marker-of-a-person", key="marker-of-a-person")
    text = local("GET", "/metrics", key=VIEWER).body.decode()
    assert not [word for word in ("marker", "192.0.2.7", "127.0.0.1", CLIENT, VIEWER) if word in text]


def test_the_page_has_an_end(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many experiments some get lines, running and busy ones first; of many arms the busiest. Totals are of all."""
    monkeypatch.setattr(metrics, "MOST_EXPERIMENTS", 3)
    monkeypatch.setattr(metrics, "MOST_ARMS", 12)
    for number in range(8):
        new = {"name": f"many-{number}", "arms": [f"arm {arm}" for arm in range(5)], "curator": CURATOR}
        assert local("POST", "/v1/experiments", new).status == 201
    for name in ("many-2", "many-4", "many-4", "many-6", "many-6", "many-6", "headline", *["many-7"] * 20):
        local.decide(name)
    assert local("POST", "/v1/experiments/many-7/pause", {}).status == 200
    families = page(local)
    shown = {
        (sample.labels["experiment"], sample.labels["arm"]): sample.value
        for sample in families["ldpbandits_decisions"].samples
    }
    assert [name for name, _ in shown] == ["many-6"] * 5 + ["many-4"] * 5 + ["headline"] * 2
    assert sum(shown.values()) == 6
    assert value(families, "ldpbandits_all_decisions") == 27
    assert value(families, "ldpbandits_arms_without_lines") == 42 - 12
    assert value(families, "ldpbandits_experiments", status="paused") == 1
    monkeypatch.setattr(metrics, "MOST_ARMS", 4)
    rows = [sample for sample in page(local)["ldpbandits_decisions"].samples if sample.value]
    assert {sample.labels["experiment"] for sample in rows} == {"many-6"}
    assert sum(sample.value for sample in rows) == 3


def test_whoever_asks_at_once_shares_a_page(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of twelve who ask at once each gets the page, and it is made once."""
    made, text = [], metrics.text

    async def noted(service: Service) -> str:
        made.append(service)
        return await text(service)

    monkeypatch.setattr(metrics, "text", noted)

    async def crowd() -> list[Reply]:
        return await asyncio.gather(*(ask(local.app, "GET", "/metrics", key=VIEWER) for _ in range(12)))

    replies = local.do(crowd())
    assert {reply.status for reply in replies} == {200}
    assert len({reply.body for reply in replies}) == len(made) == 1


@pytest.mark.parametrize("path", ["/metrics", "/v1/experiments"])
def test_decisions_get_their_turn_while_a_long_page_is_made(
    local: Local, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """What is made from all experiments is made in many short turns of the event loop, and complete."""
    for name in range(8):
        new = {"name": f"e-{name}", "arms": ["a", "b"], "curator": CURATOR}
        assert local("POST", "/v1/experiments", new).status == 201
    monkeypatch.setattr(metrics, "_ARMS_A_TURN", 1)
    monkeypatch.setattr(metrics, "_SAMPLES_A_TURN", 1)
    monkeypatch.setattr(service_module, "SUMMARIES_A_TURN", 1)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def asked() -> Reply:
        counting = asyncio.create_task(count())
        reply = await ask(local.app, "GET", path, key=VIEWER)
        counting.cancel()
        return reply

    reply = local.do(asked())
    assert all(reply.body.count(f"e-{name}".encode()) >= 1 for name in range(8))
    assert turns >= (8 * 2 * 4 if path == "/metrics" else 8), "a turn for each sample, or for each experiment"
    if path == "/metrics":
        families = [line.split()[2] for line in reply.body.decode().splitlines() if line.startswith("# HELP")]
        assert len(families) == len(set(families))


def test_work_that_is_paced_rests() -> None:
    """The next run begins no sooner than `REST_RATIO` times as long as the last took; a failed run is told to all."""

    async def life() -> None:
        began: list[float] = []
        time = asyncio.get_running_loop().time

        async def work() -> int:
            began.append(time())
            await asyncio.sleep(0.02)
            if len(began) == 3:
                raise Unavailable("full")
            return len(began)

        paced = Paced(work)
        assert await asyncio.gather(*(paced() for _ in range(5))) == [1] * 5
        assert await paced() == 2
        assert began[1] - began[0] >= (1 + REST_RATIO) * 0.02
        failed = await asyncio.gather(*(paced() for _ in range(3)), return_exceptions=True)
        assert [type(error) for error in failed] == [Unavailable] * 3

    asyncio.run(life())


def test_servers_in_one_process_count_apart(local: Local, tmp_path: Path) -> None:
    """There is no registry that two servers share."""
    local.decide()
    other = Local(tmp_path / "other.db")
    assert value(page(other), "ldpbandits_all_decisions") == 0
    assert value(page(local), "ldpbandits_all_decisions") == 1
    other.close()


def test_a_histogram_counts_up_to_each_bound() -> None:
    """A value that is a bound is at most that bound; one above all is counted in the last."""
    histogram = Histogram((1, 2, 5))
    for number in (0.5, 1, 1.5, 2, 5, 7):
        histogram.observe(number)
    assert (histogram.counts, histogram.total) == ([2, 2, 1, 1], 17)
