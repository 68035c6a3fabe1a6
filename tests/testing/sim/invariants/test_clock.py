"""The clock checker finds sessions that a pause ended, and dates that are wrong."""

from __future__ import annotations

import pytest

from coterie_protocol import encode_request
from coterie_protocol.journal import Event, GroupEmptied, MemberGone
from coterie_protocol.messages import HeartbeatRequest, LeaveGroupRequest, MemberIdentity
from coterie_testing.sim.invariants.clock import ClockChecker
from coterie_testing.virtual import Scheduler

EMPTIED = GroupEmptied(group="g", generation=1)


class Node:
    """A coordinator's clock in virtual time."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.checker = ClockChecker(self.scheduler)
        self.checker.started()

    def journal(self, event: Event, *, off_ms: int = 0, clock_ms: int = 0) -> list[str]:
        """Have a line journalled; answer what is wrong with it."""
        now_ms = self.scheduler.now_ms
        return list(self.checker.journalled(now_ms + off_ms, event, now_ms + clock_ms))

    def pause(self, *arrived: bytes) -> None:
        """Let the coordinator stand still, while something arrives."""
        self.checker.paused()
        for data in arrived:
            self.checker.arrived(data)
        self.scheduler.run(12.0)
        self.checker.resumed()


@pytest.fixture
def node() -> Node:
    """Return a node."""
    return Node()


def heartbeat(member: str = "m") -> bytes:
    """The frame of a heartbeat."""
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id=member)
    return encode_request(request, 4, 7, "client")


def gone(how: str = "session_expired") -> MemberGone:
    """A member that goes."""
    return MemberGone(
        group="g",
        member="m",
        instance=None,
        host="",
        how=how,
        silent_ms=10_000,
        session_timeout_ms=10_000,
    )


def test_expiry_after_a_pause_with_an_unread_heartbeat_is_a_violation(node: Node) -> None:
    node.pause(heartbeat("other"), heartbeat())
    assert "heartbeat had arrived" in "".join(node.journal(gone()))


@pytest.mark.parametrize("how", ["left", "rebalance_expired"])
def test_member_may_go_for_another_reason_after_a_pause(node: Node, how: str) -> None:
    node.pause(heartbeat())
    assert node.journal(gone(how)) == []


def test_expiry_without_an_unread_heartbeat_is_fine(node: Node) -> None:
    leave = LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id="m"),))
    node.pause(heartbeat("other"), encode_request(leave, 4, 7, "client"))
    assert node.journal(gone()) == []


def test_expiry_some_time_after_a_pause_is_fine(node: Node) -> None:
    node.pause(heartbeat())
    node.scheduler.run(2.0)
    assert node.journal(gone()) == []


def test_expiry_is_fine_if_connections_were_lost(node: Node) -> None:
    node.pause(heartbeat())
    node.checker.connections_lost()
    assert node.journal(gone()) == []


def test_journal_may_go_back_only_in_another_life(node: Node) -> None:
    assert node.journal(EMPTIED) == []
    assert "goes back by 1 ms" in "".join(node.journal(EMPTIED, off_ms=-1))
    node.checker.started()
    assert node.journal(EMPTIED, off_ms=-1) == []


def test_journal_may_be_ahead_as_far_as_the_clock_was_set_back(node: Node) -> None:
    assert "ahead" in "".join(node.journal(EMPTIED, off_ms=5_000))
    node.checker.clock_set(-5.0)
    assert node.journal(EMPTIED, off_ms=5_000) == []


def test_journal_has_to_follow_a_clock_that_is_set_forward(node: Node) -> None:
    node.checker.clock_set(20.0)
    assert node.journal(EMPTIED, clock_ms=20_000) == []
    node.scheduler.run(2.0)
    assert "behind" in "".join(node.journal(EMPTIED, clock_ms=20_000))
