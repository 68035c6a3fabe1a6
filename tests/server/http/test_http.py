"""The pages of a node, over a real connection, with a coordinator in virtual time behind them."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import structlog
from aiohttp import ClientResponse, ClientSession
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from coterie_protocol.exceptions import CoterieError
from coterie_protocol.journal import CAUSES
from coterie_protocol.messages import DeleteGroupsRequest
from coterie_server.config.settings import Settings
from coterie_server.group import Refusal
from coterie_server.history import History
from coterie_server.http import (
    GroupSummary,
    GroupView,
    Hosts,
    HttpServer,
    create_app,
    summarize,
    view,
)
from coterie_server.http.serving import MAX_LINE_BYTES
from coterie_server.metrics import Metrics
from coterie_server.server import Address, Server, ServerOptions
from tests.support.group_harness import Client, assigned
from tests.support.watched_world import WatchedWorld

SECOND_MS = 1_000

Browser = TestClient[Any, Any]


class Node:
    """What a node shows of a coordinator."""

    def __init__(self, world: WatchedWorld) -> None:
        self.world = world
        self.reason: str | None = None
        self.fault: Exception | None = None

    def not_ready(self) -> str | None:
        """What the test says."""
        return self.reason

    def group_names(self) -> list[str]:
        """All groups."""
        return list(self.world.coordinator.groups)

    def summary(self, group_id: str) -> GroupSummary | None:
        """One of them."""
        group = self.world.coordinator.groups.get(group_id)
        return None if group is None else summarize(group)

    async def count_groups(self) -> None:
        """There is nobody to look at them."""

    def group(self, group_id: str) -> GroupView | None:
        """One group, with the deadline of its phase."""
        if self.fault is not None:
            raise self.fault
        group = self.world.coordinator.groups.get(group_id)
        if group is None:
            return None
        deadlines = self.world.table.deadlines
        phases = (deadlines.at((kind, group_id, "")) for kind in ("join", "sync"))
        return view(group, next((at for at in phases if at is not None), None), int)

    async def force_rebalance(self, group_id: str) -> GroupView:
        """Start a rebalance."""
        if self.fault is not None:
            raise self.fault
        self.world.force_rebalance(group_id)
        group = self.group(group_id)
        assert group is not None
        return group


@pytest.fixture
def history() -> History:
    """A history of two rebalances for each group."""
    return History(2)


@pytest.fixture
def node(world: WatchedWorld) -> Node:
    """A node that is ready."""
    return Node(world)


@pytest_asyncio.fixture
async def browser(node: Node, history: History) -> AsyncIterator[Browser]:
    """Somebody who looks at the node's pages."""
    app = create_app(node, history, Metrics("1.2.3", History(1)))
    server = TestServer(app)
    await server.start_server(max_line_size=MAX_LINE_BYTES)
    async with TestClient(server) as client:
        yield client


@pytest.fixture
def log() -> Iterator[list[MutableMapping[str, Any]]]:
    """Collect what is logged, instead of printing it."""
    with structlog.testing.capture_logs() as lines:
        yield lines


async def read(answer: ClientResponse, status: int = 200) -> dict[str, Any]:
    """The JSON of an answer that has the right status."""
    assert answer.status == status, await answer.text()
    assert answer.content_type == "application/json"
    values: dict[str, Any] = await answer.json()
    return values


async def refusal(answer: ClientResponse, status: int) -> str:
    """The name of an error; an error has that and a sentence, and nothing else."""
    values = await read(answer, status)
    assert set(values) == {"error", "message"}
    assert values["message"].endswith(".")
    name: str = values["error"]
    return name


# -- health and figures ------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_healthy_means_that_it_answers(browser: Browser, node: Node) -> None:
    """A node that is not ready is healthy all the same: restarting it would not help."""
    node.reason = "The store is being read."
    assert await read(await browser.get("/healthz")) == {"status": "ok"}


@pytest.mark.asyncio
async def test_ready_node_says_so(browser: Browser) -> None:
    """A load balancer may send clients here."""
    assert await read(await browser.get("/readyz")) == {"status": "ready"}


