"""The heartbeat's fast way answers what the rest of its rules would have, to the same effect.

Each case is put to two coordinators that have seen the same: one takes the fast way, the other
the full one.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any
from unittest.mock import patch

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import HeartbeatRequest, HeartbeatResponse
from coterie_server.group import GroupState, heartbeat
from tests.server.group.test_states_and_requests import Scene, scene
from tests.support.requests import Asked

_WHO = ("leader", "follower", "static", "fenced", "pending", "newcomer", "nobody")
_GENERATIONS = (-1, 1, 2, 3, 4)
_INSTANCES = (None, "i1", "i2")


def _scene(state: GroupState, *, parked: bool) -> Scene:
    """A group in a state, in which some members or none wait for an answer."""
    found = scene(state)
    if parked and state is GroupState.PREPARING:
        found.follower.join()
    elif parked:
        found.follower.sync()
    return found


def _awake(state: GroupState, *, parked: bool) -> Scene:
    """The same a while later, in which no member was heard of."""
    found = _scene(state, parked=parked)
    found.world.now_ms += 2_000
    return found


def _message(found: Scene, who: str, generation: int, instance: str | None) -> HeartbeatRequest:
    client = getattr(found, who, None)
    return HeartbeatRequest(
        group_id="g",
        generation_id=generation,
        member_id=client.id if client is not None else "nobody",
        group_instance_id=instance,
    )


def _looks(found: Scene) -> dict[str, Any]:
    """All that a heartbeat could have changed."""
    group = found.world.table.groups.get("g")
    if group is None:
        return {}
    members = {
        member.id: (member.row, member.last_seen_ms, member.alive_until_ms, member.is_waiting)
        for member in group.members.values()
    }
    return {"row": group.row, "members": members, "pending": set(group.pending_joins)}


def _later(found: Scene) -> list[tuple[int, object]]:
    """What becomes of the group if nothing happens any more but time: who is dropped, and when."""
    coordinator, until_ms = found.world.coordinator, found.world.now_ms + 20_000
    outcomes: list[tuple[int, object]] = []
    while (due_ms := coordinator.next_deadline()) is not None and due_ms <= until_ms:
        outcome = coordinator.fire(due_ms)
        if outcome:
            replies = [(request.message, answer) for request, answer in outcome.replies]
            outcomes.append((due_ms, (outcome.records, replies, outcome.events)))
    return outcomes


@pytest.mark.parametrize(
    ("state", "parked"),
    [
        *((state, False) for state in GroupState),
        (GroupState.PREPARING, True),
        (GroupState.COMPLETING, True),
    ],
)
def test_fast_way_answers_as_the_full_way_or_declines_without_effect(
    state: GroupState, *, parked: bool
) -> None:
    taken = 0
    fast = _awake(state, parked=parked)
    for case in product(_WHO, _GENERATIONS, _INSTANCES):
        message = _message(fast, *case)
        before = _looks(fast)
        answer = fast.world.coordinator.try_heartbeat(message, fast.world.now_ms)
        if answer is None:
            assert _looks(fast) == before, case  # and so it serves for the next case
            continue
        taken += 1
        full = _awake(state, parked=parked)
        assert before == _looks(full), case
        asked = Asked(message, 4)
        with patch.object(heartbeat, "try_heartbeat", lambda *_: None):
            outcome = full.world.coordinator.handle(asked, full.world.now_ms)
        assert outcome.replies == [(asked, answer)], case
        assert (outcome.records, outcome.events, outcome.limit_hits) == ([], [], ()), case
        assert _looks(fast) == _looks(full), case
        assert _later(fast) == _later(full), case
        fast = _awake(state, parked=parked)
    is_living = state not in (GroupState.EMPTY, GroupState.DEAD)
    assert bool(taken) == is_living


@pytest.mark.parametrize(
    ("changes", "is_taken"),
    [
        ({}, True),
        ({"generation_id": 1}, False),
        ({"generation_id": 3}, False),
        ({"generation_id": -1}, False),
        ({"member_id": "nobody"}, False),
        ({"member_id": ""}, False),
        ({"group_id": "other"}, False),
        ({"group_id": ""}, False),
        ({"group_instance_id": "i1"}, False),
    ],
)
def test_fast_way_declines_a_heartbeat_that_differs_in_anything(
    changes: dict[str, Any], *, is_taken: bool
) -> None:
    found = _scene(GroupState.STABLE, parked=False)
    message = replace(_message(found, "follower", 2, None), **changes)
    answer = found.world.coordinator.try_heartbeat(message, found.world.now_ms)
    assert answer == (HeartbeatResponse(error_code=ErrorCode.NONE) if is_taken else None)


@pytest.mark.parametrize("state", [GroupState.PREPARING, GroupState.COMPLETING])
def test_fast_way_declines_a_member_that_waits_for_an_answer(state: GroupState) -> None:
    """Its session's deadline may have passed meanwhile, so it has to be armed again."""
    found = _scene(state, parked=True)
    message = _message(found, "follower", 2, None)
    assert found.world.coordinator.try_heartbeat(message, found.world.now_ms) is None


def test_fast_way_shortens_no_session() -> None:
    """A clock that was set back must not bring the end of a session forward."""
    found = _scene(GroupState.STABLE, parked=False)
    message = _message(found, "follower", 2, None)
    assert found.world.coordinator.try_heartbeat(message, found.world.now_ms - 1_000) is None
