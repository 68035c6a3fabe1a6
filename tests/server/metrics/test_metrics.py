"""Figures: counted right, named as Prometheus wants them, and looked at only when asked for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import prometheus_client
import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from coterie_protocol import ApiKey
from coterie_protocol.error_codes import ErrorCode
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
from coterie_server.metrics import Census, GroupCount, Metrics, count_groups, error_of
from coterie_server.net.stats import CloseReason, NetStats, RefuseReason
from tests.support.group_harness import assigned
from tests.support.watched_world import Observe, WatchedWorld

SECOND_MS = 1_000


@pytest.fixture
def metrics(history: History) -> Metrics:
    """The figures of a node that has just started."""
    return Metrics("1.2.3", history)


@pytest.fixture
def observers(history: History, metrics: Metrics) -> list[Observe]:
    """A history, and the figures."""
    return [history.observe, metrics.observe]


def samples(metrics: Metrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """What a scraper reads."""
    text = metrics.render()[0].decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    """One figure; None if it is not there."""
    return samples(metrics).get((name, frozenset(labels.items())))


# -- requests ----------------------------------------------------------------------------------


def test_requests_count_by_api_and_error(metrics: Metrics) -> None:
    """Each answer counts under its kind of request and its error's name."""
    metrics.request_done(ApiKey.HEARTBEAT, ErrorCode.NONE, 0.001)
    metrics.request_done(ApiKey.HEARTBEAT, ErrorCode.NONE, 0.001)
    metrics.request_done(ApiKey.HEARTBEAT, ErrorCode.REBALANCE_IN_PROGRESS, 0.001)
    metrics.request_done(ApiKey.JOIN_GROUP, ErrorCode.NONE, 0.001)
    name = "coterie_requests_total"
    assert value(metrics, name, api="Heartbeat", error="NONE") == 2
    assert value(metrics, name, api="Heartbeat", error="REBALANCE_IN_PROGRESS") == 1
    assert value(metrics, name, api="JoinGroup", error="NONE") == 1


def test_error_without_a_name_counts_by_its_number(metrics: Metrics) -> None:
    """A number that is no known error does not break the page."""
    metrics.request_done(ApiKey.HEARTBEAT, 999, 0.001)
    assert value(metrics, "coterie_requests_total", api="Heartbeat", error="999") == 1


def test_kinds_of_requests_that_never_came_are_not_shown(metrics: Metrics) -> None:
    """The page has no rows for what nobody asks."""
    metrics.request_done(ApiKey.HEARTBEAT, 0, 0.001)
    apis = {dict(labels).get("api") for _, labels in samples(metrics)}
    assert apis == {None, "Heartbeat"}


def test_latency_falls_into_buckets(metrics: Metrics) -> None:
    """Each bucket counts the requests that took no longer than its bound."""
    for seconds in (0.001, 0.0011, 400.0):
        metrics.request_done(ApiKey.JOIN_GROUP, 0, seconds)
    bucket = "coterie_request_seconds_bucket"
    assert value(metrics, bucket, api="JoinGroup", le="0.0005") == 0
    assert value(metrics, bucket, api="JoinGroup", le="0.001") == 1
    assert value(metrics, bucket, api="JoinGroup", le="0.0025") == 2
    assert value(metrics, bucket, api="JoinGroup", le="300.0") == 2
    assert value(metrics, bucket, api="JoinGroup", le="+Inf") == 3
    assert value(metrics, "coterie_request_seconds_count", api="JoinGroup") == 3
    total = value(metrics, "coterie_request_seconds_sum", api="JoinGroup")
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
    """Members in an answer to a JoinGroup have no codes; the answer has one."""
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
    """Each rebalance counts once, under its cause."""
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
    """Both phases of a rebalance have their times."""
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
    """The time that partitions stood still is added up by cause, and ends are counted."""
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
    """Who left and who died are told apart."""
    first, second = world.pair(session_ms=10_000)
    second.leave()
    world.sleep(11 * SECOND_MS)
    assert first.id not in world.group().members
    assert value(metrics, "coterie_members_gone_total", how="left") == 1
    assert value(metrics, "coterie_members_gone_total", how="session_expired") == 1


