"""Who may read and who may act over HTTP, with and without tokens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
import structlog
from aiohttp import ClientPayloadError
from aiohttp.test_utils import TestClient, TestServer

from coterie_server.backfill import Backfill
from coterie_server.http import (
    NodeView,
    TokenError,
    TokenOptions,
    Tokens,
    create_app,
    node_token,
)
from tests.server.http.pages import Browser
from tests.support.watched_world import WatchedWorld

pytestmark = pytest.mark.asyncio

READING: Final = "may-read-7f3a"
ACTING: Final = "may-act-91bc"
NODES: Final = node_token("what the store keeps")

Ask = Callable[..., Awaitable[Browser]]


@pytest_asyncio.fixture
async def serve(view: NodeView, world: WatchedWorld) -> AsyncIterator[Ask]:
    """Look at the pages of a node with these tokens."""
    clients: list[Browser] = []

    async def start(tokens: Tokens) -> Browser:
        backfill = Backfill(world.history, None, 0)
        client = TestClient(TestServer(create_app(view, backfill, world.metrics, tokens=tokens)))
        await client.start_server()
        clients.append(client)
        return client

    yield start
    for each in clients:
        await each.close()


def known(**more: str) -> Tokens:
    """Tokens for reading and for acting, and of nodes."""
    tokens = Tokens(TokenOptions(**({"read": READING, "admin": ACTING} | more)))
    tokens.admit_nodes(NODES)
    return tokens


async def status(
    browser: Browser, path: str, token: str | None = None, *, post: bool = False, **headers: str
) -> int:
    """What a request is answered."""
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    method = "POST" if post else "GET"
    async with browser.request(method, path, headers=headers) as answer:
        return answer.status


@pytest.mark.parametrize("path", ["/metrics", "/v1/groups", "/v1/nodes", "/v1/groups/none", "/x"])
async def test_reading_takes_a_token(serve: Ask, path: str) -> None:
    browser = await serve(known())
    assert await status(browser, path) == HTTPStatus.UNAUTHORIZED
    assert await status(browser, path, "wrong") == HTTPStatus.UNAUTHORIZED
    for token in (READING, ACTING, NODES):
        assert await status(browser, path, token) in (HTTPStatus.OK, HTTPStatus.NOT_FOUND)


async def test_acting_takes_a_token_of_its_own(serve: Ask) -> None:
    browser = await serve(known())
    page = "/v1/groups/none/rebalance"
    assert await status(browser, page, post=True) == HTTPStatus.UNAUTHORIZED
    assert await status(browser, page, "wrong", post=True) == HTTPStatus.UNAUTHORIZED
    assert await status(browser, page, READING, post=True) == HTTPStatus.FORBIDDEN
    for token in (ACTING, NODES):
        assert await status(browser, page, token, post=True) == HTTPStatus.NOT_FOUND


async def test_page_of_another_site_cannot_act_even_with_a_token(serve: Ask) -> None:
    browser = await serve(known())
    page = "/v1/groups/none/rebalance"
    elsewhere = {"Origin": "http://elsewhere.example"}
    assert await status(browser, page, ACTING, post=True, **elsewhere) == HTTPStatus.FORBIDDEN


async def test_without_a_token_for_acting_nobody_acts(serve: Ask) -> None:
    browser = await serve(Tokens(TokenOptions(read=READING)))
    headers = {"Authorization": f"Bearer {READING}"}
    async with browser.post("/v1/groups/g/rebalance", headers=headers) as answer:
        assert answer.status == HTTPStatus.FORBIDDEN
        assert "http.admin.token is not set" in (await answer.json())["message"]


async def test_without_a_token_for_reading_all_may_read(serve: Ask) -> None:
    browser = await serve(Tokens(TokenOptions(admin=ACTING)))
    assert await status(browser, "/v1/groups") == HTTPStatus.OK
    assert await status(browser, "/v1/groups/g/rebalance", post=True) == HTTPStatus.UNAUTHORIZED


async def test_without_any_token_there_is_no_question(serve: Ask) -> None:
    browser = await serve(Tokens())
    assert await status(browser, "/v1/groups") == HTTPStatus.OK
    assert await status(browser, "/v1/groups/none/rebalance", post=True) == HTTPStatus.NOT_FOUND


async def test_health_is_told_to_all_and_reasons_to_those_who_may_read(
    serve: Ask, view: NodeView
) -> None:
    browser = await serve(known())
    assert await status(browser, "/healthz") == HTTPStatus.OK
    assert await status(browser, "/readyz") == HTTPStatus.OK
    view.close()
    told = []
    for headers in ({}, {"Authorization": f"bearer {READING}"}):
        async with browser.get("/readyz", headers=headers) as answer:
            assert answer.status == HTTPStatus.SERVICE_UNAVAILABLE
            told.append((await answer.json())["message"])
    assert "stopping" not in told[0]
    assert told[1] == "The node is stopping."


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", f"Basic {READING}", READING, "Bearer \xff", "Bearer a b"]
)
async def test_what_is_no_token_is_none(serve: Ask, header: str) -> None:
    browser = await serve(known())
    async with browser.get("/v1/groups", headers={"Authorization": header}) as answer:
        assert answer.status == HTTPStatus.UNAUTHORIZED
        assert answer.headers["WWW-Authenticate"] == "Bearer"


async def test_refusals_are_logged_without_tokens_and_not_without_end(serve: Ask) -> None:
    browser = await serve(known())
    with structlog.testing.capture_logs() as lines:
        for _ in range(40):
            await status(browser, "/v1/groups", "guess-5e1f")
    refused: list[MutableMapping[str, Any]] = [
        each for each in lines if each["event"] == "HTTP request refused"
    ]
    assert 0 < len(refused) <= 30
    first = refused[0]
    assert (first["why"], first["path"], first["method"]) == (
        "unknown token",
        "/v1/groups",
        "GET",
    )
    assert first["peer"] == "127.0.0.1"
    assert "guess-5e1f" not in str(lines)


async def test_long_paths_are_shortened_in_the_log(serve: Ask) -> None:
    browser = await serve(known())
    with structlog.testing.capture_logs() as lines:
        assert await status(browser, f"/v1/groups/{'x' * 5_000}") == HTTPStatus.UNAUTHORIZED
    (line,) = (each for each in lines if each["event"] == "HTTP request refused")
    assert line["path"].startswith("/v1/groups/xxx")
    assert len(line["path"]) < 1000


async def test_tokens_are_read_from_files_again(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{READING}\n", encoding="utf-8")
    tokens = Tokens(TokenOptions(read_file=str(file)))
    assert (tokens.may_read(READING), tokens.may_read("new")) == (True, False)
    file.write_text("new", encoding="utf-8")
    tokens.reload()
    assert (tokens.may_read(READING), tokens.may_read("new")) == (False, True)
    file.unlink()
    with structlog.testing.capture_logs() as lines:
        tokens.reload()
    assert tokens.may_read("new")
    assert "former one is kept" in lines[0]["event"]


async def test_token_is_read_again_though_the_other_can_not_be(tmp_path: Path) -> None:
    """Or one that was stolen would stay good for as long as another file is missing."""
    reading, acting = tmp_path / "reading", tmp_path / "acting"
    reading.write_text("stolen", encoding="utf-8")
    acting.write_text("acting", encoding="utf-8")
    tokens = Tokens(TokenOptions(read_file=str(reading), admin_file=str(acting)))
    reading.write_text("new", encoding="utf-8")
    acting.unlink()
    tokens.reload()
    assert (tokens.may_read("stolen"), tokens.may_read("new")) == (False, True)
    assert tokens.may_act("acting")


async def test_watch_ends_when_its_token_is_none_any_more(serve: Ask, tmp_path: Path) -> None:
    """A stream has no next request that would be refused."""
    file = tmp_path / "token"
    file.write_text("old")
    tokens = known(read="", read_file=str(file))
    browser = await serve(tokens)
    opened = [
        await browser.get("/v1/watch", headers={"Authorization": f"Bearer {token}"})
        for token in ("old", ACTING, NODES)
    ]
    for each in opened:
        assert (await each.content.readline()).startswith(b"event: begin")
    tokens.reload()
    file.write_text("new")
    tokens.reload()
    reader, actor, node = opened
    with pytest.raises(ClientPayloadError):
        await asyncio.wait_for(reader.content.read(), 60)
    assert not actor.content.at_eof()
    assert not node.content.at_eof()
    assert await status(browser, "/v1/groups", "new") == HTTPStatus.OK
    for each in opened:
        each.close()


async def test_token_that_cannot_be_had_is_said(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text(" \n", encoding="utf-8")
    for options, sentence in (
        (TokenOptions(read_file="/none"), "http.read.token.file = /none can't be read: No such"),
        (TokenOptions(admin_file=str(empty)), "is empty; write a token into it."),
        (TokenOptions(read="a", read_file="b"), "are both set; keep one."),
    ):
        with pytest.raises(TokenError) as caught:
            Tokens(options)
        assert sentence in str(caught.value)


async def test_no_text_of_options_shows_a_token() -> None:
    assert READING not in repr(TokenOptions(read=READING))
