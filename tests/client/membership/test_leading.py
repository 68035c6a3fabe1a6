"""What a leader does between the join and the sync."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from coterie_assignors import (
    Assignor,
    Cluster,
    CooperativeStickyAssignor,
    InvalidAssignmentError,
    MemberInfo,
    Partitions,
    RangeAssignor,
    RebalanceProtocol,
)
from coterie_client.membership import Lose, Phase
from coterie_client.membership.events import LeaderDecided, SubscriptionUnreadable
from coterie_protocol.consumer import (
    NEEDS_REJOIN,
    Assignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
    flatten,
    group_by_topic,
)
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    MetadataRequest,
    SyncGroupRequest,
)
from tests.support.scripted_membership import Script

T = [("t", number) for number in range(4)]


def wants(
    *topics: str, owned: Collection[tuple[str, int]] = (), generation: int = -1
) -> Subscription:
    """Another member's subscription."""
    return Subscription(
        topics=topics, owned_partitions=group_by_topic(owned), generation_id=generation
    )


def leading(
    others: Mapping[str, Subscription], *, assignor: Assignor | None = None, **topics: int | None
) -> Script:
    """A member that was just told to lead, and knows the topics."""
    script = Script("t", assignors=[assignor] if assignor else None).start()
    script.find()
    script.join(1, leads=True, others=others)
    script.tell_topics(**topics)
    return script


def given(script: Script) -> dict[str, set[tuple[str, int]]]:
    """What the leader gave to each member."""
    return {
        each.member_id: set(flatten(decode_assignment(each.assignment).assigned_partitions))
        for each in script.asks(SyncGroupRequest).assignments
    }


def codes(script: Script) -> set[int]:
    """The error codes in what the leader gave."""
    return {
        decode_assignment(each.assignment).error_code
        for each in script.asks(SyncGroupRequest).assignments
    }


def test_all_members_and_partitions_are_in_the_assignment() -> None:
    script = leading({"m-2": wants("t")})
    shares = given(script)
    assert shares.keys() == {"m-1", "m-2"}
    assert set.union(*shares.values()) == set(T)
    assert codes(script) == {0}


def test_leader_decides_by_fresh_metadata() -> None:
    script = Script("t").start()
    script.tell_topics()
    script.find()
    script.join(1, leads=True)
    assert script.machine.phase is Phase.LEADING
    assert not script.awaits(SyncGroupRequest)
    script.tell_topics(t=6)
    assert len(given(script)["m-1"]) == 6


def test_looks_at_topics_that_only_others_want() -> None:
    script = Script("t").start()
    script.find()
    script.join(1, leads=True, others={"m-2": wants("u")})
    assert [each.name for each in script.asks(MetadataRequest).topics or ()] == ["t", "u"]
    script.tell_topics(u=2)
    assert given(script)["m-2"] == {("u", 0), ("u", 1)}


def test_partition_that_has_to_move_is_withheld() -> None:
    script = leading({"m-2": wants("t", owned=T, generation=7)})
    shares = given(script)
    assert shares["m-1"] == set()
    assert len(shares["m-2"]) == 2
    assert codes(script) == {NEEDS_REJOIN}
    assert script.seen(LeaderDecided)[-1].withheld == 2


def test_partition_with_two_equal_claims_is_withheld() -> None:
    claims = {
        "m-2": wants("t", owned=[("t", 0), ("t", 1)], generation=7),
        "m-3": wants("t", owned=[("t", 0), ("t", 2)], generation=7),
    }
    shares = given(leading(claims))
    assert all(("t", 0) not in share for share in shares.values())


def test_claim_of_an_older_generation_yields() -> None:
    claims = {
        "m-2": wants("t", owned=T, generation=3),
        "m-3": wants("t", owned=[("t", 0)], generation=7),
    }
    shares = given(leading(claims))
    assert ("t", 0) in shares["m-3"]
    assert ("t", 0) not in shares["m-2"]


def test_partitions_unknown_to_the_leader_stay_with_their_owners() -> None:
    script = leading({"m-2": wants("t", "x", owned=[("x", 0)], generation=7)}, x=None)
    for _ in range(3):
        if script.awaits(MetadataRequest):
            script.tell_topics()
        script.sleep(200)
    assert ("x", 0) in given(script)["m-2"]


def test_topic_without_leaders_does_not_hold_up_the_others() -> None:
    script = Script("t").start()
    script.find()
    script.join(1, leads=True)
    for _ in range(3):
        script.refuse(MetadataRequest, ErrorCode.LEADER_NOT_AVAILABLE)
        script.sleep(500)
    assert script.awaits(SyncGroupRequest)


