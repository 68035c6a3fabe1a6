"""A static member may be away for longer than a session: `group.static.registration.timeout.ms`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coterie_protocol.error_codes import ErrorCode as E
from coterie_protocol.journal import (
    GroupRecovered,
    MemberAway,
    MemberGone,
    MemberJoined,
    MemberReplaced,
    MemberReturned,
    PhaseJoined,
    RebalanceStarted,
)
from coterie_protocol.messages import DescribeGroupsRequest, LeaveGroupRequest, MemberIdentity
from coterie_server.group import GroupState
from tests.server.group.ownership import bring, claims, conflicts, given, partitions
from tests.support.cases import for_each
from tests.support.group_harness import Answer, Client, World, assigned
from tests.support.warm_groups import ordered, report, reported

SESSION_MS = 10_000
REGISTRATION_MS = 60_000
PREPARING, COMPLETING, STABLE = (
    GroupState.PREPARING,
    GroupState.COMPLETING,
    GroupState.STABLE,
)


def worlds(**settings: Any) -> World:
    return World(**{"static_registration_timeout_ms": REGISTRATION_MS} | settings)


def pair(world: World, **attributes: Any) -> tuple[Client, Client]:
    """A stable group of a dynamic leader and a static follower."""
    leader = world.member("leader", **attributes)
    static = world.member("static", static="i1", **attributes)
    world.form(leader, static)
    return leader, static


def silence(world: World, *others: Client, ms: int = SESSION_MS) -> None:
    """Let all but these members be silent."""
    world.live(ms, *others)


def is_away(world: World, client: Client) -> bool:
    """Whether the coordinator keeps the place of a member whose session is over."""
    return world.group().members[world.group().static[client.static or ""]].is_away


# -- by default nothing is kept ----------------------------------------------------------------


def test_without_a_registration_timeout_the_end_of_the_session_takes_the_place() -> None:
    world = World()
    leader, _ = pair(world)
    silence(world, leader)
    assert world.causes[-1] == "session_expired"
    assert world.seen(MemberAway) == []


@pytest.mark.parametrize("registration_ms", [1, SESSION_MS])
def test_a_registration_timeout_within_the_session_changes_nothing(registration_ms: int) -> None:
    world = worlds(static_registration_timeout_ms=registration_ms)
    leader, _ = pair(world)
    silence(world, leader)
    assert world.seen(MemberGone)[-1].how == "session_expired"


def test_dynamic_members_are_dropped_with_their_session() -> None:
    world = worlds()
    leader, other = world.member("leader"), world.member("other")
    world.form(leader, other)
    silence(world, leader)
    (gone,) = world.seen(MemberGone)
    assert (gone.member, gone.how) == (other.id, "session_expired")


def test_a_new_member_that_never_was_in_a_generation_has_no_place_to_keep() -> None:
    world = worlds()
    leader, _ = pair(world)
    world.crash(static_expansion_timeout_ms=60_000, new_member_join_timeout_ms=5_000)
    world.member("new", static="i2").join()
    silence(world, leader, ms=5_000)
    assert world.seen(MemberGone)[-1].how == "join_expired"


# -- the absence itself ------------------------------------------------------------------------


def test_the_place_is_kept_without_a_rebalance() -> None:
    world = worlds()
    leader, static = pair(world)
    silence(world, leader, ms=REGISTRATION_MS - 1_000)
    assert is_away(world, static)
    assert (world.state(), world.group().generation) == (STABLE, 1)
    assert world.causes == ["member_joined"]
    assert world.group().ledger.owned_by(static.id) == partitions(1, 3)


def test_the_journal_tells_since_when_until_when_and_what_waits() -> None:
    world = worlds()
    leader, static = pair(world)
    silence(world, leader)
    (away,) = world.seen(MemberAway)
    assert away == MemberAway(
        group="g",
        member=static.id,
        instance="i1",
        host=static.host,
        silent_ms=SESSION_MS,
        session_timeout_ms=SESSION_MS,
        registration_timeout_ms=REGISTRATION_MS,
        until=world.now_ms + REGISTRATION_MS - SESSION_MS,
        owned={"t": (1, 3)},
    )


def test_the_place_is_given_up_when_the_time_is_over() -> None:
    world = worlds()
    leader, static = pair(world)
    silence(world, leader, ms=REGISTRATION_MS)
    gone = world.seen(MemberGone)[-1]
    assert (gone.member, gone.how) == (static.id, "registration_expired")
    assert (gone.silent_ms, gone.away_ms) == (REGISTRATION_MS, REGISTRATION_MS - SESSION_MS)
    assert world.causes[-1] == "registration_expired"
    assert leader.heartbeat() is E.REBALANCE_IN_PROGRESS


def test_a_heartbeat_ends_the_absence_and_begins_a_session() -> None:
    world = worlds()
    leader, static = pair(world)
    silence(world, leader, ms=30_000)
    assert static.heartbeat() is E.NONE
    assert not is_away(world, static)
    (returned,) = world.seen(MemberReturned)
    assert (returned.member, returned.away_ms) == (static.id, 20_000)
    silence(world, leader, ms=SESSION_MS)
    assert is_away(world, static)


def test_a_heartbeat_in_the_last_moment_ends_the_absence() -> None:
    world = worlds()
    leader, static = pair(world)
    silence(world, leader, ms=REGISTRATION_MS - 1)
    assert static.heartbeat() is E.NONE
    assert not is_away(world, static)
    silence(world, leader, ms=SESSION_MS - 1)
    assert not is_away(world, static)


def test_a_new_process_takes_the_place_without_a_rebalance() -> None:
    world = worlds()
    leader, static = pair(world)
    silence(world, leader, ms=30_000)
    again = static.restarted()
    assert again.join().error is E.NONE
    assert given_in(again) == partitions(1, 3)
    assert world.group().generation == 1
    assert [type(e) for e in world.events[-2:]] == [MemberReplaced, MemberReturned]
    assert world.seen(MemberReturned)[-1].member == again.id
    assert static.heartbeat() is E.FENCED_INSTANCE_ID


def given_in(client: Client) -> frozenset[tuple[str, int]]:
    """What a client is told as it syncs."""
    assert client.sync().error is E.NONE
    return given(client)[0]


def test_a_new_process_has_a_higher_token_than_the_one_that_was_away() -> None:
    world = worlds()
    leader, static = pair(world)
    before = static.sync(wants_token=True).reply.fencing_token
    silence(world, leader, ms=30_000)
    again = static.restarted()
    again.join()
    assert again.sync(wants_token=True).reply.fencing_token > before


def test_an_absence_can_follow_an_absence() -> None:
    world = worlds()
    leader, static = pair(world)
    for _ in range(3):
        silence(world, leader, ms=REGISTRATION_MS - 1_000)
        assert static.heartbeat() is E.NONE
    assert len(world.seen(MemberAway)) == len(world.seen(MemberReturned)) == 3
    assert world.group().generation == 1


# -- each request of the member that is away, in each state ------------------------------------


def scene(state: GroupState) -> tuple[World, Client, Client]:
    """A group in some state, of a leader and a static member that is away in its generation."""
    world = worlds()
    leader, static = pair(world, rebalance_ms=120_000)
    if state is PREPARING:
        silence(world, leader)
        slow = world.member("slow", rebalance_ms=120_000)
        slow.join()
        assert world.state() is PREPARING
    elif state is COMPLETING:
        leader.join()
        static.join()
        silence(world, leader)
    else:
        silence(world, leader)
    assert (world.state(), is_away(world, static)) == (state, True)
    return world, leader, static


PARKED = "parked"
Request = Callable[[World, Client], Answer | E]
BACK, STILL_AWAY, GONE = "back", "still away", "gone"
#: What is answered in each state, which state follows, and what becomes of the absence.
ROWS: dict[str, tuple[Request, dict[GroupState, tuple[E | str, GroupState]], str]] = {
    "heartbeat": (
        lambda _, c: c.heartbeat(),
        {
            PREPARING: (E.REBALANCE_IN_PROGRESS, PREPARING),
            COMPLETING: (E.NONE, COMPLETING),
            STABLE: (E.NONE, STABLE),
        },
        BACK,
    ),
    "heartbeat of a former generation": (
        lambda _, c: c.heartbeat(generation_id=0),
        {state: (E.ILLEGAL_GENERATION, state) for state in (PREPARING, COMPLETING, STABLE)},
        STILL_AWAY,
    ),
    "join, nothing new": (
        lambda _, c: c.join_once(),
        {
            PREPARING: (PARKED, PREPARING),
            COMPLETING: (E.NONE, COMPLETING),
            STABLE: (E.NONE, STABLE),
        },
        BACK,
    ),
    "join, other topics": (
        lambda w, c: w.member("x", id=c.id, static="i1", topics=("u",)).join_once(),
        dict.fromkeys((PREPARING, COMPLETING, STABLE), (PARKED, PREPARING)),
        BACK,
    ),
    "join, in a new process": (
        lambda _, c: c.join_once(member_id=""),
        {
            PREPARING: (PARKED, PREPARING),
            COMPLETING: (PARKED, PREPARING),
            STABLE: (E.NONE, STABLE),
        },
        BACK,
    ),
    "join, of a wrong id": (
        lambda _, c: c.join_once(member_id="made-up"),
        {state: (E.FENCED_INSTANCE_ID, state) for state in (PREPARING, COMPLETING, STABLE)},
        STILL_AWAY,
    ),
    "sync": (
        lambda _, c: c.sync(),
        {
            PREPARING: (E.REBALANCE_IN_PROGRESS, PREPARING),
            COMPLETING: (PARKED, COMPLETING),
            STABLE: (E.NONE, STABLE),
        },
        BACK,
    ),
    "sync of a former generation": (
        lambda _, c: c.sync(generation_id=0),
        {state: (E.ILLEGAL_GENERATION, state) for state in (PREPARING, COMPLETING, STABLE)},
        STILL_AWAY,
    ),
    "commit of a former generation": (
        lambda _, c: c.commit({("t", 0): 1}, generation_id_or_member_epoch=0).part_errors[0],
        {state: (E.ILLEGAL_GENERATION, state) for state in (PREPARING, COMPLETING, STABLE)},
        STILL_AWAY,
    ),
    "leave": (
        lambda _, c: c.leave(),
        dict.fromkeys((PREPARING, COMPLETING, STABLE), (E.NONE, PREPARING)),
        GONE,
    ),
    "leave, by instance id": (
        lambda w, _: removed(w),
        dict.fromkeys((PREPARING, COMPLETING, STABLE), (E.NONE, PREPARING)),
        GONE,
    ),
}


def removed(world: World) -> E:
    """Have an administrator remove the instance."""
    members = (MemberIdentity(member_id="", group_instance_id="i1"),)
    return world.request(LeaveGroupRequest(group_id="g", members=members), 5).part_errors[0]


@pytest.mark.parametrize("row", ROWS)
@for_each("state", [PREPARING, COMPLETING, STABLE])
def test_request_of_a_member_that_is_away(row: str, state: GroupState) -> None:
    request, outcomes, becomes = ROWS[row]
    world, _, static = scene(state)
    answer = request(world, static)
    if isinstance(answer, Answer):
        error: E | str = PARKED if answer.is_parked else answer.error
    else:
        error = answer
    assert (error, world.state()) == outcomes[state]
    if becomes == GONE:
        assert "i1" not in world.group().static
    else:
        assert is_away(world, static) is (becomes == STILL_AWAY)
    assert len(world.seen(MemberReturned)) == (becomes == BACK)


@pytest.mark.parametrize("state", [PREPARING, STABLE])
def test_a_commit_ends_the_absence(state: GroupState) -> None:
    world, _, static = scene(state)
    assert static.commit({("t", 1): 7}).part_errors == [E.NONE]
    assert not is_away(world, static)
    assert world.offsets() == {("t", 1): 7}


def test_a_commit_that_is_refused_ends_no_absence() -> None:
    world, _, static = scene(COMPLETING)
    assert static.commit({("t", 1): 7}).part_errors == [E.REBALANCE_IN_PROGRESS]
    assert is_away(world, static)


# -- rebalances meanwhile ----------------------------------------------------------------------


def test_a_rebalance_does_not_wait_for_a_member_that_is_away() -> None:
    world = worlds()
    leader, static = pair(world)
    silence(world, leader)
    leader.join()
    assert world.seen(RebalanceStarted)[-1].awaited == ()
    assert world.state() is COMPLETING
    assert static.id in leader.roster
    phases = {phase.member: phase for phase in world.seen(PhaseJoined)[-1].members}
    assert phases[static.id].joined_after_ms is None


def test_a_session_that_ends_in_the_first_phase_ends_the_waiting() -> None:
    world = worlds()
    leader, static = pair(world)
    newcomer = world.member("new")
    newcomer.join()
    leader.join()
    world.sleep(SESSION_MS)
    assert world.state() is COMPLETING
    assert is_away(world, static)
    assert world.seen(PhaseJoined)[-1].took_ms == SESSION_MS


def test_a_member_that_comes_back_in_the_first_phase_is_waited_for() -> None:
    world, leader, static = scene(PREPARING)
    assert static.heartbeat() is E.REBALANCE_IN_PROGRESS
    leader.join()
    assert world.state() is PREPARING
    static.join()
    assert world.state() is COMPLETING


def test_it_keeps_its_place_over_many_generations() -> None:
    world = worlds()
    leader, static = pair(world)
    silence(world, leader)
    for _ in range(5):
        leader.join()
        leader.sync({leader: assigned("t", 0, 2)})
    again = static.restarted()
    assert again.join().error is E.NONE
    assert again.generation == world.group().generation == 6


def test_what_a_leader_leaves_it_waits_for_it() -> None:
    world = worlds()
    leader, static = pair(world)
    silence(world, leader)
    leader.join()
    leader.sync({leader: assigned("t", 0, 2), static: assigned("t", 1, 3)})
    again = static.restarted()
    again.join()
    assert given_in(again) == partitions(1, 3)


@pytest.mark.parametrize("guard", ["report", "enforce"])
def test_what_it_had_may_be_given_to_another(guard: str) -> None:
    """Its session is over, so there is no second owner."""
    world = worlds(ownership_guard=guard)
    leader, static = pair(world)
    silence(world, leader)
    claims(leader, 0, 2)
    leader.join()
    bring(leader, {leader: (0, 1, 2, 3)})
    assert conflicts(world) == []
    assert given(leader) == (partitions(0, 1, 2, 3), 0)
    assert static.heartbeat() is E.ILLEGAL_GENERATION
    assert static.commit({("t", 1): 9}).part_errors == [E.ILLEGAL_GENERATION]


def test_a_member_that_joined_and_then_went_silent_holds_nothing_either() -> None:
    world = worlds(ownership_guard="enforce")
    leader, static = pair(world)
    claims(leader, 0, 2)
    claims(static, 1, 3)
    leader.join()
    static.join()
    silence(world, leader)
    assert world.state() is COMPLETING
    bring(leader, {leader: (0, 1, 2, 3)})
    assert conflicts(world) == []


def test_a_leader_that_falls_silent_before_its_assignment_is_replaced_at_once() -> None:
    world = worlds()
    static = world.member("static", static="i1", rebalance_ms=120_000)
    other = world.member("other", rebalance_ms=120_000)
    world.form(static, other)
    assert static.leads
    other.topics = ("t", "u")
    other.join()
    static.join()
    silence(world, other)
    assert world.causes[-1] == "session_expired"
    assert is_away(world, static)
    assert other.join().error is E.NONE
    assert other.leads
    assert other.sync({other: assigned("t", 0, 1, 2, 3)}).error is E.NONE
    assert world.state() is STABLE


def test_a_leader_that_is_away_comes_back_as_the_leader() -> None:
    world = worlds()
    static = world.member("static", static="i1")
    other = world.member("other")
    world.form(static, other)
    silence(world, other)
    again = static.restarted()
    reply = again.join().reply
    assert (reply.leader, reply.skip_assignment) == (again.id, True)


def test_a_group_of_which_all_are_away_waits_for_the_first_to_come_back() -> None:
    world = worlds()
    statics = [world.member(f"s{n}", static=f"i{n}", rebalance_ms=5_000) for n in range(2)]
    world.form(*statics)
    world.sleep(SESSION_MS)
    assert world.group().away == {client.id for client in statics}
    world.force_rebalance()
    assert world.seen(RebalanceStarted)[-1].deadline == world.now_ms + 5_000
    world.sleep(20_000)
    assert world.state() is PREPARING
    again = statics[1].restarted()
    assert again.join().error is E.NONE
    assert again.leads
    assert set(again.roster) == {again.id, statics[0].id}


def test_a_group_of_which_all_stay_away_gets_empty() -> None:
    world = worlds()
    world.form(*[world.member(f"s{n}", static=f"i{n}") for n in range(2)])
    world.sleep(REGISTRATION_MS)
    assert world.state() is GroupState.EMPTY
    assert [gone.how for gone in world.seen(MemberGone)] == ["registration_expired"] * 2


def test_a_rebalance_by_force_does_not_wait_for_it() -> None:
    world = worlds()
    static, other = (world.member(n, static=f"i-{n}") for n in "ab")
    world.form(static, other)
    silence(world, static)
    world.force_rebalance()
    assert static.join().error is E.NONE
    assert world.group().away == {other.id}


def test_it_counts_for_the_size_of_its_group() -> None:
    world = worlds(max_size=2)
    leader, static = pair(world)
    silence(world, leader)
    assert world.member("new").join().error is E.GROUP_MAX_SIZE_REACHED
    leader.join()
    assert world.member("new").join().error is E.GROUP_MAX_SIZE_REACHED
    assert static.restarted().join().is_parked


def test_in_the_first_phase_a_newcomer_does_not_take_its_place() -> None:
    world = worlds(max_size=3)
    leader, static = pair(world)
    other = world.member("other")
    other.join()
    world.rejoin(leader, static, other)
    silence(world, leader, other)
    leader.join()
    assert world.state() is PREPARING
    assert world.member("new", version=3).join().is_parked
    assert static.join_once().is_parked
    assert other.join_once().error is E.GROUP_MAX_SIZE_REACHED


def test_newcomers_are_collected_while_another_member_is_away() -> None:
    world = worlds(static_expansion_timeout_ms=5_000)
    leader, static = pair(world)
    silence(world, leader)
    newcomers = [world.member(f"n{n}", static=f"n{n}") for n in range(2)]
    for newcomer in newcomers:
        assert newcomer.join().is_parked
    silence(world, leader, ms=5_000)
    assert world.causes[-1] == "static_expansion"
    assert static.restarted().join().is_parked
    assert leader.join().error is E.NONE
    assert world.group().away == set()


def test_a_grown_topic_does_not_wait_for_it() -> None:
    world = worlds()
    leader, static = pair(world)
    silence(world, leader)
    world.change_topic("t", "grown", 6)
    assert world.seen(RebalanceStarted)[-1].awaited == (leader.id,)
    assert leader.join().error is E.NONE
    assert static.id in leader.roster


# -- partitions that were withheld for its sake ------------------------------------------------


def withheld(world: World, claimed: tuple[int, ...]) -> tuple[Client, Client]:
    """A static member that claims partitions, is away, and is given none of them.

    That is what a cooperative leader does: what it wants to move is nobody's for one round, until
    its owner has joined without it.
    """
    leader, static = pair(world, protocols=("cooperative-sticky",))
    claims(leader, 0, 2)
    claims(static, *claimed)
    leader.join()
    static.join()
    bring(leader, {leader: (0, 2), static: (1, 3)})
    silence(world, leader)
    leader.join()
    bring(leader, {leader: (0, 2)})
    return leader, static


def test_its_return_starts_the_round_that_gives_them_away() -> None:
    world = worlds()
    withheld_from = withheld(world, (1, 3))[1]
    again = withheld_from.restarted(owned=())
    assert again.join().is_parked
    assert world.causes[-1] == "revocation_follow_up"
    assert world.seen(RebalanceStarted)[-1].follows == 3


def test_its_return_is_no_rebalance_if_nothing_was_withheld() -> None:
    world = worlds()
    leader, static = withheld(world, (1, 3))
    leader.join()
    bring(leader, {leader: (0, 1, 2, 3)})
    assert static.restarted(owned=()).join().error is E.NONE


def test_partitions_of_a_deleted_topic_were_not_withheld() -> None:
    world = worlds()
    leader, static = withheld(world, (1, 3))
    world.change_topic("t", "deleted")
    leader.join()
    leader.sync({})
    assert static.restarted(owned=()).join().error is E.NONE


# -- copies of its state -----------------------------------------------------------------------


def warm_trio(world: World) -> tuple[Client, Client, Client]:
    """A leader, a static owner of partition 1, and a member that keeps a copy of that."""
    leader, owner, keeper = (
        world.member(name, static=static, metadata=reported(report({1: 5})))
        for name, static in (("leader", None), ("owner", "i1"), ("keeper", None))
    )
    for client in (leader, owner, keeper):
        client.join()
    world.sleep(9_000)
    share(leader, {leader: ordered((0,)), owner: ordered((1,)), keeper: ordered((2,), (1,))})
    return leader, owner, keeper


def share(leader: Client, plan: dict[Client, bytes]) -> None:
    """Let the leader bring an assignment and the others that are there ask for it."""
    assert leader.sync(plan).error is E.NONE
    for client in plan:
        if client is not leader:
            client.sync()


def test_where_others_keep_copies_the_end_of_the_session_starts_a_rebalance() -> None:
    world = worlds()
    leader, owner, keeper = warm_trio(world)
    silence(world, leader, keeper)
    assert is_away(world, owner)
    started = world.seen(RebalanceStarted)[-1]
    assert (started.cause, started.awaited) == ("session_expired", (leader.id, keeper.id))
    assert "keep copies" in started.detail


def test_copies_of_other_partitions_start_none() -> None:
    world = worlds()
    leader, owner, keeper = warm_trio(world)
    leader.join()
    owner.join()
    keeper.join()
    share(leader, {leader: ordered((0,)), owner: ordered((1,)), keeper: ordered((2,), (0,))})
    causes = world.causes
    silence(world, leader, keeper)
    assert is_away(world, owner)
    assert world.causes == causes


def test_copies_of_one_that_is_away_as_well_start_none() -> None:
    world = worlds()
    leader, owner, keeper = (
        world.member(name, static=static, metadata=reported(report({1: 5})))
        for name, static in (("leader", None), ("owner", "i1"), ("keeper", "i2"))
    )
    for client in (leader, owner, keeper):
        client.join()
    world.sleep(9_000)
    share(leader, {leader: ordered((0,)), owner: ordered((1,)), keeper: ordered((2,), (1,))})
    causes = world.causes
    silence(world, leader, owner)
    silence(world, leader)
    assert world.group().away == {owner.id, keeper.id}
    assert world.causes == causes


def served_by_another(world: World) -> tuple[Client, Client, Client]:
    """The keeper has gone on in place of the owner, which is away."""
    leader, owner, keeper = warm_trio(world)
    silence(world, leader, keeper)
    leader.join()
    keeper.join()
    share(leader, {leader: ordered((0,)), keeper: ordered((1, 2))})
    assert is_away(world, owner)
    return leader, owner, keeper


def test_the_return_of_one_that_others_stand_in_for_starts_a_rebalance() -> None:
    world = worlds()
    _, owner, _ = served_by_another(world)
    assert conflicts(world) == []
    generation = world.group().generation
    assert owner.restarted().join().is_parked
    started = world.seen(RebalanceStarted)[-1]
    assert (started.cause, started.follows) == ("static_replaced", generation)


def test_the_same_process_asks_for_what_it_had_as_it_joins_again() -> None:
    world = worlds()
    _, owner, _ = served_by_another(world)
    assert owner.heartbeat() is E.ILLEGAL_GENERATION
    assert owner.join_once().is_parked
    assert world.causes[-1] == "revocation_follow_up"


@pytest.mark.parametrize("crashes", [False, True])
def test_that_is_remembered_over_generations_and_restarts(crashes: bool) -> None:  # noqa: FBT001
    world = worlds()
    leader, owner, keeper = served_by_another(world)
    leader.join()
    keeper.join()
    share(leader, {leader: ordered((0,)), keeper: ordered((1, 2))})
    if crashes:
        world.crash()
    assert owner.restarted().join().is_parked
    assert world.causes[-1] == "static_replaced"


def test_once_it_has_been_back_it_is_forgotten() -> None:
    world = worlds()
    leader, owner, keeper = served_by_another(world)
    again = owner.restarted()
    again.join()
    leader.join()
    keeper.join()
    share(leader, {leader: ordered((0,)), keeper: ordered((2,)), again: ordered((1,))})
    silence(world, leader, keeper)
    assert again.restarted().join().error is E.NONE


# -- a member's own time -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group_ms", "own_ms", "away_after_ms"),
    [
        (0, 30_000, 30_000),
        (60_000, 30_000, 30_000),
        (30_000, 60_000, 60_000),
        (60_000, 0, SESSION_MS),
        (60_000, -1, 60_000),
        (60_000, -77, 60_000),
        (60_000, SESSION_MS - 1, SESSION_MS),
    ],
)
def test_a_member_may_ask_for_a_time_of_its_own(
    group_ms: int, own_ms: int, away_after_ms: int
) -> None:
    world = worlds(static_registration_timeout_ms=group_ms)
    leader, static = world.member("leader"), world.member("static", static="i1")
    leader.join()
    static.join(registration_timeout_ms=own_ms)
    world.sleep(6_000)
    world.share(leader, static)
    assert world.seen(MemberJoined)[-1].registration_timeout_ms == away_after_ms
    silence(world, leader, ms=away_after_ms - 1)
    assert "i1" in world.group().static
    silence(world, leader, ms=1)
    assert "i1" not in world.group().static


def test_a_new_process_may_ask_for_another_time() -> None:
    world = worlds()
    leader, static = pair(world)
    again = static.restarted()
    again.join(registration_timeout_ms=20_000)
    silence(world, leader, ms=20_000)
    assert world.seen(MemberGone)[-1].how == "registration_expired"


def test_a_dynamic_member_can_not_ask_for_any() -> None:
    world = worlds()
    leader = world.member("leader")
    leader.join(registration_timeout_ms=40_000)
    world.sleep(6_000)
    world.share(leader)
    assert world.seen(MemberJoined)[-1].registration_timeout_ms == 0
    world.sleep(SESSION_MS)
    assert world.seen(MemberGone)[-1].how == "session_expired"


def test_a_time_longer_than_any_session_may_be_is_refused() -> None:
    world = World(max_session_timeout_ms=30_000)
    static = world.member("static", static="i1")
    assert static.join(registration_timeout_ms=30_001).error is E.INVALID_SESSION_TIMEOUT
    assert static.join(registration_timeout_ms=30_000).is_parked


# -- what leaders and administrators are told --------------------------------------------------


def away_with(answer: Answer) -> dict[str, bytes | None]:
    """What a leader is told of absences."""
    return {member.member_id: member.away_with for member in answer.reply.members}


def test_a_leader_that_asks_is_told_who_is_away_and_with_what() -> None:
    world = worlds()
    leader, static = pair(world)
    silence(world, leader)
    told = away_with(leader.join(wants_absences=True))
    assert told == {leader.id: None, static.id: assigned("t", 1, 3)}


def test_a_leader_that_does_not_ask_gets_the_bytes_that_kafka_sends() -> None:
    world = worlds()
    leader, static = pair(world)
    silence(world, leader)
    assert away_with(leader.join()) == {leader.id: None, static.id: None}


@pytest.mark.parametrize("asks", [True, False])
def test_an_administrator_that_asks_is_told_since_when_a_member_is_away(asks: bool) -> None:  # noqa: FBT001
    world = worlds()
    leader, static = pair(world)
    silence(world, leader, ms=30_000)
    message = DescribeGroupsRequest(groups=("g",), wants_absences=asks)
    (group,) = world.request(message, 6).reply.groups
    since = {member.member_id: member.away_since_ms for member in group.members}
    away_since_ms = world.now_ms - 20_000 if asks else -1
    assert since == {leader.id: -1, static.id: away_since_ms}


# -- the coordinator restarts ------------------------------------------------------------------


def test_an_absence_survives_a_restart_and_ends_when_it_would_have() -> None:
    world = worlds()
    leader, static = pair(world)
    silence(world, leader, ms=40_000)
    world.crash()
    assert is_away(world, static)
    assert world.seen(GroupRecovered)[-1].away == (static.id,)
    silence(world, leader, ms=19_000)
    assert is_away(world, static)
    silence(world, leader, ms=1_000)
    assert world.seen(MemberGone)[-1].how == "registration_expired"


def test_after_a_restart_there_is_a_session_at_least_to_come_back_in() -> None:
    world = worlds()
    leader, static = pair(world)
    silence(world, leader, ms=59_000)
    world.crash()
    silence(world, leader, ms=SESSION_MS - 1_000)
    assert is_away(world, static)
    assert static.heartbeat() is E.NONE


@pytest.mark.parametrize(("step_ms", "left_ms"), [(-3_600_000, 50_000), (3_600_000, SESSION_MS)])
def test_whatever_the_date_is_after_a_restart_the_time_left_is_bounded(
    step_ms: int, left_ms: int
) -> None:
    world = worlds()
    leader, static = pair(world)
    silence(world, leader, ms=20_000)
    world.ahead_ms += step_ms
    world.crash()
    silence(world, leader, ms=left_ms - 1)
    assert is_away(world, static)
    silence(world, leader, ms=1)
    assert "i1" not in world.group().static


def test_a_restart_without_the_setting_keeps_the_place_for_a_session() -> None:
    world = worlds()
    leader, static = pair(world)
    silence(world, leader)
    world.crash(static_registration_timeout_ms=0)
    silence(world, leader, ms=SESSION_MS - 1)
    assert is_away(world, static)
    silence(world, leader, ms=1)
    assert "i1" not in world.group().static


@pytest.mark.parametrize("state", [PREPARING, COMPLETING, STABLE])
def test_after_a_restart_in_any_state_the_group_goes_on_without_it(state: GroupState) -> None:
    world, leader, static = scene(state)
    world.crash()
    assert (world.state(), is_away(world, static)) == (state, True)
    if state is COMPLETING:
        assert leader.sync({leader: assigned("t", 0)}).error is E.NONE
    elif state is PREPARING:
        assert leader.join().error is E.NONE
    assert is_away(world, static)


def test_what_is_stored_by_default_is_what_was_always_stored() -> None:
    world = World()
    pair(world)
    versions = {value[0] for key, value in world.store.items() if key[0] == 2}
    assert versions == {0}
