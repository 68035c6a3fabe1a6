"""A node that starts again takes its groups up where it left them."""

from __future__ import annotations

import pytest

from coterie_protocol import encode
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import (
    GroupRecovered,
    MemberGone,
    OffsetsDeleted,
    RebalanceCompleted,
    RebalanceStarted,
)
from coterie_server.group import Config, GroupCoordinator, GroupState, Record, StoredRow
from coterie_server.group.records import (
    FloorRow,
    Gone,
    GroupRow,
    MemberRow,
    from_stored,
    to_stored,
)
from tests.support.group_harness import Client, World, assigned

OK = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def pair(world: World, **attributes: object) -> tuple[Client, Client]:
    """A stable group of two."""
    leader, follower = world.member("a", **attributes), world.member("b", **attributes)
    world.form(leader, follower)
    return leader, follower


# -- stable ------------------------------------------------------------------------------------


def test_a_stable_group_goes_on_after_a_restart_in_its_generation() -> None:
    world = World()
    leader, follower = pair(world)
    world.crash()
    assert [c.heartbeat() for c in (leader, follower)] == [OK, OK]
    assert follower.sync().reply.assignment == assigned("t", 1, 3)
    assert follower.join().reply.leader == leader.id
    assert (world.state(), world.group().generation) == (GroupState.STABLE, 1)
    assert len(world.seen(RebalanceStarted)) == 1


def test_everything_shown_is_as_it_was() -> None:
    world = World()
    pair(world)
    before = world.describe()
    world.crash()
    assert world.describe() == before


@pytest.mark.parametrize("ahead_ms", [0, -3_600_000])
@pytest.mark.parametrize(
    ("partitions", "told"), [(6, "t grown"), (0, "t deleted"), (2, "t grown")], ids=str
)
def test_unannounced_topic_change_is_announced_after_a_restart(
    partitions: int, told: str, ahead_ms: int
) -> None:
    """The node stopped between storing the change and telling the group, whatever its clock said.

    The one that takes over may be another one, with another clock.
    """
    world = World()
    pair(world)
    world.ahead_ms = ahead_ms
    if partitions:
        world.topics["t"] = partitions
    else:
        del world.topics["t"]
    world.crash()
    assert world.seen(RebalanceStarted)[1:][0].cause == "topic_changed"
    assert world.seen(RebalanceStarted)[1:][0].detail == told


def test_topic_that_comes_to_be_is_announced_after_a_restart() -> None:
    world = World()
    before = world.topics.pop("t")
    pair(world)
    world.topics["t"] = before
    world.crash()
    assert world.seen(RebalanceStarted)[-1].detail == "t created"


def test_topic_that_only_the_leader_knew_is_no_news_to_the_next_coordinator() -> None:
    """Leaders ask any node for topics, and this one had not heard of it."""
    world = World()
    del world.topics["t"]
    leader = world.member("a")
    leader.join()
    world.sleep(3_000)
    assert leader.sync({leader: assigned("t", 0, 1, 2, 3)}).error is OK
    world.topics["t"] = 4
    world.crash()
    assert len(world.seen(RebalanceStarted)) == 1
    world.topics["t"] = 5
    world.crash()
    assert world.seen(RebalanceStarted)[-1].detail == "t grown"


def test_announced_topic_change_costs_no_second_rebalance() -> None:
    """The generation that followed took it into account."""
    world = World()
    world.topics["t"] = 6
    pair(world)
    world.topics["other"] = 9
    world.crash()
    assert len(world.seen(RebalanceStarted)) == 1


def test_change_during_a_rebalance_is_announced_once() -> None:
    """It is in time for the generation that forms after it."""
    world = World()
    leader, follower = pair(world)
    leader.join()
    world.topics["t"] = 6
    world.crash()
    world.form(leader, follower)
    started = len(world.seen(RebalanceStarted))
    world.crash()
    assert len(world.seen(RebalanceStarted)) == started


def test_row_that_does_not_say_what_its_topics_were_is_no_cause() -> None:
    """Rows of version 0.1.0 don't."""
    row = GroupRow(group_id="g", state="Stable", generation=4, protocol_type="consumer")
    key, _ = to_stored(row)
    assert from_stored(key, b"\x00" + encode(row, 0)) == row