def test_fenced_requests_count(world: WatchedWorld, metrics: Metrics) -> None:
    """Each request that is refused for its instance id counts."""
    first = world.member("a", static="one")
    world.form(first)
    first.restarted().join()
    first.heartbeat()
    first.heartbeat()
    assert value(metrics, "coterie_members_fenced_total") == 2


def test_ownership_conflicts_count(world: WatchedWorld, metrics: Metrics) -> None:
    """Each partition that is given away under its owner counts."""
    first, second = world.pair(protocols=("cooperative-sticky",))
    second.owned, second.owned_generation = [("t", 1), ("t", 3)], 2
    second.join()
    first.join()
    first.sync({first: assigned("t", 0, 1, 2, 3), second: assigned("t")})
    assert value(metrics, "coterie_ownership_conflicts_total") == 2


def test_commits_count(world: WatchedWorld, metrics: Metrics) -> None:
    """A commit counts once, however many partitions it has; a refused one does not."""
    world.commit({("t", 0): 1, ("t", 1): 2})
    world.commit({("t", 0): 1}, generation_id_or_member_epoch=7, member_id="nobody")
    assert value(metrics, "coterie_commits_total") == 1


# -- the store ---------------------------------------------------------------------------------


def test_appends_are_measured(metrics: Metrics) -> None:
    """Appends have their times, and records their number."""
    metrics.store_appended(3, 0.002)
    metrics.store_appended(4, 0.004)
    assert value(metrics, "coterie_store_append_seconds_count") == 2
    assert value(metrics, "coterie_store_append_seconds_sum") == pytest.approx(0.006)
    assert value(metrics, "coterie_store_records_total") == 7


def test_failures_of_the_store_count(metrics: Metrics) -> None:
    """A store that fails shows from the first time on, and before that as zero."""
    assert value(metrics, "coterie_store_failures_total") == 0
    metrics.store_failed()
    assert value(metrics, "coterie_store_failures_total") == 1


# -- a look at the node ------------------------------------------------------------------------


def test_node_is_looked_at_only_when_asked(metrics: Metrics) -> None:
    """Nobody counts groups while nobody wants to know."""
    looks: list[Census] = []

    def look() -> Census:
        looks.append(Census(topics=len(looks)))
        return looks[-1]

    metrics.watch(look)
    metrics.request_done(ApiKey.HEARTBEAT, 0, 0.001)
    assert looks == []
    assert value(metrics, "coterie_topics") == 0
    assert value(metrics, "coterie_topics") == 1


def test_groups_and_members_are_counted(world: WatchedWorld, metrics: Metrics) -> None:
    """Groups count by state, with the states that no group is in."""
    world.pair()
    world.member("x", group="other").join()
    metrics.watch(lambda: Census(groups=count_groups(world.coordinator.groups.values())))
    assert value(metrics, "coterie_groups", state="Stable") == 1
    assert value(metrics, "coterie_groups", state="PreparingRebalance") == 1
    assert value(metrics, "coterie_groups", state="CompletingRebalance") == 0
    assert value(metrics, "coterie_groups", state="Empty") == 0
    assert value(metrics, "coterie_members") == 3


def test_parked_requests_are_counted(world: WatchedWorld, metrics: Metrics) -> None:
    """Joins of a first phase, syncs of a second and fetches are parked."""
    first, second = world.pair()
    first.join()
    joining = count_groups(world.coordinator.groups.values())
    assert (joining.parked_joins, joining.parked_syncs) == (1, 0)
    second.join()
    second.sync()
    syncing = count_groups(world.coordinator.groups.values())
    assert (syncing.parked_joins, syncing.parked_syncs) == (0, 1)
    metrics.watch(lambda: Census(groups=syncing, parked_fetches=5))
    assert value(metrics, "coterie_parked_requests", api="JoinGroup") == 0
    assert value(metrics, "coterie_parked_requests", api="SyncGroup") == 1
    assert value(metrics, "coterie_parked_requests", api="Fetch") == 5


