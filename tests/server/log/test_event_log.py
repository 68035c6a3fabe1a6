"""What the log says of groups and of the node."""

from __future__ import annotations

import io
from collections.abc import MutableMapping
from typing import Any

import pytest

from coterie_protocol.journal import (
    CAUSES,
    ClockStepped,
    GroupDeleted,
    GroupRecovered,
    IdUnclaimed,
    NodePaused,
    NodeStarted,
    NodeStopped,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsExpired,
    OperationEnded,
    TopicChanged,
)
from coterie_server.log import configure
from coterie_server.log.event_log import LINES_PER_WINDOW, WINDOW_MS
from tests.support.group_harness import assigned
from tests.support.journal_events import completed, conflict, gone, joined, started
from tests.support.watched_world import SECOND_MS, WatchedWorld

LogLines = list[MutableMapping[str, Any]]


def said(log: LogLines, event: str) -> list[MutableMapping[str, Any]]:
    """The lines with these words."""
    return [line for line in log if line["event"] == event]


def test_rebalance_is_one_line_that_says_it_all(world: WatchedWorld, log: LogLines) -> None:
    first, second = world.pair()
    log.clear()
    third = world.member("c")
    third.join()
    world.sleep(SECOND_MS)
    first.join()
    world.sleep(SECOND_MS)
    second.join()
    world.sleep(500)
    world.share(first, second, third)
    (line,) = (line for line in log if line["log_level"] != "debug")
    assert line == {
        "event": "group rebalanced",
        "log_level": "info",
        "group": "g",
        "generation": 3,
        "because": CAUSES["member_joined"],
        "detail": third.id,
        "members": 3,
        "came": third.id,
        "waited_for": f"{second.id} at {second.host}, 2.0 s",
        "seconds": 2.5,
        "moved": 2,
        "revoked": 2,
        "stopped_partition_seconds": 2 * 1.5 + 2 * 0.5,
    }


def test_line_looks_readable_on_a_terminal(world: WatchedWorld) -> None:
    stream = io.StringIO()
    configure("info", "console", stream)
    world.pair()
    last = stream.getvalue().splitlines()[-1]
    assert "group rebalanced" in last
    assert "because='a member came that was not in the group'" in last
    assert "generation=2" in last


def test_rebalance_that_dropped_a_member_is_a_warning(world: WatchedWorld, log: LogLines) -> None:
    first, second = world.pair(rebalance_ms=20_000)
    first.join()
    world.live(20 * SECOND_MS, second)
    world.share(first)
    (gone,) = said(log, "member gone")
    assert (gone["log_level"], gone["member"]) == ("warning", second.id)
    assert gone["why"] == "it did not join the rebalance in time"
    assert gone["waited_seconds"] == 20
    line = said(log, "group rebalanced")[-1]
    assert (line["log_level"], line["dropped"]) == ("warning", second.id)
    assert line["waited_for"].endswith("20.0 s, which did not come (rebalance_expired)")


def test_overtaken_rebalance_is_told(world: WatchedWorld, log: LogLines) -> None:
    first, second = world.pair()
    first.join()
    second.join()
    world.member("c").join()
    (line,) = said(log, "rebalance superseded by another")
    assert line["because"] == CAUSES["leader_rejoined"]


def test_emptied_group_is_told(world: WatchedWorld, log: LogLines) -> None:
    first, second = world.pair()
    second.leave()
    first.leave()
    (line,) = said(log, "group is empty")
    assert (line["because"], line["went"]) == (CAUSES["member_left"], f"{second.id}, {first.id}")


def test_interrupted_rebalance_is_told(world: WatchedWorld, log: LogLines) -> None:
    world.observe(0, started())
    world.observe(9, GroupRecovered(group="g", state="Stable", generation=2, members=("m",)))
    assert len(said(log, "rebalance interrupted")) == 1


# -- what they say of members ------------------------------------------------------------------


def test_dead_member_is_told_with_its_silence_and_its_limit(
    world: WatchedWorld, log: LogLines
) -> None:
    first, second = world.pair(session_ms=10_000)
    world.live(11 * SECOND_MS, first)
    (line,) = said(log, "member gone")
    assert line == {
        "event": "member gone",
        "log_level": "warning",
        "group": "g",
        "member": second.id,
        "host": second.host,
        "why": "it was silent for longer than its session timeout",
        "silent_seconds": 10,
        "limit_seconds": 10,
        "partitions": 2,
    }


def test_leaving_member_is_told_with_its_reason(world: WatchedWorld, log: LogLines) -> None:
    _, second = world.pair()
    second.leave(reason="scaling in")
    (line,) = said(log, "member gone")
    assert (line["log_level"], line["reason"]) == ("info", "scaling in")
    assert "silent_seconds" not in line


def test_member_that_never_synced_is_told_with_the_wait(world: WatchedWorld, log: LogLines) -> None:
    first, second = world.pair(rebalance_ms=20_000)
    first.join()
    second.join()
    first.sync({first: assigned("t")})
    world.live(20 * SECOND_MS, first, second)
    (line,) = said(log, "member gone")
    assert line["why"] == "it joined but never asked for its assignment"


