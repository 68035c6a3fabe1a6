"""Joining: who is let in, who is not, and what each is told."""

from __future__ import annotations

import pytest

from coterie_protocol.consumer import decode_subscription
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import MemberJoined, RebalanceStarted
from coterie_protocol.messages import JoinGroupRequestProtocol
from coterie_server.group import GroupState
from coterie_server.group.records import GroupRow
from tests.support.group_harness import World


@pytest.mark.parametrize("static", [None, "i1"])
def test_unknown_id_makes_no_group(static: str | None) -> None:
    """Only an empty id may bring a group into being."""
    world = World()
    assert world.member("a", static=static, id="a-7").join().error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.store == {}
    assert world.state() is GroupState.DEAD


def test_first_join_stores_an_empty_group() -> None:
    """The group is stored as soon as somebody is told an id for it."""
    world = World()
    answer = world.member("a").join_once()
    assert answer.error is ErrorCode.MEMBER_ID_REQUIRED
    assert world.rows == [
        GroupRow(group_id="g", state="Empty", generation=0, changed_at_ms=world.now_ms)
    ]


def test_new_id_for_each_empty_one() -> None:
    """Whoever asks twice without an id is told two ids."""
    world = World()
    client = world.member("a")
    first, second = client.join_once(), client.join_once(member_id="")
    assert first.reply.member_id != second.reply.member_id


def test_id_source_is_told_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids are made of the group, the client id, the host and the instance id."""
    world = World()
    drawn: list[tuple[str | None, ...]] = []

    def member_id(*who: str | None) -> str:
        drawn.append(who)
        return "id-1"

    monkeypatch.setattr(world.ids, "member_id", member_id)
    world.member("a", host="/10.0.0.7", static="i1").join()
    assert drawn == [("g", "a", "/10.0.0.7", "i1")]
    assert list(world.group().members) == ["id-1"]


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_old_clients_need_no_second_join(version: int) -> None:
    """Before version 4 a member learns its id when the join is complete."""
    world = World()
    answer = world.member("a", version=version).join_once()
    assert answer.is_parked
    world.sleep(3_000)
    assert answer.error is ErrorCode.NONE
    assert answer.reply.member_id == "a-1"


@pytest.mark.parametrize("version", [5, 9])
def test_static_members_need_no_second_join(version: int) -> None:
    """A static member can be told from others without an id."""
    world = World()
    answer = world.member("a", version=version, static="i1").join_once()
    world.sleep(3_000)
    assert answer.error is ErrorCode.NONE
    assert answer.reply.leader == answer.reply.member_id


# -- refused -----------------------------------------------------------------------------------


def test_empty_group_id() -> None:
    """A join needs a group; the id is told back."""
    answer = World().member("a", group="", id="a-7").join()
    assert answer.error is ErrorCode.INVALID_GROUP_ID
    assert answer.reply.member_id == "a-7"


@pytest.mark.parametrize("session_ms", [0, 5_999, 1_800_001])
def test_session_timeout_out_of_bounds(session_ms: int) -> None:
    """Session timeouts have bounds; the id is told back, and no group is made."""
    world = World()
    answer = world.member("a", session_ms=session_ms, id="a-7").join()
    assert answer.error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert answer.reply.member_id == "a-7"
    assert world.store == {}


@pytest.mark.parametrize("session_ms", [6_000, 1_800_000])
def test_session_timeout_at_the_bounds(session_ms: int) -> None:
    """The bounds themselves are allowed."""
    assert World().member("a", session_ms=session_ms).join().is_parked


def test_rebalance_timeout_has_no_bounds() -> None:
    """A rebalance timeout is not looked at, as Kafka does not."""
    assert World().member("a", rebalance_ms=-5).join().is_parked


@pytest.mark.parametrize("static", [None, "i1"])
def test_other_protocol_type(static: str | None) -> None:
    """A group has one type, for dynamic and static members alike."""
    world = World()
    world.form(world.member("a"))
    answer = world.member("b", protocol_type="connect", static=static).join()
    assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.state() is GroupState.STABLE


def test_empty_protocol_type() -> None:
    """A group needs a type."""
    answer = World().member("a", protocol_type="").join()
    assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_no_common_protocol() -> None:
    """Who has no protocol in common with all the others stays out, and they notice nothing."""
    world = World()
    first = world.member("a", protocols=("range", "sticky"))
    world.form(first)
    answer = world.member("b", protocols=("roundrobin",)).join()
    assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.state() is GroupState.STABLE
    assert first.heartbeat() is ErrorCode.NONE


def test_protocols_in_common_with_some_only() -> None:
    """One protocol has to be known to everybody; one in common with each is not enough."""
    world = World()
    world.form(
        world.member("a", protocols=("x", "y")),
        world.member("b", protocols=("y", "z")),
    )
    assert world.member("c", protocols=("x", "z")).join().error is (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    assert world.member("d", protocols=("z", "y")).join().is_parked


def test_protocols_are_looked_at_before_the_id() -> None:
    """A stranger that does not fit is told so, whatever id it brings."""
    world = World()
    world.form(world.member("a"))
    answer = world.member("b", id="nobody", protocols=("z",)).join()
    assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert answer.reply.member_id == "nobody"


def test_emptied_group_takes_another_type() -> None:
    """A group's type is that of its members; when they are gone, others may bring another."""
    world = World()
    first = world.member("a")
    world.form(first)
    first.leave()
    world.form(world.member("b", protocol_type="connect"))
    assert world.describe().protocol_type == "connect"


