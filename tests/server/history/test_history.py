"""What is remembered of rebalances, from the events that the real coordinator makes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from coterie_protocol.journal import (
    GroupDeleted,
    GroupEmptied,
    GroupRecovered,
    IdUnclaimed,
    MemberGone,
    MemberJoined,
    MemberPhase,
    OffsetsCommitted,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
    TopicChanged,
    read_line,
)
from coterie_server.history import History, Late, Outcome, Rebalance, Some
from coterie_server.history.rebalance import NAMES_MAX, seconds
from tests.support.group_harness import Client, assigned
from tests.support.watched_world import WatchedWorld

SECOND_MS = 1_000


def last(history: History) -> Rebalance:
    """The latest rebalance of the only group."""
    return history.last("g")[0]


# -- what happened -----------------------------------------------------------------------------


def test_rebalance_tells_why_and_what_came_of_it(world: WatchedWorld, history: History) -> None:
    """A rebalance has its cause, its generation, its members and its times."""
    first, second = world.pair()
    began_ms = world.now_ms
    third = world.member("c")
    third.join()
    world.sleep(SECOND_MS)
    first.join()
    second.join()
    world.sleep(2 * SECOND_MS)
    world.share(first, second, third)
    rebalance = last(history)
    assert (rebalance.outcome, rebalance.cause) == (Outcome.COMPLETED, "member_joined")
    assert third.id in rebalance.detail
    assert (rebalance.generation, rebalance.from_state) == (3, "Stable")
    assert (rebalance.protocol, rebalance.leader, rebalance.members) == ("range", first.id, 3)
    assert rebalance.started_ms == began_ms
    assert (rebalance.prepare_ms, rebalance.complete_ms) == (SECOND_MS, 2 * SECOND_MS)
    assert rebalance.total_ms == 3 * SECOND_MS
    assert (rebalance.moved, rebalance.revoked) == (2, 2)


def test_latest_comes_first(world: WatchedWorld, history: History) -> None:
    """The rebalances of a group are listed from the latest back."""
    world.pair()
    assert [each.generation for each in history.last("g")] == [2, 1]


def test_running_rebalance_is_shown_as_it_stands(world: WatchedWorld, history: History) -> None:
    """A rebalance that is not over has no end yet, and is not among the last ones."""
    first, second = world.pair()
    world.member("c").join()
    running = history.running("g")
    assert running is not None
    assert (running.outcome, running.total_ms, running.joined_ms) == (Outcome.RUNNING, None, None)
    assert running.awaited == Some(2, (first.id, second.id))
    assert len(history.last("g")) == 2


def test_nothing_is_running_when_it_is_over(world: WatchedWorld, history: History) -> None:
    """A stable group has no running rebalance."""
    world.pair()
    assert history.running("g") is None


def test_came_and_went_are_of_that_rebalance(world: WatchedWorld, history: History) -> None:
    """Who came and who went is told by the rebalance that took note of it, and by no other."""
    first, second = world.pair()
    third = world.member("c")
    third.join()
    second.leave()
    first.join()
    world.share(first, third)
    assert (last(history).came, last(history).went) == (Some(1, (third.id,)), Some(1, (second.id,)))
    world.rejoin(first, third)
    assert last(history).cause == "leader_rejoined"
    assert not last(history).came
    assert not last(history).went


def test_follow_up_names_the_generation_that_called_for_it(
    world: WatchedWorld, history: History
) -> None:
    """A rebalance that exists because members had to give something up points back."""
    first, second, third = cooperative_hand_over(world)
    world.share(first, second, third)
    assert last(history).cause == "revocation_follow_up"
    assert last(history).follows == 3
    assert first.generation == 4


def test_rebalance_that_starts_anew_is_superseded(world: WatchedWorld, history: History) -> None:
    """Who comes between the phases starts another rebalance; the first has led to nothing."""
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
    completed, superseded = history.last("g")[:2]
    assert (superseded.outcome, superseded.came.names) == (Outcome.SUPERSEDED, (third.id,))
    assert (completed.outcome, completed.came.names) == (Outcome.COMPLETED, (fourth.id,))


def test_last_member_to_go_empties_the_group(world: WatchedWorld, history: History) -> None:
    """When the last member goes, its rebalance ends with that."""
    first, second = world.pair()
    second.leave()
    first.leave()
    assert last(history).outcome is Outcome.EMPTIED
    assert last(history).went == Some(2, (second.id, first.id))


def test_listeners_get_each_rebalance_once(history: History) -> None:
    """Whoever listens gets every rebalance when it is over, running ones not."""
    ended: list[Rebalance] = []
    history.listen(ended.append)
    world = WatchedWorld(history.observe, initial_rebalance_delay_ms=0)
    world.pair()
    world.member("c").join()
    assert ended == list(reversed(history.last("g")))


# -- who was waited for ------------------------------------------------------------------------


def test_those_who_were_waited_for_are_named(world: WatchedWorld, history: History) -> None:
    """Members that had to come again are listed by how long they took."""
    first, second = world.pair(rebalance_ms=60_000)
    third = world.member("c")
    third.join()
    world.sleep(SECOND_MS)
    second.join()
    world.live(2 * SECOND_MS, first)
    first.join()
    late = last_running(history).late
    assert [(each.member, each.after_ms, each.how) for each in late] == [
        (first.id, 3 * SECOND_MS, "joined"),
        (second.id, SECOND_MS, "joined"),
    ]


def test_nobody_is_blamed_for_the_initial_delay(history: History) -> None:
    """The first rebalance of a group waits by itself; who comes meanwhile is not late."""
    world = WatchedWorld(history.observe, initial_rebalance_delay_ms=3 * SECOND_MS)
    first, second = world.member("a"), world.member("b")
    first.join()
    world.sleep(SECOND_MS)
    second.join()
    world.sleep(6 * SECOND_MS)
    assert last_running(history).prepare_ms == 6 * SECOND_MS
    assert last_running(history).late == ()


def test_member_that_does_not_come_is_dropped_and_blamed(
    world: WatchedWorld, history: History
) -> None:
    """Who sends heartbeats but does not join costs everybody the rebalance timeout."""
    first, second = world.pair(rebalance_ms=20_000)
    first.join()
    world.live(20 * SECOND_MS, second)
    rebalance = last_running(history)
    assert rebalance.dropped == Some(1, (second.id,))
    assert rebalance.late == (
        Late(second.id, None, second.host, 20 * SECOND_MS, "rebalance_expired"),
    )


def test_member_that_dies_meanwhile_is_blamed_until_then(
    world: WatchedWorld, history: History
) -> None:
    """Who falls silent in the first phase is waited for until its session is over."""
    first, second = world.pair(session_ms=10_000)
    first.join()
    world.sleep(10 * SECOND_MS)
    (late,) = last_running(history).late
    assert (late.member, late.after_ms, late.how) == (second.id, 10 * SECOND_MS, "session_expired")


def test_newcomer_that_goes_again_is_not_blamed(world: WatchedWorld, history: History) -> None:
    """Nobody waited for a member that came while the others were joining, and left."""
    first, second = world.pair()
    first.join()
    world.sleep(SECOND_MS)
    third = world.member("c")
    third.join()
    third.leave()
    world.sleep(SECOND_MS)
    second.join()
    assert [late.member for late in last_running(history).late] == [second.id]


def test_static_member_that_stays_away_is_blamed(world: WatchedWorld, history: History) -> None:
    """A static member keeps its place without coming; the others have waited all the same."""
    first = world.member("a", static="one", rebalance_ms=5_000, session_ms=60_000)
    second = world.member("b", static="two", rebalance_ms=5_000, session_ms=60_000)
    world.form(first)
    second.join()
    first.join()
    world.share(first, second)
    first.join()
    world.sleep(5 * SECOND_MS)
    (late,) = last_running(history).late
    assert (late.member, late.instance, late.how) == (second.id, "two", "away")
    assert late.after_ms == 5 * SECOND_MS


def test_static_member_that_comes_back_is_waited_for_under_its_new_id(
    world: WatchedWorld, history: History
) -> None:
    """Who restarts in the first phase of a rebalance holds it up as the member it becomes."""
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
    (late,) = last_running(history).late
    assert (late.member, late.after_ms) == (again.id, 2 * SECOND_MS)


def test_member_id_that_nobody_claims_is_blamed(history: History) -> None:
    """A client that was told its id and never came back has held up the first phase."""
    history.observe(1_000, started())
    history.observe(8_000, IdUnclaimed(group="g", member="ghost"))
    history.observe(8_000, phase_joined(took_ms=7_000))
    assert last_running(history).late == (Late("ghost", None, "", 7_000, "unclaimed"),)


def test_only_the_latest_are_kept(history: History) -> None:
    """However many were late, the list is short and has those who took longest."""
    names = tuple(f"m{number}" for number in range(1_000))
    history.observe(0, started(awaited=names))
    phases = tuple(phase(name, after_ms=number) for number, name in enumerate(names))
    history.observe(1_000, phase_joined(*phases))
    assert [each.member for each in last_running(history).late] == [
        "m999", "m998", "m997", "m996", "m995",
    ]  # fmt: skip


def last_running(history: History) -> Rebalance:
    """The running rebalance of the only group."""
    running = history.running("g")
    assert running is not None
    return running


# -- what it cost ------------------------------------------------------------------------------


def test_first_assignment_costs_nothing(world: WatchedWorld, history: History) -> None:
    """Partitions that nobody had cannot be stopped."""
    first = world.member("a")
    first.join()
    world.sleep(SECOND_MS)
    world.sleep(SECOND_MS)
    world.share(first)
    assert last(history).stopped_partition_ms == 0


def test_eager_rebalance_stops_each_member_from_its_join(
    world: WatchedWorld, history: History
) -> None:
    """With an eager assignor a member stops all it has as it joins, until the assignment is there.

    The first one joins after one second and has two partitions, the second after three.
    """
    first, second = world.pair()
    third = world.member("c")
    third.join()
    world.sleep(SECOND_MS)
    first.join()
    world.sleep(2 * SECOND_MS)
    second.join()
    world.sleep(SECOND_MS)
    world.share(first, second, third)
    assert last(history).stopped_partition_ms == (2 * 3 + 2 * 1) * SECOND_MS


def cooperative_hand_over(world: WatchedWorld) -> tuple[Client, Client, Client]:
    """A third member comes to a cooperative group; the second gives up partition 3 for it.

    The first phase takes two seconds, the second one.  The follow-up has just begun.
    """
    first, second = world.pair(protocols=("cooperative-sticky",))
    first.owned, first.owned_generation = [("t", 0), ("t", 2)], 2
    second.owned, second.owned_generation = [("t", 1), ("t", 3)], 2
    third = world.member("c", protocols=("cooperative-sticky",))
    third.join()
    first.join()
    world.sleep(2 * SECOND_MS)
    second.join()
    world.sleep(SECOND_MS)
    first.sync({first: assigned("t", 0, 2), second: assigned("t", 1), third: assigned("t")})
    second.sync()
    third.sync()
    world.sleep(4 * SECOND_MS)
    second.owned, second.owned_generation = [("t", 1)], 3
    first.owned_generation = third.owned_generation = 3
    second.join()
    third.join()
    first.join()
    return first, second, third


def test_cooperative_rebalance_costs_nothing_to_those_who_keep(
    world: WatchedWorld, history: History
) -> None:
    """What a member still owns as it joins goes on; a rebalance that takes nothing is free."""
    cooperative_hand_over(world)
    assert history.last("g")[0].stopped_partition_ms == 0
    assert history.last("g")[0].revoked == 1


def test_follow_up_pays_for_what_was_given_up(world: WatchedWorld, history: History) -> None:
    """A partition that its owner has to give up stands still until the next one has it."""
    first, second, third = cooperative_hand_over(world)
    world.sleep(2 * SECOND_MS)
    first.sync({first: assigned("t", 0, 2), second: assigned("t", 1), third: assigned("t", 3)})
    assert last(history).cause == "revocation_follow_up"
    assert last(history).stopped_partition_ms == (4 + 2) * SECOND_MS


def test_partitions_of_a_dead_member_stand_still_from_its_removal(
    world: WatchedWorld, history: History
) -> None:
    """From when the group knows that a member is gone, its partitions are counted."""
    first, second = world.pair(protocols=("cooperative-sticky",), session_ms=10_000)
    first.owned, first.owned_generation = [("t", 0), ("t", 2)], 2
    world.live(11 * SECOND_MS, first)
    assert second.id not in world.group().members
    world.live(2 * SECOND_MS, first)
    first.join()
    world.share(first)
    rebalance = last(history)
    assert rebalance.cause == "session_expired"
    since_ms = rebalance.started_ms
    assert rebalance.stopped_partition_ms == 2 * (world.now_ms - since_ms)


def away(world: WatchedWorld) -> tuple[Client, Client]:
    """Two static members in the second phase of a rebalance to which the second did not come."""
    attributes = {"rebalance_ms": 5_000, "session_ms": 60_000, "protocols": ("cooperative-sticky",)}
    first = world.member("a", static="one", **attributes)
    second = world.member("b", static="two", **attributes)
    world.form(first)
    second.join()
    first.join()
    world.share(first, second)
    first.owned, first.owned_generation = [("t", 0), ("t", 2)], 2
    first.join()
    world.sleep(5 * SECOND_MS)
    return first, second


def test_static_member_that_is_away_lets_go_of_nothing(
    world: WatchedWorld, history: History
) -> None:
    """What a static member has that did not come is not counted; nobody took it."""
    first, second = away(world)
    first.sync({first: assigned("t", 0, 2), second: assigned("t", 1, 3)})
    assert last(history).stopped_partition_ms == 0


def test_what_a_static_member_keeps_is_not_counted_the_next_time_either(
    world: WatchedWorld, history: History
) -> None:
    """An assignment that leaves an absent member what it had has not stopped it."""
    first, second = away(world)
    first.sync({first: assigned("t", 0, 2), second: assigned("t", 1, 3)})
    first.join()
    world.sleep(5 * SECOND_MS)
    first.sync({first: assigned("t", 0, 2), second: assigned("t", 1, 3)})
    assert last(history).stopped_partition_ms == 0


def test_static_member_under_a_new_id_is_still_the_owner(
    world: WatchedWorld, history: History
) -> None:
    """A restarted static member stops what it had under its former id when it joins again."""
    first = world.member("a", static="one")
    world.form(first)
    again = first.restarted()
    again.join()
    again.sync()
    again.join()
    world.sleep(SECOND_MS)
    world.share(again)
    assert last(history).stopped_partition_ms == 4 * SECOND_MS


def test_superseded_rebalance_pays_until_it_is_overtaken(
    world: WatchedWorld, history: History
) -> None:
    """Each of two rebalances pays for its own time; none of it is counted twice."""
    first, second = world.pair()
    first.join()
    second.join()
    world.sleep(SECOND_MS)
    third = world.member("c")
    third.join()
    world.sleep(2 * SECOND_MS)
    first.join()
    second.join()
    world.share(first, second, third)
    completed, superseded = history.last("g")[:2]
    assert superseded.outcome is Outcome.SUPERSEDED
    assert superseded.stopped_partition_ms == 4 * SECOND_MS
    assert completed.stopped_partition_ms == 4 * 2 * SECOND_MS


def test_partitions_that_are_to_be_given_later_stand_still_until_then(history: History) -> None:
    """If an assignment asks all to join once more, what it leaves out is paid for by the next."""
    owned = {"m": {"t": (0, 1)}}
    history.observe(
        0,
        GroupRecovered(group="g", state="Stable", generation=1, members=("m",), assigned=owned),
    )
    history.observe(0, started())
    history.observe(0, phase_joined(phase("m", after_ms=0)))
    history.observe(1_000, completed(assigned={"m": {"t": (0,)}}, needs_rejoin=True))
    history.observe(5_000, started(cause="revocation_follow_up", follows=2))
    history.observe(5_000, phase_joined(phase("m", after_ms=0)))
    history.observe(6_000, completed(assigned=owned))
    follow_up, first = history.last("g")
    assert first.stopped_partition_ms == 2 * 1_000
    assert follow_up.stopped_partition_ms == 5_000 + 1_000


def test_partitions_that_nobody_wants_any_more_cost_nothing_later(
    world: WatchedWorld, history: History
) -> None:
    """What an assignment leaves out is not stopped for ever."""
    first, second = world.pair()
    first.join()
    second.join()
    first.sync({first: assigned("t", 0), second: assigned("t", 1)})
    second.sync()
    world.live(60 * SECOND_MS, first, second)
    first.join()
    second.join()
    world.share(first, second)
    assert last(history).stopped_partition_ms == 0


@pytest.mark.parametrize("deleted_ms", [500, 3_000])
def test_partitions_of_a_deleted_topic_do_not_stand_still(
    history: History, deleted_ms: int
) -> None:
    """An hour may pass until the next rebalance; nobody waits for what is not there."""
    both = {"m": {"t": (0,), "u": (0,)}}
    history.observe(
        0,
        GroupRecovered(group="g", state="Stable", generation=1, members=("m",), assigned=both),
    )
    gone = TopicChanged(topic="u", change="deleted", partitions_before=1, partitions=0)
    moments = sorted(
        [
            (deleted_ms, gone),
            (1_000, started()),
            (1_000, phase_joined(phase("m", after_ms=0, owned=both["m"]))),
            (1_500, completed(assigned={"m": {"t": (0,)}})),
        ],
        key=lambda moment: moment[0],
    )
    for moment in moments:
        history.observe(*moment)
    history.observe(3_600_000, started())
    history.observe(3_600_000, phase_joined(phase("m", after_ms=0, owned={"t": (0,)})))
    history.observe(3_600_000, completed(assigned={"m": {"t": (0,)}}))
    assert last(history).stopped_partition_ms == 0


def test_cost_of_groups_that_cannot_be_read_is_unknown(
    world: WatchedWorld, history: History
) -> None:
    """Of a group that is no consumer group nobody can tell; that is not the same as nothing."""
    worker = world.member("a", protocol_type="connect", metadata=b"?")
    worker.join()
    world.sleep(SECOND_MS)
    worker.sync({worker: b"?"})
    worker.join()
    world.sleep(SECOND_MS)
    worker.sync({worker: b"?"})
    assert last(history).cause == "leader_rejoined"
    assert last(history).stopped_partition_ms is None


def test_example_in_the_documentation_costs_what_it_says(history: History) -> None:
    """The page on the journal works out the cost of its example; so does the history."""
    page = (Path(__file__).parents[3] / "docs" / "journal.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```json\n(.*?)```", page, flags=re.DOTALL)
    owned = {"billing-a-1": {"invoices": (0, 2)}, "billing-b-2": {"invoices": (1, 3)}}
    members = tuple(owned)
    back = GroupRecovered(
        group="billing", state="Stable", generation=2, members=members, assigned=owned
    )
    history.observe(0, back)
    for line in map(read_line, example.splitlines()):
        history.observe(line.ts, line.event)
    assert history.last("billing")[0].stopped_partition_ms == 2 * 14 + 2 * 1_919
    assert "3.9 partition-seconds" in page


# -- over a restart ----------------------------------------------------------------------------


def test_rebalance_taken_up_after_a_restart_has_its_cause(world: WatchedWorld) -> None:
    """A node that starts in the middle of a rebalance does not know its beginning, but why."""
    first, second = world.pair()
    world.member("c").join()
    after = History(10)
    world._observers = (after.observe,)  # noqa: SLF001  # a new node knows nothing
    world.crash()
    began_ms = world.now_ms
    world.sleep(SECOND_MS)
    first.join()
    second.join()
    world.share(first, second)
    rebalance = last(after)
    assert (rebalance.outcome, rebalance.cause) == (Outcome.COMPLETED, "member_joined")
    assert (rebalance.started_ms, rebalance.prepare_ms) == (began_ms, SECOND_MS)
    assert rebalance.stopped_partition_ms == 0  # both joined and synced at one moment


def test_rebalance_completed_after_a_restart_has_its_cause(world: WatchedWorld) -> None:
    """So it is if only the leader's assignment was missing."""
    first, second = world.pair()
    first.join()
    second.join()
    after = History(10)
    world._observers = (after.observe,)  # noqa: SLF001  # a new node knows nothing
    world.crash()
    world.share(first, second)
    assert (last(after).cause, last(after).generation) == ("leader_rejoined", 3)


