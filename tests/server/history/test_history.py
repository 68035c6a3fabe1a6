"""The history of rebalances, from the events that the coordinator itself makes."""

from __future__ import annotations

import pytest

from coterie_protocol.journal import (
    GroupDeleted,
    GroupEmptied,
    GroupRecovered,
    IdUnclaimed,
    OffsetsCommitted,
)
from coterie_server.history import (
    Beginning,
    CountedNames,
    History,
    HistoryLimit,
    LateMember,
    RebalanceOutcome,
    RebalanceRecord,
)
from coterie_server.history.record import NAMES_MAX, seconds
from tests.support.journal_events import completed, gone, joined, phase, phase_joined, started
from tests.support.watched_world import SECOND_MS, WatchedWorld

# -- what happened -----------------------------------------------------------------------------


def test_rebalance_tells_why_and_what_came_of_it(world: WatchedWorld) -> None:
    first, second = world.pair()
    began_ms = world.now_ms
    third = world.member("c")
    third.join()
    world.sleep(SECOND_MS)
    first.join()
    second.join()
    world.sleep(2 * SECOND_MS)
    world.share(first, second, third)
    rebalance = world.last
    assert (rebalance.outcome, rebalance.cause) == (RebalanceOutcome.COMPLETED, "member_joined")
    assert third.id in rebalance.detail
    assert (rebalance.generation, rebalance.from_state) == (3, "Stable")
    assert (rebalance.protocol, rebalance.leader, rebalance.members) == ("range", first.id, 3)
    assert rebalance.started_ms == began_ms
    assert (rebalance.prepare_ms, rebalance.complete_ms) == (SECOND_MS, 2 * SECOND_MS)
    assert rebalance.total_ms == 3 * SECOND_MS
    assert (rebalance.moved, rebalance.revoked) == (2, 2)


def test_latest_comes_first(world: WatchedWorld) -> None:
    world.pair()
    assert [each.generation for each in world.history.last("g")] == [2, 1]


def test_running_rebalance_is_shown_as_it_stands(world: WatchedWorld) -> None:
    first, second = world.pair()
    world.member("c").join()
    running = world.history.running("g")
    assert running is not None
    assert (running.outcome, running.total_ms, running.joined_ms) == (
        RebalanceOutcome.RUNNING,
        None,
        None,
    )
    assert running.awaited == CountedNames(2, (first.id, second.id))
    assert len(world.history.last("g")) == 2


def test_nothing_is_running_when_it_is_over(world: WatchedWorld) -> None:
    world.pair()
    assert world.history.running("g") is None


def test_came_and_went_are_of_that_rebalance(world: WatchedWorld) -> None:
    first, second = world.pair()
    third = world.member("c")
    third.join()
    second.leave()
    first.join()
    world.share(first, third)
    assert (world.last.came, world.last.went) == (
        CountedNames(1, (third.id,)),
        CountedNames(1, (second.id,)),
    )
    world.rejoin(first, third)
    assert world.last.cause == "leader_rejoined"
    assert not world.last.came
    assert not world.last.went


def test_follow_up_names_the_generation_that_called_for_it(world: WatchedWorld) -> None:
    first, second, third = world.cooperative_hand_over()
    world.share(first, second, third)
    assert world.last.cause == "revocation_follow_up"
    assert world.last.follows == 3
    assert first.generation == 4


def test_rebalance_that_starts_anew_is_superseded(world: WatchedWorld) -> None:
    """A member that joins between the phases starts another rebalance."""
    first, second = world.pair()
    third, fourth = world.member("c"), world.member("d")
    third.join()
    first.join()
    second.join()
    fourth.join()
    first.join()
    second.join()
    third.join()
    world.share(first, second, third, fourth)
    completed, superseded = world.history.last("g")[:2]
    assert (superseded.outcome, superseded.came.names) == (RebalanceOutcome.SUPERSEDED, (third.id,))
    assert (completed.outcome, completed.came.names) == (RebalanceOutcome.COMPLETED, (fourth.id,))


