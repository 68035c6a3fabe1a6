"""The console's files, and what it asks first."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from coterie_protocol.version import VERSION
from coterie_server.backfill import Backfill
from coterie_server.http import NodeView, TokenOptions, Tokens, create_app
from coterie_server.http.standing_orders import ORDERS
from tests.server.http.pages import Browser, read, refusal, view_of
from tests.support.watched_world import WatchedWorld

pytestmark = pytest.mark.asyncio

CONSOLE = Path(__file__).parents[3] / "server" / "coterie_server" / "console"
SHOWN = sorted(
    str(path.relative_to(CONSOLE)) for path in CONSOLE.rglob("*") if path.suffix in (".js", ".css")
)


async def test_address_of_the_node_is_a_page(browser: Browser) -> None:
    answer = await browser.get("/")
    assert (answer.status, answer.content_type) == (200, "text/html")
    assert await answer.read() == (CONSOLE / "index.html").read_bytes()


@pytest.mark.parametrize("path", SHOWN)
async def test_files_come_as_what_they_are(browser: Browser, path: str) -> None:
    answer = await browser.get(f"/console/{path}")
    kind = "text/css" if path.endswith(".css") else "text/javascript"
    assert (answer.status, answer.content_type, answer.charset) == (200, kind, "utf-8")
    assert await answer.read() == (CONSOLE / path).read_bytes()


@pytest.mark.parametrize(
    "path",
    [
        "/console/__init__.py",
        "/console/lib",
        "/console/lib/",
        "/console/../console/app.js",
        "/console/%2e%2e/__init__.py",
        "/console/..%2f..%2fserver.py",
        "/console//etc/passwd",
        "/console/%2fetc%2fpasswd",
        "/console/app.js%00.css",
    ],
)
async def test_nothing_else_is_a_file(browser: Browser, path: str) -> None:
    answer = await browser.get(URL(path, encoded=True))
    assert answer.status in (200, 404)
    if answer.status == 200:  # the client has resolved the dots by itself
        assert await answer.read() == (CONSOLE / "app.js").read_bytes()


async def test_browsers_run_no_other_script(browser: Browser) -> None:
    for path in ("/", "/console/app.js"):
        policy = (await browser.get(path)).headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert "http" not in policy


async def test_page_has_no_script_or_style_of_its_own() -> None:
    page = (CONSOLE / "index.html").read_text(encoding="utf-8")
    assert "<style" not in page
    assert page.count("<script") == 1
    assert 'src="/console/app.js"></script>' in page


async def test_no_script_makes_elements_of_text() -> None:
    for path in CONSOLE.rglob("*.js"):
        text = path.read_text(encoding="utf-8")
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert word not in text, (path, word)


async def test_scripts_are_short() -> None:
    for path in CONSOLE.rglob("*.js"):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 400, path
        assert lines[0].startswith("// "), path


async def test_file_that_a_browser_has_is_not_sent_again(browser: Browser) -> None:
    first = await browser.get("/console/app.js")
    assert first.headers["Cache-Control"] == "no-cache"
    etag = first.headers["ETag"]
    again = await browser.get("/console/app.js", headers={"If-None-Match": etag})
    assert (again.status, await again.read()) == (304, b"")
    assert again.headers["ETag"] == etag
    other = await browser.get("/console/app.js", headers={"If-None-Match": '"former"'})
    assert other.status == 200


async def test_head_of_a_file_says_how_long_it_is(browser: Browser) -> None:
    answer = await browser.head("/")
    assert answer.status == 200
    assert int(answer.headers["Content-Length"]) == (CONSOLE / "index.html").stat().st_size


async def test_page_by_a_foreign_name_is_refused(browser: Browser) -> None:
    answer = await browser.get("/", headers={"Host": "evil.example"})
    assert await refusal(answer, 403) == "unknown_host"


async def test_console_is_told_over_what_it_is(browser: Browser) -> None:
    assert await read(await browser.get("/v1/console")) == {
        "mode": "live",
        "node": "1",
        "version": VERSION,
        "actions": "open",
        "past": False,
        "operations": ["rebalance", "remove", "reset", "delete", *ORDERS],
    }


async def test_node_that_reads_its_groups_says_so(world: WatchedWorld) -> None:
    app = create_app(view_of(None), Backfill(world.history, None, 0), world.metrics)
    async with TestClient(TestServer(app)) as browser:
        assert await refusal(await browser.get("/v1/console"), 503) == "not_ready"
        assert (await browser.get("/")).status == 200


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (TokenOptions(), "open"),
        (TokenOptions(read="r"), "none"),
        (TokenOptions(read="r", admin="a"), "token"),
        (TokenOptions(admin="a"), "token"),
    ],
)
async def test_console_is_told_who_may_act(
    view: NodeView, world: WatchedWorld, options: TokenOptions, expected: str
) -> None:
    backfill = Backfill(world.history, None, 0)
    app = create_app(view, backfill, world.metrics, tokens=Tokens(options))
    async with TestClient(TestServer(app)) as browser:
        sent = {"Authorization": f"Bearer {options.read}"} if options.read else {}
        values = await read(await browser.get("/v1/console", headers=sent))
        assert values["actions"] == expected


async def test_files_are_free_and_what_they_ask_is_not(view: NodeView, world: WatchedWorld) -> None:
    tokens = Tokens(TokenOptions(read="r"))
    app = create_app(view, Backfill(world.history, None, 0), world.metrics, tokens=tokens)
    async with TestClient(TestServer(app)) as browser:
        assert (await browser.get("/")).status == 200
        assert (await browser.get("/console/app.js")).status == 200
        assert (await browser.post("/console/app.js")).status == 401
        for path in ("/v1/console", "/v1/watch", "/v1/groups/g/watch", "/v1/groups/g/offsets"):
            assert await refusal(await browser.get(path), 401) == "unauthorized"