def test_what_was_given_before_a_restart_can_be_known(history: History) -> None:
    """If the node tells what members had when it read them back, the next cost can be told."""
    owned = {"m": {"t": (0, 1)}}
    back = GroupRecovered(group="g", state="Stable", generation=1, members=("m",), assigned=owned)
    history.observe(0, back)
    history.observe(10_000, started(cause="leader_rejoined"))
    history.observe(10_000, phase_joined(phase("m", after_ms=0)))
    history.observe(12_000, completed(assigned=owned))
    assert last(history).stopped_partition_ms == 2 * 2_000


def test_rebalance_whose_end_was_not_written_is_interrupted(history: History) -> None:
    """A journal that a crash cut short can miss the end; the group was stable after it."""
    history.observe(0, started())
    history.observe(9, GroupRecovered(group="g", state="Stable", generation=2, members=("m",)))
    assert (last(history).outcome, last(history).ended_ms) == (Outcome.INTERRUPTED, 9)


# -- memory ------------------------------------------------------------------------------------


def test_only_so_many_are_remembered() -> None:
    """The oldest rebalance is forgotten for the newest."""
    history = History(2)
    WatchedWorld(history.observe, initial_rebalance_delay_ms=0).pair()
    world = WatchedWorld(history.observe, initial_rebalance_delay_ms=0)
    world.pair()
    assert len(history.last("g")) == 2


