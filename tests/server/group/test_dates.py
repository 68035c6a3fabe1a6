"""What is kept or told has dates; what is due goes by the time for which the node has run."""

from __future__ import annotations

from coterie_protocol.journal import MemberGone, RebalanceStarted
from coterie_server.group.records import GroupRow, OffsetRow
from tests.support.group_harness import World

HOUR_MS = 3_600_000
T0 = ("t", 0)


def test_commit_has_its_date() -> None:
    """An offset that is committed after the clock was set has the new date."""
    world = World()
    world.ahead_ms = HOUR_MS
    world.commit({T0: 1})
    (row,) = [row for row in world.rows if isinstance(row, OffsetRow)]
    assert row.committed_at_ms == world.now_ms + HOUR_MS


def test_retention_counts_from_the_date() -> None:
    """A commit's own retention time, which version 2 has, ends at a date as well."""
    world = World()
    world.ahead_ms = HOUR_MS
    world.commit({T0: 1}, version=2, retention_time_ms=1_000)
    (row,) = [row for row in world.rows if isinstance(row, OffsetRow)]
    assert row.expires_at_ms == world.now_ms + HOUR_MS + 1_000


def test_offsets_expire_by_the_date() -> None:
    """Time for which the node did not run makes offsets older."""
    world = World(offsets_retention_ms=HOUR_MS, offsets_check_interval_ms=1_000)
    world.commit({T0: 1})
    world.sleep(1_000)
    assert world.offsets() == {T0: 1}
    world.ahead_ms = HOUR_MS
    world.sleep(1_000)
    assert world.offsets() == {}


def test_state_has_its_date() -> None:
    """Since when a group is in its state is a date."""
    world = World(initial_rebalance_delay_ms=0)
    world.ahead_ms = HOUR_MS
    world.form(world.member("a"))
    (row,) = [row for row in world.rows if isinstance(row, GroupRow)]
    assert row.changed_at_ms == world.now_ms + HOUR_MS


def test_deadline_is_told_as_a_date() -> None:
    """In the journal, until when the members are awaited."""
    world = World(initial_rebalance_delay_ms=0)
    a = world.member("a")
    world.form(a)
    world.ahead_ms = HOUR_MS
    world.member("b").join()
    started = world.seen(RebalanceStarted)[-1]
    assert started.deadline == world.now_ms + HOUR_MS + world.group().rebalance_timeout_ms


def test_step_ends_no_session() -> None:
    """Members are silent by running time only."""
    world = World(initial_rebalance_delay_ms=0)
    a = world.member("a")
    world.form(a)
    world.ahead_ms = 1_000 * HOUR_MS
    world.sleep(1)
    assert not world.seen(MemberGone)
    world.sleep_until_due()
    assert world.seen(MemberGone)
