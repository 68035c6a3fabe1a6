"""A group of members that join, bring an assignment and follow every rebalance, as clients do."""

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

__all__ = ["Crew", "Member"]

_PROTOCOL_TYPE: Final = "consumer"
_PROTOCOL: Final = "range"
_SUBSCRIPTION: Final = encode_subscription(Subscription(topics=(TOPIC,)))
#: As long as both coordinators allow: nobody is to expire while it is another one's turn.
_TIMEOUT_MS: Final = 1_800_000
#: How often a member asks whether it is to join again, while a rebalance is in the air.
_HEARTBEAT_S: Final = 0.005
_OVERDUE_S: Final = 120.0


class Crew:
    """The members of one group, each on a connection of its own."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.members: list[Member] = []
        self._unnamed = 0
        self._whole: int | None = None
        self._synced = 0
        self._over: asyncio.Future[float] | None = None

    async def join(self, transports: Sequence[asyncio.Transport]) -> float:
        """Let members come in, all at once; return the seconds until everybody has synced.

        Each is told its id first.  They join with it when all of them have one: a group waits for
        ids that it has handed out, so this is one rebalance, while otherwise it would hang on
        chance how many members come before the first generation is complete.
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
            # Until the last heartbeat that was put off has found that all is over.
            await asyncio.sleep(2 * _HEARTBEAT_S)

    async def leave(self) -> None:
        """Let all members leave."""
        ended = [member.leave() for member in self.members]
        self.members = []
        await asyncio.gather(*ended)

    # -- what members tell ---------------------------------------------------------------------

    @property
    def is_rebalancing(self) -> bool:
        """Whether somebody is still to come."""
        return self._whole is None

    def named(self) -> None:
        """One of the new members has been told its id."""
        self._unnamed -= 1
        if not self._unnamed:
            for member in self.members:
                if member.generation < 0:
                    member.join()
                else:
                    member.heartbeat()

    def led(self, generation: int, members: int) -> None:
        """A leader was told so many members: those are all, or there will be another rebalance."""
        if members == len(self.members):
            self._whole = generation

    def synced(self, generation: int) -> None:
        """A member has its assignment."""
        if generation != self._whole:
            return
        self._synced += 1
        if self._synced == len(self.members) and self._over is not None:
            self._over.set_result(time.perf_counter())

    def failed(self, error: Exception) -> None:
        """Something that is no part of a rebalance happened to a member."""
        if self._over is not None and not self._over.done():
            self._over.set_exception(error)


class Member(asyncio.Protocol):
    """One member: what it was told last decides what it asks next."""

    def __init__(self, crew: Crew, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.id = ""
        self.generation = -1
        self._crew = crew
        self._reader = FrameReader()
        self._take: Callable[[bytes], None] = self._joined
        self._left: asyncio.Future[None] | None = None
        transport.set_protocol(self)

    # -- asking --------------------------------------------------------------------------------

    def _ask(self, message: Any, version: int, take: Callable[[bytes], None]) -> None:
        self._take = take
        self.transport.write(encode_request(message, version, CORRELATION_ID, CLIENT_ID))

    def join(self) -> None:
        """Ask to be in the group, or in its next generation."""
        message = JoinGroupRequest(
            group_id=self._crew.group_id,
            session_timeout_ms=_TIMEOUT_MS,
            rebalance_timeout_ms=_TIMEOUT_MS,
            member_id=self.id,
            protocol_type=_PROTOCOL_TYPE,
            protocols=(JoinGroupRequestProtocol(name=_PROTOCOL, metadata=_SUBSCRIPTION),),
        )
        self._ask(message, 9, self._joined)

    def heartbeat(self) -> None:
        """Ask whether the generation is still the present one."""
        if self._crew.is_rebalancing:
            message = HeartbeatRequest(
                group_id=self._crew.group_id, generation_id=self.generation, member_id=self.id
            )
            self._ask(message, 4, self._heard)

    def leave(self) -> asyncio.Future[None]:
        """Say good-bye; the future is done with the answer."""
        self._left = asyncio.get_running_loop().create_future()
        leaving = (MemberIdentity(member_id=self.id),)
        message = LeaveGroupRequest(group_id=self._crew.group_id, members=leaving)
        self._ask(message, 5, self._gone)
        return self._left

    def _sync(self, assignments: tuple[SyncGroupRequestAssignment, ...]) -> None:
        message = SyncGroupRequest(
            group_id=self._crew.group_id,
            generation_id=self.generation,
            member_id=self.id,
            protocol_type=_PROTOCOL_TYPE,
            protocol_name=_PROTOCOL,
            assignments=assignments,
        )
        self._ask(message, 5, self._synced)

    # -- being told ----------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Take the answer to what was asked last."""
        try:
            for payload in self._reader.feed(data):
                self._take(payload)
        except Exception as error:  # noqa: BLE001  # whatever it is, the crew must hear of it
            self._crew.failed(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody closes a member's connection before it has left."""
        self._crew.failed(exc or ConnectionResetError("the server closed a connection"))

    def _joined(self, payload: bytes) -> None:
        _, answer = decode_response(JoinGroupResponse, 9, payload)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.id = answer.member_id
            self._crew.named()
        elif answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
        else:
            _expect_none(answer.error_code, "JoinGroup")
            self.id, self.generation = answer.member_id, answer.generation_id
            if answer.leader == self.id:
                self._crew.led(self.generation, len(answer.members))
            self._sync(_assignments([member.member_id for member in answer.members]))

    def _synced(self, payload: bytes) -> None:
        _, answer = decode_response(SyncGroupResponse, 5, payload)
        if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
        else:
            _expect_none(answer.error_code, "SyncGroup")
            self._crew.synced(self.generation)
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
    """One partition for each member; the bytes are made once for all groups."""
    for partition in range(len(_ASSIGNMENTS), len(members)):
        given = (TopicPartitions(topic=TOPIC, partitions=(partition,)),)
        _ASSIGNMENTS.append(encode_assignment(Assignment(assigned_partitions=given)))
    return tuple(
        SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
        for member_id, assignment in zip(members, _ASSIGNMENTS, strict=False)
    )