def test_only_so_many_are_remembered_of_all_groups() -> None:
    """However many groups there are, the oldest rebalance of all is forgotten for the newest."""
    history = History(2, total=3)
    for ts, name in enumerate(("a", "b", "a", "a", "c")):
        history.observe(ts, started(group=name))
        history.observe(ts, completed(group=name))
    kept = {name: [each.ended_ms for each in history.last(name)] for name in "abc"}
    assert kept == {"a": [3, 2], "b": [], "c": [4]}


def test_deleted_group_is_forgotten(world: WatchedWorld, history: History) -> None:
    """Nothing is kept of a group that does not exist."""
    first, second = world.pair()
    first.leave()
    second.leave()
    world.delete("g")
    assert history.last("g") == ()


def test_group_that_another_node_took_is_forgotten(world: WatchedWorld, history: History) -> None:
    """The node can say that a group is none of its own any more."""
    world.pair()
    history.forget("g")
    assert history.last("g") == ()


def test_commits_make_no_group(history: History) -> None:
    """Groups that only commit, of which there may be many, take no room."""
    history.observe(1, OffsetsCommitted(group="g", member="", generation=-1, offsets={}))
    history.observe(2, GroupDeleted(group="h", generation=0, how="expired"))
    assert history._groups == {}  # noqa: SLF001  # that is what it is about


