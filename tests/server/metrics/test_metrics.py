"""The metrics: counted right, and named as Prometheus wants them."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import prometheus_client
import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from coterie_protocol import ApiKey
from coterie_protocol.journal import CAUSES
from coterie_protocol.messages import (
    DescribedGroup,
    DescribeGroupsResponse,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    ListedGroup,
    ListGroupsResponse,
    MemberResponse,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from coterie_server.history import History
from coterie_server.journal import JournalStats
from coterie_server.metrics import GroupCounts, Metrics, NodeSnapshot, count_groups, error_of
from coterie_server.net.stats import CloseReason, NetStats, RefuseReason
from tests.support.group_harness import assigned
from tests.support.watched_world import SECOND_MS, WatchedWorld

NOTHING = NodeSnapshot()


def samples(
    metrics: Metrics, snapshot: NodeSnapshot = NOTHING
) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """What a scraper reads."""
    text = metrics.render(snapshot)[0].decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(
    metrics: Metrics, name: str, snapshot: NodeSnapshot = NOTHING, **labels: str
) -> float | None:
    """One metric; None if it is not there."""
    return samples(metrics, snapshot).get((name, frozenset(labels.items())))


# -- requests ----------------------------------------------------------------------------------


def test_requests_count_by_api_and_error(metrics: Metrics) -> None:
    metrics.requests.answered(ApiKey.HEARTBEAT, HeartbeatResponse(), 0.001)
    metrics.requests.answered(ApiKey.HEARTBEAT, HeartbeatResponse(), 0.001)
    metrics.requests.answered(ApiKey.HEARTBEAT, HeartbeatResponse(error_code=27), 0.001)
    metrics.requests.answered(ApiKey.LEAVE_GROUP, LeaveGroupResponse(), 0.001)
    name = "coterie_requests_total"
    assert value(metrics, name, api="Heartbeat", error="NONE") == 2
    assert value(metrics, name, api="Heartbeat", error="REBALANCE_IN_PROGRESS") == 1
    assert value(metrics, name, api="LeaveGroup", error="NONE") == 1


def test_error_without_a_name_counts_by_its_number(metrics: Metrics) -> None:
    metrics.requests.answered(ApiKey.HEARTBEAT, HeartbeatResponse(error_code=999), 0.001)
    assert value(metrics, "coterie_requests_total", api="Heartbeat", error="999") == 1


def test_kinds_of_requests_that_never_came_are_not_shown(metrics: Metrics) -> None:
    metrics.requests.answered(ApiKey.HEARTBEAT, HeartbeatResponse(), 0.001)
    apis = {dict(labels).get("api") for _, labels in samples(metrics)}
    assert apis == {None, "Heartbeat"}


def test_latency_falls_into_buckets(metrics: Metrics) -> None:
    for seconds in (0.001, 0.0011, 400.0):
        metrics.requests.answered(ApiKey.HEARTBEAT, HeartbeatResponse(), seconds)
    bucket = "coterie_request_seconds_bucket"
    assert value(metrics, bucket, api="Heartbeat", le="0.0005") == 0
    assert value(metrics, bucket, api="Heartbeat", le="0.001") == 1
    assert value(metrics, bucket, api="Heartbeat", le="0.0025") == 2
    assert value(metrics, bucket, api="Heartbeat", le="300.0") == 2
    assert value(metrics, bucket, api="Heartbeat", le="+Inf") == 3
    assert value(metrics, "coterie_request_seconds_count", api="Heartbeat") == 3
    total = value(metrics, "coterie_request_seconds_sum", api="Heartbeat")
    assert total == pytest.approx(400.0021)


# -- which error an answer has -----------------------------------------------------------------


def commit_answer(*codes: int) -> OffsetCommitResponse:
    """An answer with a code for each partition."""
    partitions = tuple(
        OffsetCommitResponsePartition(partition_index=index, error_code=code)
        for index, code in enumerate(codes)
    )
    return OffsetCommitResponse(
        topics=(OffsetCommitResponseTopic(name="t", partitions=partitions),)
    )


def leave_answer(code: int, member_code: int) -> LeaveGroupResponse:
    """An answer with a code of its own and one for a member."""
    member = MemberResponse(member_id="m", group_instance_id=None, error_code=member_code)
    return LeaveGroupResponse(error_code=code, members=(member,))


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (HeartbeatResponse(), 0),
        (HeartbeatResponse(error_code=27), 27),
        (commit_answer(), 0),
        (commit_answer(0, 0), 0),
        (commit_answer(0, 12, 3), 12),
        (leave_answer(0, 25), 25),
        (leave_answer(24, 25), 24),
        (OffsetFetchResponse(groups=(OffsetFetchResponseGroup(group_id="g", topics=()),)), 0),
        (ListGroupsResponse(groups=(ListedGroup(group_id="g", protocol_type="consumer"),)), 0),
        (
            DescribeGroupsResponse(
                groups=(
                    DescribedGroup(
                        error_code=69,
                        group_id="g",
                        group_state="Dead",
                        protocol_type="",
                        protocol_data="",
                        members=(),
                    ),
                )
            ),
            69,
        ),
    ],
)
def test_error_is_found_wherever_an_answer_has_it(answer: Any, error: int) -> None:
    """The answer's own code comes first, then the first one within it."""
    assert error_of(answer) == error


