"""What holds of a membership after every step: it works on its own, and never waits in vain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from coterie_client.membership import Phase
from coterie_protocol.messages import (
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    MetadataRequest,
    SyncGroupRequest,
)

if TYPE_CHECKING:
    from tests.support.scripted_membership import Script

__all__ = ["check"]

#: How often a turn may follow a turn at one moment: parts may wait for each other once or twice.
_TURNS: Final = 5


def check(script: Script) -> None:
    """Check a member that has just done what it was to do; it gets a turn if it wants one now."""
    if script.stopped is not None:
        _check_end(script)
        return
    owned = script.machine.owned.keys()
    assert script.working.keys() <= owned, "it works on what is not owned"
    both = script.roles.keys() & script.working.keys()
    assert both <= script.revoking, "it keeps up to date what it goes on working on"
    assert script.roles == script.machine.standbys
    for _ in range(_TURNS):
        due_ms = script.machine.next_deadline()
        if due_ms is None or due_ms > script.now_ms:
            break
        for action in script.machine.fire(script.now_ms):
            script.perform(action)
        if script.stopped is not None:
            _check_end(script)
            return
    else:
        raise AssertionError(f"it spins: {script.describe()}")
    _check_hope(script)


def _check_end(script: Script) -> None:
    assert not script.working, "it stopped and left work behind"
    assert not script.roles, "it stopped and left standbys behind"
    assert script.machine.next_deadline() is None
    assert script.machine.phase is Phase.OVER


def _check_hope(script: Script) -> None:
    """Something will come that gets the member out of where it is."""
    machine = script.machine
    if machine.coordinator is None:
        parts: list[Any] = [machine._lookup]  # noqa: SLF001
        kinds: list[type[Any]] = [FindCoordinatorRequest]
    else:
        parts, kinds = _hopes(script)
    is_due = any(part.deadline_ms is not None for part in parts)
    is_answered = any(script.awaits(kind) for kind in kinds)
    is_releasing = machine._state.releasing  # noqa: SLF001
    assert is_due or is_answered or is_releasing, script.describe()


def _hopes(script: Script) -> tuple[list[Any], list[type[Any]]]:
    """The parts that may take the next step, and the requests whose answers lead to it."""
    machine = script.machine
    joining, heartbeats = machine._joining, machine._heartbeats  # noqa: SLF001
    match machine.phase:
        case Phase.JOINING | Phase.SYNCING:
            is_joining = machine.phase is Phase.JOINING
            return [joining], [JoinGroupRequest if is_joining else SyncGroupRequest]
        case Phase.LEADING:
            return [joining, machine._topics], [MetadataRequest]  # noqa: SLF001
        case Phase.STABLE:
            return [heartbeats], [HeartbeatRequest]
        case Phase.LEAVING:
            leaving = machine._leaving  # noqa: SLF001
            return [leaving], [LeaveGroupRequest, DescribeGroupsRequest]
        case Phase.PROVING:
            return [joining, heartbeats], [SyncGroupRequest, HeartbeatRequest]
        case _:
            return [joining], []