def test_lists_of_names_are_bounded(history: History) -> None:
    """A rebalance of a large group names a few members and counts all of them."""
    names = tuple(f"m{number}" for number in range(1_000))
    for name in names:
        history.observe(0, joined(name))
    history.observe(0, started(awaited=names, detail=", ".join(names)))
    history.observe(0, phase_joined(dropped=names))
    running = last_running(history)
    for some in (running.came, running.awaited, running.dropped):
        assert some == Some(1_000, names[:NAMES_MAX])
    assert len(running.detail) == 500


def test_names_read_as_a_sentence() -> None:
    """A bounded list of names says how many it leaves out."""
    assert str(Some()) == ""
    assert str(Some(2, ("a", "b"))) == "a, b"
    assert str(Some(12, ("a", "b"))) == "a, b and 10 more"


def test_who_was_late_reads_as_a_sentence() -> None:
    """Who was waited for is told with place, time and end."""
    assert str(Late("m-1", "one", "/10.0.0.1", 3_100, "joined")) == "m-1 (one) at /10.0.0.1, 3.1 s"
    assert str(Late("m-1", None, "", 180_000, "session_expired")) == (
        "m-1, 180 s, which did not come (session_expired)"
    )


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0.000 s"), (25, "0.025 s"), (1_000, "1.0 s"), (99_940, "99.9 s")],
)
def test_times_read_easily(milliseconds: int, text: str) -> None:
    """Short times keep their milliseconds, longer ones do not need them."""
    assert seconds(milliseconds) == text


