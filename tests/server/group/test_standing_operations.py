"""What administrators order of a group: what is refused, stored, told to leaders, and when it ends.

What a leader makes of it is tested in `tests/assignors/test_operations.py`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from coterie_protocol.consumer import decode_assignment, flatten
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import OperationEnded, OperationStarted, RebalanceStarted
from coterie_protocol.operations import Operation, partitions_of
from coterie_server.group import Group, GroupState, OperationsRow, Refusal, standing_rules
from coterie_server.group.records import Row
from coterie_server.group.step import Step
from tests.support.group_harness import Client, World

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def grouped(count: int = 2, world: World | None = None, **attributes: Any) -> tuple[Client, ...]:
    """The members of a stable group whose leader follows operations."""
    world = world or World()
    clients = tuple(
        world.member(f"c{n}", **{"follows": True, "session_ms": 60_000} | attributes)
        for n in range(count)
    )
    world.form(*clients)
    return clients


def static(world: World | None = None) -> tuple[Client, ...]:
    """The members of a stable group of two static members."""
    world = world or World()
    clients = tuple(
        world.member(f"c{n}", static=f"i{n}", follows=True, session_ms=60_000) for n in range(2)
    )
    world.form(*clients)
    return clients


def refused(world: World, name: str, *arguments: Any, **values: Any) -> str:
    """The name of a refusal, which leaves everything as it was."""
    before = {group.id: group.operations for group in world.coordinator.groups.values()}
    state = world.state()
    with pytest.raises(Refusal) as refusal:
        world.order(name, *arguments, **values)
    assert {g.id: g.operations for g in world.coordinator.groups.values()} == before
    assert world.state() is state
    return refusal.value.name


def standing(world: World) -> list[tuple[str, str | None]]:
    """What stands, and about whom."""
    return [(each.kind, each.instance_id or each.member_id) for each in world.group().operations]


def ended(world: World) -> list[tuple[str, str]]:
    """Which operations ended, and how."""
    return [(event.operation, event.how) for event in world.seen(OperationEnded)]


# -- who can follow ----------------------------------------------------------------------------


def test_leader_of_another_kind_is_refused_by_its_name_and_client() -> None:
    world = World()
    java, other = world.member("java"), world.member("other")
    world.form(java, other)
    with pytest.raises(Refusal, match=rf"led by {java.id}, client 'java' at 10.0.0.1") as refusal:
        world.order("drain", other)
    assert refusal.value.name == "leader_cannot_follow"


def test_a_member_that_follows_is_made_the_leader() -> None:
    world = World()
    java, ours = world.member("java"), world.member("ours", follows=True)
    world.form(java, ours)
    assert java.leads
    world.order("drain", java)
    world.rejoin(java, ours)
    assert ours.leads


def test_without_operations_leadership_stays_where_it_was() -> None:
    world = World()
    java, ours = world.member("java"), world.member("ours", follows=True)
    world.form(java, ours)
    ours.leave()
    second = world.member("again", follows=True)
    second.join()
    world.rejoin(java, second)
    assert java.leads


def test_operations_stay_when_no_member_is_left_that_follows_them() -> None:
    world = World()
    java, ours = world.member("java"), world.member("ours", follows=True)
    world.form(java, ours)
    world.order("pin", java, numbers=[0])
    world.rejoin(java, ours)
    assert not world.describe_with_operations().operations_not_followed
    ours.leave()
    world.rejoin(java)
    described = world.describe_with_operations()
    assert [each.kind for each in described.operations] == ["pin"]
    assert described.operations_not_followed


def test_who_follows_is_known_after_a_crash() -> None:
    first, second = grouped()
    first.world.crash()
    first.world.order("drain", second)


@pytest.mark.parametrize(
    ("name", "group", "values"),
    [
        ("group_not_found", "missing", {}),
        ("member_not_found", "g", {"member_id": "nope"}),
        ("member_not_found", "g", {"instance_id": "nope"}),
        ("no_other_member", "g", {}),
    ],
)
def test_drain_that_makes_no_sense(name: str, group: str, values: dict[str, Any]) -> None:
    (only,) = grouped(1)
    client = None if values else only
    assert refused(only.world, "drain", client, group, **values) == name


def test_empty_group_has_no_member_that_could_follow() -> None:
    world = World()
    world.commit({("t", 0): 1})
    assert refused(world, "freeze") == "group_empty"


def test_group_of_another_type_is_refused() -> None:
    (first, _) = grouped(protocol_type="connect", metadata=b"?")
    assert refused(first.world, "drain", first) == "unreadable"


# -- what a leader is told ---------------------------------------------------------------------


def told(answer: Any) -> tuple[list[tuple[str, str | None]], dict[str, list[int]]]:
    """The operations in an answer to a join, and what each member had."""
    had = {
        each.member_id: sorted(
            n for _, n in flatten(decode_assignment(each.assigned_last).assigned_partitions)
        )
        for each in answer.reply.members
        if each.assigned_last
    }
    return [(o.kind, o.instance_id or o.member_id) for o in answer.reply.operations], had


def test_the_leader_is_told_what_is_ordered_and_what_members_had() -> None:
    leader, other = grouped()
    world = leader.world
    world.order("drain", other)
    other.join()
    answer = leader.join()
    assert told(answer) == ([("drain", other.id)], {leader.id: [0, 2], other.id: [1, 3]})


def test_others_and_leaders_that_do_not_ask_are_told_nothing() -> None:
    leader, other = grouped()
    world = leader.world
    world.order("drain", other)
    follower = other.join()
    assert leader.join(wants_operations=False).reply.leader == other.id
    assert told(follower)[0] == [("drain", other.id)]
    assert leader.roster == {}


def test_where_nothing_is_ordered_nothing_is_told() -> None:
    leader, other = grouped()
    answer = leader.join()
    other.join()
    assert told(answer) == ([], {})


def test_operation_in_the_second_phase_sends_the_group_back_to_the_first() -> None:
    leader, other = grouped()
    world = leader.world
    leader.join()
    other.join()
    assert world.state() is GroupState.COMPLETING
    world.order("freeze")
    assert (world.state(), world.causes[-1]) == (GroupState.PREPARING, "freeze")
    other.join()
    assert told(leader.join())[0] == [("freeze", None)]


def test_operation_in_the_first_phase_needs_no_other_rebalance() -> None:
    leader, other = grouped()
    world = leader.world
    answer = leader.join()
    causes = len(world.causes)
    world.order("drain", other)
    assert (world.state(), len(world.causes)) == (GroupState.PREPARING, causes)
    other.join()
    assert told(answer)[0] == [("drain", other.id)]


# -- drains ------------------------------------------------------------------------------------


def test_drain_starts_a_rebalance_that_says_who_asked_and_why() -> None:
    leader, other = grouped()
    world = leader.world
    world.order("drain", other, by="ann", reason="disk errors")
    started = world.seen(RebalanceStarted)[-1]
    detail = f"{other.id} is drained, asked for by ann: disk errors"
    assert (started.cause, started.detail) == ("drain", detail)
    (event,) = world.seen(OperationStarted)
    assert (event.operation, event.member, event.by) == ("drain", other.id, "ann")
    assert event.at_a_time == 1


def test_drain_is_lifted_with_a_rebalance() -> None:
    leader, other = grouped()
    world = leader.world
    world.order("drain", other)
    world.rejoin(leader, other)
    world.order("undrain", other)
    assert (standing(world), world.causes[-1]) == ([], "drain")
    assert ended(world) == [("drain", "lifted")]
    assert refused(world, "undrain", other) == "nothing_to_end"


@pytest.mark.parametrize(("given", "kept"), [(None, 2), (0, 0), (7, 7)])
def test_drain_takes_about_ten_steps_unless_told_otherwise(given: int | None, kept: int) -> None:
    leader, other = grouped(world=World({"t": 40}))
    leader.world.order("drain", other, at_a_time=given)
    (operation,) = leader.world.group().operations
    assert operation.at_a_time == kept


def test_a_second_drain_of_a_member_replaces_the_first() -> None:
    leader, other = grouped()
    leader.world.order("drain", other)
    leader.world.order("drain", other, at_a_time=0)
    assert [o.at_a_time for o in leader.world.group().operations] == [0]
    assert ended(leader.world) == [("drain", "replaced")]


def test_not_all_members_can_be_drained() -> None:
    first, second = grouped()
    first.world.order("drain", first)
    assert refused(first.world, "drain", second) == "no_other_member"


def test_a_member_with_a_topic_of_its_own_can_not_be_drained() -> None:
    world = World()
    one, two = (world.member(f"c{n}", follows=True, topics=t) for n, t in enumerate("tu"))
    world.form(one, two)
    assert refused(world, "drain", two) == "no_other_member"


def test_drain_of_a_dynamic_member_ends_when_that_is_gone() -> None:
    leader, other = grouped()
    leader.world.order("drain", other)
    other.leave()
    assert (standing(leader.world), ended(leader.world)) == ([], [("drain", "member_gone")])


def test_drain_of_a_static_member_outlives_its_processes() -> None:
    leader, other = static()
    world = leader.world
    world.order("drain", other)
    other.restarted().join()
    assert standing(world) == [("drain", "i1")]


def test_a_static_member_can_be_named_by_its_present_id() -> None:
    leader, other = static()
    world = leader.world
    world.order("drain", member_id=other.id)
    assert standing(world) == [("drain", "i1")]
    world.order("undrain", member_id=other.id)
    assert standing(world) == []


def without_the_drained(world: World) -> tuple[Client, Client]:
    """A group that has lost a static member which was drained."""
    leader, other = static(world)
    world.order("drain", other)
    world.rejoin(leader, other)
    other.leave()
    leader.join()
    world.share(leader)
    world.live(6_000, leader)
    return leader, other


def test_drain_of_a_static_member_is_dropped_a_day_after_it_was_lost() -> None:
    world = World(offsets_check_interval_ms=5_000)
    leader, _ = without_the_drained(world)
    world.ahead_ms += DAY_MS - 60_000
    world.live(6_000, leader)
    world.crash()
    assert standing(world) == [("drain", "i1")]
    world.ahead_ms += 60_000
    world.live(6_000, leader)
    assert (standing(world), ended(world)) == ([], [("drain", "member_gone")])


def test_a_static_member_that_comes_back_in_time_stays_drained() -> None:
    world = World(offsets_check_interval_ms=5_000)
    leader, other = without_the_drained(world)
    back = other.restarted()
    back.join()
    world.rejoin(leader, back)
    world.live(6_000, leader, back)
    world.ahead_ms += DAY_MS
    world.live(6_000, leader, back)
    assert standing(world) == [("drain", "i1")]


def test_group_without_members_stays_for_what_is_ordered_of_those_that_come_back() -> None:
    """All its workers are down for maintenance, and nothing was committed."""
    world = World(offsets_check_interval_ms=5_000)
    leader, _ = without_the_drained(world)
    leader.leave()
    world.sleep(12_000)
    world.crash()
    world.sleep(12_000)
    assert standing(world) == [("drain", "i1")]
    world.ahead_ms += DAY_MS
    world.sleep(12_000)
    assert (ended(world), world.coordinator.groups) == ([("drain", "member_gone")], {})


# -- pins --------------------------------------------------------------------------------------


def pinned(world: World) -> dict[tuple[str, str], list[int]]:
    """The partitions that are pinned or kept, by kind and member."""
    found: dict[tuple[str, str], list[int]] = {}
    for each in world.group().operations:
        name = each.instance_id or each.member_id or ""
        found.setdefault((each.kind, name), []).extend(n for _, n in sorted(partitions_of(each)))
    return found


def test_pin_starts_a_rebalance() -> None:
    leader, other = grouped()
    world = leader.world
    world.order("pin", other, numbers=[0, 2])
    assert pinned(world) == {("pin", other.id): [0, 2]}
    started = world.seen(RebalanceStarted)[-1]
    detail = f"t:0, t:2 is pinned to {other.id}, asked for by an administrator"
    assert (started.cause, started.detail) == ("pin", detail)
    assert world.seen(OperationStarted)[-1].partitions == {"t": (0, 2)}


def test_a_partition_is_pinned_to_one_member() -> None:
    leader, other = grouped()
    world = leader.world
    world.order("pin", other, numbers=[0, 2])
    world.order("pin", leader, numbers=[2, 3])
    assert pinned(world) == {("pin", other.id): [0], ("pin", leader.id): [2, 3]}
    (event,) = world.seen(OperationEnded)
    assert (event.how, event.partitions) == ("replaced", {"t": (2,)})


def test_unpin_ends_pins_and_keep_froms_of_partitions() -> None:
    leader, other = grouped(3)[:2]
    world = leader.world
    world.order("pin", other, numbers=[0, 2])
    world.order("keep-from", leader, numbers=[1, 2])
    world.order("unpin", numbers=[2])
    assert pinned(world) == {("pin", other.id): [0], ("keep-from", leader.id): [1]}
    world.order("unpin", leader, numbers=[0, 1])
    assert pinned(world) == {("pin", other.id): [0]}
    assert refused(world, "unpin", numbers=[3]) == "nothing_to_end"


@pytest.mark.parametrize(
    ("name", "numbers", "why"),
    [
        ("pin", [4], "partition_not_found"),
        ("pin", [1], "contradiction"),
        ("keep-from", [0], "contradiction"),
        ("keep-from", [3], "no_other_member"),
    ],
)
def test_placement_that_makes_no_sense(name: str, numbers: list[int], why: str) -> None:
    first, second = grouped()
    first.world.order("pin", second, numbers=[0])
    first.world.order("keep-from", second, numbers=[1])
    first.world.order("keep-from", first, numbers=[3])
    assert refused(first.world, name, second, numbers=numbers) == why


def test_pin_to_a_member_that_does_not_subscribe_is_refused() -> None:
    world = World()
    one, two = (world.member(f"c{n}", follows=True, topics=t) for n, t in enumerate("tu"))
    world.form(one, two)
    assert refused(world, "pin", two, numbers=[0]) == "not_subscribed"


def test_pin_to_a_drained_member_is_refused() -> None:
    first, second = grouped()
    first.world.order("drain", second)
    assert refused(first.world, "pin", second, numbers=[0]) == "contradiction"


def test_a_group_has_only_so_many_operations() -> None:
    first, second = grouped(world=World({"t": 20_000}))
    first.world.order("pin", second, numbers=range(10_000))
    assert refused(first.world, "pin", second, numbers=[10_001]) == "too_many_operations"


def test_what_is_replaced_takes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing_rules, "_OPERATIONS_MAX", 20)
    monkeypatch.setattr(standing_rules, "_PARTITIONS_MAX", 100)
    first, second = grouped(world=World({"t": 200}))
    first.world.order("pin", second, numbers=range(100))
    first.world.order("pin", first, numbers=range(100))
    assert standing(first.world) == [("pin", first.id)]
    first.world.order("unpin", numbers=range(100))
    for number in range(20):
        first.world.order("pin", second, numbers=[number])
    assert refused(first.world, "freeze") == "too_many_operations"
    first.world.order("pin", first, numbers=range(20))
    assert standing(first.world) == [("pin", first.id)]
    first.world.order("freeze")
    first.world.order("freeze")


def test_what_many_operations_cost_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or an order, or a member that goes, would keep all other groups waiting for seconds."""
    clients = grouped(5, World({"t": 200}))
    world, first = clients[0].world, clients[0]
    checks, stored = Counter[str](), Counter[str]()
    check, save = standing_rules._check_others, Step.save  # noqa: SLF001

    def count_checks(*arguments: Any) -> None:
        checks["others"] += 1
        check(*arguments)

    def count_rows(step: Step, group: Group, row: Row) -> None:
        stored[type(row).__name__] += 1
        save(step, group, row)

    monkeypatch.setattr(standing_rules, "_check_others", count_checks)
    for client in clients[:3]:
        world.order("keep-from", client, numbers=range(100))
    assert checks["others"] == 3
    world.order("unpin", numbers=range(100))
    for number in range(50):
        world.order("pin", first, numbers=[number])
    monkeypatch.setattr(Step, "save", count_rows)
    world.order("pin", first, numbers=range(25))
    world.order("keep-from", clients[1], numbers=range(100))
    first.leave()
    assert standing(world) == [("keep-from", clients[1].id)]
    assert stored["OperationsRow"] <= 4


