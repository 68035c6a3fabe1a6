"""Who owns what, as the coordinator tells it at each step of a rebalance."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from coterie_protocol.member_data import MemberData, join_member_data
from coterie_server.group.owners import Ownership, Ownerships, OwnerState, ownerships_of
from coterie_server.turns import begin
from tests.support.group_harness import Client, World, assigned
from tests.support.turns import finished
from tests.support.warm_groups import warm_pair
from tests.support.watched_world import WatchedWorld


@pytest.fixture
def world() -> WatchedWorld:
    """A coordinator whose first rebalances are not delayed."""
    return WatchedWorld()


def look(world: World) -> Ownerships:
    found: Ownerships | None = finished(begin(ownerships_of(world.group(), world.topics)))
    assert found is not None
    return found


def states(world: World) -> str:
    """The owners of t's partitions by their clients' names; `>` on its way, `-` unowned."""
    signs = {OwnerState.ON_ITS_WAY: ">", OwnerState.UNOWNED: "-"}
    return "".join(
        signs.get(each.state) or (each.member or "?")[0]
        for (topic, _), each in look(world).partitions.items()
        if topic == "t"
    )


def join(client: Client) -> None:
    """Join an empty group, which waits a while for others."""
    answer = client.join()
    while answer.is_parked:
        client.world.sleep_until_due()


def told(address: str, tokens: Mapping[tuple[str, int], int] | None = None) -> bytes:
    return join_member_data(None, MemberData(address, {"zone": "z"}, tokens or {}))


def test_members_own_what_they_were_told(world: WatchedWorld) -> None:
    world.pair()
    assert states(world) == "abab"
    assert look(world).topics == {"t": 4}
    assert look(world).generation == 2


def test_assigned_partitions_are_on_their_way_until_their_owner_asks(world: WatchedWorld) -> None:
    first, second = world.member("a"), world.member("b")
    world.form(first)
    second.join()
    first.join()
    first.sync({first: assigned("t", 0, 1), second: assigned("t", 2, 3)})
    assert states(world) == "aa>>"
    second.sync()
    assert states(world) == "aabb"


def test_eager_members_give_up_what_they_had_as_they_join(world: WatchedWorld) -> None:
    first, second = world.pair()
    world.member("c").join()
    assert states(world) == "abab"
    first.join()
    assert states(world) == ">b>b"
    second.join()
    assert states(world) == ">>>>"


def test_cooperative_members_keep_what_they_claim(world: WatchedWorld) -> None:
    world.cooperative_hand_over()
    # The second has given up partition 3 for the third, and joined again to say so.
    assert states(world) == "aba>"


def test_dead_members_partitions_are_on_their_way(world: WatchedWorld) -> None:
    first, second = world.pair()
    second.leave()
    assert states(world) == "a>a>"
    world.rejoin(first)
    assert states(world) == "aaaa"


def test_partition_that_no_member_gets_is_unowned(world: WatchedWorld) -> None:
    first = world.member("a")
    join(first)
    first.sync({first: assigned("t", 0, 1)})
    assert states(world) == "aa--"


def test_group_without_members_has_no_topics(world: WatchedWorld) -> None:
    first = world.member("a")
    world.form(first)
    first.leave()
    assert look(world).partitions == {}


def test_group_that_shares_out_something_else_is_unreadable(world: WatchedWorld) -> None:
    connect = world.member("a", protocol_type="connect")
    join(connect)
    connect.sync({connect: b"whatever"})
    assert finished(begin(ownerships_of(world.group(), world.topics))) is None


def test_hostile_bytes_do_no_harm(world: WatchedWorld) -> None:
    first = world.member("a", user_data=b"\xff" * 50 + b"\0\0\0\x14mEMB")
    world.form(first)
    assert states(world) == "aaaa"
    assert look(world).partitions["t", 0].address is None


# -- addresses and tokens --------------------------------------------------------------------------


def take_over(client: Client, plan: Mapping[Client, bytes] | None = None) -> int:
    token: int = client.sync(plan or {}, wants_token=True).reply.fencing_token
    return token


def test_owner_is_shown_with_what_it_tells_of_itself(world: WatchedWorld) -> None:
    first = world.member("a", static="one", user_data=told("h1:80"))
    join(first)
    token = take_over(first, {first: assigned("t", 0, 1, 2, 3)})
    assert look(world).partitions["t", 2] == Ownership(
        OwnerState.OWNED, first.id, "one", "h1:80", (("zone", "z"),), token
    )


def test_member_that_joins_with_another_address_is_shown_with_that(world: WatchedWorld) -> None:
    first = world.member("a", user_data=told("h1:80"))
    world.form(first)
    first.user_data = told("h2:80")
    world.rejoin(first)
    assert look(world).partitions["t", 0].address == "h2:80"


def kept_and_new(world: WatchedWorld) -> tuple[Client, int, int]:
    """A member that kept partition 0 with its first token, and got 1 with a later one."""
    first = world.member("a", protocols=("cooperative-sticky",), user_data=told("h1:80"))
    join(first)
    early = take_over(first, {first: assigned("t", 0)})
    first.owned, first.owned_generation = [("t", 0)], 1
    first.user_data = told("h1:80", {("t", 0): early})
    first.join()
    late = take_over(first, {first: assigned("t", 0, 1)})
    assert late > early
    return first, early, late


def test_kept_partition_keeps_its_token(world: WatchedWorld) -> None:
    _, early, late = kept_and_new(world)
    found = look(world).partitions
    assert [found["t", 0].token, found["t", 1].token] == [early, late]


def test_tokens_are_known_after_a_restart(world: WatchedWorld) -> None:
    _, early, late = kept_and_new(world)
    world.crash()
    found = look(world).partitions
    assert [found["t", 0].token, found["t", 1].token] == [early, late]


def test_token_after_a_restart_is_never_higher_than_the_owners(world: WatchedWorld) -> None:
    first = world.member("a", static="one", user_data=told("h1:80"))
    join(first)
    take_over(first, {first: assigned("t", 0, 1, 2, 3)})
    again = first.restarted(user_data=told("h2:80"))
    again.join()
    token = take_over(again)
    assert look(world).partitions["t", 0].token == token
    world.crash()
    shown = look(world).partitions["t", 0].token
    assert shown is not None
    assert shown <= token


def test_replaced_static_member_owns_nothing_until_it_is_told(world: WatchedWorld) -> None:
    first, _ = world.static_pair()
    first.restarted().join()
    assert states(world) == ">t>t"  # ids begin with the names `one` and `two`


def test_stock_members_have_no_tokens(world: WatchedWorld) -> None:
    world.pair()
    assert look(world).partitions["t", 0].token is None


# -- members with state, and members that are away -------------------------------------------------


def test_partition_that_another_member_warms_up_for_is_still_its_owners(
    world: WatchedWorld,
) -> None:
    owner, _ = warm_pair(world)
    found = look(world).partitions
    assert {each.member for each in found.values()} == {owner.id}
    assert [each.state for each in found.values()] == [*["owned"] * 3, "warming"]


def test_partitions_of_a_static_member_that_is_away_wait_for_it() -> None:
    world = WatchedWorld(static_registration_timeout_ms=60_000)
    first, second = world.member("a"), world.member("b", static="one")
    world.form(first, second)
    world.live(20_000, first)
    found = look(world).partitions
    assert found["t", 0].member == first.id
    assert found["t", 1] == Ownership(OwnerState.AWAY, instance="one")
    second.heartbeat()
    assert look(world).partitions["t", 1].member == second.id


@pytest.mark.parametrize("topic", ["t", "unknown"])
def test_number_that_a_leader_gives_out_by_mistake_is_one_row(
    world: WatchedWorld, topic: str
) -> None:
    """It says nothing of how many partitions there are, and there is no limit to it."""
    client = world.member("a")
    world.form(client)
    client.join()
    client.sync({client: assigned(topic, 0, 2**31 - 1)})
    found = look(world)
    numbers = [number for name, number in found.partitions if name == topic]
    assert numbers == ([0, 1, 2, 3, 2**31 - 1] if topic == "t" else [0, 2**31 - 1])
    assert found.partitions[topic, 2**31 - 1].state is OwnerState.OWNED


def test_topic_that_is_given_out_is_shown_though_no_member_subscribes_to_it() -> None:
    world = WatchedWorld(topics={"t": 4, "u": 2})
    client = world.member("a")
    world.form(client)
    client.join()
    client.sync({client: assigned("u", 1)})
    found = look(world)
    assert found.topics == {"t": 4, "u": 2}
    assert found.partitions["u", 0].state is OwnerState.UNOWNED
    assert found.partitions["u", 1].state is OwnerState.OWNED
