"""LeaveGroup, alone and in batches, and Heartbeat."""

from __future__ import annotations

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import GroupEmptied, MemberFenced, MemberGone, RebalanceStarted
from coterie_protocol.messages import (
    HeartbeatRequest,
    LeaveGroupRequest,
    MemberIdentity,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie_server.group import GroupState
from tests.support.group_harness import Answer, Client, World

OK = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def leave(world: World, *identities: tuple[str, str | None], group: str = "g") -> Answer:
    """Make several leave."""
    members = tuple(MemberIdentity(member_id=m, group_instance_id=i) for m, i in identities)
    return world.request(LeaveGroupRequest(group_id=group, members=members), 5)


def statics(world: World, count: int) -> list[Client]:
    """A stable group of static members."""
    clients = [world.member(f"c{n}", static=f"i{n}") for n in range(count)]
    world.form(*clients)
    return clients


# -- one ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(6))
def test_a_member_leaves_in_every_version_and_the_others_rebalance(version: int) -> None:
    world = World()
    leader, follower = world.member("a"), world.member("b")
    world.form(leader, follower)
    if version < 3:
        message = LeaveGroupRequest(group_id="g", member_id=follower.id)
    else:
        members = (MemberIdentity(member_id=follower.id),)
        message = LeaveGroupRequest(group_id="g", members=members)
    answer = world.request(message, version, client=follower)
    assert answer.error is OK
    assert answer.part_errors == ([] if version < 3 else [OK])
    assert list(world.group().members) == [leader.id]
    assert world.causes[-1] == "member_left"


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize(("client_id", "host"), [("admin", "/10.0.0.1"), ("b", "/10.0.0.9")])
def test_an_administrator_removes_a_member_by_its_member_id(
    client_id: str, host: str, version: int
) -> None:
    """It may be at work: what was its own is not let go of before its session would have ended."""
    world = World()
    leader, follower = world.member("a"), world.member("b")
    world.form(leader, follower)
    world.sleep(2_000)
    if version < 3:
        message = LeaveGroupRequest(group_id="g", member_id=follower.id)
    else:
        message = LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id=follower.id),))
    assert world.request(message, version, client_id=client_id, host=host).error is OK
    (gone,) = world.seen(MemberGone)
    assert (gone.how, gone.silent_ms) == ("removed", 2_000)
    assert world.causes[-1] == "member_removed"


def test_kafkas_administrator_is_known_by_its_reason() -> None:
    """It may run where the member does, and call itself the same."""
    world = World()
    leader, follower = world.member("a"), world.member("b")
    world.form(leader, follower)
    follower.leave(reason="member was removed by an admin")
    (gone,) = world.seen(MemberGone)
    assert gone.how == "removed"


def test_before_version_3_the_members_error_is_the_answers() -> None:
    answer = World().request(LeaveGroupRequest(group_id="g", member_id="a"), 2)
    assert answer.error is UNKNOWN
    assert answer.reply.members == ()


def test_the_last_member_to_leave_empties_the_group_at_once() -> None:
    world = World()
    client = world.member("a")
    world.form(client)
    assert client.leave() is OK
    row = world.group().row
    assert (row.state, row.generation, row.protocol_type) == ("Empty", 2, "consumer")
    assert (row.protocol_name, row.leader) == (None, None)
    assert [event.generation for event in world.seen(GroupEmptied)] == [2]


@pytest.mark.parametrize("protocols", [("range",), ("sticky", "range")])
def test_another_member_leads_after_the_leader_left(protocols: tuple[str, ...]) -> None:
    world = World()
    leader, follower = world.member("a", protocols=protocols), world.member("b")
    world.form(leader, follower)
    leader.leave()
    assert world.group().row.leader == follower.id
    follower.join()
    assert follower.leads


def test_the_parked_join_of_a_member_that_leaves_is_answered() -> None:
    world = World()
    leader, follower = world.member("a"), world.member("b")
    world.form(leader, follower)
    join = leader.join()
    leader.leave()
    assert join.error is UNKNOWN
    assert join.reply.member_id == ""