def test_emptied_without_a_rebalance_is_no_rebalance(history: History) -> None:
    """A group that is read back without members has nothing to tell."""
    history.observe(1, GroupEmptied(group="g", generation=1))
    assert history.last("g") == ()


def test_empty_groups_that_are_read_back_take_no_room(history: History) -> None:
    """There may be many, and nothing is known of them."""
    back = GroupRecovered(group="g", state="Empty", generation=1, members=(), assigned={})
    history.observe(1, back)
    assert history._groups == {}  # noqa: SLF001  # what it costs can't be seen otherwise
    history.observe(2, started())
    history.observe(3, back)
    assert history.last("g")[0].outcome is Outcome.INTERRUPTED


def test_member_that_goes_between_rebalances_is_of_the_next(history: History) -> None:
    """Who goes while nothing is going on belongs to the rebalance that follows."""
    history.observe(1, gone("m"))
    history.observe(2, started())
    history.observe(3, phase_joined())
    assert last_running(history).went == Some(1, ("m",))


# -- events ------------------------------------------------------------------------------------


def started(**values: Any) -> RebalanceStarted:
    """The start of a rebalance."""
    defaults: dict[str, Any] = {
        "group": "g",
        "generation": 1,
        "from_state": "Stable",
        "cause": "member_joined",
        "detail": "",
        "awaited": (),
        "deadline": None,
    }
    return RebalanceStarted(**defaults | values)