# -- freezes -----------------------------------------------------------------------------------


def test_freeze_starts_no_rebalance_and_ends_with_one() -> None:
    leader, other = grouped()
    world = leader.world
    world.order("freeze", for_ms=30_000)
    assert world.state() is GroupState.STABLE
    world.live(29_000, leader, other)
    assert world.state() is GroupState.STABLE
    world.sleep(1_000)
    assert (standing(world), ended(world)) == ([], [("freeze", "expired")])
    assert (world.state(), world.causes[-1]) == (GroupState.PREPARING, "freeze")


def test_freeze_lasts_an_hour_and_at_most_a_day() -> None:
    leader, _ = grouped()
    world = leader.world
    assert refused(world, "freeze", for_ms=DAY_MS + 1) == "bad_request"
    world.order("freeze")
    (freeze,) = world.group().operations
    assert freeze.until_ms - freeze.since_ms == HOUR_MS


def test_freeze_outlives_a_crash_and_ends_on_time() -> None:
    leader, other = grouped()
    world = leader.world
    world.order("freeze", for_ms=30_000)
    world.live(10_000, leader, other)
    world.crash()
    assert standing(world) == [("freeze", None)]
    world.live(19_000, leader, other)
    assert world.state() is GroupState.STABLE
    world.live(1_000, leader, other)
    assert (standing(world), world.causes[-1]) == ([], "freeze")