def test_the_journal_tells_how_and_why_a_member_left_and_what_it_had() -> None:
    world = World()
    leader, follower = world.member("a"), world.member("b")
    world.form(leader, follower)
    follower.leave(reason="shutting down")
    (gone,) = world.seen(MemberGone)
    assert (gone.member, gone.how, gone.reason) == (follower.id, "left", "shutting down")
    assert gone.owned == {"t": (1, 3)}


def test_a_rebalances_detail_names_who_left_and_the_reason() -> None:
    world = World()
    leader, follower = world.member("a"), world.member("b")
    world.form(leader, follower)
    follower.leave(reason="received SIGTERM")
    assert world.seen(RebalanceStarted)[-1].detail == f"{follower.id}: received SIGTERM"


def test_leaving_needs_a_group_id() -> None:
    answer = leave(World(), ("a", None), group="")
    assert answer.error is ErrorCode.INVALID_GROUP_ID
    assert answer.reply.members == ()


def test_each_member_is_told_that_it_is_in_no_unknown_group() -> None:
    answer = leave(World(), ("a", None), ("", "i1"))
    assert answer.error is OK
    assert answer.part_errors == [UNKNOWN, UNKNOWN]


def test_an_empty_list_of_leavers_is_no_error() -> None:
    world = World()
    world.form(world.member("a"))
    assert leave(world).part_errors == []
    assert world.state() is GroupState.STABLE


# -- static members ----------------------------------------------------------------------------


@pytest.mark.parametrize("state", [GroupState.COMPLETING, GroupState.STABLE])
def test_an_administrator_removes_a_static_member_by_its_instance_id(state: GroupState) -> None:
    world = World()
    clients = [world.member(f"c{n}", static=f"i{n}") for n in range(2)]
    for client in clients:
        client.join()
    world.sleep(6_000)
    if state is GroupState.STABLE:
        world.share(*clients)
    answer = leave(world, ("", "i1"))
    assert answer.part_errors == [OK]
    (echo,) = answer.reply.members
    assert (echo.member_id, echo.group_instance_id) == ("", "i1")
    assert world.state() is GroupState.PREPARING
    assert world.causes[-1] == "member_removed"
    assert clients[1].heartbeat() is UNKNOWN


def test_a_static_member_may_name_both_its_ids() -> None:
    world = World()
    clients = statics(world, 2)
    assert clients[1].leave() is OK
    assert world.causes[-1] == "member_left"


def test_a_replaced_process_can_not_remove_its_successor() -> None:
    world = World()
    clients = statics(world, 2)
    assert leave(world, (clients[0].id, "i1")).part_errors == [ErrorCode.FENCED_INSTANCE_ID]
    assert world.state() is GroupState.STABLE


def test_a_static_member_may_leave_by_its_member_id_alone() -> None:
    world = World()
    clients = statics(world, 2)
    assert leave(world, (clients[1].id, None)).part_errors == [OK]


@pytest.mark.parametrize("instance", [None, "i9"])
def test_without_an_id_or_a_known_instance_no_member_is_meant(instance: str | None) -> None:
    world = World()
    statics(world, 1)
    assert leave(world, ("", instance)).part_errors == [UNKNOWN]
    assert world.state() is GroupState.STABLE


# -- batches -----------------------------------------------------------------------------------


def test_a_batch_leaves_in_one_step_with_one_rebalance() -> None:
    world = World()
    clients = statics(world, 3)
    assert leave(world, ("", "i0"), ("", "i2")).part_errors == [OK, OK]
    assert list(world.group().members) == [clients[1].id]
    assert world.causes[1:] == ["member_removed"]
    assert world.seen(RebalanceStarted)[-1].detail == f"{clients[0].id} (i0), {clients[2].id} (i2)"


def test_a_rebalances_detail_does_not_name_all_of_a_great_batch() -> None:
    world = World()
    clients = statics(world, 6)
    leave(world, *(("", f"i{n}") for n in range(5)))
    names = ", ".join(f"{clients[n].id} (i{n})" for n in range(3))
    assert world.seen(RebalanceStarted)[-1].detail == f"{names} and 2 more"