def test_error_of_a_join_is_its_own() -> None:
    answer = JoinGroupResponse(
        error_code=79,
        generation_id=-1,
        protocol_type=None,
        protocol_name=None,
        leader="",
        member_id="m",
        members=(),
    )
    assert error_of(answer) == 79


# -- rebalances --------------------------------------------------------------------------------


def test_rebalances_count_by_cause(world: WatchedWorld, metrics: Metrics) -> None:
    first, second = world.pair()
    second.leave()
    first.join()
    assert value(metrics, "coterie_rebalances_total", cause="member_joined") == 2
    assert value(metrics, "coterie_rebalances_total", cause="member_left") == 1


def test_every_cause_is_there_from_the_start(metrics: Metrics) -> None:
    """A rate of something that never happened is zero, not missing."""
    causes = {
        dict(labels)["cause"]
        for name, labels in samples(metrics)
        if name == "coterie_rebalances_total"
    }
    assert causes == set(CAUSES)


def test_phases_are_measured(world: WatchedWorld, metrics: Metrics) -> None:
    first, second = world.pair()
    before = samples(metrics)
    first.join()
    world.sleep(2 * SECOND_MS)
    second.join()
    world.sleep(3 * SECOND_MS)
    world.share(first, second)
    after = samples(metrics)
    for phase, seconds in (("prepare", 2), ("complete", 3)):
        name = f"coterie_rebalance_{phase}_seconds"
        assert after[f"{name}_sum", frozenset()] - before[f"{name}_sum", frozenset()] == seconds
        assert after[f"{name}_count", frozenset()] - before[f"{name}_count", frozenset()] == 1


def test_cost_and_outcome_count_by_rebalance(world: WatchedWorld, metrics: Metrics) -> None:
    first, second = world.pair()
    stopped = "coterie_rebalance_stopped_partition_seconds_total"
    before = value(metrics, stopped, cause="leader_rejoined")
    first.join()
    second.join()
    world.sleep(2 * SECOND_MS)
    world.share(first, second)
    assert before == 0
    assert value(metrics, stopped, cause="leader_rejoined") == 8
    assert value(metrics, "coterie_rebalances_ended_total", outcome="completed") == 3
    assert value(metrics, "coterie_rebalances_ended_total", outcome="superseded") == 0


def test_members_gone_count_by_how(world: WatchedWorld, metrics: Metrics) -> None:
    first, second = world.pair(session_ms=10_000)
    second.leave()
    world.sleep(11 * SECOND_MS)
    assert first.id not in world.group().members
    assert value(metrics, "coterie_members_gone_total", how="left") == 1
    assert value(metrics, "coterie_members_gone_total", how="session_expired") == 1


