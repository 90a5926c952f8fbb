"""Who gets in, and who may do what: sessions, roles, forms of other sites, links that open once."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.requests import Request
from starlette.types import Message
from tests.server.console.browsing import HEADLINE, HOST, KEYS, Browser, browser, text
from tests.server.console.conftest import Clock
from tests.server.inprocess import Reply, ask
from tests.server.memory_store import MemoryStore

from ldpbandits.server import console_links as links
from ldpbandits.server.api.app import application
from ldpbandits.server.api.messages import NewExperiment, NewKey
from ldpbandits.server.console import sessions
from ldpbandits.server.console.application import PAGES, Page
from ldpbandits.server.console.visits import cookie_name
from ldpbandits.server.keys import Role
from ldpbandits.server.service import Service

ACTIONS = ("pause", "resume", "ship", "add-arm", "retire", "close", "delete")
FIELDS = {"name": "headline", "arm": "1"}
"""What fills in any action."""


def paths(page: Page) -> list[str]:
    """Return addresses of this page."""
    named = page.path.replace("{name}", "headline").replace("{token}", "x").replace("{file:path}", "console.css")
    return [named.replace("{action}", action) for action in ACTIONS] if "{action}" in named else [named]


CLOSED = [(page, path) for page in PAGES if page.role is not None for path in paths(page)]
"""All that is not for everybody."""
OPEN = {
    "/docs",
    "/about/{name}",
    "/console",
    "/console/static/{file:path}",
    "/console/sign-in",
    "/console/enter/{token}",
}


def run(service: Service, life: Callable[[Service], Any]) -> None:
    """Live with an experiment."""

    async def whole() -> None:
        await service.commands.create(NewExperiment(**HEADLINE))
        await life(service)

    asyncio.run(whole())


def is_kept_out(reply: Reply) -> bool:
    """Tell whether somebody was sent to the sign-in page, or told to go there, and has learned nothing."""
    is_sent = reply.status == 303 and "sign-in" in reply.headers["location"] and not reply.body
    is_told = reply.status == 401 and "You are not signed in" in text(reply.body.decode())
    return (is_sent or is_told) and b"headline" not in reply.body


def test_only_the_way_in_is_open() -> None:
    """The sign-in page, its files and links that sign one in are for everybody; all else needs a session."""
    assert {page.path for page in PAGES if page.role is None} == OPEN
    assert {page.role for page in PAGES} == {None, Role.VIEWER, Role.EDITOR, Role.ADMIN}


def test_without_a_session_nothing_is_shown_or_done(service: Service) -> None:
    """Each page sends one to sign in, whatever keys come along in a header; streams and forms are refused."""

    async def life(service: Service) -> None:
        app = application(service)
        for key in (None, *KEYS.values()):
            for page, path in CLOSED:
                body = urlencode(FIELDS).encode() if page.method == "POST" else b""
                headers = {"Host": HOST, "Origin": f"http://{HOST}"}
                reply = await ask(app, page.method, path, body, key=key, headers=headers)
                assert is_kept_out(reply), (path, reply)
        assert service.experiments["headline"].status == "running"

    run(service, life)


def test_the_client_key_opens_nothing(service: Service) -> None:
    """Shown at the sign-in page it is refused, with a word on which to use, and no page opens afterwards."""

    async def life(service: Service) -> None:
        visitor = browser(service)
        reply = await visitor.sign_in("client")
        assert reply.status == 403
        assert "the client key is for devices" in text(visitor.page)
        assert (visitor.cookies, visitor.set_cookie) == ({}, "")
        for page, path in CLOSED:
            headers = {"Origin": visitor.origin, "Authorization": f"Bearer {KEYS['client']}"}
            reply = await visitor.send(page.method, path, headers=headers)
            assert is_kept_out(reply), path

    run(service, life)


def test_a_viewer_sees_everything_and_changes_nothing(service: Service) -> None:
    """Each page that shows something opens; whatever would change something is refused, and has no button."""

    async def life(service: Service) -> None:
        visitor = browser(service)
        await visitor.sign_in("viewer")
        for page, path in CLOSED:
            if page.path.endswith("/events") or page.path.endswith("/sign-out"):
                continue
            body = urlencode({**FIELDS, "csrf": visitor.csrf or ""}).encode() if page.method == "POST" else b""
            reply = await visitor.send(page.method, path, body, {"Origin": visitor.origin})
            assert reply.status == (200 if page.role is Role.VIEWER else 403), path
            if page.path in {"/console/", "/console/experiments/{name}"}:
                shown = reply.body.decode()
                assert shown.count("<form") == shown.count('action="../sign-out"') + shown.count('action="./sign-out"')
                assert not [action for action in ACTIONS if f"headline/{action}" in shown]
                assert 'href="new"' not in shown
        assert service.experiments["headline"].status == "running"
        assert len(service.experiments["headline"].records) == 2
        assert [*service.experiments] == ["headline"]

    run(service, life)


def test_an_admin_has_a_button_for_everything(service: Service) -> None:
    """The pages of an admin lead to the form for new experiments and to every action that makes sense."""

    async def life(service: Service) -> None:
        visitor = browser(service)
        await visitor.sign_in("admin")
        assert 'href="new"' in visitor.page
        await visitor.visit("experiments/headline")
        shown = {action for action in ACTIONS if f'href="headline/{action}' in visitor.page}
        assert shown == set(ACTIONS) - {"resume"}

    run(service, life)


POSTS = [path for page, path in CLOSED if page.method == "POST"]
FOREIGN: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "no token": ({"csrf": ""}, {}),
    "the token of another session": ({"csrf": "other"}, {}),
    "another origin": ({}, {"Origin": "https://evil.example"}),
    "another port": ({}, {"Origin": f"http://{HOST}:8080"}),
    "another scheme": ({}, {"Origin": f"https://{HOST}"}),
    "an origin that is hidden": ({}, {"Origin": "null"}),
    "no origin": ({}, {"Origin": ""}),
    "another site": ({}, {"Sec-Fetch-Site": "cross-site"}),
    "a neighbour of the same site": ({}, {"Sec-Fetch-Site": "same-site"}),
}


@pytest.mark.parametrize("how", FOREIGN)
def test_a_form_that_is_not_of_our_page_does_nothing(service: Service, how: str) -> None:
    """Every form needs the token of its session, and must come from the origin at which that session began."""

    async def life(service: Service) -> None:
        visitor, other = browser(service), browser(service)
        await visitor.sign_in("admin")
        await other.sign_in("admin")
        fields, headers = FOREIGN[how]
        fields = {name: other.csrf or "" if value == "other" else value for name, value in fields.items()}
        before = service.experiments["headline"].copy()
        for path in POSTS:
            sent = urlencode({**FIELDS, "csrf": visitor.csrf or "", **fields}).encode()
            reply = await visitor.send("POST", path, sent, {"Origin": visitor.origin, **headers})
            assert reply.status == 403, path
        after = service.experiments["headline"]
        assert (after.status, after.shipped, len(after.records)) == (before.status, None, 2)
        assert (await visitor.visit()).status == 200, "still signed in"

    run(service, life)


def test_a_key_from_another_page_signs_nobody_in(service: Service) -> None:
    """A form of another site that brings a right key is refused: it would sign a visitor in as somebody else."""

    async def life(service: Service) -> None:
        for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
            visitor = browser(service)
            reply = await visitor.submit("console/sign-in", {"key": KEYS["admin"]}, headers)
            assert (reply.status, visitor.cookies) == (403, {})
        hidden = browser(service)  # a proxy that does not pass the host on; the browser vouches for the origin
        await hidden.visit()
        sent = {"Host": "10.0.0.7:8000", "Sec-Fetch-Site": "same-origin"}
        assert (await hidden.submit("sign-in", {"key": KEYS["admin"]}, sent)).status == 200

    run(service, life)


def test_the_cookie_is_for_the_console_alone(service: Service) -> None:
    """It is http-only and strict, has no path, so that it covers the folder of the form, and is secure over https."""

    async def life(service: Service) -> None:
        for scheme, prefix in (("http", ""), ("https", "/some/where")):
            visitor = browser(service, scheme=scheme, prefix=prefix)
            await visitor.sign_in("viewer")
            pair, *attributes = visitor.set_cookie.split("; ")
            assert pair.startswith("ldpbandits-80=")
            assert len(pair) > 50
            expected = ["HttpOnly", "SameSite=Strict", *(["Secure"] if scheme == "https" else [])]
            assert attributes == expected
            # RFC 6265, 5.1.4: without a path, it is that of the request up to its last slash.
            folder = f"{prefix}/console/sign-in".rpartition("/")[0]
            assert folder == f"{prefix}/console"
            within = [path for page in PAGES if page.role is not None for path in paths(page)]
            assert all((prefix + path + "/").startswith(folder + "/") for path in within)

    run(service, life)


def test_signing_out_ends_the_session(service: Service) -> None:
    """The cookie is taken back, and would open nothing any more."""

    async def life(service: Service) -> None:
        visitor = browser(service)
        await visitor.sign_in("admin")
        kept = visitor.cookies
        reply = await visitor.submit("sign-out", {})
        assert reply.status == 200
        assert "Sign in" in text(visitor.page)
        assert visitor.cookies == {}
        assert "Max-Age=0" in visitor.set_cookie
        assert is_kept_out(await replace(visitor, cookies=kept).send("GET", "/console/"))

    run(service, life)


def test_a_session_that_ends_while_its_form_comes_in_does_nothing_more(service: Service) -> None:
    """A form that was begun before signing out, and ends after it, is refused."""

    async def life(service: Service) -> None:
        visitor = browser(service)
        await visitor.sign_in("admin")
        begun, go_on = asyncio.Event(), asyncio.Event()
        body = urlencode({"csrf": visitor.csrf or ""}).encode()
        pieces = iter([body[:5], body[5:]])
        replies = []
        sent = {"host": HOST, "origin": visitor.origin, "cookie": "=".join(*visitor.cookies.items())}
        path = "/console/experiments/headline/pause"
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
            "server": ("127.0.0.1", 80),
        }

        async def receive() -> Message:
            piece = next(pieces)
            if piece == body[5:]:
                begun.set()
                await go_on.wait()
            return {"type": "http.request", "body": piece, "more_body": piece == body[:5]}

        async def send(message: Message) -> None:
            replies.append(message)

        slow = asyncio.create_task(visitor.app(scope, receive, send))
        await begun.wait()
        await visitor.submit("sign-out", {})
        go_on.set()
        await slow
        assert replies[0]["status"] == 401
        assert service.experiments["headline"].status == "running"

    run(service, life)


def test_a_session_ends_with_its_time_its_key_and_the_server(service: Service, clock: Clock) -> None:
    """It ends after twelve hours, when its key is rotated and no longer holds, and when the server restarts."""

    async def life(service: Service) -> None:
        visitor, late = browser(service), browser(service)
        await visitor.sign_in("admin")
        clock.now += sessions.SESSION_LIFETIME_S - 1
        assert (await visitor.send("GET", "/console/")).status == 200
        clock.now += 1
        assert is_kept_out(await visitor.send("GET", "/console/"))
        await late.sign_in("admin")
        again = replace(late, app=application(service))
        assert is_kept_out(await again.send("GET", "/console/")), "a new application knows no session"

    run(service, life)


def test_rotating_a_key_ends_the_sessions_that_came_from_it(clock: Clock) -> None:
    """At once, or when the old key holds no longer; the other role's sessions go on."""
    own = Service(MemoryStore(), now=clock)
    keys = {role.value: key for role, key in own.keys.new.items()}

    async def life() -> None:
        app = application(own)

        async def enter(key: str) -> Browser:
            visitor = Browser(app)
            await visitor.visit()
            assert (await visitor.submit("sign-in", {"key": key})).status == 200
            return visitor

        admin, viewer = await enter(keys["admin"]), await enter(keys["viewer"])
        by_link = Browser(app)
        await by_link.visit(f"console/enter/{await own.links.new(own.keys.hash_of(Role.ADMIN))}")
        await by_link.submit("../sign-in", {"link": by_link.url.rpartition("/")[2]})
        assert (await by_link.send("GET", "/console/")).status == 200
        new = await own.commands.rotate("admin", NewKey(grace=60))
        assert (await admin.send("GET", "/console/")).status == 200, "the old key still holds"
        clock.now += 60
        for ended in (admin, by_link):
            assert is_kept_out(await ended.send("GET", "/console/"))
        assert (await viewer.send("GET", "/console/")).status == 200
        admin = await enter(new.key or "")
        await own.commands.rotate("admin", NewKey())
        assert is_kept_out(await admin.send("GET", "/console/"))

    asyncio.run(life())
    own.close()