def test_last_member_to_go_empties_the_group(world: WatchedWorld) -> None:
    first, second = world.pair()
    second.leave()
    first.leave()
    assert world.last.outcome is RebalanceOutcome.EMPTIED
    assert world.last.went == CountedNames(2, (second.id, first.id))


def test_listeners_get_each_rebalance_once(world: WatchedWorld) -> None:
    ended: list[RebalanceRecord] = []
    world.history.listen(ended.append)
    world.pair()
    world.member("c").join()
    assert ended == list(reversed(world.history.last("g")))


# -- who was waited for ------------------------------------------------------------------------


def test_members_that_were_waited_for_are_named(world: WatchedWorld) -> None:
    first, second = world.pair(rebalance_ms=60_000)
    third = world.member("c")
    third.join()
    world.sleep(SECOND_MS)
    second.join()
    world.live(2 * SECOND_MS, first)
    first.join()
    late = world.running.late
    assert [(each.member, each.after_ms, each.how) for each in late] == [
        (first.id, 3 * SECOND_MS, "joined"),
        (second.id, SECOND_MS, "joined"),
    ]


def test_no_member_is_blamed_for_the_initial_delay() -> None:
    """A new group waits by itself: a member that comes meanwhile is not late."""
    world = WatchedWorld(initial_rebalance_delay_ms=3 * SECOND_MS)
    first, second = world.member("a"), world.member("b")
    first.join()
    world.sleep(SECOND_MS)
    second.join()
    world.sleep(6 * SECOND_MS)
    assert world.running.prepare_ms == 6 * SECOND_MS
    assert world.running.late == ()


def test_member_that_does_not_come_is_dropped_and_blamed(world: WatchedWorld) -> None:
    first, second = world.pair(rebalance_ms=20_000)
    first.join()
    world.live(20 * SECOND_MS, second)
    rebalance = world.running
    assert rebalance.dropped == CountedNames(1, (second.id,))
    assert rebalance.late == (
        LateMember(second.id, None, second.host, 20 * SECOND_MS, "rebalance_expired"),
    )


def test_member_that_dies_meanwhile_is_blamed_until_then(world: WatchedWorld) -> None:
    first, second = world.pair(session_ms=10_000)
    first.join()
    world.sleep(10 * SECOND_MS)
    (late,) = world.running.late
    assert (late.member, late.after_ms, late.how) == (second.id, 10 * SECOND_MS, "session_expired")


def test_newcomer_that_goes_again_is_not_blamed(world: WatchedWorld) -> None:
    """A member that came and left while the others were joining held up none of them."""
    first, second = world.pair()
    first.join()
    world.sleep(SECOND_MS)
    third = world.member("c")
    third.join()
    third.leave()
    world.sleep(SECOND_MS)
    second.join()
    assert [late.member for late in world.running.late] == [second.id]


def test_static_member_that_stays_away_is_blamed(world: WatchedWorld) -> None:
    """It keeps its place without joining, but the others have waited all the same."""
    first = world.member("a", static="one", rebalance_ms=5_000, session_ms=60_000)
    second = world.member("b", static="two", rebalance_ms=5_000, session_ms=60_000)
    world.form(first)
    second.join()
    first.join()
    world.share(first, second)
    first.join()
    world.sleep(5 * SECOND_MS)
    (late,) = world.running.late
    assert (late.member, late.instance, late.how) == (second.id, "two", "away")
    assert late.after_ms == 5 * SECOND_MS


def test_static_member_that_comes_back_is_waited_for_under_its_new_id(world: WatchedWorld) -> None:
    first = world.member("a", static="one")
    second = world.member("b", static="two")
    world.form(first)
    second.join()
    first.join()
    world.share(first, second)
    first.join()
    world.sleep(2 * SECOND_MS)
    again = second.restarted()
    again.join()
    (late,) = world.running.late
    assert (late.member, late.after_ms) == (again.id, 2 * SECOND_MS)


