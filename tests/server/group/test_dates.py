"""What is kept or told has dates; what is due goes by the time for which the node has run."""

from __future__ import annotations

from coterie_protocol.journal import MemberGone, RebalanceStarted
from coterie_server.group import OffsetRow
from coterie_server.group.records import GroupRow
from tests.support.group_harness import World

HOUR_MS = 3_600_000
T0 = ("t", 0)


def test_a_commit_after_the_clock_was_set_has_the_new_date() -> None:
    world = World()
    world.ahead_ms = HOUR_MS
    world.commit({T0: 1})
    (row,) = [row for row in world.rows if isinstance(row, OffsetRow)]
    assert row.committed_at_ms == world.now_ms + HOUR_MS


def test_a_commits_own_retention_time_ends_at_a_date() -> None:
    world = World()
    world.ahead_ms = HOUR_MS
    world.commit({T0: 1}, version=2, retention_time_ms=1_000)
    (row,) = [row for row in world.rows if isinstance(row, OffsetRow)]
    assert row.expires_at_ms == world.now_ms + HOUR_MS + 1_000


def test_time_for_which_the_node_did_not_run_makes_offsets_older() -> None:
    world = World(offsets_retention_ms=HOUR_MS, offsets_check_interval_ms=1_000)
    world.commit({T0: 1})
    world.sleep(1_000)
    assert world.offsets() == {T0: 1}
    world.ahead_ms = HOUR_MS
    world.sleep(1_000)
    assert world.offsets() == {}


def test_the_moment_of_a_change_of_state_is_a_date() -> None:
    world = World(initial_rebalance_delay_ms=0)
    world.ahead_ms = HOUR_MS
    world.form(world.member("a"))
    (row,) = [row for row in world.rows if isinstance(row, GroupRow)]
    assert row.changed_at_ms == world.now_ms + HOUR_MS


def test_the_journal_tells_the_deadline_as_a_date() -> None:
    world = World(initial_rebalance_delay_ms=0)
    a = world.member("a")
    world.form(a)
    world.ahead_ms = HOUR_MS
    world.member("b").join()
    started = world.seen(RebalanceStarted)[-1]
    assert started.deadline == world.now_ms + HOUR_MS + world.group().rebalance_timeout_ms


def test_a_step_of_the_clock_ends_no_session() -> None:
    world = World(initial_rebalance_delay_ms=0)
    a = world.member("a")
    world.form(a)
    world.ahead_ms = 1_000 * HOUR_MS
    world.sleep(1)
    assert not world.seen(MemberGone)
    world.sleep_until_due()
    assert world.seen(MemberGone)