def test_offsets_of_a_deleted_topic_do_not_come_back() -> None:
    """The node stopped after the topic was gone, and before its groups had forgotten it."""
    world = World()
    world.commit({("u", 0): 5, ("t", 0): 7})
    del world.topics["u"]
    world.crash()
    assert set(world.group().offsets) == {("t", 0)}
    assert world.seen(OffsetsDeleted)[-1].how == "topic_deleted"


def test_group_that_was_read_is_told_before_what_it_forgets() -> None:
    """Its journal says so from which line on another node has it."""
    world = World()
    world.commit({("u", 0): 5})
    leader, follower = pair(world)
    world.form(leader, follower)
    del world.topics["u"]
    before = len(world.events)
    world.crash()
    kinds = [event.kind for event in world.events[before:]]
    assert kinds[:2] == ["group_recovered", "offsets_deleted"]


def test_members_get_a_fresh_session() -> None:
    """Their heartbeats could not arrive while the node was down."""
    world = World()
    leader, follower = pair(world)
    world.sleep(9_999)
    world.crash()
    world.live(9_999, leader)
    assert follower.id in world.group().members
    world.sleep(1)
    assert follower.id not in world.group().members
    assert world.causes[-1] == "session_expired"


def test_silence_counts_from_the_restart() -> None:
    """Heartbeats could not arrive while the node was down."""
    world = World()
    leader, follower = pair(world)
    world.sleep(5_000)
    world.crash()
    world.live(10_000, leader)
    (gone,) = world.seen(MemberGone)
    assert (gone.member, gone.silent_ms) == (follower.id, 10_000)


def test_all_protocols_of_a_member_are_stored() -> None:
    world = World()
    leader, follower = pair(world, protocols=("x", "y"))
    world.crash()
    assert follower.join().error is OK
    assert world.member("c", protocols=("y",)).join().is_parked
    assert leader.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_leader_leads_on_whatever_the_order_in_the_store() -> None:
    world = World()
    leader, follower = world.member("z"), world.member("a")
    world.form(leader, follower)
    world.crash()
    leader.join()
    follower.join()
    assert leader.leads


def test_a_static_member_takes_its_place_after_a_restart_without_a_rebalance() -> None:
    world = World()
    old = world.member("a", static="i1")
    world.form(old)
    world.crash()
    new = old.restarted()
    assert new.join().reply.skip_assignment is True
    assert old.heartbeat() is ErrorCode.FENCED_INSTANCE_ID


def test_recovery_is_written_down() -> None:
    world = World()
    leader, follower = pair(world)
    world.commit({("t", 0): 1}, group_id="offsets")
    world.crash()
    (recovered,) = world.seen(GroupRecovered)
    assert (recovered.group, recovered.state, recovered.generation) == ("g", "Stable", 1)
    assert recovered.members == (leader.id, follower.id)


# -- the first phase ---------------------------------------------------------------------------


def preparing(world: World) -> tuple[Client, Client]:
    """A stable group that a newcomer has disturbed."""
    leader, follower = pair(world, rebalance_ms=5_000)
    world.member("c", rebalance_ms=5_000, version=3).join()
    world.crash()
    assert world.state() is GroupState.PREPARING
    return leader, follower


def test_members_are_asked_to_join_again_in_the_first_phase_that_goes_on() -> None:
    world = World()
    leader, follower = preparing(world)
    assert leader.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert leader.join().is_parked
    assert follower.join().reply.generation_id == 2


def test_the_first_phase_gets_its_full_time_again_after_a_restart() -> None:
    world = World()
    leader, follower = preparing(world)
    join = leader.join()
    world.live(4_999, follower)
    assert join.is_parked
    world.sleep(1)
    assert list(leader.roster) == [leader.id]


def test_a_newcomer_in_no_generation_is_unknown_after_a_restart() -> None:
    world = World()
    preparing(world)
    newcomer = world.member("c", id="c-3")
    assert newcomer.join().error is UNKNOWN