@pytest.mark.asyncio
async def test_node_that_is_not_ready_says_why(browser: Browser, node: Node) -> None:
    """Until it serves, and while it stops, the answer is 503 and the reason."""
    node.reason = "The node is stopping."
    values = await read(await browser.get("/readyz"), 503)
    assert values == {"error": "not_ready", "message": "The node is stopping."}


@pytest.mark.asyncio
async def test_figures_are_for_prometheus(browser: Browser) -> None:
    """The figures come in the text format, under its content type."""
    answer = await browser.get("/metrics")
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    assert "coterie_build_info{" in await answer.text()


@pytest.mark.asyncio
async def test_figures_come_in_the_format_asked_for(browser: Browser) -> None:
    """Who accepts OpenMetrics gets it."""
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    answer = await browser.get("/metrics", headers=accept)
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    assert (await answer.text()).endswith("# EOF\n")


# -- groups ------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_groups_are_listed_by_name(browser: Browser, world: WatchedWorld) -> None:
    """The list has each group's state, generation, protocol and number of members."""
    world.pair()
    world.member("x", group="zoo").join()
    world.commit({("t", 0): 1}, group_id="apart")
    values = await read(await browser.get("/v1/groups"))
    assert values["groups"] == [
        {
            "group": "apart",
            "state": "Empty",
            "generation": 0,
            "protocol_type": None,
            "protocol": None,
            "members": 0,
        },
        {
            "group": "g",
            "state": "Stable",
            "generation": 2,
            "protocol_type": "consumer",
            "protocol": "range",
            "members": 2,
        },
        {
            "group": "zoo",
            "state": "PreparingRebalance",
            "generation": 0,
            "protocol_type": "consumer",
            "protocol": None,
            "members": 1,
        },
    ]


def fill(world: WatchedWorld, *names: str) -> None:
    """Have groups of these names."""
    for name in names:
        world.commit({("t", 0): 1}, group_id=name)


async def walk(browser: Browser, limit: int) -> AsyncIterator[list[str]]:
    """The names on each page."""
    query = {"limit": str(limit)}
    while True:
        values = await read(await browser.get("/v1/groups", params=query))
        yield [group["group"] for group in values["groups"]]
        if values["next"] is None:
            return
        query["after"] = values["next"]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("limit", "pages"),
    [(2, [["a", "b"], ["c", "d&=/"], ["é"]]), (5, [["a", "b", "c", "d&=/", "é"]])],
)
async def test_groups_come_in_pages(
    browser: Browser, world: WatchedWorld, limit: int, pages: list[list[str]]
) -> None:
    """Each group is on one page, in order; a page that is just full is not followed by another."""
    fill(world, "c", "é", "a", "d&=/", "b")
    assert [page async for page in walk(browser, limit)] == pages


@pytest.mark.asyncio
async def test_pages_of_no_groups(browser: Browser) -> None:
    """There is one page, with nothing on it."""
    assert await read(await browser.get("/v1/groups")) == {"groups": [], "next": None}


@pytest.mark.asyncio
async def test_groups_that_come_and_go_between_pages(browser: Browser, world: WatchedWorld) -> None:
    """Whoever stays is seen once, also if the group at the seam has gone."""
    fill(world, "b", "d", "f", "h")
    pages = walk(browser, 2)
    assert await anext(pages) == ["b", "d"]
    world.request(DeleteGroupsRequest(groups_names=("d",)), 2)
    fill(world, "a", "e")
    assert [page async for page in pages] == [["e", "f"], ["h"]]