def test_connections_are_shown(metrics: Metrics) -> None:
    """What the listener counts is shown, with the reasons."""
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
    metrics.watch(lambda: Census(net=net))
    assert value(metrics, "coterie_connections") == 3
    assert value(metrics, "coterie_requests_in_flight") == 2
    assert value(metrics, "coterie_connections_accepted_total") == 10
    assert value(metrics, "coterie_received_bytes_total") == 1000
    assert value(metrics, "coterie_sent_bytes_total") == 2000
    refused, closed = "coterie_connections_refused_total", "coterie_connections_closed_total"
    assert value(metrics, refused, reason="max_connections") == 4
    assert value(metrics, refused, reason="stopping") == 0
    assert value(metrics, closed, reason="connections_max_idle_ms") == 5


def test_journal_is_shown(metrics: Metrics) -> None:
    """Whether the journal is written, and what was lost, can be alerted on."""
    stats = JournalStats(lines=7, bytes=700, dropped=2, queued=1, failing=True)
    metrics.watch(lambda: Census(journal=stats))
    assert value(metrics, "coterie_journal_lines_total") == 7
    assert value(metrics, "coterie_journal_bytes_total") == 700
    assert value(metrics, "coterie_journal_dropped_lines_total") == 2
    assert value(metrics, "coterie_journal_queued_lines") == 1
    assert value(metrics, "coterie_journal_failing") == 1


def test_what_a_node_does_not_have_is_not_shown(metrics: Metrics) -> None:
    """A node that is starting shows no numbers that it does not know yet."""
    names = {name for name, _ in samples(metrics)}
    assert not names & {"coterie_groups", "coterie_members", "coterie_connections"}


def test_group_count_of_nothing_has_every_state() -> None:
    """Without groups all states are there, each with none."""
    empty = {"Empty": 0, "PreparingRebalance": 0, "CompletingRebalance": 0, "Stable": 0}
    assert count_groups([]) == GroupCount(groups=empty, members=0, parked_joins=0, parked_syncs=0)


# -- the page ----------------------------------------------------------------------------------


def test_build_is_shown(metrics: Metrics) -> None:
    """Which version runs can be asked of the figures."""
    versions = [
        dict(labels)["version"] for name, labels in samples(metrics) if name == "coterie_build_info"
    ]
    assert versions == ["1.2.3"]


def test_scraper_gets_the_format_that_it_asks_for(metrics: Metrics) -> None:
    """Prometheus asks for OpenMetrics and gets it; everybody else gets plain text."""
    body, content_type = metrics.render("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")
    assert metrics.render("")[1].startswith("text/plain")


def every_figure(metrics: Metrics) -> list[Metric]:
    """All figures of a node that has everything."""
    net = NetStats(0, 0, 0, 0, 0, 0, {}, {})
    journal = JournalStats(0, 0, 0, 0, failing=False)
    census = Census(groups=count_groups([]), topics=0, parked_fetches=0, net=net, journal=journal)
    metrics.watch(lambda: census)
    return list(metrics.collect())


def test_every_figure_says_what_it_is(metrics: Metrics) -> None:
    """Each of our figures has a sentence of help and the product's name."""
    families = every_figure(metrics)
    assert len(families) > 25
    for family in families:
        assert family.name.startswith("coterie_")
        assert family.documentation.endswith(".")


def test_every_figure_is_documented(metrics: Metrics) -> None:
    """The page on HTTP lists each figure under the name that a scraper sees, and no others."""
    page = (Path(__file__).parents[3] / "docs" / "http.md").read_text(encoding="utf-8")
    suffixes = {"counter": "_total", "info": "_info"}
    names = {family.name + suffixes.get(family.type, "") for family in every_figure(metrics)}
    rows = re.findall(r"^\| (`coterie_.*?) \|", page, flags=re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == names


def test_registry_is_not_the_global_one(metrics: Metrics) -> None:
    """Two nodes in one process do not share figures, and the library's own registry is left out."""
    other = Metrics("9", History(1))
    other.store_failed()
    assert value(metrics, "coterie_store_failures_total") == 0
    everything = prometheus_client.generate_latest(prometheus_client.REGISTRY)
    assert b"coterie_" not in everything
