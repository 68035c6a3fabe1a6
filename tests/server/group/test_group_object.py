"""The group as a keeper of numbers: members, places, protocols and topics."""

from __future__ import annotations

import pytest

from coterie_protocol.consumer import Subscription, encode_subscription
from coterie_server.group import Group, GroupState, OffsetRow, Row
from coterie_server.group.group import CONSUMER
from coterie_server.group.member import Member
from coterie_server.group.records import GroupRow, MemberRow, SupportedProtocol
from tests.support.group_invariants import saved_rows
from tests.support.offset_rows import bundled, one_by_one
from tests.support.requests import Asked


def join() -> Asked:
    """A request that could be parked."""
    return Asked(None, 9)


def member(
    member_id: str,
    *names: str,
    instance: str | None = None,
    topics: tuple[str, ...] | None = ("t",),
    rebalance_ms: int = 5_000,
) -> Member:
    """A member that can follow some protocols."""
    data = b"?" if topics is None else encode_subscription(Subscription(topics=topics), 1)
    row = MemberRow(
        group_id="g",
        member_id=member_id,
        instance_id=instance,
        client_id="c",
        client_host="/h",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=rebalance_ms,
        protocols=tuple(SupportedProtocol(name=n, metadata=data) for n in names or ("x",)),
    )
    return Member(row)


def group_of(
    *members: Member,
    state: GroupState = GroupState.STABLE,
    name: str | None = "x",
    kind: str = CONSUMER,
) -> Group:
    """A group with members."""
    group = Group("g")
    row = GroupRow(
        group_id="g",
        state=state.value,
        generation=1,
        protocol_type=kind,
        protocol_name=name,
        leader=members[0].id if members else None,
    )
    group.apply(row)
    for each in members:
        group.add(each)
    return group


# -- protocols ---------------------------------------------------------------------------------


def test_an_empty_group_takes_any_type_and_protocol() -> None:
    group = Group("g")
    assert group.supports("consumer", ["x"])
    assert not group.supports("", ["x"])
    assert not group.supports("consumer", [])


def test_type_and_one_protocol_have_to_be_known_to_all() -> None:
    group = group_of(member("a", "x", "y"), member("b", "y", "z"))
    assert group.supports("consumer", ["q", "y"])
    assert not group.supports("consumer", ["x", "z"])
    assert not group.supports("connect", ["y"])


def test_members_that_leave_or_change_change_the_protocols() -> None:
    group = group_of(member("a", "x", "y"), member("b", "y"))
    assert not group.supports("consumer", ["x"])
    group.remove("b")
    assert group.supports("consumer", ["x"])
    (only,) = group.members.values()
    group.update_protocols(only, (SupportedProtocol(name="z", metadata=b""),))
    assert not group.supports("consumer", ["x", "y"])
    assert group.supports("consumer", ["z"])


def test_a_member_votes_for_the_first_candidate_of_its_list() -> None:
    each = member("a", "x", "y", "z")
    assert each.vote({"z", "y"}) == "y"
    assert each.metadata("q") == b""


@pytest.mark.parametrize("change", ["order", "bytes", "length"])
def test_order_bytes_and_length_make_lists_of_protocols_differ(change: str) -> None:
    each = member("a", "x", "y")
    first, second = each.row.protocols
    others = {
        "order": (second, first),
        "bytes": (first, SupportedProtocol(name="y", metadata=b"other")),
        "length": (first,),
    }
    assert each.matches((first, second))
    assert not each.matches(others[change])


# -- members -----------------------------------------------------------------------------------


def test_a_groups_type_is_known_before_its_members() -> None:
    with pytest.raises(AssertionError, match="type"):
        Group("g").add(member("a"))


def test_when_the_leader_goes_the_longest_standing_member_leads() -> None:
    group = group_of(member("a"), member("b"), member("c"))
    group.remove("b")
    assert group.row.leader == "a"
    group.remove("a")
    assert group.row.leader == "c"
    group.remove("c")
    assert group.row.leader is None


def test_removing_an_unknown_member_only_forgets_its_pending_id() -> None:
    group = group_of(member("a"))
    group.pending_joins.add("p")
    assert group.remove("p") is None
    assert group.pending_joins == set()
    assert list(group.members) == ["a"]