def test_fenced_requests_count(world: WatchedWorld, metrics: Metrics) -> None:
    first = world.member("a", static="one")
    world.form(first)
    first.restarted().join()
    first.heartbeat()
    first.heartbeat()
    assert value(metrics, "coterie_members_fenced_total") == 2


def test_ownership_conflicts_count(world: WatchedWorld, metrics: Metrics) -> None:
    first, second = world.pair(protocols=("cooperative-sticky",))
    second.owned, second.owned_generation = [("t", 1), ("t", 3)], 2
    second.join()
    first.join()
    first.sync({first: assigned("t", 0, 1, 2, 3), second: assigned("t")})
    assert value(metrics, "coterie_ownership_conflicts_total") == 2


def test_commits_count(world: WatchedWorld, metrics: Metrics) -> None:
    """Once, however many partitions a commit has; a refused one does not."""
    world.commit({("t", 0): 1, ("t", 1): 2})
    world.commit({("t", 0): 1}, generation_id_or_member_epoch=7, member_id="nobody")
    assert value(metrics, "coterie_commits_total") == 1


# -- the store ---------------------------------------------------------------------------------


def test_appends_are_measured(metrics: Metrics) -> None:
    metrics.store_appended(3, 0.002)
    metrics.store_appended(4, 0.004)
    assert value(metrics, "coterie_store_append_seconds_count") == 2
    assert value(metrics, "coterie_store_append_seconds_sum") == pytest.approx(0.006)
    assert value(metrics, "coterie_store_records_total") == 7


def test_failures_of_the_store_count(metrics: Metrics) -> None:
    assert value(metrics, "coterie_store_failures_total") == 0
    metrics.store_failed()
    assert value(metrics, "coterie_store_failures_total") == 1


# -- the state of the node ---------------------------------------------------------------------


async def count(world: WatchedWorld) -> GroupCounts:
    """Count the groups of a world."""
    return await count_groups(list(world.coordinator.groups.values()))


@pytest.mark.asyncio
async def test_groups_and_members_are_counted(world: WatchedWorld, metrics: Metrics) -> None:
    world.pair()
    world.member("x", group="other").join()
    found = samples(metrics, NodeSnapshot(groups=await count(world)))
    by_state = {
        dict(labels)["state"]: number
        for (name, labels), number in found.items()
        if name == "coterie_groups"
    }
    assert by_state == {
        "Stable": 1,
        "PreparingRebalance": 1,
        "CompletingRebalance": 0,
        "Empty": 0,
    }
    assert found["coterie_members", frozenset()] == 3
    assert found["coterie_members_away", frozenset()] == 0


@pytest.mark.asyncio
async def test_members_that_are_away_are_counted() -> None:
    world = WatchedWorld(static_registration_timeout_ms=60_000)
    first, _ = world.static_pair()
    world.live(15 * SECOND_MS, first)
    counts = await count(world)
    assert (counts.members, counts.away) == (2, 1)


@pytest.mark.asyncio
async def test_parked_requests_are_counted(world: WatchedWorld, metrics: Metrics) -> None:
    first, second = world.pair()
    first.join()
    joining = await count(world)
    assert (joining.parked_joins, joining.parked_syncs) == (1, 0)
    second.join()
    second.sync()
    syncing = await count(world)
    assert (syncing.parked_joins, syncing.parked_syncs) == (0, 1)
    snapshot = NodeSnapshot(groups=syncing, parked_fetches=5)
    for api, number in (("JoinGroup", 0), ("SyncGroup", 1), ("Fetch", 5)):
        assert value(metrics, "coterie_parked_requests", snapshot, api=api) == number


@pytest.mark.asyncio
async def test_others_are_served_during_the_count(world: WatchedWorld) -> None:
    world.pair()
    groups = list(world.coordinator.groups.values()) * 5_000
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(take_turns())
    counted = await count_groups(groups)
    other.cancel()
    assert counted.groups["Stable"] == 5_000
    assert turns >= 2