def test_member_with_an_unreadable_subscription_gets_nothing() -> None:
    script = Script("t").start()
    script.find()
    mine = script.asks(JoinGroupRequest).protocols[0].metadata
    script.answer(
        JoinGroupRequest,
        JoinGroupResponse(
            generation_id=1,
            protocol_name="cooperative-sticky",
            leader="m-1",
            member_id="m-1",
            members=(
                JoinGroupResponseMember(member_id="m-1", metadata=mine),
                JoinGroupResponseMember(member_id="m-2", metadata=b"\x00"),
            ),
        ),
    )
    script.tell_topics()
    assert given(script) == {"m-1": set(T), "m-2": set()}
    assert [event.member_id for event in script.seen(SubscriptionUnreadable)] == ["m-2"]


def away(script: Script, away_with: bytes) -> dict[str, set[tuple[str, int]]]:
    """What a leader gives to itself and to a member that is away, and claims nothing."""
    script.find()
    mine = script.asks(JoinGroupRequest).protocols[0].metadata
    script.answer(
        JoinGroupRequest,
        JoinGroupResponse(
            generation_id=8,
            protocol_name="cooperative-sticky",
            leader="m-1",
            member_id="m-1",
            members=(
                JoinGroupResponseMember(member_id="m-1", metadata=mine),
                JoinGroupResponseMember(
                    member_id="m-2",
                    metadata=encode_subscription(wants("t")),
                    group_instance_id="i",
                    away_with=away_with,
                ),
            ),
        ),
    )
    script.tell_topics()
    return given(script)


def test_member_that_is_away_keeps_what_it_was_assigned_last() -> None:
    had = encode_assignment(Assignment(assigned_partitions=group_by_topic(T[1:2])), 1)
    shares = away(Script("t").start(), had)
    assert shares == {"m-1": set(T) - {T[1]}, "m-2": {T[1]}}


@pytest.mark.parametrize("away_with", [b"", b"?"])
def test_member_that_is_away_with_nothing_gets_nothing(away_with: bytes) -> None:
    assert away(Script("t").start(), away_with) == {"m-1": set(T), "m-2": set()}


@pytest.mark.parametrize(
    "code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION]
)
def test_forbidden_topic_of_another_member_does_not_stop_the_leader(code: ErrorCode) -> None:
    """Or it would stop the next leader as well."""
    script = Script("t").start()
    script.find()
    script.join(1, leads=True, others={"m-2": wants("u")})
    answer = script.metadata()
    topics = tuple(
        each if each.name == "t" else type(each)(error_code=code, name=each.name, partitions=())
        for each in answer.topics
    )
    script.answer(
        MetadataRequest,
        type(answer)(brokers=answer.brokers, controller_id=1, topics=topics),
    )
    assert script.stopped is None
    assert given(script) == {"m-1": set(T), "m-2": set()}


def test_static_leader_that_restarts_keeps_its_assignment() -> None:
    script = Script("t", instance="i").start()
    script.find()
    script.join(5, leads=True, others={"m-2": wants("u")}, skip_assignment=True)
    script.tell_topics(u=2)
    assert script.asks(SyncGroupRequest).assignments == ()
    script.sync(T[0])
    script.beat()
    assert script.machine.phase is Phase.STABLE


def test_leader_that_came_back_watches_the_topics() -> None:
    script = Script("t", instance="i").start()
    script.find()
    script.join(5, leads=True, others={"m-2": wants("u")}, skip_assignment=True)
    script.tell_topics(u=2)
    script.sync(T[0])
    script.beat()
    while not script.awaits(MetadataRequest):
        script.next_beat()
    script.tell_topics(u=3)
    assert script.claim() == ({T[0]}, 5)


def test_dropped_while_leading() -> None:
    """No other answer is on its way that could tell it: all is lost, and it joins anew."""
    script = Script("t").start()
    script.settle(*T, generation=5)
    script.told.clear()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.join(6, leads=True)
    script.beat(ErrorCode.UNKNOWN_MEMBER_ID)
    assert [type(each) for each in script.told] == [Lose]
    assert script.asks(JoinGroupRequest).member_id == ""


def test_own_rebalance_told_while_leading() -> None:
    script = Script("t").start()
    script.find()
    script.join(6, leads=True)
    script.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.tell_topics()
    script.sync(*T)
    assert script.machine.phase is Phase.STABLE
    assert len(script.sent(JoinGroupRequest)) == 1


# -- what it has set out to do -----------------------------------------------------------------


class Swinging(Assignor):
    """Gives everything to one member, and the next time to another one."""

    name = "swinging"
    protocols = (RebalanceProtocol.EAGER, RebalanceProtocol.COOPERATIVE)

    def __init__(self) -> None:
        self.times_asked = 0

    def assign(self, cluster: Cluster, members: Mapping[str, MemberInfo]) -> dict[str, Partitions]:
        """Share out."""
        lucky = sorted(members)[self.times_asked % len(members)]
        self.times_asked += 1
        every = group_by_topic(cluster.partitions_of(["t"]))
        return {name: every if name == lucky else () for name in members}