@pytest.mark.asyncio
async def test_group_that_goes_while_its_page_is_made(
    browser: Browser, node: Node, world: WatchedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is left out, and the next page begins behind it all the same."""
    fill(world, "a", "b", "c")
    monkeypatch.setattr(node, "group_names", lambda: ["a", "b", "b2", "c"])
    assert [page async for page in walk(browser, 3)] == [["a", "b"], ["c"]]


@pytest.mark.slow
@pytest.mark.asyncio
async def test_page_of_long_names_is_shorter(browser: Browser, world: WatchedWorld) -> None:
    """What a page takes is bounded, whatever groups are called."""
    names = [f"{number:03}" + "x" * 30_000 for number in range(300)]
    fill(world, *names)
    pages = [page async for page in walk(browser, 300)]
    assert [len(page) for page in pages] == [140, 140, 20]
    assert [name for page in pages for name in page] == names


@pytest.mark.asyncio
async def test_longest_name_can_be_asked_for(node: Node, history: History) -> None:
    """Kafka's clients may call a group by a name of 32,767 bytes; so may whoever looks for it."""
    server = HttpServer(create_app(node, history, Metrics("1", History(1))))
    await server.start("127.0.0.1", 0)
    try:
        async with ClientSession() as session:
            url = URL(
                f"http://127.0.0.1:{server.port}/v1/groups/" + "%C3%A9" * 16_383, encoded=True
            )
            async with session.get(url) as answer:
                assert await refusal(answer, 404) == "group_not_found"
    finally:
        await server.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("limit", ["0", "-1", "10001", "x", "", "1e3", "٣", "9" * 5000])
async def test_limit_that_makes_no_sense(browser: Browser, limit: str) -> None:
    """The question is refused, with what is expected."""
    answer = await browser.get("/v1/groups", params={"limit": limit})
    assert await refusal(answer, 400) == "bad_request"


@pytest.mark.asyncio
async def test_others_are_served_while_a_page_is_made(
    browser: Browser, node: Node, world: WatchedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two turns of the loop not more than some hundred groups are written."""
    fill(world, "a")
    summary = node.summary("a")
    written, most = 0, 0

    def count(_group_id: str) -> GroupSummary | None:
        nonlocal written
        written += 1
        return summary

    def turn() -> None:
        nonlocal written, most
        most, written = max(most, written), 0
        loop.call_soon(turn)

    loop = asyncio.get_running_loop()
    loop.call_soon(turn)
    monkeypatch.setattr(node, "group_names", lambda: [f"{number}" for number in range(10_000)])
    monkeypatch.setattr(node, "summary", count)
    values = await read(await browser.get("/v1/groups?limit=10000"))
    assert len(values["groups"]) == 10_000
    assert most == 200


@pytest.mark.asyncio
async def test_group_shows_its_members_and_what_they_own(
    browser: Browser, world: WatchedWorld
) -> None:
    """A group's page tells who is in it, from where, with what, and when it was last heard of."""
    first, second = world.pair()
    world.sleep(SECOND_MS)
    first.heartbeat()
    world.commit({("u", 0): 5}, client=first, generation_id_or_member_epoch=2, member_id=first.id)
    values = await read(await browser.get("/v1/groups/g"))
    assert (values["state"], values["generation"], values["leader"]) == ("Stable", 2, first.id)
    assert (values["protocol_type"], values["protocol"]) == ("consumer", "range")
    assert (values["offsets"], values["awaiting"], values["rebalance"]) == (1, None, None)
    assert values["members"] == [
        {
            "member": first.id,
            "instance": None,
            "client_id": "a",
            "host": "/10.0.0.1",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "last_seen_ms": world.now_ms,
            "parked": False,
            "owned": {"t": [0, 2]},
        },
        {
            "member": second.id,
            "instance": None,
            "client_id": "b",
            "host": "/10.0.0.1",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "last_seen_ms": world.now_ms - SECOND_MS,
            "parked": False,
            "owned": {"t": [1, 3]},
        },
    ]


@pytest.mark.asyncio
async def test_owned_partitions_are_known_without_the_ledger(history: History) -> None:
    """If the ledger is switched off, what members were given is read from their assignments."""
    world = WatchedWorld(history.observe, initial_rebalance_delay_ms=0, ownership_guard="off")
    world.pair()
    owned = [member.owned for member in view(world.group(), None, int).members]
    assert owned == [{"t": (0, 2)}, {"t": (1, 3)}]


@pytest.mark.asyncio
async def test_member_without_partitions_owns_none(world: WatchedWorld) -> None:
    """A member that was given nothing is not one of whom nobody knows."""
    first, second = world.pair()
    first.join()
    second.join()
    first.sync({first: assigned("t", 0, 1, 2, 3)})
    assert [member.owned for member in view(world.group(), None, int).members] == [
        {"t": (0, 1, 2, 3)},
        {},
    ]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("attributes", "assignment"),
    [({"protocol_type": "connect"}, assigned("t", 0)), ({"metadata": b"?"}, b"\x00")],
)
async def test_owned_partitions_that_cannot_be_read_are_unknown(
    world: WatchedWorld, attributes: dict[str, Any], assignment: bytes
) -> None:
    """What is no consumer's assignment is not shown as no partitions."""
    worker = world.member("a", **attributes)
    worker.join()
    world.sleep(SECOND_MS)
    worker.sync({worker: assignment})
    assert view(world.group(), None, int).members[0].owned is None


@pytest.mark.asyncio
async def test_times_are_shown_as_dates(world: WatchedWorld) -> None:
    """After the clock was set, when a member was heard of is told by the new one."""
    world.pair()
    hour_ms = 3_600_000
    shown = view(world.group(), world.now_ms, lambda now_ms: now_ms + hour_ms)
    assert {member.last_seen_ms for member in shown.members} == {
        member.last_seen_ms + hour_ms for member in world.group().members.values()
    }


@pytest.mark.asyncio
async def test_group_shows_whom_it_waits_for(browser: Browser, world: WatchedWorld) -> None:
    """In the first phase the page tells who has not joined, and until when it has time."""
    first, second = world.pair(rebalance_ms=60_000)
    began_ms = world.now_ms
    first.join()
    third = world.member("c")
    third.join_once()
    values = await read(await browser.get("/v1/groups/g"))
    assert values["state"] == "PreparingRebalance"
    assert values["awaiting"] == {
        "phase": "join",
        "members": [second.id],
        "unclaimed": [third.id],
        "initial_delay": False,
        "until_ms": began_ms + 60_000,
    }
    assert [member["parked"] for member in values["members"]] == [True, False]


@pytest.mark.asyncio
async def test_group_shows_who_has_not_synced(browser: Browser, world: WatchedWorld) -> None:
    """In the second phase the page tells who has not asked for its assignment."""
    first, second = world.pair(rebalance_ms=60_000)
    first.join()
    second.join()
    second.sync()
    values = await read(await browser.get("/v1/groups/g"))
    assert values["state"] == "CompletingRebalance"
    assert (values["awaiting"]["phase"], values["awaiting"]["members"]) == ("sync", [first.id])


@pytest.mark.asyncio
async def test_initial_delay_is_told_from_waiting(history: History) -> None:
    """While a new group waits for more members, nobody is missing."""
    world = WatchedWorld(history.observe, initial_rebalance_delay_ms=3 * SECOND_MS)
    world.member("a").join()
    awaiting = view(world.group(), None, int).awaiting
    assert awaiting is not None
    assert (awaiting.initial_delay, awaiting.members) == (True, ())


@pytest.mark.asyncio
async def test_group_shows_its_last_rebalances(browser: Browser, world: WatchedWorld) -> None:
    """The page tells why the last rebalances were, who held them up and what they cost."""
    first, second = world.pair()
    began_ms = world.now_ms
    first.join()
    world.sleep(SECOND_MS)
    second.join()
    world.sleep(SECOND_MS)
    world.share(first, second)
    values = await read(await browser.get("/v1/groups/g"))
    assert [each["generation"] for each in values["rebalances"]] == [3, 2]
    assert values["rebalances"][0] == {
        "outcome": "completed",
        "cause": "leader_rejoined",
        "because": CAUSES["leader_rejoined"],
        "detail": first.id,
        "from_state": "Stable",
        "generation": 3,
        "follows": None,
        "started_ms": began_ms,
        "joined_ms": began_ms + SECOND_MS,
        "ended_ms": began_ms + 2 * SECOND_MS,
        "prepare_ms": SECOND_MS,
        "complete_ms": SECOND_MS,
        "total_ms": 2 * SECOND_MS,
        "protocol": "range",
        "leader": first.id,
        "members": 2,
        "came": {"count": 0, "names": []},
        "went": {"count": 0, "names": []},
        "dropped": {"count": 0, "names": []},
        "awaited": {"count": 1, "names": [second.id]},
        "late": [
            {
                "member": second.id,
                "instance": None,
                "host": "/10.0.0.1",
                "after_ms": SECOND_MS,
                "how": "joined",
            }
        ],
        "moved": 0,
        "revoked": 0,
        "needs_rejoin": False,
        "stopped_partition_seconds": 2 * 2 + 2 * 1,
    }


@pytest.mark.asyncio
async def test_running_rebalance_is_shown_apart(browser: Browser, world: WatchedWorld) -> None:
    """A rebalance that is going on is no last one, and its end is open."""
    first, _ = world.pair()
    first.join()
    values = await read(await browser.get("/v1/groups/g"))
    assert (values["rebalance"]["outcome"], values["rebalance"]["total_ms"]) == ("running", None)
    assert len(values["rebalances"]) == 2


@pytest.mark.asyncio
async def test_unknown_group_is_not_found(browser: Browser) -> None:
    """A group that does not exist is told from one that is empty."""
    assert await refusal(await browser.get("/v1/groups/nope"), 404) == "group_not_found"


@pytest.mark.asyncio
@pytest.mark.parametrize("name", ["a/b", "a%2Fb", "größe 1", "x?y#z", "a+b", '"'])
async def test_group_of_any_name_can_be_asked_for(
    browser: Browser, world: WatchedWorld, name: str
) -> None:
    """Whatever a group is called, its encoded name finds it."""
    world.form(world.member("a", group=name))
    escaped = "".join(f"%{byte:02X}" for byte in name.encode())
    values = await read(await browser.get(URL(f"/v1/groups/{escaped}", encoded=True)))
    assert values["group"] == name


# -- asking for a rebalance --------------------------------------------------------------------


def static_pair(world: WatchedWorld) -> tuple[Client, Client]:
    """A stable group of two static members."""
    first, second = world.member("a", static="one"), world.member("b", static="two")
    world.form(first)
    second.join()
    first.join()
    world.share(first, second)
    return first, second


@pytest.mark.asyncio
async def test_rebalance_can_be_asked_for(browser: Browser, world: WatchedWorld) -> None:
    """The answer is the group as it is then, in its first phase."""
    first, second = static_pair(world)
    values = await read(await browser.post("/v1/groups/g/rebalance"))
    assert values["state"] == "PreparingRebalance"
    assert values["awaiting"]["members"] == [first.id, second.id]
    assert world.causes[-1] == "admin"


@pytest.mark.asyncio
async def test_rebalance_of_dynamic_members_is_refused(
    browser: Browser, world: WatchedWorld
) -> None:
    """What the coordinator refuses is a conflict, by its name."""
    world.pair()
    assert await refusal(await browser.post("/v1/groups/g/rebalance"), 409) == "dynamic_members"
    assert "admin" not in world.causes


@pytest.mark.asyncio
async def test_second_rebalance_is_refused(browser: Browser, world: WatchedWorld) -> None:
    """One rebalance at a time."""
    static_pair(world)
    await browser.post("/v1/groups/g/rebalance")
    answer = await browser.post("/v1/groups/g/rebalance")
    assert await refusal(answer, 409) == "rebalance_in_progress"


@pytest.mark.asyncio
async def test_rebalance_of_no_group_is_not_found(browser: Browser) -> None:
    """A group that does not exist is 404, not a conflict."""
    answer = await browser.post("/v1/groups/nope/rebalance")
    assert await refusal(answer, 404) == "group_not_found"


@pytest.mark.asyncio
async def test_rebalance_by_a_node_that_does_not_serve_is_refused(
    browser: Browser, node: Node, world: WatchedWorld
) -> None:
    """A node that is starting or stopping changes nothing."""
    static_pair(world)
    node.reason = "The node is stopping."
    assert await refusal(await browser.post("/v1/groups/g/rebalance"), 503) == "not_ready"
    assert "admin" not in world.causes


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "fault", [Refusal("not_available", "Try again."), CoterieError("The disk is full.")]
)
async def test_rebalance_that_could_not_be_stored_is_unavailable(
    browser: Browser, node: Node, fault: Exception
) -> None:
    """A disk that fails is a reason to try again, and not reported as done."""
    node.fault = fault
    assert await refusal(await browser.post("/v1/groups/g/rebalance"), 503) == "not_available"