def test_waiting_time_of_the_second_phase_counts_from_the_first(
    world: WatchedWorld, log: LogLines
) -> None:
    first, second = world.pair(rebalance_ms=20_000)
    first.join()
    world.live(5 * SECOND_MS, second)
    second.join()
    world.live(20 * SECOND_MS, first, second)
    waited = {line["member"]: line["waited_seconds"] for line in said(log, "member gone")}
    assert waited == {first.id: 20, second.id: 20}


def test_member_that_is_away_is_told_and_its_return(log: LogLines) -> None:
    world = WatchedWorld(static_registration_timeout_ms=60_000)
    first, second = world.static_pair()
    world.live(15 * SECOND_MS, first)
    (line,) = said(log, "static member is away")
    assert (line["log_level"], line["instance"], line["partitions"]) == ("warning", "two", 2)
    assert (line["silent_seconds"], line["kept_seconds"]) == (10.0, 50.0)
    second.heartbeat()
    (line,) = said(log, "static member is not away any more")
    assert (line["log_level"], line["away_seconds"]) == ("info", 5.0)


def test_member_that_stayed_away_is_told_with_how_long(log: LogLines) -> None:
    world = WatchedWorld(static_registration_timeout_ms=60_000)
    first, _ = world.static_pair()
    world.live(60 * SECOND_MS, first)
    (line,) = said(log, "member gone")
    assert line["why"] == "it was away for longer than its registration timeout"
    assert (line["silent_seconds"], line["away_seconds"]) == (60.0, 50.0)


def test_new_member_is_a_debug_line(world: WatchedWorld, log: LogLines) -> None:
    """The rebalance's line names who came."""
    world.member("a").join(reason="hello")
    (line,) = said(log, "member joined")
    assert (line["log_level"], line["reason"]) == ("debug", "hello")


def test_fenced_member_is_told_with_both_hosts(world: WatchedWorld, log: LogLines) -> None:
    first = world.member("a", static="one", host="/10.0.0.1")
    world.form(first)
    second = first.restarted(host="/10.0.0.2")
    second.join()
    first.heartbeat()
    (back,) = said(log, "static member is back")
    assert (back["former_host"], back["host"]) == ("/10.0.0.1", "/10.0.0.2")
    (line,) = said(log, "member fenced")
    assert (line["host"], line["holder_host"]) == ("/10.0.0.1", "/10.0.0.2")
    assert (line["log_level"], line["request"], line["instance"]) == ("warning", "Heartbeat", "one")


def test_unclaimed_id_is_a_warning_only_during_a_rebalance(
    world: WatchedWorld, log: LogLines
) -> None:
    """Clients that ask for an id and go are no news, unless a rebalance waited for them."""
    world.observe(0, IdUnclaimed(group="g", member="ghost"))
    world.observe(1, started())
    world.observe(2, IdUnclaimed(group="g", member="ghost"))
    levels = [line["log_level"] for line in said(log, "member id unclaimed")]
    assert levels == ["debug", "warning"]


def test_unknown_reason_of_leaving_is_logged_as_it_is(world: WatchedWorld, log: LogLines) -> None:
    """A newer Coterie may have written a journal that is replayed."""
    world.observe(0, gone(how="beamed_up"))
    (line,) = said(log, "member gone")
    assert line["why"] == "beamed_up"


# -- conflicts, groups, the node ---------------------------------------------------------------


def test_two_owners_are_an_error(world: WatchedWorld, log: LogLines) -> None:
    for partition in range(7):
        world.observe(0, conflict(partition))
    world.observe(0, completed())
    (line,) = said(log, "partitions have two owners")
    assert (line["log_level"], line["partitions"]) == ("error", 7)
    assert line["examples"].startswith("t-0 is held by a, given to b; t-1 is")
    assert "t-5" not in line["examples"]


def test_withheld_partitions_are_a_warning(world: WatchedWorld, log: LogLines) -> None:
    world.observe(0, conflict(0, withheld=True))
    world.observe(0, completed())
    assert not said(log, "partitions have two owners")
    (line,) = said(log, "partitions withheld until their owners give them up")
    assert line["log_level"] == "warning"


def test_conflicts_are_told_once(world: WatchedWorld, log: LogLines) -> None:
    world.observe(0, conflict(0))
    world.observe(0, completed())
    world.observe(1, completed())
    assert len(said(log, "partitions have two owners")) == 1


def test_groups_read_back_are_summed_up(world: WatchedWorld, log: LogLines) -> None:
    for number in range(1_000):
        state = "Stable" if number % 2 else "PreparingRebalance"
        back = GroupRecovered(group=f"g{number}", state=state, generation=1, members=("a", "b"))
        world.observe(0, back)
    ready = NodeStarted(version="1.2", groups=1_000, offsets=7, load_ms=1_500, settings={"a": 1})
    world.observe(0, ready)
    assert [line["event"] for line in log] == ["groups with members recovered", "node is ready"]
    assert log[0]["in_state"] == "500 PreparingRebalance, 500 Stable"
    assert (log[0]["groups"], log[0]["members"]) == (1_000, 2_000)
    assert (log[1]["version"], log[1]["load_seconds"]) == ("1.2", 1.5)