def test_freeze_that_ended_while_the_coordinator_was_down_ends_at_once() -> None:
    leader, other = grouped()
    world = leader.world
    world.order("freeze", for_ms=30_000)
    world.ahead_ms += 60_000
    world.crash()
    world.live(1_000, leader, other)
    assert (standing(world), world.causes[-1]) == ([], "freeze")


def test_freeze_ends_by_the_date_where_that_goes_slower_than_time() -> None:
    leader, other = grouped()
    world = leader.world
    world.order("freeze", for_ms=30_000)
    world.ahead_ms -= 20_000
    world.live(40_000, leader, other)
    assert standing(world) == [("freeze", None)]
    world.live(10_000, leader, other)
    assert standing(world) == []


def test_unfreeze_ends_it_with_a_rebalance() -> None:
    leader, _ = grouped()
    world = leader.world
    assert refused(world, "unfreeze") == "nothing_to_end"
    world.order("freeze")
    world.order("unfreeze")
    assert (standing(world), world.causes[-1]) == ([], "freeze")


@pytest.mark.parametrize("name", ["drain", "pin", "keep-from"])
def test_nothing_is_to_move_in_a_frozen_group(name: str) -> None:
    leader, other = grouped()
    leader.world.order("freeze")
    assert refused(leader.world, name, other, numbers=[0]) == "group_frozen"


