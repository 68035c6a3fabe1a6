"""Groups of raw members that commit all the time, and record what was acknowledged.

Every member commits to a partition of its own, higher offsets each time, so that what may be
stored is known exactly: at least what was acknowledged last, at most what was sent last.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from tests.live.wire import LOOK_AGAIN, Wire

__all__ = ["TOPIC", "CommittingGroups", "GroupRecord", "RawMember", "offset_fetch"]

TOPIC: Final = "crowd"
_SESSION_MS: Final = 60_000
_REBALANCE_MS: Final = 60_000
_PAUSE_S: Final = 0.1
_RECONNECT_S: Final = 0.05

_E = ErrorCode
#: What a member that has lost its place in the generation, but not in the group, is told.
_REJOIN: Final = (_E.REBALANCE_IN_PROGRESS, _E.ILLEGAL_GENERATION)


@dataclass(slots=True)
class GroupRecord:
    """What was promised to the members of a group."""

    name: str
    port: int
    #: By partition: the last offset that was sent, and the last that was acknowledged.
    sent: dict[int, int] = field(default_factory=dict)
    acknowledged: dict[int, int] = field(default_factory=dict)
    #: The leader of each generation that a member was told of.
    leaders: dict[int, str] = field(default_factory=dict)
    joins: int = 0
    #: Members that had been in a generation and were not known any more.
    forgotten: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    @property
    def generation(self) -> int:
        """The highest generation that a member was told of."""
        return max(self.leaders, default=0)

    def note_generation(self, generation: int, leader: str, known_before: int) -> None:
        """Note a generation, and whether it went back or exists twice."""
        if generation < known_before:
            self.broken.append(f"generation {generation} after {known_before}")
        if self.leaders.setdefault(generation, leader) != leader:
            self.broken.append(f"two generations {generation}: {leader} leads the second")


class RawMember:
    """A member that heartbeats and commits, and comes back as itself when its connection broke."""

    def __init__(self, group: GroupRecord, partition: int) -> None:
        """Join nothing yet; `run` does."""
        self.group = group
        self.partition = partition
        self.id = ""
        self.generation = -1
        #: How many heartbeats were answered without an error.
        self.beats = 0
        self._offset = group.sent.get(partition, 0)
        self._is_in = False
        self._is_leaving = False

    async def run(self) -> None:
        """Take part until cancelled."""
        while True:
            wire = await self._connect()
            with contextlib.closing(wire), contextlib.suppress(ConnectionError):
                while True:
                    await self._step(wire)

    async def leave(self) -> None:
        """Leave, on another connection: on its own it may be waiting for an answer.

        A member that does not know its id yet could not leave, and the group would wait for it.
        """
        self._is_leaving = True
        while True:
            while not self.id:  # noqa: ASYNC110 - of a member that has gone on anyway
                await asyncio.sleep(_RECONNECT_S)
            wire = await self._connect()
            with contextlib.closing(wire), contextlib.suppress(ConnectionError):
                await self._leave(wire)
                return

    async def _connect(self) -> Wire:
        while True:
            try:
                return await Wire.open(self.group.port, f"raw-{self.partition}")
            except OSError:
                await asyncio.sleep(_RECONNECT_S)

    async def _step(self, wire: Wire) -> None:
        if not self._is_in:
            await self._enter(wire)
            return
        await self._beat(wire)
        if self._is_in:
            await self._commit(wire)
        await asyncio.sleep(_PAUSE_S)

    async def _enter(self, wire: Wire) -> None:
        known_before = self.group.generation
        answer = await wire.ask(self._join_request(), 9)
        if answer.error_code == _E.MEMBER_ID_REQUIRED:
            self.id = answer.member_id
        elif answer.error_code == _E.NONE:
            self.group.joins += 1
            self.group.note_generation(answer.generation_id, answer.leader, known_before)
            self.generation = answer.generation_id
            await self._sync(wire, answer)
        else:
            await self._heed(answer.error_code)

    async def _sync(self, wire: Wire, joined: m.JoinGroupResponse) -> None:
        plan = tuple(
            m.SyncGroupRequestAssignment(member_id=each.member_id, assignment=b"yours")
            for each in joined.members
        )
        request = m.SyncGroupRequest(
            group_id=self.group.name,
            generation_id=self.generation,
            member_id=self.id,
            assignments=plan,
        )
        answer = await wire.ask(request, 3)
        self._is_in = answer.error_code == _E.NONE
        await self._heed(answer.error_code)

    async def _beat(self, wire: Wire) -> None:
        request = m.HeartbeatRequest(
            group_id=self.group.name, generation_id=self.generation, member_id=self.id
        )
        answer = await wire.ask(request, 4)
        self.beats += answer.error_code == _E.NONE
        await self._heed(answer.error_code)

    async def _commit(self, wire: Wire) -> None:
        self._offset += 1
        offset = self.group.sent[self.partition] = self._offset
        partition = m.OffsetCommitRequestPartition(
            partition_index=self.partition, committed_offset=offset, committed_metadata=str(offset)
        )
        request = m.OffsetCommitRequest(
            group_id=self.group.name,
            generation_id_or_member_epoch=self.generation,
            member_id=self.id,
            topics=(m.OffsetCommitRequestTopic(name=TOPIC, partitions=(partition,)),),
        )
        answer = await wire.ask(request, 8)
        error = answer.topics[0].partitions[0].error_code
        if error == _E.NONE:
            self.group.acknowledged[self.partition] = offset
        await self._heed(error)

    async def _leave(self, wire: Wire) -> None:
        identity = m.MemberIdentity(member_id=self.id)
        request = m.LeaveGroupRequest(group_id=self.group.name, members=(identity,))
        while (await wire.ask(request, 5)).error_code in LOOK_AGAIN:  # noqa: ASYNC110 - asked anew
            await asyncio.sleep(_RECONNECT_S)

    async def _heed(self, error: int) -> None:
        """React to an error as a client does."""
        if error == _E.NONE:
            return
        if error in _REJOIN:
            self._is_in = False
        elif error == _E.UNKNOWN_MEMBER_ID:
            if self.generation >= 0 and not self._is_leaving:
                self.group.forgotten.append(self.id)
            self.id, self.generation, self._is_in = "", -1, False
        elif error in LOOK_AGAIN:
            await asyncio.sleep(_RECONNECT_S)
        else:
            self.group.broken.append(f"{self.id} was told {ErrorCode(error).name}")

    def _join_request(self) -> m.JoinGroupRequest:
        protocol = m.JoinGroupRequestProtocol(name="raw", metadata=b"")
        return m.JoinGroupRequest(
            group_id=self.group.name,
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_REBALANCE_MS,
            member_id=self.id,
            protocol_type="raw",
            protocols=(protocol,),
        )


class CommittingGroups:
    """The members of several groups, some of which come and go."""

    def __init__(self, port: int, *, steady: int, restless: int, size: int) -> None:
        """Make the groups; no member has joined yet."""
        self.steady = [GroupRecord(f"steady-{number}", port) for number in range(steady)]
        self.restless = [GroupRecord(f"restless-{number}", port) for number in range(restless)]
        self.members: dict[RawMember, asyncio.Task[None]] = {}
        self._size = size

    @property
    def groups(self) -> list[GroupRecord]:
        """All groups."""
        return [*self.steady, *self.restless]

    def of(self, group: GroupRecord) -> list[RawMember]:
        """The members of a group."""
        return [member for member in self.members if member.group is group]

    def come(self) -> None:
        """Let all members join."""
        for group in self.groups:
            for partition in range(self._size):
                self._add(group, partition)

    def _add(self, group: GroupRecord, partition: int) -> None:
        member = RawMember(group, partition)
        self.members[member] = asyncio.get_running_loop().create_task(member.run())

    async def until_all_beat(self, groups: list[GroupRecord], times: int = 1) -> None:
        """Wait until all members that stay in these groups have had heartbeats answered again."""
        before = {member: member.beats for member in self.members}
        while any(
            member.beats < before.get(member, 0) + times
            for group in groups
            for member in self.of(group)
        ):
            self.check()
            await asyncio.sleep(0.02)

    async def churn(self, chance: random.Random) -> None:
        """Let one member after another leave a restless group, and another take its partition."""
        while True:
            await asyncio.sleep(chance.uniform(0.05, 0.3))
            member = chance.choice(self.of(chance.choice(self.restless)))
            await member.leave()
            self.members.pop(member).cancel()
            self._add(member.group, member.partition)

    def check(self) -> None:
        """Raise the error of a member that failed."""
        for task in self.members.values():
            if task.done():
                task.result()
                raise AssertionError("a member has ended")

    async def go(self) -> None:
        """End all members, without leaving."""
        for task in self.members.values():
            task.cancel()
        await asyncio.gather(*self.members.values(), return_exceptions=True)


async def offset_fetch(group: GroupRecord) -> dict[int, tuple[int, str | None]]:
    """What the daemon has stored for a group: offset and metadata by partition."""
    wire = await Wire.open(group.port)
    with contextlib.closing(wire):
        answer = await wire.ask(m.OffsetFetchRequest(group_id=group.name, topics=None), 7)
    assert answer.error_code == _E.NONE
    return dict(_stored(answer))


def _stored(answer: m.OffsetFetchResponse) -> Iterator[tuple[int, tuple[int, str | None]]]:
    for topic in answer.topics:
        assert topic.name == TOPIC
        for each in topic.partitions:
            yield each.partition_index, (each.committed_offset, each.metadata)