def test_wrong_keys_lock_nobody_out(service: Service) -> None:
    """However many wrong keys came just before, from the same browser or another, a right one opens a session."""

    async def life(service: Service) -> None:
        app = application(service)
        guesser = Browser(app)
        await guesser.visit()
        for _ in range(100):
            assert (await guesser.submit("sign-in", {"key": "admin-guess"})).status == 403
        assert (await Browser(app).sign_in("admin")).status == 200
        assert (await guesser.submit("sign-in", {"key": KEYS["admin"]})).status == 200
        assert service.rejected["unauthorized"] == 100

    run(service, life)


def test_sessions_are_bounded_by_key(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of too many sessions of one key its oldest ends, and no session of another key does."""
    monkeypatch.setattr(sessions, "MOST_PER_KEY", 3)

    async def life(service: Service) -> None:
        app = application(service)
        admin = Browser(app)
        await admin.sign_in("admin")
        visitors = [Browser(app) for _ in range(4)]
        for visitor in visitors:
            await visitor.sign_in("viewer")
        still = [(await visitor.send("GET", "/console/")).status for visitor in (admin, *visitors)]
        assert still == [200, 303, 200, 200, 200]

    run(service, life)


def test_neither_keys_nor_tokens_are_kept(service: Service) -> None:
    """The server knows sessions and links by their hash: what is in its memory opens nothing."""

    async def life(service: Service) -> None:
        kept = sessions.Sessions(service)
        hashed = service.keys.hash_of(Role.ADMIN)
        token, link = await kept.open(hashed, "http://x"), await service.links.new(hashed)
        assert token is not None
        held = repr(vars(kept)) + repr(vars(service.links))
        assert token not in held
        assert link not in held
        assert KEYS["admin"] not in held
        assert await kept.open(service.keys.hash_of(Role.CLIENT), "http://x") is None

    run(service, life)


def test_a_link_opens_the_console_once(service: Service, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made with the admin key only; looking at it does not use it up, using it does, and so do five minutes."""
    monkeypatch.setattr(links, "LARGEST_LINKS", 2)

    async def life(service: Service) -> None:
        app = application(service)

        async def link() -> str:
            reply = await ask(app, "POST", "/v1/console/links", key=KEYS["admin"])
            assert reply.status == 201
            path: str = reply.json["path"]
            assert path.startswith("console/enter/")
            return path

        async def follow(path: str) -> Reply:
            visitor = Browser(app, prefix="/pre")
            for _ in range(2):
                assert (await visitor.visit(f"{visitor.origin}/pre/{path}")).status == 200
            assert "data-submit" in visitor.page
            return await visitor.submit("../sign-in", {"link": path.rpartition("/")[2]})

        for key in ("viewer", "client"):
            assert (await ask(app, "POST", "/v1/console/links", key=KEYS[key])).status == 403
        first = await link()
        entered = await follow(first)
        assert entered.status == 200
        assert "New experiment" in text(entered.body.decode())
        assert (await follow(first)).status == 403
        late = await link()
        clock.now += links.LINK_LIFETIME_S
        reply = await follow(late)
        assert "this link has been used" in text(reply.body.decode())
        oldest, *_ = [await link() for _ in range(3)]
        assert (await follow(oldest)).status == 403, "no more than two may wait"

    run(service, life)


def test_after_signing_in_one_is_where_one_wanted_to_go_and_nowhere_else(service: Service) -> None:
    """The page that was asked for opens afterwards; an address of another site does not."""

    async def life(service: Service) -> None:
        visitor = browser(service, prefix="/pre")
        await visitor.visit(f"{visitor.origin}/pre/console/experiments/headline")
        assert visitor.url.endswith("/pre/console/sign-in?next=experiments/headline")
        await visitor.submit("sign-in", {"key": KEYS["viewer"], "next": "experiments/headline"})
        assert visitor.url == f"{visitor.origin}/pre/console/experiments/headline"
        for evil in ("//evil.example", "https://evil.example", "../../", "javascript:alert(1)", "experiments/../.."):
            fresh = browser(service, prefix="/pre")
            await fresh.visit(f"{fresh.origin}/pre/console/sign-in?{urlencode({'next': evil})}")
            assert evil not in fresh.page
            await fresh.submit("sign-in", {"key": KEYS["viewer"], "next": evil})
            assert fresh.url == f"{fresh.origin}/pre/console/"

    run(service, life)


def test_whoever_comes_from_another_site_is_still_signed_in(service: Service) -> None:
    """A browser hides the strict cookie from links of other sites: the page asks once more, by itself."""

    async def life(service: Service) -> None:
        visitor = browser(service)
        reply = await visitor.send("GET", "/console/experiments/headline", headers={"Sec-Fetch-Site": "cross-site"})
        assert reply.status == 200
        assert '<meta http-equiv="refresh" content="0">' in reply.body.decode()
        reply = await visitor.send("GET", "/console/experiments/headline", headers={"Sec-Fetch-Site": "same-origin"})
        assert is_kept_out(reply), "once only"

    run(service, life)


def test_servers_of_one_machine_do_not_share_a_cookie() -> None:
    """Browsers do not tell ports apart, so the cookie's name does."""
    names = [cookie_name(Request({"type": "http", "server": server})) for server in (("h", 1), ("h", 2), None)]
    assert names == ["ldpbandits-1", "ldpbandits-2", "ldpbandits"]