def test_a_leader_that_joined_stays_or_else_the_first_that_joined_leads() -> None:
    first, second, third = member("a"), member("b"), member("c")
    group = group_of(first, second, third)
    assert not group.elect()
    group.park_join(third, join())
    assert group.elect()
    assert group.row.leader == "c"
    group.park_join(first, join())
    assert group.elect()
    assert group.row.leader == "c"


def test_parking_twice_counts_once_and_taking_back_counts() -> None:
    only = member("a")
    group = group_of(only)
    first = join()
    assert group.park_join(only, first) is None
    assert group.park_join(only, join()) is first
    assert (group.parked_joins, group.all_joined) == (1, True)
    group.park_join(only, None)
    assert (group.parked_joins, group.all_joined) == (0, False)


def test_a_replaced_member_keeps_its_place_leadership_and_name() -> None:
    old = member("b", instance="i1")
    group = group_of(old, member("c"))
    group.park_join(old, join())
    new = group.replace_static(old, "n")
    assert list(group.members) == ["n", "c"]
    assert (group.row.leader, group.static, group.parked_joins) == ("n", {"i1": "n"}, 0)
    assert new.row.protocols == old.row.protocols


@pytest.mark.parametrize(("timeouts", "longest"), [((), 0), ((5, 9, 7), 9), ((-5,), 0)])
def test_the_longest_rebalance_timeout_counts_and_none_below_zero(
    timeouts: tuple[int, ...], longest: int
) -> None:
    members = [member(f"m{n}", rebalance_ms=ms) for n, ms in enumerate(timeouts)]
    assert group_of(*members).rebalance_timeout_ms == longest


# -- topics ------------------------------------------------------------------------------------


def test_a_groups_topics_are_the_union_of_the_subscriptions() -> None:
    group = group_of(member("a", topics=("t",)), member("b", topics=("u", "t")))
    group.note_topics()
    assert group.topics() == frozenset({"t", "u"})
    assert group.may_be_subscribed("u")
    assert not group.may_be_subscribed("v")


def test_a_consumer_group_without_members_subscribes_to_nothing() -> None:
    group = group_of(state=GroupState.EMPTY)
    group.note_topics()
    assert group.topics() == frozenset()
    assert not group.may_be_subscribed("t")


def test_if_one_subscription_is_unreadable_any_topic_may_be_in_use() -> None:
    group = group_of(member("a"), member("b", topics=None))
    group.note_topics()
    assert group.topics() is None
    assert group.may_be_subscribed("t")


def test_topics_are_unknown_before_a_protocol_is_chosen() -> None:
    group = group_of(member("a"), state=GroupState.PREPARING, name=None)
    group.note_topics()
    assert group.topics() is None
    assert group.may_be_subscribed("t")


def test_topics_of_another_type_are_not_read() -> None:
    group = group_of(member("a"), kind="connect")
    group.note_topics()
    assert group.topics() is None
    assert not group.may_be_subscribed("t")


def test_topics_are_read_when_a_generation_begins() -> None:
    first = member("a", topics=("t",))
    group = group_of(first, member("b", topics=("u",)))
    group.note_topics()
    group.remove("b")
    data = encode_subscription(Subscription(topics=("v",)), 1)
    group.update_protocols(first, (SupportedProtocol(name="x", metadata=data),))
    assert group.topics() == frozenset({"t", "u"})
    group.note_topics()
    assert group.topics() == frozenset({"v"})


# -- rows --------------------------------------------------------------------------------------


def test_the_saved_rows_are_those_that_were_applied() -> None:
    rows: list[Row] = [
        GroupRow(group_id="g", state="Stable", generation=1, protocol_type=CONSUMER, leader="a"),
        member("a").row,
        bundled(OffsetRow(group_id="g", topic="t", partition=0, offset=5)),
    ]
    group = Group("g")
    for row in rows:
        group.apply(row)
    assert list(saved_rows(group)) == list(one_by_one(rows))
    assert group.state is GroupState.STABLE


def test_new_members_are_not_saved() -> None:
    group = group_of(member("a"))
    assert [type(row) for row in saved_rows(group)] == [GroupRow]