def test_connections_are_shown(metrics: Metrics) -> None:
    net = NetStats(
        open=3,
        in_flight=2,
        accepted=10,
        requests=99,
        bytes_in=1000,
        bytes_out=2000,
        refused=dict.fromkeys(RefuseReason, 0) | {RefuseReason.MAX_CONNECTIONS: 4},
        closed=dict.fromkeys(CloseReason, 0) | {CloseReason.IDLE: 5},
    )
    snapshot = NodeSnapshot(net=net)
    assert value(metrics, "coterie_connections", snapshot) == 3
    assert value(metrics, "coterie_requests_in_flight", snapshot) == 2
    assert value(metrics, "coterie_connections_accepted_total", snapshot) == 10
    assert value(metrics, "coterie_received_bytes_total", snapshot) == 1000
    assert value(metrics, "coterie_sent_bytes_total", snapshot) == 2000
    refused, closed = "coterie_connections_refused_total", "coterie_connections_closed_total"
    assert value(metrics, refused, snapshot, reason="max_connections") == 4
    assert value(metrics, refused, snapshot, reason="stopping") == 0
    assert value(metrics, closed, snapshot, reason="connections_max_idle_ms") == 5


def test_journal_is_shown(metrics: Metrics) -> None:
    stats = JournalStats(lines=7, bytes=700, dropped=2, queued=1, failing=True)
    snapshot = NodeSnapshot(journal=stats)
    assert value(metrics, "coterie_journal_lines_total", snapshot) == 7
    assert value(metrics, "coterie_journal_bytes_total", snapshot) == 700
    assert value(metrics, "coterie_journal_dropped_lines_total", snapshot) == 2
    assert value(metrics, "coterie_journal_queued_lines", snapshot) == 1
    assert value(metrics, "coterie_journal_failing", snapshot) == 1


def test_what_a_node_does_not_have_is_not_shown(metrics: Metrics) -> None:
    names = {name for name, _ in samples(metrics)}
    assert not names & {"coterie_groups", "coterie_members", "coterie_connections"}


# -- the page ----------------------------------------------------------------------------------


def test_build_is_shown(metrics: Metrics) -> None:
    versions = [
        dict(labels)["version"] for name, labels in samples(metrics) if name == "coterie_build_info"
    ]
    assert versions == ["1.2.3"]


def test_scraper_gets_the_format_that_it_asks_for(metrics: Metrics) -> None:
    body, content_type = metrics.render(NOTHING, "application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")
    assert metrics.render(NOTHING)[1].startswith("text/plain")


def every_metric(metrics: Metrics) -> list[Metric]:
    """All metrics of a node that has everything."""
    states = {"Empty": 0, "PreparingRebalance": 0, "CompletingRebalance": 0, "Stable": 0}
    metrics.render(
        NodeSnapshot(
            groups=GroupCounts(groups=states, members=0, away=0, parked_joins=0, parked_syncs=0),
            topics=0,
            parked_fetches=0,
            net=NetStats(0, 0, 0, 0, 0, 0, {}, {}),
            journal=JournalStats(0, 0, 0, 0, failing=False),
        )
    )
    return list(metrics.collect())


def test_every_metric_says_what_it_is(metrics: Metrics) -> None:
    families = every_metric(metrics)
    assert len(families) > 25
    for family in families:
        assert family.name.startswith("coterie_")
        assert family.documentation.endswith(".")


def test_every_metric_is_documented(metrics: Metrics) -> None:
    page = (Path(__file__).parents[3] / "docs" / "http.md").read_text(encoding="utf-8")
    suffixes = {"counter": "_total", "info": "_info"}
    names = {family.name + suffixes.get(family.type, "") for family in every_metric(metrics)}
    rows = re.findall(r"^\| (`coterie_.*?) \|", page, flags=re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == names


def test_registry_is_not_the_global_one(metrics: Metrics) -> None:
    """Two nodes in one process share no metrics."""
    other = Metrics("9", History(1))
    other.store_failed()
    assert value(metrics, "coterie_store_failures_total") == 0
    everything = prometheus_client.generate_latest(prometheus_client.REGISTRY)
    assert b"coterie_" not in everything