def test_a_group_whose_members_were_all_new_is_empty_after_a_restart() -> None:
    world = World()
    world.member("a").join()
    world.crash()
    row = world.group().row
    assert (row.state, row.generation, row.leader) == ("Empty", 0, None)
    again = world.member("b")
    world.form(again)
    assert (again.generation, again.leads) == (1, True)


def test_lost_first_rebalance_is_told() -> None:
    """The journal told of the members that came, so it tells that they are not there any more.

    The simulator found it: nothing between their coming and the next generation, which was formed
    without them, said where they had gone.
    """
    world = World()
    world.member("a").join()
    world.crash()
    (recovered,) = world.seen(GroupRecovered)
    assert (recovered.state, recovered.generation, recovered.members) == ("Empty", 0, ())


def test_empty_group_is_journalled_after_a_restart() -> None:
    world = World()
    member = world.member("a")
    world.form(member)
    member.leave()
    world.crash()
    (recovered,) = world.seen(GroupRecovered)
    assert (recovered.state, recovered.generation, recovered.members) == ("Empty", 2, ())
    assert recovered.assigned == {}


def test_group_that_only_new_members_were_in_is_told_of_after_each_restart() -> None:
    """The line of the first restart may be lost with the second, and the group is empty by then."""
    world = World()
    world.member("a").join()
    world.crash()
    world.crash()
    told = [(r.state, r.members) for r in world.seen(GroupRecovered)]
    assert told == [("Empty", ())] * 2


def test_group_that_never_had_members_is_not_told_of() -> None:
    """There may be many that are nothing but offsets, and the journal says nothing of them."""
    world = World()
    world.commit({("t", 0): 1}, group_id="offsets")
    world.crash()
    assert world.seen(GroupRecovered) == []


def test_a_group_with_only_new_members_left_is_empty_after_a_restart() -> None:
    world = World()
    old, new = world.member("a"), world.member("b", version=3)
    world.form(old)
    new.join()
    world.member("c").join_once()
    old.leave()
    assert world.state() is GroupState.PREPARING
    world.crash()
    row = world.group().row
    assert (row.state, row.generation) == ("Empty", 1)
    assert (row.leader, row.protocol_name) == (None, None)


def test_a_stored_member_leads_if_the_leader_was_new() -> None:
    world = World()
    leader, follower = pair(world)
    late = world.member("c", version=3)
    late.join()
    leader.leave()
    world.crash()
    assert world.group().row.leader == follower.id


# -- the second phase --------------------------------------------------------------------------


def completing(world: World) -> tuple[Client, Client]:
    """A group that has been told its generation and lost its node."""
    leader, follower = world.member("a"), world.member("b")
    leader.join()
    follower.join()
    world.sleep(6_000)
    follower.sync()
    world.crash()
    assert world.state() is GroupState.COMPLETING
    return leader, follower


def test_the_leader_may_bring_its_assignment_after_a_restart() -> None:
    world = World()
    leader, follower = completing(world)
    assert leader.sync({follower: b"yours"}).error is OK
    assert follower.sync().reply.assignment == b"yours"
    assert (world.state(), world.group().generation) == (GroupState.STABLE, 1)


def test_no_generation_is_given_out_twice_after_a_crash() -> None:
    world = World()
    leader, follower = completing(world)
    leader.topics = ("u",)
    leader.join()
    follower.join()
    assert leader.generation == 2


def test_the_second_phase_gets_its_full_time_again_after_a_restart() -> None:
    world = World()
    leader, follower = completing(world)
    world.live(59_999, leader, follower)
    assert world.state() is GroupState.COMPLETING
    world.sleep(1)
    assert world.state() is GroupState.EMPTY


def test_the_journal_counts_the_second_phase_from_the_restart() -> None:
    world = World()
    leader, _ = completing(world)
    world.sleep(500)
    leader.sync({})
    (completed,) = world.seen(RebalanceCompleted)
    assert (completed.took_ms, completed.total_ms) == (500, 500)


def test_a_lost_answer_to_a_join_is_given_again_after_a_restart() -> None:
    world = World()
    leader, _ = completing(world)
    reply = leader.join().reply
    assert (reply.generation_id, len(reply.members)) == (1, 2)