def test_unclaimed_member_id_is_blamed(world: WatchedWorld) -> None:
    world.observe(1_000, started())
    world.observe(8_000, IdUnclaimed(group="g", member="ghost"))
    world.observe(8_000, phase_joined(took_ms=7_000))
    assert world.running.late == (LateMember("ghost", None, "", 7_000, "unclaimed"),)


def test_only_the_latest_are_kept(world: WatchedWorld) -> None:
    names = tuple(f"m{number}" for number in range(1_000))
    world.observe(0, started(awaited=names))
    phases = tuple(phase(name, after_ms=number) for number, name in enumerate(names))
    world.observe(1_000, phase_joined(*phases))
    assert [each.member for each in world.running.late] == [
        "m999", "m998", "m997", "m996", "m995",
    ]  # fmt: skip


# -- over a restart ----------------------------------------------------------------------------


def test_rebalance_taken_up_after_a_restart_has_its_cause(world: WatchedWorld) -> None:
    """The new node does not know how the rebalance began, but why."""
    first, second = world.pair()
    world.member("c").join()
    world.watch()
    world.crash()
    began_ms = world.now_ms
    world.sleep(SECOND_MS)
    first.join()
    second.join()
    world.share(first, second)
    rebalance = world.last
    assert (rebalance.outcome, rebalance.cause) == (RebalanceOutcome.COMPLETED, "member_joined")
    assert (rebalance.started_ms, rebalance.prepare_ms) == (began_ms, SECOND_MS)
    # Members may have gone before, with what they had.
    assert (rebalance.stopped_partition_ms, rebalance.silent_partition_ms) == (None, None)


def test_rebalance_completed_after_a_restart_has_its_cause(world: WatchedWorld) -> None:
    first, second = world.pair()
    first.join()
    second.join()
    world.watch()
    world.crash()
    world.share(first, second)
    assert (world.last.cause, world.last.generation) == ("leader_rejoined", 3)


def test_members_were_waited_for_before_a_restart_too(world: WatchedWorld) -> None:
    """Joins count from the restart, and waiting from the start of the rebalance."""
    first, second = world.pair()
    world.member("c").join()
    world.sleep(2 * SECOND_MS)
    world.crash()
    first.join()
    world.sleep(SECOND_MS)
    second.join()
    assert [(each.member, each.after_ms) for each in world.running.late] == [
        (second.id, 3 * SECOND_MS),
        (first.id, 2 * SECOND_MS),
    ]


def test_pause_of_the_node_is_no_wait_for_members(world: WatchedWorld) -> None:
    world.observe(0, started(awaited=("m",)))
    world.observe(60_000, phase_joined(phase("m", after_ms=2_000), took_ms=3_000))
    assert [each.after_ms for each in world.running.late] == [2_000]


def test_what_was_given_before_a_restart_can_be_known(world: WatchedWorld) -> None:
    owned = {"m": {"t": (0, 1)}}
    back = GroupRecovered(group="g", state="Stable", generation=1, members=("m",), assigned=owned)
    world.observe(0, back)
    world.observe(10_000, started(cause="leader_rejoined"))
    world.observe(10_000, phase_joined(phase("m", after_ms=0)))
    world.observe(12_000, completed(assigned=owned))
    assert world.last.stopped_partition_ms == 2 * 2_000


def test_rebalance_whose_end_was_not_written_is_interrupted(world: WatchedWorld) -> None:
    """A crash can cut the end off the journal; the group was stable afterwards."""
    world.observe(0, started())
    world.observe(9, GroupRecovered(group="g", state="Stable", generation=2, members=("m",)))
    assert (world.last.outcome, world.last.ended_ms) == (RebalanceOutcome.INTERRUPTED, 9)


# -- memory ------------------------------------------------------------------------------------


def test_only_so_many_are_remembered() -> None:
    history = History(2)
    for ts in range(3):
        history.observe(ts, started())
        history.observe(ts, completed())
    assert [each.ended_ms for each in history.last("g")] == [2, 1]


def test_only_so_many_are_remembered_of_all_groups() -> None:
    history = History(2, total=3)
    for ts, name in enumerate(("a", "b", "a", "a", "c")):
        history.observe(ts, started(group=name))
        history.observe(ts, completed(group=name))
    kept = {name: [each.ended_ms for each in history.last(name)] for name in "abc"}
    assert kept == {"a": [3, 2], "b": [], "c": [4]}