@pytest.mark.asyncio
async def test_page_of_another_site_cannot_ask(browser: Browser, world: WatchedWorld) -> None:
    """A page in somebody's browser can reach a local address, and may not change anything there."""
    static_pair(world)
    headers = {"Origin": "http://elsewhere.example"}
    answer = await browser.post("/v1/groups/g/rebalance", headers=headers)
    assert await refusal(answer, 403) == "foreign_origin"
    assert "admin" not in world.causes


@pytest.mark.asyncio
async def test_page_of_this_site_can_ask(browser: Browser, world: WatchedWorld) -> None:
    """A page that came from this address is no stranger."""
    static_pair(world)
    origin = f"http://{browser.host}:{browser.port}"
    await read(await browser.post("/v1/groups/g/rebalance", headers={"Origin": origin}))


# -- by which name -----------------------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_rebound_name_sees_and_does_nothing(
    browser: Browser, world: WatchedWorld, method: str
) -> None:
    """A page whose name was made to point here has Origin and Host agree, and is refused."""
    static_pair(world)
    headers = {"Host": "evil.example:9080", "Origin": "http://evil.example:9080"}
    path = "/v1/groups/g/rebalance" if method == "POST" else "/v1/groups"
    answer = await browser.request(method, path, headers=headers)
    assert await refusal(answer, 403) == "unknown_host"
    assert "admin" not in world.causes


