"""The group as a keeper of numbers: members, places, protocols and topics."""

from __future__ import annotations

import pytest

from coterie_protocol.consumer import Subscription, encode_subscription
from coterie_server.group import Group, GroupState, Row
from coterie_server.group.group import CONSUMER
from coterie_server.group.member import Member
from coterie_server.group.records import GroupRow, MemberRow, OffsetRow, SupportedProtocol
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


def test_empty_group_takes_anything_that_is_something() -> None:
    """A type and a protocol is all it needs."""
    group = Group("g")
    assert group.supports("consumer", ["x"])
    assert not group.supports("", ["x"])
    assert not group.supports("consumer", [])


def test_one_protocol_has_to_be_known_to_all() -> None:
    """And the type has to be the group's."""
    group = group_of(member("a", "x", "y"), member("b", "y", "z"))
    assert group.supports("consumer", ["q", "y"])
    assert not group.supports("consumer", ["x", "z"])
    assert not group.supports("connect", ["y"])


def test_protocols_follow_the_members() -> None:
    """Leaving and changing one's mind count."""
    group = group_of(member("a", "x", "y"), member("b", "y"))
    assert not group.supports("consumer", ["x"])
    group.remove("b")
    assert group.supports("consumer", ["x"])
    (only,) = group.members.values()
    group.update_protocols(only, (SupportedProtocol(name="z", metadata=b""),))
    assert not group.supports("consumer", ["x", "y"])
    assert group.supports("consumer", ["z"])


def test_vote_takes_the_best_liked() -> None:
    """A member votes for the first of its own list that is a candidate."""
    each = member("a", "x", "y", "z")
    assert each.vote({"z", "y"}) == "y"
    assert each.metadata("q") == b""
    assert not each.supports("q")


@pytest.mark.parametrize("change", ["order", "bytes", "length"])
def test_what_makes_lists_of_protocols_differ(change: str) -> None:
    """Order, bytes and length all do; the same list does not."""
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


def test_first_member_needs_a_type() -> None:
    """A group's type is known before its members are."""
    with pytest.raises(AssertionError, match="type"):
        Group("g").add(member("a"))


def test_longest_standing_member_takes_over() -> None:
    """When the leader goes, whoever has been here longest leads; without members nobody does."""
    group = group_of(member("a"), member("b"), member("c"))
    group.remove("b")
    assert group.row.leader == "a"
    group.remove("a")
    assert group.row.leader == "c"
    group.remove("c")
    assert group.row.leader is None


def test_removing_somebody_unknown() -> None:
    """There is nobody to hand back, but an id that was handed out is forgotten."""
    group = group_of(member("a"))
    group.pending_joins.add("p")
    assert group.remove("p") is None
    assert group.pending_joins == set()
    assert list(group.members) == ["a"]


def test_election() -> None:
    """A leader that joined stays; else the first that joined leads; else nobody can."""
    first, second, third = member("a"), member("b"), member("c")
    group = group_of(first, second, third)
    assert not group.elect()
    group.park_join(third, join())
    assert group.elect()
    assert group.row.leader == "c"
    group.park_join(first, join())
    assert group.elect()
    assert group.row.leader == "c"


def test_parked_joins_are_counted() -> None:
    """Parking twice counts once, taking back counts."""
    only = member("a")
    group = group_of(only)
    first = join()
    assert group.park_join(only, first) is None
    assert group.park_join(only, join()) is first
    assert (group.parked_joins, group.all_joined) == (1, True)
    group.park_join(only, None)
    assert (group.parked_joins, group.all_joined) == (0, False)


def test_replacing_keeps_the_place() -> None:
    """The new id stands where the old one stood: in the order, as leader, under its name."""
    old = member("b", instance="i1")
    group = group_of(old, member("c"))
    group.park_join(old, join())
    new = group.replace_static(old, "n")
    assert list(group.members) == ["n", "c"]
    assert (group.row.leader, group.static, group.parked_joins) == ("n", {"i1": "n"}, 0)
    assert new.row.protocols == old.row.protocols


@pytest.mark.parametrize(("timeouts", "longest"), [((), 0), ((5, 9, 7), 9), ((-5,), 0)])
def test_patience(timeouts: tuple[int, ...], longest: int) -> None:
    """The most patient member counts; less than nothing is nothing."""
    members = [member(f"m{n}", rebalance_ms=ms) for n, ms in enumerate(timeouts)]
    assert group_of(*members).rebalance_timeout_ms == longest


# -- topics ------------------------------------------------------------------------------------


def test_topics_of_all_members() -> None:
    """The union of what they subscribe to, in the protocol that was chosen."""
    group = group_of(member("a", topics=("t",)), member("b", topics=("u", "t")))
    group.note_topics()
    assert group.topics() == frozenset({"t", "u"})
    assert group.may_be_subscribed("u")
    assert not group.may_be_subscribed("v")


def test_topics_of_nobody() -> None:
    """A consumer group without members subscribes to nothing."""
    group = group_of(state=GroupState.EMPTY)
    group.note_topics()
    assert group.topics() == frozenset()
    assert not group.may_be_subscribed("t")


def test_unreadable_topics() -> None:
    """If one member's can't be read, anything may be subscribed to."""
    group = group_of(member("a"), member("b", topics=None))
    group.note_topics()
    assert group.topics() is None
    assert group.may_be_subscribed("t")


def test_topics_before_a_protocol_is_chosen() -> None:
    """Nobody can tell yet."""
    group = group_of(member("a"), state=GroupState.PREPARING, name=None)
    group.note_topics()
    assert group.topics() is None
    assert group.may_be_subscribed("t")


def test_topics_of_another_type() -> None:
    """What such members subscribe to is nobody's business."""
    group = group_of(member("a"), kind="connect")
    group.note_topics()
    assert group.topics() is None
    assert not group.may_be_subscribed("t")


def test_topics_are_those_of_the_generation() -> None:
    """Whoever changes its mind, comes or goes: the topics are read when a generation begins."""
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


def test_saved_rows_are_those_that_were_applied() -> None:
    """What is read back is what would be written."""
    rows: list[Row] = [
        GroupRow(group_id="g", state="Stable", generation=1, protocol_type=CONSUMER, leader="a"),
        member("a").row,
        OffsetRow(group_id="g", topic="t", partition=0, offset=5),
    ]
    group = Group("g")
    for row in rows:
        group.apply(row)
    assert list(group.saved_rows()) == rows
    assert group.state is GroupState.STABLE


def test_new_members_are_not_saved() -> None:
    """They are in no generation yet."""
    group = group_of(member("a"))
    assert [type(row) for row in group.saved_rows()] == [GroupRow]