def test_deleted_group_is_forgotten(world: WatchedWorld) -> None:
    first, second = world.pair()
    first.leave()
    second.leave()
    world.delete("g")
    assert world.history.last("g") == ()


def test_group_that_another_node_took_is_forgotten(world: WatchedWorld) -> None:
    world.pair()
    world.history.forget(["g"])
    assert world.history.last("g") == ()


def test_commits_make_no_group(world: WatchedWorld) -> None:
    """There may be many groups that only commit."""
    world.observe(1, OffsetsCommitted(group="g", member="", generation=-1, offsets={}))
    world.observe(2, GroupDeleted(group="h", generation=0, how="expired"))
    assert world.history._groups == {}  # noqa: SLF001  # that is what it is about


def test_lists_of_names_are_bounded(world: WatchedWorld) -> None:
    names = tuple(f"m{number}" for number in range(1_000))
    for name in names:
        world.observe(0, joined(name))
    world.observe(0, started(awaited=names, detail=", ".join(names)))
    world.observe(0, phase_joined(dropped=names))
    running = world.running
    for some in (running.came, running.awaited, running.dropped):
        assert some == CountedNames(1_000, names[:NAMES_MAX])
    assert len(running.detail) == 500


def test_names_are_bounded() -> None:
    """Clients make them up, of 32 kilobytes if they like."""
    long = "m" * 32_000
    history = History(10)
    for event in (
        joined(long),
        started(awaited=(long,), detail=long),
        phase_joined(phase(long, 1), dropped=(long,), leader=long, protocol=long),
        gone(long),
        completed(),
        started(group=long),
        completed(group=long),
    ):
        history.observe(1, event)
    (record,) = history.last("g")
    assert len(repr(record)) < 6_000
    history.observe(1, GroupDeleted(group=long, generation=1, how="expired"))
    assert history.beginning(long) == Beginning(None, HistoryLimit.COMPLETE)
    kept = (history._order, history._deleted_groups)  # noqa: SLF001  # that is what it is about
    assert len(repr(kept)) < 1_000


def test_names_read_as_a_sentence() -> None:
    assert str(CountedNames()) == ""
    assert str(CountedNames(2, ("a", "b"))) == "a, b"
    assert str(CountedNames(12, ("a", "b"))) == "a, b and 10 more"


def test_late_member_reads_as_a_sentence() -> None:
    assert (
        str(LateMember("m-1", "one", "/10.0.0.1", 3_100, "joined"))
        == "m-1 (one) at /10.0.0.1, 3.1 s"
    )
    assert str(LateMember("m-1", None, "", 180_000, "session_expired")) == (
        "m-1, 180 s, which did not come (session_expired)"
    )


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0.000 s"), (25, "0.025 s"), (1_000, "1.0 s"), (99_940, "99.9 s")],
)
def test_times_read_easily(milliseconds: int, text: str) -> None:
    assert seconds(milliseconds) == text


def test_emptied_without_a_rebalance_is_no_rebalance(world: WatchedWorld) -> None:
    world.observe(1, GroupEmptied(group="g", generation=1))
    assert world.history.last("g") == ()


def test_empty_groups_that_are_read_back_take_no_room(world: WatchedWorld) -> None:
    """There may be many."""
    back = GroupRecovered(group="g", state="Empty", generation=1, members=(), assigned={})
    world.observe(1, back)
    assert world.history._groups == {}  # noqa: SLF001  # what it costs can't be seen otherwise
    world.observe(2, started())
    world.observe(3, back)
    assert world.history.last("g")[0].outcome is RebalanceOutcome.INTERRUPTED


def test_member_that_goes_between_rebalances_is_of_the_next(world: WatchedWorld) -> None:
    world.observe(1, gone("m"))
    world.observe(2, started())
    world.observe(3, phase_joined())
    assert world.running.went == CountedNames(1, ("m",))
