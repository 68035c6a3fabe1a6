"""Every way from one state to another, and that there is no other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_server.group import TRANSITIONS, Group, GroupState
from coterie_server.group.records import GroupRow
from tests.support.group_harness import World

S = GroupState
Edge = tuple[GroupState, GroupState]

EDGES = sorted(
    ((source, target) for source in TRANSITIONS for target in TRANSITIONS[source]),
    key=lambda edge: [state.value for state in edge],
)
REFUSED = [(source, target) for source in S for target in S if target not in TRANSITIONS[source]]


def _joins(world: World) -> None:
    world.member("a").join()


def _asks_for_an_id(world: World) -> None:
    assert world.member("a").join_once().error is ErrorCode.MEMBER_ID_REQUIRED


def _is_deleted(world: World) -> None:
    assert world.delete("g") == [ErrorCode.NONE]


def _all_have_joined(world: World) -> None:
    world.sleep(3_000)


def _the_last_is_gone(world: World) -> None:
    (member,) = world.group().members
    world.member("a", id=member).leave()
    world.sleep(3_000)


def _the_leader_syncs(world: World) -> None:
    (member,) = world.group().members
    leader = world.member("a", id=member, generation=world.group().generation, protocol="range")
    assert leader.sync({}).error is ErrorCode.NONE


#: One thing for each edge that leads along it.
STEPS: dict[Edge, Callable[[World], None]] = {
    (S.EMPTY, S.PREPARING): _joins,
    (S.EMPTY, S.DEAD): _is_deleted,
    (S.PREPARING, S.COMPLETING): _all_have_joined,
    (S.PREPARING, S.EMPTY): _the_last_is_gone,
    (S.COMPLETING, S.STABLE): _the_leader_syncs,
    (S.COMPLETING, S.PREPARING): _joins,
    (S.STABLE, S.PREPARING): _joins,
    (S.DEAD, S.EMPTY): _asks_for_an_id,
}

#: The edges that lead from a group that does not exist to each state.
PATHS: dict[GroupState, list[Edge]] = {
    S.DEAD: [],
    S.EMPTY: [(S.DEAD, S.EMPTY)],
    S.PREPARING: [(S.DEAD, S.EMPTY), (S.EMPTY, S.PREPARING)],
    S.COMPLETING: [(S.DEAD, S.EMPTY), (S.EMPTY, S.PREPARING), (S.PREPARING, S.COMPLETING)],
    S.STABLE: [
        (S.DEAD, S.EMPTY),
        (S.EMPTY, S.PREPARING),
        (S.PREPARING, S.COMPLETING),
        (S.COMPLETING, S.STABLE),
    ],
}


def test_every_state_is_in_the_table() -> None:
    assert set(TRANSITIONS) == set(S)
    assert {target for _, target in EDGES} == set(S)


def test_every_edge_has_a_step() -> None:
    assert set(STEPS) == set(EDGES)


@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: f"{edge[0].value}-{edge[1].value}")
def test_edge_is_taken(edge: Edge) -> None:
    world = World()
    for step in [*PATHS[edge[0]], edge]:
        assert world.state() is step[0]
        STEPS[step](world)
        assert world.state() is step[1]


@pytest.mark.parametrize("edge", REFUSED, ids=lambda edge: f"{edge[0].value}-{edge[1].value}")
def test_a_change_of_state_that_the_table_lacks_is_a_bug(edge: Edge) -> None:
    source, target = edge
    group = Group("g")
    group.apply(GroupRow(group_id="g", state=source.value, generation=3))
    before = group.row
    with pytest.raises(AssertionError, match=f"{source.value} -> {target.value}"):
        group.enter(target, 5)
    assert group.row == before


def test_the_time_of_a_change_of_state_is_kept() -> None:
    world = World()
    world.member("a").join()
    world.sleep(1_000)
    assert world.group().row.changed_at_ms == world.now_ms - 1_000
    world.sleep(2_000)
    assert world.group().row.changed_at_ms == world.now_ms
