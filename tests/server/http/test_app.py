"""The HTTP pages, over a real connection, with a coordinator in virtual time behind them."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from coterie_protocol.exceptions import CoterieError
from coterie_server.backfill import Backfill
from coterie_server.group import Refusal
from coterie_server.http import create_app
from tests.server.http.pages import Browser, Node, read, refusal, view_of
from tests.support.watched_world import WatchedWorld

pytestmark = pytest.mark.asyncio


async def test_healthy_means_that_it_answers(browser: Browser, node: Node) -> None:
    """Restarting a node that is not ready would not help."""
    node.trouble = "The store is being read."
    assert await read(await browser.get("/healthz")) == {"status": "ok"}


async def test_ready_node_says_so(browser: Browser) -> None:
    assert await read(await browser.get("/readyz")) == {"status": "ready"}


async def test_node_that_is_not_ready_says_why(browser: Browser, node: Node) -> None:
    node.trouble = "The node is stopping."
    values = await read(await browser.get("/readyz"), 503)
    assert values == {"error": "not_ready", "message": "The node is stopping."}


@pytest.mark.parametrize("path", ["/v1/groups", "/v1/groups?format=jsonl", "/v1/groups/g"])
async def test_groups_that_are_still_being_read_are_not_denied(
    world: WatchedWorld, path: str
) -> None:
    app = create_app(view_of(None), Backfill(world.history, None, 0), world.metrics)
    async with TestClient(TestServer(app)) as browser:
        assert await refusal(await browser.get(path), 503) == "not_ready"


async def test_figures_are_for_prometheus(browser: Browser) -> None:
    answer = await browser.get("/metrics")
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    assert "coterie_build_info{" in await answer.text()


async def test_figures_come_in_the_format_asked_for(browser: Browser) -> None:
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    answer = await browser.get("/metrics", headers=accept)
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    assert (await answer.text()).endswith("# EOF\n")


# -- starting a rebalance --------------------------------------------------------------------------


async def test_rebalance_can_be_asked_for(browser: Browser, world: WatchedWorld) -> None:
    first, second = world.static_pair()
    values = await read(await browser.post("/v1/groups/g/rebalance"))
    assert values["state"] == "PreparingRebalance"
    assert values["awaiting"]["members"] == [first.id, second.id]
    assert world.causes[-1] == "admin"


async def test_rebalance_of_dynamic_members_is_refused(
    browser: Browser, world: WatchedWorld
) -> None:
    world.pair()
    assert await refusal(await browser.post("/v1/groups/g/rebalance"), 409) == "dynamic_members"
    assert "admin" not in world.causes


async def test_second_rebalance_is_refused(browser: Browser, world: WatchedWorld) -> None:
    world.static_pair()
    await browser.post("/v1/groups/g/rebalance")
    answer = await browser.post("/v1/groups/g/rebalance")
    assert await refusal(answer, 409) == "rebalance_in_progress"


async def test_rebalance_of_no_group_is_not_found(browser: Browser) -> None:
    answer = await browser.post("/v1/groups/nope/rebalance")
    assert await refusal(answer, 404) == "group_not_found"


async def test_rebalance_by_a_node_that_does_not_serve_is_refused(
    browser: Browser, node: Node, world: WatchedWorld
) -> None:
    world.static_pair()
    node.trouble = "The node is stopping."
    assert await refusal(await browser.post("/v1/groups/g/rebalance"), 503) == "not_ready"
    assert "admin" not in world.causes


@pytest.mark.parametrize(
    "fault", [Refusal("not_available", "Try again."), CoterieError("The disk is full.")]
)
async def test_rebalance_that_could_not_be_stored_is_unavailable(
    browser: Browser, node: Node, fault: Exception
) -> None:
    node.fault = fault
    assert await refusal(await browser.post("/v1/groups/g/rebalance"), 503) == "not_available"


async def test_page_of_another_site_cannot_ask(browser: Browser, world: WatchedWorld) -> None:
    world.static_pair()
    headers = {"Origin": "http://elsewhere.example"}
    answer = await browser.post("/v1/groups/g/rebalance", headers=headers)
    assert await refusal(answer, 403) == "foreign_origin"
    assert "admin" not in world.causes


async def test_page_of_this_site_can_ask(browser: Browser, world: WatchedWorld) -> None:
    world.static_pair()
    origin = f"http://{browser.host}:{browser.port}"
    await read(await browser.post("/v1/groups/g/rebalance", headers={"Origin": origin}))


# -- pages of other sites --------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_rebound_name_is_refused(browser: Browser, world: WatchedWorld, method: str) -> None:
    """Origin agrees with Host for a page whose name was made to resolve to the node."""
    world.static_pair()
    headers = {"Host": "evil.example:9080", "Origin": "http://evil.example:9080"}
    path = "/v1/groups/g/rebalance" if method == "POST" else "/v1/groups"
    answer = await browser.request(method, path, headers=headers)
    assert await refusal(answer, 403) == "unknown_host"
    assert "admin" not in world.causes


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_probes_may_use_any_name(browser: Browser, path: str) -> None:
    """Kubernetes and Prometheus ask by the names of services, and see no secrets."""
    answer = await browser.get(path, headers={"Host": "coterie.prod.svc:9080"})
    assert answer.status == 200


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/v1", "/console", "/console/x.js", "/v1/groups/g/x", "/healthz/", "/favicon.ico"]
)
async def test_unknown_path_is_not_found(browser: Browser, path: str) -> None:
    assert await refusal(await browser.get(path), 404) == "not_found"


async def test_wrong_method_names_the_right_ones(browser: Browser) -> None:
    answer = await browser.get("/v1/groups/g/rebalance")
    assert await refusal(answer, 405) == "method_not_allowed"
    assert answer.headers["Allow"] == "POST"


async def test_internal_error_is_answered_without_its_traceback(
    browser: Browser, node: Node, log: list[MutableMapping[str, Any]]
) -> None:
    """The traceback is in the log."""
    node.fault = ZeroDivisionError("secret")
    values = await read(await browser.get("/v1/groups/g"), 500)
    assert values["error"] == "internal_error"
    assert "secret" not in values["message"]
    (line,) = log
    assert (line["event"], line["path"]) == ("HTTP request failed", "/v1/groups/g")
    assert line["exception"].endswith("ZeroDivisionError: secret")
