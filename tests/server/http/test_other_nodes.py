"""Questions about groups that other nodes have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
import pytest_asyncio
import structlog.testing
from aiohttp import ClientPayloadError, ClientTimeout, web
from aiohttp.test_utils import BaseTestServer, TestClient, TestServer

from coterie_server.address import Address
from coterie_server.backfill import Backfill
from coterie_server.http import NodeView, OtherNodes, create_app, group_lists, list_watch, others
from coterie_server.http.groups import page_of_groups
from coterie_server.serving import NodeNote
from coterie_server.storage import Fence, Lease, NodeEntry, Survey
from tests.server.http.event_stream import Stream
from tests.server.http.pages import Browser, Node, read, view_of
from tests.support.watched_world import WatchedWorld


class Other:
    """Another node, which says what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str | None]] = []
        self.last_event_ids: list[str | None] = []
        self.answers: dict[str, tuple[int, Any]] = {}
        #: What it says which shards its lists are of.
        self.shards = "5"
        #: How long it takes for an answer.
        self.delay_s = 0.0
        self.server = TestServer(self._app())

    def _app(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.Response:
        self.asked.append(
            (request.method, request.raw_path, request.headers.get("Coterie-Asked-By"))
        )
        self.last_event_ids.append(request.headers.get("Last-Event-ID"))
        await asyncio.sleep(self.delay_s)
        status, body = self.answers.get(request.path, (200, {"from": "the other"}))
        headers = {"Coterie-Shards": self.shards}
        if isinstance(body, bytes):
            return web.Response(status=status, body=body, headers=headers)
        return web.json_response(body, status=status, headers=headers)


@pytest_asyncio.fixture
async def other() -> AsyncIterator[Other]:
    """The other node."""
    other = Other()
    async with other.server:
        yield other


@pytest.fixture
def node(world: WatchedWorld, other: Other) -> Node:
    """A node that knows of it, and has none of the shards but those of groups that begin with m."""
    node = Node(world)
    host, port = str(other.server.host), other.server.port
    assert port is not None
    note = NodeNote(2, {"default": Address("h2", 9092)}, http=Address(host, port))
    entry = NodeEntry("node-2", note.to_bytes(), 1000)
    node.cluster.look(Survey((entry,), (Lease(5, Fence(0, 1), "node-2", 1000),)), [])

    def group_shard(group_id: str) -> Any:
        mine = group_id.startswith("m")
        return SimpleNamespace(
            shard=0 if mine else 5,
            is_owned=mine,
            is_served=mine,
            taken_over_ms=node.taken_over_ms,
            fence_number=node.fence_number,
            until_durable=node.until_durable,
        )

    node.group_shard = group_shard  # type: ignore[method-assign, assignment]
    return node


async def pages_of(
    node: Node, world: WatchedWorld, siblings: tuple[int, ...] = ()
) -> TestClient[Any, Any]:
    """A browser that looks at its pages."""
    asked = OtherNodes(siblings)
    app = create_app(view_of(node), Backfill(world.history, None, 0), world.metrics, None, asked)

    async def close(_app: web.Application) -> None:
        await asked.close()

    app.on_cleanup.append(close)
    client: TestClient[Any, Any] = TestClient(TestServer(app))
    await client.start_server()
    return client


@pytest_asyncio.fixture
async def browser(node: Node, world: WatchedWorld) -> AsyncIterator[Browser]:
    """Looks at its pages."""
    client = await pages_of(node, world)
    async with client:
        yield client


@pytest_asyncio.fixture
async def worker(node: Node, world: WatchedWorld) -> AsyncIterator[Browser]:
    """Looks at its pages, with the other one as another worker of the same supervisor."""
    client = await pages_of(node, world, (1, 2))
    async with client:
        yield client


pytestmark = pytest.mark.asyncio


async def test_watch_is_passed_on(browser: Browser, other: Other) -> None:
    path = "/v1/groups/a%2Fb/owners/watch"
    other.answers["/v1/groups/a/b/owners/watch"] = (200, b"event: snapshot\ndata: {}\n\n")
    async with browser.get(path, headers={"Last-Event-ID": "x.1"}) as answer:
        assert answer.content_type == "text/event-stream"
        assert await answer.read() == b"event: snapshot\ndata: {}\n\n"
    assert other.asked == [("GET", path, "1")]
    assert other.last_event_ids == ["x.1"]


async def test_refused_watch_is_refused_alike(browser: Browser, other: Other) -> None:
    other.answers["/v1/groups/a/owners/watch"] = (404, {"error": "group_not_found"})
    answer = await browser.get("/v1/groups/a/owners/watch")
    assert (answer.status, await answer.json()) == (404, {"error": "group_not_found"})


async def test_group_is_asked_of_its_node(browser: Browser, other: Other) -> None:
    found: Mapping[str, Any] = await read(await browser.get("/v1/groups/a%2Fb"))
    assert found == {"from": "the other"}
    assert other.asked == [("GET", "/v1/groups/a%2Fb", "1")]


async def test_past_of_a_group_may_take_its_node_long(
    browser: Browser, other: Other, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(others, "_PATIENCE", ClientTimeout(total=0.05))
    other.delay_s = 0.2
    assert (await browser.get("/v1/groups/x")).status == 503
    assert (await browser.get("/v1/groups/x/past")).status == 200


async def test_what_the_other_refuses_is_refused(browser: Browser, other: Other) -> None:
    other.answers["/v1/groups/x/rebalance"] = (409, {"error": "group_empty", "message": "No."})
    answer = await browser.post("/v1/groups/x/rebalance")
    assert (answer.status, (await answer.json())["error"]) == (409, "group_empty")
    assert other.asked == [("POST", "/v1/groups/x/rebalance", "1")]


async def test_node_that_is_asked_by_another_asks_none(browser: Browser, other: Other) -> None:
    for path in ("/v1/groups/x", "/v1/groups", "/v1/nodes"):
        await browser.get(path, headers={"Coterie-Asked-By": "3"})
    assert other.asked == []
    answer = await browser.get("/v1/groups/x", headers={"Coterie-Asked-By": "3"})
    assert answer.status == 503


async def test_page_of_another_site_does_not_get_through(browser: Browser, other: Other) -> None:
    answer = await browser.post("/v1/groups/x/rebalance", headers={"Origin": "http://evil.example"})
    assert answer.status == 403
    assert other.asked == []


async def test_group_that_no_node_has_is_not_said_to_be_missing(
    browser: Browser, node: Node
) -> None:
    node.cluster.look(Survey((), ()), [])
    answer = await browser.get("/v1/groups/x")
    assert answer.status == 503
    assert (await answer.json())["error"] == "not_ready"


async def test_list_has_the_groups_of_both(
    browser: Browser, other: Other, world: WatchedWorld
) -> None:
    world.member("m1", group="mine").join()
    other.answers["/v1/groups"] = (200, {"groups": [{"group": "a"}], "next": None})
    found = await read(await browser.get("/v1/groups?limit=5"))
    assert [row["group"] for row in found["groups"]] == ["a", "mine"]
    assert other.asked == [("GET", "/v1/groups?limit=5", "1")]


@pytest.mark.parametrize(
    "path", ["/v1/groups", "/v1/groups?format=jsonl", "/v1/groups/x", "/v1/nodes", "/metrics"]
)
async def test_head_has_the_headers_of_the_whole_answer(
    worker: Browser, other: Other, path: str
) -> None:
    """So the others have to say more than the client is told."""
    other.answers["/v1/groups"] = (200, {"groups": [{"group": "a"}], "next": None})
    other.answers["/metrics"] = (200, b"# TYPE other_total counter\nother_total 1.0\n")
    whole, head = await worker.get(path), await worker.head(path)
    assert (head.status, await head.read()) == (200, b"")
    names = ("Content-Type", *([] if path == "/metrics" else ["Content-Length"]))
    assert [head.headers.get(name) for name in names] == [whole.headers.get(name) for name in names]
    assert {method for method, _, _ in other.asked} == {"GET"}


async def test_lines_are_of_the_groups_of_both(browser: Browser, other: Other) -> None:
    other.answers["/v1/groups"] = (200, b'{"group":"a"}\n')
    answer = await browser.get("/v1/groups?format=jsonl")
    assert (await answer.read()).splitlines()[-1] == b'{"group":"a"}'


@pytest.mark.parametrize("form", ["page", "jsonl"])
async def test_list_that_would_lack_groups_is_refused(
    browser: Browser, other: Other, form: str
) -> None:
    other.answers["/v1/groups"] = (503, {"error": "not_ready", "message": "Wait."})
    answer = await browser.get(f"/v1/groups?format={form}")
    assert answer.status == 503
    assert (await answer.json())["message"] == "Node 2: Wait."


async def test_watch_that_another_node_refuses_is_refused_with_its_reason(
    browser: Browser, other: Other
) -> None:
    other.answers["/v1/watch"] = (503, {"error": "too_many_watchers", "message": "Too many."})
    answer = await browser.get("/v1/watch")
    assert (answer.status, (await answer.json())["message"]) == (503, "Node 2: Too many.")


async def test_answer_that_is_none_of_a_node_is_told_by_its_status(
    browser: Browser, other: Other
) -> None:
    other.answers["/v1/groups"] = other.answers["/readyz"] = (502, b"<html>")
    message = (await (await browser.get("/v1/groups")).json())["message"]
    assert message == "Node 2: it answers with status 502."
    _, second = (await read(await browser.get("/v1/nodes")))["nodes"]
    assert second["reason"] == "it answers with status 502."


async def test_node_that_passes_an_order_on_logs_who_gave_it(
    browser: Browser, other: Other
) -> None:
    """The other one sees it come from this one."""
    with structlog.testing.capture_logs() as logs:
        await browser.delete("/v1/groups/x")
        await browser.delete("/v1/groups/mine", headers={"Coterie-Asked-By": "2"})
    here, passed_on = [each for each in logs if each["event"] == "asked for over HTTP"]
    assert (here["operation"], here["group"], here["peer"]) == ("delete", "x", "127.0.0.1")
    assert "passed_on_by" not in here
    assert (passed_on["group"], passed_on["passed_on_by"]) == ("mine", "2")
    assert other.asked == [("DELETE", "/v1/groups/x", "1")]


class Shard:
    """A shard of the node, or of another one."""

    fence_number = 1
    is_durable = True

    def __init__(self, number: int, *, is_mine: bool) -> None:
        self.shard = number
        self.is_owned = self.is_served = is_mine


@pytest.mark.parametrize("form", ["page", "jsonl"])
async def test_list_is_of_all_shards_or_refused(
    browser: Browser, node: Node, other: Other, form: str
) -> None:
    """While a shard goes from one node to another, neither lists its groups."""
    mine = Shard(0, is_mine=True)
    node.shards = cast(Any, (mine, Shard(5, is_mine=False), Shard(6, is_mine=False)))
    other.answers["/v1/groups"] = (
        (200, b"") if form == "jsonl" else (200, {"groups": [], "next": None})
    )
    for shards, status in (("5", 503), ("", 503), ("5,6", 200), ("5,6,7", 200)):
        other.shards = shards
        answer = await browser.get(f"/v1/groups?format={form}")
        assert answer.status == status, (shards, await answer.text())
    answer = await browser.get(f"/v1/groups?format={form}", headers={"Coterie-Asked-By": "3"})
    assert (answer.status, answer.headers["Coterie-Shards"]) == (200, "0")
    mine.is_served = False
    assert (await browser.get(f"/v1/groups?format={form}")).status == 503


async def test_page_does_not_claim_a_shard_that_is_lost_while_it_is_made(
    browser: Browser, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = Shard(0, is_mine=True)
    node.shards = cast(Any, (mine,))

    async def lose(*arguments: Any) -> bytes:
        mine.is_served = False
        return await page_of_groups(*arguments)

    monkeypatch.setattr(group_lists, "page_of_groups", lose)
    answer = await browser.get("/v1/groups", headers={"Coterie-Asked-By": "3"})
    assert answer.headers["Coterie-Shards"] == ""


async def test_all_groups_at_once_end_abruptly_if_some_are_lost_meanwhile(
    browser: Browser, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = Shard(0, is_mine=True)
    node.shards = cast(Any, (mine,))

    async def lose(*_: Any) -> AsyncIterator[bytes]:
        mine.is_served = False
        yield b'{"group":"m"}\n'

    monkeypatch.setattr(group_lists, "lines_of_groups", lose)
    answer = await browser.get("/v1/groups?format=jsonl", headers={"Coterie-Asked-By": "3"})
    with pytest.raises(ClientPayloadError):
        await answer.read()


async def test_watch_of_all_groups_ends_when_a_node_comes(
    browser: Browser, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_watch, "_LOOK_S", 0.01)
    known, there = node.cluster.others, list[NodeNote]()
    monkeypatch.setattr(NodeView, "others", lambda _: there)
    async with browser.get("/v1/watch") as answer:
        stream = Stream(answer)
        assert (await stream.next()).kind == "begin"
        there[:] = known
        event = await stream.next()
    assert event.kind == "end"
    assert event.data["message"].startswith("A node has come")


def has_address_of(node: Node, server: BaseTestServer) -> None:
    """The other node answers HTTP at an address of its own machine, by which this one is found."""
    assert server.port is not None
    its = Address(str(server.host), server.port)
    note = NodeNote(2, {"default": Address("h2", 9092)}, http=its)
    entry = NodeEntry("node-2", note.to_bytes(), 1000)
    node.cluster.look(Survey((entry,), (Lease(5, Fence(0, 1), "node-2", 1000),)), [])


@pytest.mark.parametrize(
    "path",
    ["/v1/groups", "/v1/groups?format=jsonl", "/v1/watch", "/v1/groups/x", "/v1/groups/x/watch"],
)
async def test_node_does_not_take_itself_for_another(
    browser: Browser, node: Node, path: str
) -> None:
    has_address_of(node, browser.server)
    answer = await browser.get(path)
    assert answer.status == 503
    assert "Node 2" in (message := (await answer.json())["message"])
    assert "another node answers there" in message


async def test_node_at_whose_address_another_answers_is_not_said_to_be_ready(
    browser: Browser, node: Node
) -> None:
    has_address_of(node, browser.server)
    _, second = (await read(await browser.get("/v1/nodes")))["nodes"]
    assert (second["node"], second["ready"]) == (2, False)
    assert "another node answers there" in second["reason"]


async def test_node_that_is_gone_is_named(browser: Browser, other: Other) -> None:
    await other.server.close()
    answer = await browser.get("/v1/groups/x")
    assert answer.status == 503
    assert "Node 2 at http://127.0.0.1" in (await answer.json())["message"]


async def test_nodes_are_shown_with_how_they_are(browser: Browser, other: Other) -> None:
    other.answers["/readyz"] = (503, {"error": "not_ready", "message": "The disk is full."})
    found = await read(await browser.get("/v1/nodes"))
    first, second = found["nodes"]
    assert (first["node"], first["ready"], first["reason"]) == (1, True, None)
    assert (second["node"], second["ready"]) == (2, False)
    assert second["reason"] == "The disk is full."


async def test_node_is_ready_whatever_another_machine_does(browser: Browser, other: Other) -> None:
    other.answers["/readyz"] = (503, {"error": "not_ready", "message": "The disk is full."})
    assert (await browser.get("/readyz")).status == 200
    assert other.asked == []


async def test_workers_are_ready_together(worker: Browser, other: Other) -> None:
    other.answers["/readyz"] = (503, {"error": "not_ready", "message": "The disk is full."})
    answer = await worker.get("/readyz")
    assert answer.status == 503
    assert (await answer.json())["message"] == "Node 2: The disk is full."


async def test_request_that_names_another_host_is_asked_of_no_other_host(
    worker: Browser, other: Other
) -> None:
    """A request line may have a whole URL (RFC 9112, 3.2.2)."""
    reader, writer = await asyncio.open_connection(worker.server.host, worker.server.port)
    for target in ("http://elsewhere.example/readyz", "http://elsewhere.example/v1/groups/a%2Fb"):
        writer.write(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK")
        size = next(
            int(line[16:]) for line in head.split(b"\r\n") if line[:16] == b"Content-Length: "
        )
        await reader.readexactly(size)
    writer.close()
    assert [path for _, path, _ in other.asked] == ["/readyz", "/v1/groups/a%2Fb"]


async def test_workers_show_their_metrics_together(worker: Browser, other: Other) -> None:
    other.answers["/metrics"] = (200, b"coterie_topics 5.0\n")
    text = await (await worker.get("/metrics")).text()
    assert 'coterie_topics{node="2"} 5.0' in text
    assert 'coterie_topics{node="1"}' in text


async def test_metrics_of_a_node_by_itself_have_no_label(browser: Browser, other: Other) -> None:
    text = await (await browser.get("/metrics")).text()
    assert "node=" not in text
    assert other.asked == []


async def test_history_begins_when_the_group_was_taken_over(
    browser: Browser, node: Node, world: WatchedWorld
) -> None:
    """What happened on the other node is not known here, so nothing is claimed about it."""
    world.pair(group="mine")
    before = await read(await browser.get("/v1/groups/mine"))
    assert len(before["rebalances"]) >= 1
    node.taken_over_ms = before["rebalances"][0]["started_ms"] + 1
    found = await read(await browser.get("/v1/groups/mine"))
    assert found["rebalances"] == []
    assert found["history"]["limit"] == "taken_over"
    assert found["history"]["since_ms"] == node.taken_over_ms