@pytest.mark.asyncio
@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_probes_may_use_any_name(browser: Browser, path: str) -> None:
    """Kubernetes and Prometheus ask by the names of services, and learn nothing that is secret."""
    answer = await browser.get(path, headers={"Host": "coterie.prod.svc:9080"})
    assert answer.status == 200


@pytest.mark.parametrize(
    "host",
    [
        None,
        "localhost",
        "LOCALHOST:9080",
        "coterie.localhost",
        "127.0.0.1:9080",
        "10.1.2.3",
        "[::1]:9080",
        "[2001:db8::1]",
        "coordinator.example:9080",
        "Coordinator.example.",
    ],
)
def test_own_names(host: str | None) -> None:
    """Loopback, addresses, and the names that the node was given, however they are written."""
    assert Hosts(["coordinator.example"]).knows(host)


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "x.coordinator", ":1"],
)
def test_names_of_others(host: str) -> None:
    """A name that only looks like one of ours is none."""
    assert not Hosts(["coordinator", ""]).knows(host)


def test_any_name() -> None:
    """Whoever guards the address by other means can switch the rule off."""
    assert Hosts(["*"]).knows("evil.example")


# -- what is not there -------------------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.parametrize("path", ["/", "/v1", "/v1/groups/g/x", "/healthz/", "/favicon.ico"])
async def test_unknown_path_is_not_found(browser: Browser, path: str) -> None:
    """What is not there is told in JSON, like everything else."""
    assert await refusal(await browser.get(path), 404) == "not_found"


