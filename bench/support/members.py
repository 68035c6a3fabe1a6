"""Group members for the server benchmark: they join, sync and rejoin as clients do, but faster."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from bench.support.frames import CLIENT_ID, CORRELATION_ID, TOPIC
from coterie_protocol import FrameReader, decode_response, encode_request
from coterie_protocol.consumer import (
    Assignment,
    Subscription,
    TopicPartitions,
    encode_assignment,
    encode_subscription,
)
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

__all__ = ["Member", "MemberGroup"]

_PROTOCOL_TYPE: Final = "consumer"
_PROTOCOL: Final = "range"
_SUBSCRIPTION: Final = encode_subscription(Subscription(topics=(TOPIC,)))
#: As long as both coordinators allow, so that no session expires during another one's turn.
_TIMEOUT_MS: Final = 1_800_000
#: How often a member asks, during a rebalance, whether it has to rejoin.
_HEARTBEAT_S: Final = 0.005
_OVERDUE_S: Final = 120.0


class MemberGroup:
    """The members of one group, each on its own connection."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.members: list[Member] = []
        self._unnamed = 0
        self._whole: int | None = None
        self._synced = 0
        self._over: asyncio.Future[float] | None = None

    async def join(self, transports: Sequence[asyncio.Transport]) -> float:
        """Let new members join, all at once; return the seconds until all members have synced.

        Each is given its id first, and they join when all of them have one.  A group waits for the
        ids that it has handed out, so this is one rebalance; otherwise it would depend on chance
        how many members join before the first generation is complete.
        """
        self._whole, self._synced = None, 0
        self._over = asyncio.get_running_loop().create_future()
        before, new = self.members, [Member(self, transport) for transport in transports]
        self.members, self._unnamed = before + new, len(new)
        began = time.perf_counter()
        for member in new:
            member.join()
        try:
            return await asyncio.wait_for(self._over, _OVERDUE_S) - began
        finally:
            # Until the last delayed heartbeat has found that the rebalance is over.
            await asyncio.sleep(2 * _HEARTBEAT_S)

    async def leave(self) -> None:
        """Let all members leave the group."""
        ended = [member.leave() for member in self.members]
        self.members = []
        await asyncio.gather(*ended)

    # -- called by members ---------------------------------------------------------------------

    @property
    def is_rebalancing(self) -> bool:
        """Whether the generation of all members has not begun yet."""
        return self._whole is None

    def named(self) -> None:
        """A new member has been given its id."""
        self._unnamed -= 1
        if not self._unnamed:
            for member in self.members:
                if member.generation < 0:
                    member.join()
                else:
                    member.heartbeat()

    def led(self, generation: int, members: int) -> None:
        """A leader was told the number of members; if some are missing, a rebalance will follow."""
        if members == len(self.members):
            self._whole = generation

    def synced(self, generation: int) -> None:
        """A member has received its assignment."""
        if generation != self._whole:
            return
        self._synced += 1
        if self._synced == len(self.members) and self._over is not None:
            self._over.set_result(time.perf_counter())

    def failed(self, error: Exception) -> None:
        """A member met an unexpected error."""
        if self._over is not None and not self._over.done():
            self._over.set_exception(error)


class Member(asyncio.Protocol):
    """One member; each answer decides its next request."""

    def __init__(self, group: MemberGroup, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.id = ""
        self.generation = -1
        self._group = group
        self._reader = FrameReader()
        self._on_answer: Callable[[bytes], None] = self._joined
        self._left: asyncio.Future[None] | None = None
        transport.set_protocol(self)

    # -- requests ------------------------------------------------------------------------------

    def _ask(self, message: Any, version: int, take: Callable[[bytes], None]) -> None:
        self._on_answer = take
        self.transport.write(encode_request(message, version, CORRELATION_ID, CLIENT_ID))

    def join(self) -> None:
        """Join the group, or its next generation."""
        message = JoinGroupRequest(
            group_id=self._group.group_id,
            session_timeout_ms=_TIMEOUT_MS,
            rebalance_timeout_ms=_TIMEOUT_MS,
            member_id=self.id,
            protocol_type=_PROTOCOL_TYPE,
            protocols=(JoinGroupRequestProtocol(name=_PROTOCOL, metadata=_SUBSCRIPTION),),
        )
        self._ask(message, 9, self._joined)

    def heartbeat(self) -> None:
        """Ask whether the generation is still the current one."""
        if self._group.is_rebalancing:
            message = HeartbeatRequest(
                group_id=self._group.group_id, generation_id=self.generation, member_id=self.id
            )
            self._ask(message, 4, self._heard)

    def leave(self) -> asyncio.Future[None]:
        """Leave the group; the future is done when the answer arrives."""
        self._left = asyncio.get_running_loop().create_future()
        leaving = (MemberIdentity(member_id=self.id),)
        message = LeaveGroupRequest(group_id=self._group.group_id, members=leaving)
        self._ask(message, 5, self._gone)
        return self._left

    def _sync(self, assignments: tuple[SyncGroupRequestAssignment, ...]) -> None:
        message = SyncGroupRequest(
            group_id=self._group.group_id,
            generation_id=self.generation,
            member_id=self.id,
            protocol_type=_PROTOCOL_TYPE,
            protocol_name=_PROTOCOL,
            assignments=assignments,
        )
        self._ask(message, 5, self._synced)

    # -- answers -------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Take the answer to the last request."""
        try:
            for payload in self._reader.feed(data):
                self._on_answer(payload)
        except Exception as error:  # noqa: BLE001  # any error fails the benchmark
            self._group.failed(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail: a member's connection stays open until it has left."""
        self._group.failed(exc or ConnectionResetError("the server closed a connection"))

    def _joined(self, payload: bytes) -> None:
        _, answer = decode_response(JoinGroupResponse, 9, payload)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.id = answer.member_id
            self._group.named()
        elif answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
        else:
            _expect_none(answer.error_code, "JoinGroup")
            self.id, self.generation = answer.member_id, answer.generation_id
            if answer.leader == self.id:
                self._group.led(self.generation, len(answer.members))
            self._sync(_assignments([member.member_id for member in answer.members]))

    def _synced(self, payload: bytes) -> None:
        _, answer = decode_response(SyncGroupResponse, 5, payload)
        if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
        else:
            _expect_none(answer.error_code, "SyncGroup")
            self._group.synced(self.generation)
            self.heartbeat()

    def _heard(self, payload: bytes) -> None:
        _, answer = decode_response(HeartbeatResponse, 4, payload)
        if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
        else:
            _expect_none(answer.error_code, "Heartbeat")
            asyncio.get_running_loop().call_later(_HEARTBEAT_S, self.heartbeat)

    def _gone(self, payload: bytes) -> None:
        _, answer = decode_response(LeaveGroupResponse, 5, payload)
        _expect_none(answer.error_code, "LeaveGroup")
        if self._left is not None:
            self._left.set_result(None)


def _expect_none(error_code: int, what: str) -> None:
    if error_code:
        raise AssertionError(f"{what} was answered with {ErrorCode(error_code).name}")


_ASSIGNMENTS: Final[list[bytes]] = []


def _assignments(members: Sequence[str]) -> tuple[SyncGroupRequestAssignment, ...]:
    """Assign one partition to each member; the bytes are made once for all groups."""
    for partition in range(len(_ASSIGNMENTS), len(members)):
        given = (TopicPartitions(topic=TOPIC, partitions=(partition,)),)
        _ASSIGNMENTS.append(encode_assignment(Assignment(assigned_partitions=given)))
    return tuple(
        SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
        for member_id, assignment in zip(members, _ASSIGNMENTS, strict=False)
    )
