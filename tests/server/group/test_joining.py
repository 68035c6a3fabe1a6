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
def test_a_join_with_an_unknown_id_makes_no_group(static: str | None) -> None:
    world = World()
    assert world.member("a", static=static, id="a-7").join().error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.store == {}
    assert world.state() is GroupState.DEAD


def test_an_empty_group_is_stored_as_soon_as_an_id_is_handed_out() -> None:
    world = World()
    answer = world.member("a").join_once()
    assert answer.error is ErrorCode.MEMBER_ID_REQUIRED
    assert world.rows == [
        GroupRow(group_id="g", state="Empty", generation=0, changed_at_ms=world.now_ms)
    ]


def test_each_join_without_an_id_is_told_another_id() -> None:
    world = World()
    client = world.member("a")
    first, second = client.join_once(), client.join_once(member_id="")
    assert first.reply.member_id != second.reply.member_id


def test_ids_are_made_of_group_client_host_and_instance(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_before_version_4_a_member_learns_its_id_with_the_join(version: int) -> None:
    world = World()
    answer = world.member("a", version=version).join_once()
    assert answer.is_parked
    world.sleep(3_000)
    assert answer.error is ErrorCode.NONE
    assert answer.reply.member_id == "a-1"


@pytest.mark.parametrize("version", [5, 9])
def test_static_members_need_no_second_join(version: int) -> None:
    world = World()
    answer = world.member("a", version=version, static="i1").join_once()
    world.sleep(3_000)
    assert answer.error is ErrorCode.NONE
    assert answer.reply.leader == answer.reply.member_id


# -- refused -----------------------------------------------------------------------------------


def test_a_join_needs_a_group_id() -> None:
    answer = World().member("a", group="", id="a-7").join()
    assert answer.error is ErrorCode.INVALID_GROUP_ID
    assert answer.reply.member_id == "a-7"


@pytest.mark.parametrize("session_ms", [0, 5_999, 1_800_001])
def test_a_session_timeout_out_of_bounds_is_refused_and_makes_no_group(session_ms: int) -> None:
    world = World()
    answer = world.member("a", session_ms=session_ms, id="a-7").join()
    assert answer.error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert answer.reply.member_id == "a-7"
    assert world.store == {}


@pytest.mark.parametrize("session_ms", [6_000, 1_800_000])
def test_a_session_timeout_at_its_bounds_passes(session_ms: int) -> None:
    assert World().member("a", session_ms=session_ms).join().is_parked


def test_a_rebalance_timeout_has_no_bounds() -> None:
    assert World().member("a", rebalance_ms=-5).join().is_parked


@pytest.mark.parametrize("static", [None, "i1"])
def test_a_member_of_another_type_is_refused(static: str | None) -> None:
    world = World()
    world.form(world.member("a"))
    answer = world.member("b", protocol_type="connect", static=static).join()
    assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.state() is GroupState.STABLE


def test_a_join_needs_a_protocol_type() -> None:
    answer = World().member("a", protocol_type="").join()
    assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_member_without_a_common_protocol_is_refused_unnoticed() -> None:
    world = World()
    first = world.member("a", protocols=("range", "sticky"))
    world.form(first)
    answer = world.member("b", protocols=("roundrobin",)).join()
    assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.state() is GroupState.STABLE
    assert first.heartbeat() is ErrorCode.NONE


def test_one_protocol_has_to_be_common_to_all_members() -> None:
    world = World()
    world.form(
        world.member("a", protocols=("x", "y")),
        world.member("b", protocols=("y", "z")),
    )
    assert world.member("c", protocols=("x", "z")).join().error is (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    assert world.member("d", protocols=("z", "y")).join().is_parked


def test_a_stranger_that_does_not_fit_is_told_so_whatever_its_id() -> None:
    world = World()
    world.form(world.member("a"))
    answer = world.member("b", id="nobody", protocols=("z",)).join()
    assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert answer.reply.member_id == "nobody"


def test_an_emptied_group_takes_members_of_another_type() -> None:
    world = World()
    first = world.member("a")
    world.form(first)
    first.leave()
    world.form(world.member("b", protocol_type="connect"))
    assert world.describe().protocol_type == "connect"


def test_a_pending_id_can_not_be_used_with_an_instance_id() -> None:
    world = World()
    client = world.member("a")
    client.join_once()
    answer = client.join_once(group_instance_id="i1")
    assert answer.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.group().pending_joins == {client.id}


@pytest.mark.parametrize(
    ("name", "static"), [("n" * 32_767, None), ("é" * 16_383, None), ("a", "i" * 32_767)]
)
def test_a_name_too_long_to_make_an_id_of_is_refused(name: str, static: str | None) -> None:
    world = World()
    world.form(world.member("b"))
    answer = world.member(name, static=static).join()
    assert answer.error is ErrorCode.INVALID_REQUEST
    assert answer.reply.member_id == ""
    assert world.state() is GroupState.STABLE
    assert len(world.group().members) == 1


# -- answers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(10))
def test_a_refused_join_has_no_generation_leader_or_members(version: int) -> None:
    answer = World().member("a", group="").join(version=version)
    reply = answer.reply
    assert reply.generation_id == -1
    assert reply.protocol_type is None
    assert reply.protocol_name == (None if version >= 7 else "")
    assert (reply.leader, reply.members, reply.skip_assignment) == ("", (), False)


@pytest.mark.parametrize("version", [0, 4, 6, 7, 9])
def test_only_the_leader_is_told_of_the_other_members(version: int) -> None:
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


def test_the_leader_is_answered_first_wherever_it_stands() -> None:
    """All others wait for what it works out; a restart has members in the order of their ids."""
    world = World()
    leader, follower = world.member("z"), world.member("a")
    world.form(leader, follower)
    world.crash()
    answers = [leader.join(), follower.join()]
    assert list(world.group().members) == [follower.id, leader.id]
    assert [each.reply.leader for each in answers] == [leader.id, leader.id]
    assert world.delivered[-2:] == answers


def test_the_leader_gets_each_members_bytes_for_the_chosen_protocol() -> None:
    world = World()
    leader = world.member("a")
    follower = world.member("b", topics=("u",), static="i1")
    join = leader.join()
    follower.join()
    world.sleep(6_000)
    members = {m.member_id: m for m in join.reply.members}
    assert decode_subscription(members[follower.id].metadata).topics == ("u",)
    assert [members[c.id].group_instance_id for c in (leader, follower)] == [None, "i1"]


def test_a_protocol_named_twice_counts_with_its_first_bytes() -> None:
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
def test_the_protocol_with_most_votes_wins_and_the_leader_breaks_ties(
    lists: list[str], chosen: str
) -> None:
    world = World()
    clients = [
        world.member(f"c{number}", protocols=tuple(names)) for number, names in enumerate(lists)
    ]
    for client in clients:
        assert client.join().is_parked
    world.sleep(60_000)
    assert {client.protocol for client in clients} == {chosen}


# -- what is written down ----------------------------------------------------------------------


def test_the_journal_tells_who_joined_with_which_limits_and_why() -> None:
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
def test_unreadable_topics_are_not_in_the_journal(
    attributes: dict[str, object], topics: tuple[str, ...] | None
) -> None:
    world = World()
    world.member("a", **attributes).join()
    (joined,) = world.seen(MemberJoined)
    assert joined.topics == topics


def test_a_rebalances_detail_names_the_member_and_its_reason() -> None:
    world = World()
    world.member("a", static="i1").join(reason="scaling out")
    (started,) = world.seen(RebalanceStarted)
    assert started.detail == "i1-1 (i1): scaling out"