@pytest.mark.asyncio
async def test_wrong_method_names_the_right_ones(browser: Browser) -> None:
    """Who asks in the wrong way learns the right one."""
    answer = await browser.get("/v1/groups/g/rebalance")
    assert await refusal(answer, 405) == "method_not_allowed"
    assert answer.headers["Allow"] == "POST"


@pytest.mark.asyncio
async def test_fault_of_ours_is_answered_and_logged(
    browser: Browser, node: Node, log: list[MutableMapping[str, Any]]
) -> None:
    """A bug behind a page is told as such, with the trace in the log and not in the answer."""
    node.fault = ZeroDivisionError("secret")
    values = await read(await browser.get("/v1/groups/g"), 500)
    assert values["error"] == "internal_error"
    assert "secret" not in values["message"]
    (line,) = log
    assert (line["event"], line["path"]) == ("page failed", "/v1/groups/g")
    assert line["exception"].endswith("ZeroDivisionError: secret")


# -- the documentation -------------------------------------------------------------------------

PAGE = (Path(__file__).parents[3] / "docs" / "http.md").read_text(encoding="utf-8")


def test_every_path_is_documented(node: Node, history: History) -> None:
    """The page lists each path with its method, and no others."""
    app = create_app(node, history, Metrics("1", History(1)))
    routes = {
        f"{route.method} {route.resource.canonical}"
        for route in app.router.routes()
        if route.resource is not None and route.method != "HEAD"
    }
    assert set(re.findall(r"^\| `([A-Z]+ /[^`]*)` \|", PAGE, flags=re.MULTILINE)) == routes