def phase(
    member: str, after_ms: int | None, owned: Mapping[str, tuple[int, ...]] | None = None
) -> MemberPhase:
    """A member that joined, and what it says that it still owns."""
    return MemberPhase(
        member=member, instance=None, host="h", joined_after_ms=after_ms, owned=owned
    )


def phase_joined(*members: MemberPhase, **values: Any) -> PhaseJoined:
    """The end of a first phase."""
    defaults: dict[str, Any] = {
        "group": "g",
        "generation": 2,
        "protocol_type": "consumer",
        "protocol": "range",
        "leader": "m",
        "members": members,
        "dropped": (),
        "last": None,
        "cause": "member_joined",
        "took_ms": 0,
    }
    return PhaseJoined(**defaults | values)


def completed(**values: Any) -> RebalanceCompleted:
    """The end of a second phase."""
    defaults: dict[str, Any] = {
        "group": "g",
        "generation": 2,
        "cause": "member_joined",
        "assigned": {},
        "moved": 0,
        "revoked": 0,
        "needs_rejoin": False,
        "took_ms": 0,
        "total_ms": 0,
    }
    return RebalanceCompleted(**defaults | values)


def joined(member: str) -> MemberJoined:
    """A member that came."""
    return MemberJoined(
        group="g",
        member=member,
        instance=None,
        client_id="",
        host="h",
        session_timeout_ms=1,
        rebalance_timeout_ms=1,
        protocols=("range",),
        topics=None,
    )


def gone(member: str) -> MemberGone:
    """A member that went."""
    return MemberGone(
        group="g",
        member=member,
        instance=None,
        host="h",
        how="left",
        silent_ms=0,
        session_timeout_ms=1,
    )