def has_released() -> Script:
    """A leader for which another member releases everything."""
    owns_all = wants("t", owned=T, generation=7)
    script = leading({"m-2": owns_all}, assignor=Swinging())
    assert given(script) == {"m-1": set(), "m-2": set()}
    script.sync(needs_rejoin=True)
    script.beat()
    return script


def test_what_was_released_for_a_member_goes_to_it() -> None:
    script = has_released()
    script.join(2, leads=True, others={"m-2": wants("t", generation=1)})
    script.tell_topics()
    assert given(script) == {"m-1": set(T), "m-2": set()}


def test_member_that_followed_another_leader_decides_anew() -> None:
    """That one may have had something else done."""
    script = has_released()
    script.join(2)
    script.sync()
    script.beat()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.join(3, leads=True, others={"m-2": wants("t", generation=2)})
    script.tell_topics()
    assert given(script) == {"m-1": set(), "m-2": set(T)}


# -- assignors that fail -----------------------------------------------------------------------


class Broken(Assignor):
    """An assignor with one fault."""

    name = "broken"
    protocols = (RebalanceProtocol.EAGER, RebalanceProtocol.COOPERATIVE)

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def assign(self, cluster: Cluster, members: Mapping[str, MemberInfo]) -> dict[str, Partitions]:
        """Share out, or not."""
        if self.fault == "raises":
            raise ValueError("no idea")
        everything = group_by_topic(cluster.partitions_of(["t"]))
        if self.fault == "leaves members out":
            return {}
        if self.fault == "gives twice":
            return dict.fromkeys(members, everything)
        return CooperativeStickyAssignor().assign(cluster, members)

    def subscription_user_data(
        self, topics: Collection[str], owned: Partitions, generation: int
    ) -> bytes | None:
        """Nothing, or an error."""
        del topics, owned, generation
        if self.fault == "cannot subscribe":
            raise ValueError("no idea")
        return None

    def on_assignment(
        self, assignment: Partitions, generation: int, user_data: bytes | None = None
    ) -> None:
        """Take note, or raise an error."""
        del assignment, generation, user_data
        if self.fault == "cannot take note":
            raise ValueError("no idea")


def assert_gave_up(script: Script, error: type[Exception]) -> None:
    """It leaves, so that another can lead, and says why it did."""
    if script.awaits(LeaveGroupRequest):
        assert "failed" in (script.asks(LeaveGroupRequest).members[0].reason or "")
    script.survive()
    assert script.stopped is not None
    assert isinstance(script.stopped.error, error)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("raises", ValueError),
        ("leaves members out", InvalidAssignmentError),
        ("gives twice", InvalidAssignmentError),
    ],
)
def test_leader_with_a_broken_assignor_leaves(fault: str, error: type[Exception]) -> None:
    script = leading({"m-2": wants("t")}, assignor=Broken(fault))
    assert script.awaits(LeaveGroupRequest)
    assert_gave_up(script, error)


def test_assignor_that_fails_at_the_subscription_stops_its_member() -> None:
    script = Script("t", assignors=[Broken("cannot subscribe")]).start()
    script.find()
    assert_gave_up(script, ValueError)


def test_assignor_that_fails_in_on_assignment_stops_its_member() -> None:
    script = Script("t", assignors=[Broken("cannot take note")]).start()
    script.find()
    script.join(5)
    script.sync(T[0])
    script.beat()
    assert script.awaits(LeaveGroupRequest)
    assert script.working == {}
    assert_gave_up(script, ValueError)


def test_group_with_an_unknown_assignor_can_not_be_joined() -> None:
    script = Script("t", assignors=[RangeAssignor()]).start()
    script.find()
    script.join(5, protocol_name="cooperative-sticky")
    script.survive()
    assert script.stopped is not None
    assert script.stopped.error is not None


@pytest.mark.parametrize("topics", [("t",), ("t", "v")])
def test_subscription_changes_while_leading(topics: tuple[str, ...]) -> None:
    script = Script("t").start()
    script.find()
    script.join(1, leads=True, others={"m-2": wants("u")})
    script.subscribe(*topics)
    script.tell_topics(u=2, v=1)
    assert given(script)["m-2"] == {("u", 0), ("u", 1)}


def test_subscription_said_again_at_work() -> None:
    script = leading({"m-2": wants("u")}, u=2)
    script.sync(*T)
    script.beat()
    script.subscribe("t")
    while not script.awaits(MetadataRequest):
        script.next_beat()
    script.tell_topics(u=3)
    assert script.claim() == (set(T), 1)