@pytest.mark.asyncio
async def test_every_field_is_documented(browser: Browser, world: WatchedWorld) -> None:
    """The page names each field of each object that the pages show."""
    first, _ = world.pair()
    world.member("c").join()
    first.join()
    world.live(60 * SECOND_MS, first)
    first.sync({})
    first.join()
    world.member("d").join()
    values = await read(await browser.get("/v1/groups/g"))
    shown = {
        *values,
        *values["members"][0],
        *values["awaiting"],
        *values["rebalances"][0],
        *values["rebalances"][0]["late"][0],
        *values["rebalances"][0]["came"],
    }
    assert {name for name in shown if f"`{name}`" not in PAGE} == set()


# -- listening ---------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_server_listens_until_it_is_closed(node: Node, history: History) -> None:
    """A server on port 0 tells which port it has; after closing, nobody answers there."""
    server = HttpServer(create_app(node, history, Metrics("1", History(1))))
    await server.start("127.0.0.1", 0)
    async with ClientSession() as session:
        async with session.get(f"http://127.0.0.1:{server.port}/healthz") as answer:
            assert answer.status == 200
        await server.close()
        with pytest.raises(OSError, match=r"127\.0\.0\.1"):
            await session.get(f"http://127.0.0.1:{server.port}/healthz")


@pytest.mark.asyncio
async def test_address_in_use_is_an_error(node: Node, history: History) -> None:
    """A port that somebody else has is told to whoever starts the node."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = HttpServer(create_app(node, history, Metrics("1", History(1))))
        with pytest.raises(OSError, match="address already in use"):
            await server.start("127.0.0.1", taken.getsockname()[1])


@pytest.mark.asyncio
async def test_server_answers_by_its_own_names() -> None:
    """The one that it advertises and those that it was told; and it counts its groups."""
    here = Address("127.0.0.1", 0)
    options = ServerOptions(
        listen=here,
        http=here,
        advertise=Address("coordinator.example", 0),
        settings=Settings(http_allowed_hosts="one.example, two.example"),
    )
    async with Server(options) as server, ClientSession() as session:
        statuses = {}
        for name in ("coordinator", "one", "two", "evil"):
            url, headers = f"http://{server.http_address}/v1/groups", {"Host": f"{name}.example"}
            async with session.get(url, headers=headers) as answer:
                statuses[name] = answer.status
        async with session.get(f"http://{server.http_address}/metrics") as answer:
            figures = await answer.text()
    assert statuses == {"coordinator": 200, "one": 200, "two": 200, "evil": 403}
    assert 'coterie_groups{state="Empty"} 0.0' in figures