def test_pending_id_with_an_instance_id() -> None:
    """Ids are handed out to dynamic members, so whoever brings one is not a static member."""
    world = World()
    client = world.member("a")
    client.join_once()
    answer = client.join_once(group_instance_id="i1")
    assert answer.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.group().pending_joins == {client.id}


@pytest.mark.parametrize(
    ("name", "static"), [("n" * 32_767, None), ("é" * 16_383, None), ("a", "i" * 32_767)]
)
def test_name_that_is_too_long_to_make_an_id_of(name: str, static: str | None) -> None:
    """An id that no answer and no row could hold is not made; the group takes no harm."""
    world = World()
    world.form(world.member("b"))
    answer = world.member(name, static=static).join()
    assert answer.error is ErrorCode.INVALID_REQUEST
    assert answer.reply.member_id == ""
    assert world.state() is GroupState.STABLE
    assert len(world.group().members) == 1


# -- answers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(10))
def test_shape_of_a_refusal(version: int) -> None:
    """A refusal has no generation, leader or members; the protocol is null where it can be."""
    answer = World().member("a", group="").join(version=version)
    reply = answer.reply
    assert reply.generation_id == -1
    assert reply.protocol_type is None
    assert reply.protocol_name == (None if version >= 7 else "")
    assert (reply.leader, reply.members, reply.skip_assignment) == ("", (), False)


@pytest.mark.parametrize("version", [0, 4, 6, 7, 9])
def test_shape_of_an_answer(version: int) -> None:
    """Everybody is told generation, protocol and leader; only the leader who else is there."""
    world = World()
    leader, follower = world.member("a", version=version), world.member("b", version=version)
    answers = [leader.join(), follower.join()]
    world.sleep(6_000)
    for answer in answers:
        reply = answer.reply
        assert (reply.generation_id, reply.protocol_name) == (1, "range")
        assert reply.protocol_type == ("consumer" if version >= 7 else None)
        assert reply.leader == leader.id
        assert reply.skip_assignment is False
    assert set(leader.roster) == {leader.id, follower.id}
    assert follower.roster == {}


def test_leader_is_told_the_chosen_subscriptions() -> None:
    """The leader gets each member's bytes for the protocol that was chosen, and instance ids."""
    world = World()
    leader = world.member("a")
    follower = world.member("b", topics=("u",), static="i1")
    join = leader.join()
    follower.join()
    world.sleep(6_000)
    members = {m.member_id: m for m in join.reply.members}
    assert decode_subscription(members[follower.id].metadata).topics == ("u",)
    assert [members[c.id].group_instance_id for c in (leader, follower)] == [None, "i1"]


def test_first_of_a_protocol_named_twice_counts() -> None:
    """A protocol that is named twice can be chosen, with the bytes it was first named with."""
    world = World()
    client = world.member("a")
    twice = tuple(
        JoinGroupRequestProtocol(name="range", metadata=data) for data in (b"one", b"two")
    )
    answer = client.join(protocols=twice)
    world.sleep(3_000)
    assert answer.error is ErrorCode.NONE
    assert client.roster == {client.id: b"one"}


# -- the vote ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lists", "chosen"),
    [
        (["x"], "x"),
        (["xy"], "x"),
        (["xy", "yx", "yx"], "y"),
        (["yx", "xy"], "y"),
        (["zxy", "xyz", "yz"], "y"),
        (["zy", "xyz", "yz"], "y"),
        (["zy", "zy", "yz", "xyz", "yxz"], "y"),
    ],
)
def test_vote(lists: list[str], chosen: str) -> None:
    """Most votes among the protocols known to all win; in a tie the leader's preference does."""
    world = World()
    clients = [
        world.member(f"c{number}", protocols=tuple(names)) for number, names in enumerate(lists)
    ]
    for client in clients:
        assert client.join().is_parked
    world.sleep(60_000)
    assert {client.protocol for client in clients} == {chosen}


# -- what is written down ----------------------------------------------------------------------


def test_newcomer_is_written_down() -> None:
    """The journal knows who came, with which limits, for what and why."""
    world = World()
    world.member("a", static="i1", protocols=("range", "x")).join(reason="scaling out")
    (joined,) = world.seen(MemberJoined)
    assert (joined.member, joined.instance, joined.client_id) == ("i1-1", "i1", "a")
    assert (joined.host, joined.protocols) == ("/10.0.0.1", ("range", "x"))
    assert (joined.session_timeout_ms, joined.rebalance_timeout_ms) == (10_000, 60_000)
    assert (joined.topics, joined.reason) == (("t",), "scaling out")


@pytest.mark.parametrize(
    ("attributes", "topics"),
    [({"metadata": b"?"}, None), ({"protocol_type": "connect"}, None), ({"topics": ()}, ())],
)
def test_unreadable_topics_are_not_written_down(
    attributes: dict[str, object], topics: tuple[str, ...] | None
) -> None:
    """Bytes that are no consumer's subscription stay unread."""
    world = World()
    world.member("a", **attributes).join()
    (joined,) = world.seen(MemberJoined)
    assert joined.topics == topics


def test_reason_is_in_the_detail() -> None:
    """A rebalance's detail names the member, its instance and its own reason."""
    world = World()
    world.member("a", static="i1").join(reason="scaling out")
    (started,) = world.seen(RebalanceStarted)
    assert started.detail == "i1-1 (i1): scaling out"