def test_each_member_of_a_batch_has_its_own_answer() -> None:
    world = World()
    clients = statics(world, 3)
    answer = leave(world, (clients[1].id, "i2"), ("", "i9"), ("", "i1"))
    assert answer.part_errors == [ErrorCode.FENCED_INSTANCE_ID, UNKNOWN, OK]


def test_a_batch_of_which_none_leaves_changes_nothing() -> None:
    world = World()
    statics(world, 1)
    assert leave(world, ("nobody", None), ("", "i9")).part_errors == [UNKNOWN, UNKNOWN]
    assert world.state() is GroupState.STABLE


def test_a_batch_takes_leader_follower_and_pending_id_each_once() -> None:
    world = World()
    leader, follower, ghost = world.member("a"), world.member("b"), world.member("ghost")
    world.form(leader, follower)
    ghost.join_once()
    ids = [leader.id, follower.id, ghost.id, "nobody", leader.id]
    answer = leave(world, *((each, None) for each in ids))
    assert answer.part_errors == [OK, OK, OK, UNKNOWN, UNKNOWN]
    assert world.state() is GroupState.EMPTY


def test_the_last_awaited_member_to_leave_ends_the_first_phase() -> None:
    world = World()
    clients = [world.member(name) for name in "abc"]
    world.form(*clients)
    joins = [client.join() for client in clients[:2]]
    clients[2].leave()
    assert [join.error for join in joins] == [OK, OK]
    assert set(clients[0].roster) == {clients[0].id, clients[1].id}


# -- heartbeats --------------------------------------------------------------------------------


def test_a_heartbeat_needs_a_group_that_exists() -> None:
    message = HeartbeatRequest(group_id="", generation_id=1, member_id="a")
    world = World()
    assert world.request(message, 4).error is ErrorCode.INVALID_GROUP_ID
    assert world.member("a", id="a-1").heartbeat() is UNKNOWN


@pytest.mark.parametrize("version", range(5))
def test_heartbeat_for_the_group_without_a_name(version: int) -> None:
    """The group exists if offsets were committed for it, but it never has members."""
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=None
    )
    topic = OffsetCommitRequestTopic(name="t", partitions=(partition,))
    world = World()
    commit = OffsetCommitRequest(group_id="", topics=(topic,))
    assert world.request(commit, 7).part_errors == [OK]
    for generation in (-1, 0, 1):
        message = HeartbeatRequest(group_id="", generation_id=generation, member_id="a")
        assert world.request(message, version).error is ErrorCode.INVALID_GROUP_ID


def test_a_member_whose_join_is_parked_is_told_that_the_rebalance_goes_on() -> None:
    world = World()
    leader, follower = world.member("a"), world.member("b")
    world.form(leader, follower)
    leader.join()
    assert leader.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("version", range(5))
def test_a_heartbeat_has_the_same_answer_in_every_version(version: int) -> None:
    world = World()
    client = world.member("a")
    world.form(client)
    assert client.heartbeat(version=version) is OK


@pytest.mark.parametrize(
    ("member_id", "instance", "error"),
    [
        ("i0-1", "i0", OK),
        ("i0-1", None, OK),
        ("other", "i0", ErrorCode.FENCED_INSTANCE_ID),
        ("i0-1", "i1", ErrorCode.FENCED_INSTANCE_ID),
        ("i0-1", "i9", UNKNOWN),
        ("other", None, UNKNOWN),
    ],
)
def test_an_instance_id_has_to_be_the_members_if_it_is_named(
    member_id: str, instance: str | None, error: ErrorCode
) -> None:
    world = World()
    clients = statics(world, 2)
    given = {"member_id": member_id, "group_instance_id": instance}
    assert clients[0].heartbeat(**given) is error


def test_a_fenced_member_is_in_the_journal() -> None:
    world = World()
    old = world.member("a", static="i1", host="/10.0.0.1")
    world.form(old)
    new = old.restarted(host="/10.0.0.2")
    new.join()
    old.heartbeat()
    (fenced,) = world.seen(MemberFenced)
    assert (fenced.member, fenced.host) == (old.id, "/10.0.0.1")
    assert (fenced.holder, fenced.holder_host) == (new.id, "/10.0.0.2")
    assert (fenced.instance, fenced.request) == ("i1", "Heartbeat")
