"""Members below any client library, brought to where a test wants them."""

from __future__ import annotations

from dataclasses import dataclass

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from tests.live.wire import Wire

__all__ = ["Pair", "join_request"]


def join_request(
    group: str, member: str = "", *, session_ms: int = 60_000, rebalance_ms: int = 60_000
) -> m.JoinGroupRequest:
    """A member that asks to join, with nothing remarkable about it.

    Sent in version 3 or before, it is not asked to come back with the id that it is given.
    """
    protocol = m.JoinGroupRequestProtocol(name="raw", metadata=b"")
    return m.JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        member_id=member,
        protocol_type="raw",
        protocols=(protocol,),
    )


@dataclass(slots=True)
class Pair:
    """A leader and a follower who have joined one generation; neither has synced yet."""

    group: str
    leader: Wire
    follower: Wire
    follower_id: str
    generation: int

    @classmethod
    async def form(cls, port: int, group: str, *, rebalance_ms: int = 60_000) -> Pair:
        """Let one join, then the other, then the first again, which leads therefore."""
        leader, follower = [await Wire.open(port) for _ in range(2)]
        alone = await leader.ask(join_request(group, rebalance_ms=rebalance_ms), 3)
        request = join_request(group, rebalance_ms=rebalance_ms)
        sent = follower.send(request, 3)
        again = join_request(group, alone.member_id, rebalance_ms=rebalance_ms)
        led = alone
        while len(led.members) < 2:
            # The two connections are not read in the order in which they were written to.
            led = await leader.ask(again, 3)
        followed = await follower.receive(request, 3, sent)
        assert followed.error_code == ErrorCode.NONE
        assert followed.leader == led.member_id
        return cls(group, leader, follower, followed.member_id, followed.generation_id)

    def follower_sync(self) -> m.SyncGroupRequest:
        """The follower asks for its assignment."""
        return m.SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.follower_id,
            assignments=(),
        )

    def close(self) -> None:
        """Hang up."""
        self.leader.close()
        self.follower.close()