def test_an_absent_static_member_keeps_its_place_in_the_second_phase() -> None:
    world = World()
    leader = world.member("a", rebalance_ms=5_000)
    away = world.member("b", static="i1", rebalance_ms=5_000, session_ms=60_000)
    world.form(leader, away)
    leader.join()
    world.live(5_000, leader)
    assert world.state() is GroupState.COMPLETING
    world.crash()
    leader.sync({})
    world.live(20_000, leader)
    assert away.id in world.group().members
    assert world.state() is GroupState.STABLE
    assert world.seen(MemberGone) == []


# -- empty, and gone ---------------------------------------------------------------------------


def test_an_empty_group_keeps_its_generation_and_its_type() -> None:
    world = World()
    client = world.member("a")
    world.form(client)
    client.leave()
    world.crash()
    row = world.group().row
    assert (row.state, row.generation, row.protocol_type) == ("Empty", 2, "consumer")


def test_members_that_left_stay_away() -> None:
    world = World()
    leader, follower = pair(world)
    follower.leave()
    world.crash()
    assert list(world.group().members) == [leader.id]
    assert follower.heartbeat() is UNKNOWN


def test_recovering_changes_nothing_that_a_second_recovery_would_need() -> None:
    world = World()
    pair(world)
    world.member("x", group="h").join()
    world.crash()
    before = dict(world.store)
    world.crash()
    assert world.store == before


def test_a_new_node_starts_with_nothing_and_sweeps_in_due_time() -> None:
    coordinator = GroupCoordinator(Config(offsets_check_interval_ms=7), World().ids, {})
    assert not coordinator.recover([], 1_000)
    assert coordinator.groups == {}
    assert coordinator.next_deadline() == 1_007


# -- rows --------------------------------------------------------------------------------------

ROWS: list[StoredRow] = [
    GroupRow(
        group_id="g",
        state="Stable",
        generation=7,
        protocol_type="consumer",
        leader="a-1",
        timeline=4,
    ),
    MemberRow(
        group_id="g",
        member_id="a-1",
        client_id="a",
        client_host="/10.0.0.1",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=-5,
        protocols=(),
        assignment=b"\x00",
    ),
    FloorRow(generation=7, forgot_at_ms=3, timeline=4),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: type(row).__name__)
def test_a_row_reads_back_as_it_was_stored(row: StoredRow) -> None:
    key, value = to_stored(row)
    assert value is not None
    assert from_stored(key, value) == row


@pytest.mark.parametrize("row", ROWS, ids=lambda row: type(row).__name__)
def test_row_of_a_later_version_is_refused(row: StoredRow) -> None:
    key, value = to_stored(row)
    assert value is not None
    with pytest.raises(ValueError, match="a row in version 4, which is not known"):
        from_stored(key, b"\x04" + value[1:])


def test_a_row_that_is_gone_has_the_key_under_which_it_was_stored() -> None:
    gone: list[Record] = [Gone(GroupRow, "g"), Gone(MemberRow, "g", "a-1")]
    assert [to_stored(record) for record in gone] == [(to_stored(row)[0], None) for row in ROWS[:2]]


def test_keys_of_groups_and_members_do_not_run_together() -> None:
    keys = {
        to_stored(Gone(MemberRow, group, name))[0]
        for group, name in (("a", "bc"), ("ab", "c"), ("abc", ""), ("", "abc"))
    }
    assert len(keys) == 4


def test_groups_sort_before_their_members() -> None:
    names = ["g", "gg", "", "a" * 300, "é"]
    kinds = [(GroupRow, ""), (MemberRow, "m")]
    keys = {to_stored(Gone(kind, name, of))[0]: kind for name in names for kind, of in kinds}
    order = [keys[key] for key in sorted(keys)]
    assert order == [GroupRow] * 5 + [MemberRow] * 5


def test_a_step_that_changes_nothing_stores_nothing() -> None:
    world = World()
    leader, _ = pair(world)
    stored = dict(world.store)
    leader.heartbeat()
    world.describe()
    assert world.store == stored
