"""What every page has in common, and what the pages of experiments show."""

import logging
import re
from base64 import b64encode
from hashlib import sha256
from io import BytesIO
from unittest.mock import ANY
from urllib.parse import urljoin, urlsplit
from zipfile import ZipFile

import msgspec
import pytest
from tests.server.console.browsing import HEADLINE, HOST, KEYS, Browser, Elements, browser, text
from tests.server.console.life import answer, run
from tests.server.inprocess import Reply, ask

from ldpbandits import __version__
from ldpbandits.server.api.app import application
from ldpbandits.server.api.messages import NewExperiment, ResponseMessage, ShippedArm
from ldpbandits.server.console import live, replies
from ldpbandits.server.service import Service
from ldpbandits.server.store import Unavailable

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HOSTILE = ["<script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "' onfocus=alert(3) x='", "{{ 7 * 7 }}"]


async def crawl(visitor: Browser) -> dict[str, Reply]:
    """Return every page that can be reached by links, and all that pages load, by path."""
    root = f"{visitor.origin}{visitor.prefix}/"
    start = f"{root}console/"
    waiting, seen = [start, f"{start}nowhere", f"{start}a/b/c"], dict[str, Reply]()
    while waiting:
        url = waiting.pop()
        path = urlsplit(url).path
        if path in seen:
            continue
        seen[path] = reply = await visitor.send("GET", url)
        if not reply.headers.get("content-type", "").startswith("text/html") or "content-disposition" in reply.headers:
            continue
        for value in Elements(reply.body.decode()).values("href", "src", "action", "data-history", "data-words"):
            assert not re.match(r"/|\w+:", value), f"{value} on {path} is not relative"
            where = urljoin(url, value).partition("#")[0]
            if where == f"{root}openapi.json":  # of the API, and with its headers
                continue
            assert where.startswith((start, f"{root}docs")), f"{value} on {path} leads out of the console"
            if not where.endswith("sign-out"):
                waiting.append(where)
    return seen


async def listed(visitor: Browser, query: str = "") -> tuple[list[str], str]:
    """Return the experiments that a page of the list has rows for, and the rest of the page as text."""
    page = (await visitor.send("GET", f"/console/{query}")).body.decode()
    links = Elements(page).values("href")
    return [link.removeprefix("experiments/") for link in links if link.startswith("experiments/")], text(page)


def test_the_list_has_pages(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page has a few experiments, the newest first, and ways to the others; what no page is is the first or last."""
    monkeypatch.setattr(live, "ROWS_PER_PAGE", 2)

    async def life(service: Service) -> None:
        visitor = browser(service)
        await visitor.sign_in("viewer")
        assert await listed(visitor) == (["headline"], ANY)
        assert "of 1" not in (await listed(visitor))[1]
        for name in ("a", "b", "c", "d"):
            await service.commands.create(NewExperiment(**{**HEADLINE, "name": name}))
        pages = [await listed(visitor, f"?page={number}") for number in (1, 2, 3)]
        assert [names for names, _ in pages] == [["d", "c"], ["b", "a"], ["headline"]]
        ends = ["1 to 2 of 5", "3 to 4 of 5", "5 to 5 of 5"]
        assert all(end in told for end, (_, told) in zip(ends, pages, strict=True))
        middle = Elements((await visitor.send("GET", "/console/?page=2")).body.decode()).values("href")
        assert {"?page=1&find=", "?page=3&find="} <= set(middle)
        for query in ("", "?page=0", "?page=x"):
            assert (await listed(visitor, query))[0] == ["d", "c"]
        assert (await listed(visitor, "?page=99"))[0] == ["headline"]

    run(service, life)


def test_the_list_is_searched_by_name(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only experiments whose names contain what is looked for are on its pages; where there are none, it says so."""
    monkeypatch.setattr(live, "ROWS_PER_PAGE", 2)

    async def life(service: Service) -> None:
        visitor = browser(service)
        await visitor.sign_in("viewer")
        for name in ("a-1", "b-1", "a-2", "a-3"):
            await service.commands.create(NewExperiment(**{**HEADLINE, "name": name}))
        assert (await listed(visitor, "?find=a-"))[0] == ["a-3", "a-2"]
        assert (await listed(visitor, "?find=A-&page=2"))[0] == ["a-1"]
        names, told = await listed(visitor, "?find=%3Cb%3E")
        assert not names
        assert "No experiment has a name that contains <b>." in told

    run(service, life)


def test_the_list_asks_for_no_history(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of the list needs a report of each experiment on it, and nothing else of any experiment."""
    monkeypatch.setattr(live, "ROWS_PER_PAGE", 2)

    async def life(service: Service) -> None:
        for name in ("a", "b", "c"):
            await service.commands.create(NewExperiment(**{**HEADLINE, "name": name}))
        asked, report = [], service.report

        async def noted(name: str) -> object:
            asked.append(name)
            return await report(name)

        monkeypatch.setattr(service, "report", noted)
        monkeypatch.delattr(Service, "history")
        visitor = browser(service)
        await visitor.sign_in("viewer")
        asked.clear()
        assert (await listed(visitor))[0] == ["c", "b"]
        assert set(asked) <= {"b", "c"}

    run(service, life)


def test_every_page_is_reached_behind_any_prefix(service: Service) -> None:
    """All ways are relative, stay within the console, and lead somewhere; pages need nothing from elsewhere."""

    async def life(service: Service) -> None:
        await answer(service, {"blue": 0.2, "green": 0.8}, 60)
        for prefix in ("", "/one", "/one/two"):
            visitor = browser(service, prefix=prefix)
            await visitor.sign_in("admin")
            seen = await crawl(visitor)
            lost = {path for path, reply in seen.items() if reply.status != 200}
            assert lost == {f"{prefix}/console/{path}" for path in ("nowhere", "a/b/c")}
            found = {path.removeprefix(f"{prefix}/console/") for path in seen}
            assert f"{prefix}/docs" in found
            one = "experiments/headline"
            shown = {"pause", "ship", "add-arm", "retire", "close", "delete", "report.html", "responses.csv"}
            shown |= {"tallies.json", "history.json"}
            assert {"", "new", "epsilon", one, *(f"{one}/{page}" for page in shown)} <= found

    run(service, life)


def test_pages_keep_to_themselves(service: Service) -> None:
    """Each reply has the policy and the other headers, none may be read by another site, and pages are not cached."""

    async def life(service: Service) -> None:
        visitor = browser(service)
        await visitor.sign_in("admin")
        seen = await crawl(visitor)
        seen["refused"] = await visitor.send("POST", "/console/new", b"name=x", {"Origin": visitor.origin})
        seen["method"] = await visitor.send("DELETE", "/console/new")
        seen["options"] = await visitor.send("OPTIONS", "/console/experiments/headline")
        seen["redirected"] = await visitor.send("GET", "/console")
        stranger = browser(service)
        seen["signed out"] = await stranger.send("GET", "/console/")
        seen["wrong key"] = await stranger.submit("console/sign-in", {"key": "x"})
        seen["link"] = await stranger.send("GET", "/console/enter/x")
        for path, reply in seen.items():
            assert reply.headers["content-security-policy"] == POLICY, path
            assert reply.headers["x-content-type-options"] == "nosniff", path
            assert reply.headers["referrer-policy"] == "same-origin", path
            assert not [name for name in reply.headers if name.startswith("access-control")], path
            is_static = "/static/" in path
            assert reply.headers["cache-control"] == (replies.FOREVER if is_static else "no-store"), path

    run(service, life)


def test_no_page_has_script_or_style_inside(service: Service) -> None:
    """Scripts and styles are files of ours; there is no style or handler in any element."""

    async def life(service: Service) -> None:
        await answer(service, {"blue": 0.2, "green": 0.8}, 60)
        visitor = browser(service)
        await visitor.sign_in("admin")
        for path, reply in (await crawl(visitor)).items():
            if "content-disposition" in reply.headers or not reply.headers["content-type"].startswith("text/html"):
                continue
            for tag, attributes in Elements(reply.body.decode()).all:
                assert tag != "style", path
                assert tag != "script" or attributes.get("src"), path
                assert not [name for name in attributes if name == "style" or name.startswith("on")], path

    run(service, life)


def test_names_are_shown_as_they_are_written(service: Service) -> None:
    """A hostile name of an arm is text on every page, in the file and in what the chart reads."""

    async def life(service: Service) -> None:
        for _ in range(8):
            decision = service.decide("headline")
            await service.respond(ResponseMessage(decision.ticket or "", 1.0))
        visitor = browser(service)
        await visitor.sign_in("admin")
        for path, reply in (await crawl(visitor)).items():
            if not reply.headers["content-type"].startswith("text/html"):
                continue
            page = reply.body.decode()
            assert not [name for name in HOSTILE[:3] if name in page], path
            elements = Elements(page).all
            assert not [attributes for tag, attributes in elements if tag == "img" or "onfocus" in attributes], path
            assert "49" not in text(page) or "{{ 7 * 7 }}" in text(page), path
        await visitor.visit("experiments/headline")
        assert all(name in text(visitor.page) for name in HOSTILE[2:])
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in visitor.page
        reply = await visitor.send("GET", "headline/history.json")
        assert [arm["name"] for arm in reply.json["arms"]] == HOSTILE
        assert reply.headers["content-type"] == "application/json"

    run(service, life, arms=HOSTILE)


def test_the_list_shows_every_experiment(service: Service) -> None:
    """Name, status, arms, responses, the best arm and the share of each, the newest first."""

    async def life(service: Service) -> None:
        visitor = browser(service)
        await visitor.sign_in("viewer")
        assert "headline since 15 January 2027 running no response yet 2 0" in text(visitor.page)
        await answer(service, {"blue": 0.0, "green": 1.0}, 200)
        await visitor.visit()
        report = await service.report("headline")
        assert report.best is not None
        assert (report.best.name, report.responses) == ("green", 200)
        assert re.search(r"running green (not decided yet|decided) .* 2 200$", text(visitor.page))
        widths = [float(width) for width in re.findall(r'class="arm-\d" x="[\d.]+%" width="([\d.]+)%"', visitor.page)]
        assert widths == [pytest.approx(100 * (arm.share or 0), abs=0.001) for arm in report.arms]
        await service.commands.ship("headline", ShippedArm("green"))
        await visitor.visit()
        assert "shipped green everybody gets it" in text(visitor.page)

    run(service, life)


def test_the_page_of_an_experiment_says_what_the_api_says(service: Service) -> None:
    """Every number of the report that the API gives is on the page, as the page writes it."""

    async def life(service: Service) -> None:
        await answer(service, {"blue": 0.2, "green": 0.8}, 300)
        for _ in range(3):
            service.decide("headline")
        with pytest.raises(Exception, match="not a ticket"):
            await service.respond(ResponseMessage("x" * 64, 1.0))
        visitor = browser(service)
        await visitor.sign_in("viewer")
        await visitor.visit("experiments/headline")
        said, report = text(visitor.page), await service.report("headline")
        for arm in report.arms:
            assert arm.mean is not None
            written = f"{arm.mean:.2f} {arm.low:.2f} to {arm.high:.2f}"
            assert re.search(rf"{arm.name} (?:ahead |best )?.*{re.escape(written)} [\d.]+ % {arm.pulls} 0", said), said
        assert "responses 300 decisions 303 accepted 300 pending 3 missing 0 never accepted 0" in said
        assert report.guarantee in said
        assert "Privacy cost epsilon 1 per response" in said
        assert "at most 2.7 times surer of a reward; a bit is flipped with a chance of 27 %" in said
        assert (
            "Reporting moment 25 seconds after the arm was shown, whatever the reward; a ticket is valid for 1 hour"
            in said
        )
        assert "Default reward 0, where a device observes none" in said
        assert "kl-ucb++ Definition Pull the arm of largest U(mean" in said
        assert "U(mean" not in re.sub(
            r"<details>.*?</details>", "", visitor.page, flags=re.DOTALL
        )  # no formula outside
        assert "1 forged" in said
        assert report.forecast.sentence.removeprefix("not ") in said

    run(service, life)


def test_what_can_be_taken_away_is_what_the_api_exports(service: Service) -> None:
    """Responses as CSV, shuffled; tallies with the same content; each is saved under a name of its own."""

    async def life(service: Service) -> None:
        await answer(service, {"blue": 0.2, "green": 0.8}, 120)
        visitor = browser(service)
        await visitor.sign_in("viewer")
        csv = await visitor.send("GET", "experiments/headline/responses.csv")
        first, *rows = "".join(await service.export("headline")).splitlines()
        told = csv.body.decode().splitlines()
        assert told[0] == first
        assert sorted(row.partition(",")[2] for row in told[1:]) == sorted(row.partition(",")[2] for row in rows)
        assert csv.headers["content-disposition"] == 'attachment; filename="headline-responses.csv"'
        tallies = await visitor.send("GET", "experiments/headline/tallies.json")
        assert tallies.json == msgspec.to_builtins(await service.tallies("headline"))
        assert tallies.headers["content-disposition"] == 'attachment; filename="headline-tallies.json"'

    run(service, life)


def test_the_file_of_an_experiment_needs_nothing_else(service: Service) -> None:
    """One HTML file: no script, no link, its style inside and allowed by its hash alone, the drawings as SVG."""

    async def life(service: Service) -> None:
        await answer(service, {"blue": 0.2, "green": 0.8}, 120)
        visitor = browser(service)
        await visitor.sign_in("viewer")
        reply = await visitor.send("GET", "experiments/headline/report.html")
        assert reply.headers["content-disposition"] == 'attachment; filename="headline.html"'
        page = reply.body.decode()
        elements = Elements(page)
        assert not {tag for tag, _ in elements.all} & {"script", "link", "img", "iframe", "form", "button", "a"}
        assert not elements.values("src", "href", "action")
        assert "url(" not in page
        assert "@import" not in page
        (style,) = re.findall(r"(?s)<style>(.*?)</style>", page)
        digest = b64encode(sha256(style.encode()).digest()).decode()
        (policy,) = [a["content"] for t, a in elements.all if t == "meta" and a.get("http-equiv")]
        assert policy == f"default-src 'none'; style-src 'sha256-{digest}'"
        assert {"circle", "polyline", "polygon"} <= {tag for tag, _ in elements.all}
        await visitor.visit("experiments/headline")
        report = await service.report("headline")
        assert f"{report.arms[1].mean:.2f}" in text(page)
        assert f"State of 15 January 2027, 08:00 UTC. Saved from the console of ldpbandits {__version__};" in text(page)
        assert "ldpbandits experiments show headline --json" in text(page)

    run(service, life)


def test_a_mistake_of_ours_is_a_page_too(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A page that cannot be made says so, with our headers, and the log says why; a full disk is no mistake."""

    async def life(service: Service) -> None:
        visitor = browser(service)
        await visitor.sign_in("admin")

        async def fails(*_: object) -> None:
            raise failure

        failure: Exception = ValueError("of this test")
        service.decide("headline")  # so that the page is made anew
        monkeypatch.setattr(service, "report", fails)
        with caplog.at_level(logging.ERROR):
            reply = await visitor.visit("experiments/headline")
        assert reply.status == 500
        assert "this is a bug" in text(visitor.page)
        assert "of this test" in caplog.text
        assert reply.headers["content-security-policy"] == POLICY
        assert "access-control-allow-origin" not in reply.headers
        failure = Unavailable()
        reply = await visitor.visit("headline")
        assert reply.status == 503
        assert "try again" in text(visitor.page)

    run(service, life)


def test_the_api_still_answers_pages_of_any_origin(service: Service) -> None:
    """What is not the console's is as before: it may be read from anywhere, and has no cookie."""

    async def life(service: Service) -> None:
        app = application(service)
        for path in ("/v1/experiments/headline", "/healthz", "/consoles", "/openapi.json"):
            reply = await ask(app, "GET", path, key=KEYS["viewer"], headers={"Host": HOST})
            assert reply.headers["access-control-allow-origin"] == "*", path
            assert "set-cookie" not in reply.headers

    run(service, life)


def test_the_papers_are_an_archive(service: Service) -> None:
    """A viewer downloads the papers, made from the settings of the experiment."""

    async def life(service: Service) -> None:
        visitor = browser(service)
        await visitor.sign_in("viewer")
        reply = await visitor.send("GET", "/console/experiments/headline/papers.zip")
        assert reply.headers["content-disposition"] == 'attachment; filename="headline-papers.zip"'
        with ZipFile(BytesIO(reply.body)) as archive:
            assert archive.namelist() == [f"headline-papers/{name}.html" for name in ("dpia", "notice", "storage")]
            assert b"25 seconds after" in archive.read("headline-papers/dpia.html")

    run(service, life, report_after=25)