def test_the_leader_is_told_who_came_during_a_freeze() -> None:
    leader, other = grouped()
    world = leader.world
    world.order("freeze")
    new = world.member("new", follows=True, static="n1", session_ms=60_000)
    new.join()
    other.join()
    answer = leader.join()
    world.share(leader, other, new)
    (freeze,) = answer.reply.operations
    assert freeze.newcomers == ("n1",)
    world.order("freeze", for_ms=HOUR_MS)
    world.crash()
    assert world.group().operations[0].newcomers == ("n1",)


def test_what_is_ordered_is_deleted_with_the_group() -> None:
    leader, other = grouped()
    world = leader.world
    world.order("freeze")
    for client in (leader, other):
        client.leave()
    assert [row for row in world.rows if isinstance(row, OperationsRow)]
    assert world.delete("g") == [ErrorCode.NONE]
    assert not [row for row in world.rows if isinstance(row, OperationsRow)]


def test_row_is_read_as_it_was_written() -> None:
    leader, other = grouped()
    world = leader.world
    world.order("pin", other, numbers=[1], by="ann", reason="why")
    (row,) = [row for row in world.rows if isinstance(row, OperationsRow)]
    (operation,) = row.operations
    assert operation == Operation(
        kind="pin",
        member_id=other.id,
        topics=operation.topics,
        by="ann",
        reason="why",
        since_ms=world.now_ms,
    )
    assert partitions_of(operation) == {("t", 1)}
