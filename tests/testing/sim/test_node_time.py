"""What is seen of a coordinator's time: sessions that a pause ended, and dates that are wrong."""

from __future__ import annotations

import pytest

from coterie_protocol import encode_request
from coterie_protocol.journal import Event, GroupEmptied, MemberGone
from coterie_protocol.messages import HeartbeatRequest, LeaveGroupRequest, MemberIdentity
from coterie_testing.sim.node_time import NodeTime
from coterie_testing.virtual import Scheduler

EMPTIED = GroupEmptied(group="g", generation=1)


class Scene:
    """A coordinator's time, and the world's."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.time = NodeTime(self.scheduler)
        self.time.started()

    def hear(self, event: Event, *, off_ms: int = 0, clock_ms: int = 0) -> list[str]:
        """Have a line journalled; answer what is wrong with it."""
        now_ms = self.scheduler.now_ms
        return list(self.time.hear(now_ms + off_ms, event, now_ms + clock_ms))

    def pause(self, *arrived: bytes) -> None:
        """Let the coordinator stand still, while something arrives."""
        self.time.paused()
        for data in arrived:
            self.time.arrived(data)
        self.scheduler.run(12.0)
        self.time.went_on()


@pytest.fixture
def scene() -> Scene:
    """Return a scene."""
    return Scene()


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


def test_dropped_after_a_pause(scene: Scene) -> None:
    """Its heartbeat had arrived."""
    scene.pause(heartbeat("other"), heartbeat())
    assert "heartbeat had arrived" in "".join(scene.hear(gone()))


@pytest.mark.parametrize("how", ["left", "rebalance_expired"])
def test_gone_for_another_reason(scene: Scene, how: str) -> None:
    """To go for something else than silence is no wonder."""
    scene.pause(heartbeat())
    assert scene.hear(gone(how)) == []


def test_dropped_without_a_sign_of_life(scene: Scene) -> None:
    """Nothing of it had arrived, or nothing that is a heartbeat."""
    leave = LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id="m"),))
    scene.pause(heartbeat("other"), encode_request(leave, 4, 7, "client"))
    assert scene.hear(gone()) == []


def test_dropped_later(scene: Scene) -> None:
    """After a while it may have fallen silent anew."""
    scene.pause(heartbeat())
    scene.scheduler.run(2.0)
    assert scene.hear(gone()) == []


def test_dropped_when_it_was_cut_off(scene: Scene) -> None:
    """What had arrived was lost with its connection."""
    scene.pause(heartbeat())
    scene.time.cut_off()
    assert scene.hear(gone()) == []


def test_journal_goes_back(scene: Scene) -> None:
    """From one line of a group to the next, though not from one life to the next."""
    assert scene.hear(EMPTIED) == []
    assert "goes back by 1 ms" in "".join(scene.hear(EMPTIED, off_ms=-1))
    scene.time.started()
    assert scene.hear(EMPTIED, off_ms=-1) == []


def test_journal_is_ahead(scene: Scene) -> None:
    """As far as the system's clock was set back, it may be."""
    assert "ahead" in "".join(scene.hear(EMPTIED, off_ms=5_000))
    scene.time.clock_set(-5.0)
    assert scene.hear(EMPTIED, off_ms=5_000) == []


def test_journal_stays_behind(scene: Scene) -> None:
    """A moment after the system's clock was set forward, it has to follow."""
    scene.time.clock_set(20.0)
    assert scene.hear(EMPTIED, clock_ms=20_000) == []
    scene.scheduler.run(2.0)
    assert "behind" in "".join(scene.hear(EMPTIED, clock_ms=20_000))