def test_group_that_is_read_back_again_counts_once(world: WatchedWorld, log: LogLines) -> None:
    """On a full disk, each attempt to store something ends with recovering the groups."""
    world.observe(0, NodeStarted(version="1", groups=2, offsets=0, load_ms=0))
    for state in ("Stable", "Stable", "PreparingRebalance"):
        for group in ("a", "b"):
            back = GroupRecovered(group=group, state=state, generation=1, members=("m", "n"))
            world.observe(1, back)
    for _ in range(2):
        world.observe(2, OffsetsCommitted(group="a", member="m", generation=1, offsets={}))
    (line,) = said(log, "groups with members recovered")
    assert (line["groups"], line["members"]) == (2, 4)
    assert line["in_state"] == "2 PreparingRebalance"


def test_groups_taken_over_later_are_summed_up(world: WatchedWorld, log: LogLines) -> None:
    world.observe(0, NodeStarted(version="1", groups=0, offsets=0, load_ms=0))
    for number in range(2):
        back = GroupRecovered(group=f"g{number}", state="Stable", generation=1, members=("a",))
        world.observe(1, back)
    world.observe(1, GroupRecovered(group="e", state="Empty", generation=1, members=()))
    world.observe(2, OffsetsCommitted(group="g", member="m", generation=1, offsets={}))
    assert [line["groups"] for line in said(log, "groups with members recovered")] == [2]


@pytest.mark.parametrize(
    ("event", "words", "fields"),
    [
        (GroupDeleted(group="g", generation=4, how="requested"), "group deleted", {"group": "g"}),
        (GroupDeleted(group="g", generation=4, how="expired"), "group expired", {"generation": 4}),
        (
            OffsetsDeleted(group="g", partitions={"t": (0, 1), "u": (0,)}, how="topic_deleted"),
            "offsets deleted",
            {"partitions": 3, "why": "topic_deleted"},
        ),
        (OffsetsExpired(group="g", partitions={"t": (0,)}), "offsets expired", {"partitions": 1}),
        (
            TopicChanged(topic="t", change="grown", partitions_before=2, partitions=4),
            "topic changed",
            {"topic": "t", "change": "grown", "partitions": 4},
        ),
        (
            OperationEnded(
                group="g",
                operation="pin",
                member=None,
                instance="i1",
                partitions={"t": (0, 1)},
                how="lifted",
                by="ann",
                reason="",
            ),
            "operation ended",
            {"operation": "pin", "member": "i1", "partitions": 2, "how": "lifted", "by": "ann"},
        ),
        (NodeStopped(reason="SIGTERM"), "node stopped", {"reason": "SIGTERM"}),
    ],
)
def test_other_events_have_their_lines(
    world: WatchedWorld, log: LogLines, event: Any, words: str, fields: dict[str, Any]
) -> None:
    world.observe(0, event)
    (line,) = said(log, words)
    assert line["log_level"] == "info"
    assert fields.items() <= line.items()


def test_commits_make_no_lines(world: WatchedWorld, log: LogLines) -> None:
    world.observe(0, OffsetsCommitted(group="g", member="m", generation=1, offsets={}))
    assert log == []


# -- floods ------------------------------------------------------------------------------------


def test_flood_is_summed_up(world: WatchedWorld, log: LogLines) -> None:
    """Or a client that joins and leaves in a loop would fill the disk."""
    for _ in range(LINES_PER_WINDOW + 50):
        world.observe(0, gone(how="left"))
    assert len(log) == LINES_PER_WINDOW
    world.observe(WINDOW_MS, gone(how="left"))
    assert log[-2] == {"event": "log lines left out", "log_level": "warning", "lines": 50}
    assert len(log) == LINES_PER_WINDOW + 2


def test_errors_are_told_in_a_flood(world: WatchedWorld, log: LogLines) -> None:
    for _ in range(LINES_PER_WINDOW + 50):
        world.observe(0, gone(how="left"))
    world.observe(0, conflict(0))
    world.observe(0, completed())
    assert len(said(log, "partitions have two owners")) == 1


def test_debug_lines_take_no_room(world: WatchedWorld, log: LogLines) -> None:
    for _ in range(LINES_PER_WINDOW + 50):
        world.observe(0, joined())
    world.observe(0, gone(how="left"))
    assert len(said(log, "member gone")) == 1


@pytest.mark.parametrize(
    ("event", "words", "fields"),
    [
        (
            NodePaused(paused_ms=12_000),
            "node did not run; its members are not blamed",
            {"seconds": 12.0},
        ),
        (ClockStepped(stepped_ms=-3_000), "the system's clock was set", {"by_seconds": -3.0}),
    ],
)
def test_what_befell_the_node_is_a_warning(
    world: WatchedWorld, log: LogLines, event: Any, words: str, fields: dict[str, Any]
) -> None:
    world.observe(0, event)
    (line,) = said(log, words)
    assert line["log_level"] == "warning"
    assert fields.items() <= line.items()
