"""A group of raw members that find their coordinator among several, and record what they are told.

Each sends heartbeats, commits the partitions that it owns, and joins again when it is told to, as
any client does.  It lets go of everything before it joins, and tries again whatever is refused with
an error that clients retry.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from coterie_protocol import messages as m
from coterie_protocol.consumer import (
    Assignment,
    Subscription,
    TopicPartitions,
    decode_assignment,
    encode_assignment,
    encode_subscription,
    flatten,
)
from coterie_protocol.error_codes import ErrorCode
from tests.live.ownership import Ownership
from tests.live.wire import LOOK_AGAIN, Wire

__all__ = ["RawGroup", "RawMember", "find_coordinator"]

_SESSION_MS: Final = 60_000
_PAUSE_S: Final = 0.05
_E = ErrorCode
_REJOIN: Final = (_E.REBALANCE_IN_PROGRESS, _E.ILLEGAL_GENERATION)


async def find_coordinator(ports: Sequence[int], group: str) -> int | None:
    """The port of a group's coordinator, by the first node that can tell."""
    # With several, one may be suspended, and the next is asked soon.
    patience_s = 1 if len(ports) > 1 else 60
    for port in ports:
        with contextlib.suppress(OSError):
            wire = await Wire.open(port)
            with contextlib.closing(wire):
                async with asyncio.timeout(patience_s):
                    answer = await wire.ask(m.FindCoordinatorRequest(key=group), 2)
            if answer.error_code == _E.NONE:
                found: int = answer.port
                return found
    return None


@dataclass(slots=True)
class RawGroup:
    """A group, and what was promised to its members."""

    name: str
    topic: str
    #: The nodes' ports.
    ports: Sequence[int]
    #: Of the topic, as its leader is to share them out.
    partitions: int
    members: list[RawMember] = field(default_factory=list)
    #: By partition: the last offset that was sent, and the last that was acknowledged.
    sent: dict[int, int] = field(default_factory=dict)
    acknowledged: dict[int, int] = field(default_factory=dict)
    ownerships: list[Ownership] = field(default_factory=list)
    #: By partition: the fencing token of each ownership.
    tokens: dict[int, list[int]] = field(default_factory=dict)
    #: When it was answered, otherwise than by an error that clients retry.
    served_s: list[float] = field(default_factory=list)
    #: Members that had been in a generation and were not known any more.
    forgotten: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def come(self, count: int = 1) -> list[RawMember]:
        """Let members join."""
        new = [RawMember(self, f"m{len(self.members) + number}") for number in range(count)]
        self.members += new
        for member in new:
            member.begin()
        return new

    async def until_settled(self, generation: int = 0) -> int:
        """Wait until all are in one generation, at least this one, and share all partitions."""
        while not self._is_settled(generation):
            self.check()
            await asyncio.sleep(0.02)
        return self.members[0].generation

    def _is_settled(self, generation: int) -> bool:
        owned = sorted(each for member in self.members for each in member.owned)
        generations = {member.generation for member in self.members}
        return (
            owned == list(range(self.partitions))
            and len(generations) == 1
            and min(generations) >= generation
        )

    async def until_committed(self) -> None:
        """Wait until each partition was committed once more."""
        before = dict(self.acknowledged)
        while any(
            self.acknowledged.get(partition, 0) <= before.get(partition, 0)
            for partition in range(self.partitions)
        ):
            self.check()
            await asyncio.sleep(0.02)

    def check(self) -> None:
        """Raise the error of a member that failed."""
        for member in self.members:
            if member.living is not None and member.living.done():
                member.living.result()

    async def go(self) -> None:
        """End all members, without leaving."""
        tasks = [member.living for member in self.members if member.living is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        now_s = time.monotonic()
        for member in self.members:
            member.let_go(now_s)


class RawMember:
    """A member that comes back as itself when its connection broke."""

    def __init__(self, group: RawGroup, name: str) -> None:
        self.group = group
        self.name = name
        self.id = ""
        self.generation = -1
        #: The generations that it was told of.
        self.generations: list[int] = []
        self.owned: dict[int, float] = {}
        self.living: asyncio.Task[None] | None = None
        self._leads: tuple[str, ...] = ()
        #: What it does next: join, sync, or work.
        self._next = self._join

    def begin(self) -> None:
        """Take part until cancelled."""
        self.living = asyncio.get_running_loop().create_task(self._live())

    async def _live(self) -> None:
        while True:
            port = await find_coordinator(self.group.ports, self.group.name)
            if port is not None:
                with contextlib.suppress(OSError, TimeoutError):
                    wire = await Wire.open(port, self.name)
                    with contextlib.closing(wire):
                        await self._take_part(wire)
            await asyncio.sleep(_PAUSE_S)

    async def _take_part(self, wire: Wire) -> None:
        """Go on until the coordinator is another one."""
        error = _E.NONE
        while error not in LOOK_AGAIN:
            error = ErrorCode(await self._next(wire))
            if error not in LOOK_AGAIN:
                self.group.served_s.append(time.monotonic())
            self._heed(error)

    def _heed(self, error: ErrorCode) -> None:
        if error == _E.UNKNOWN_MEMBER_ID:
            if self.generation >= 0:
                self.group.forgotten.append(self.id)
            self.id, self.generation = "", -1
            self._rejoin()
        elif error in _REJOIN:
            self._rejoin()
        elif error not in (_E.NONE, _E.MEMBER_ID_REQUIRED, *LOOK_AGAIN):
            self.group.broken.append(f"{self.name} was told {error.name}")

    def _rejoin(self) -> None:
        self.let_go(time.monotonic())
        self._next = self._join

    def let_go(self, now_s: float) -> None:
        """Work no longer."""
        self.group.ownerships += [
            Ownership(partition=each, member=self.name, began_s=began_s, ended_s=now_s)
            for each, began_s in self.owned.items()
        ]
        self.owned = {}

    async def _join(self, wire: Wire) -> int:
        subscription = encode_subscription(Subscription(topics=(self.group.topic,)), 0)
        protocol = m.JoinGroupRequestProtocol(name="range", metadata=subscription)
        request = m.JoinGroupRequest(
            group_id=self.group.name,
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_SESSION_MS,
            member_id=self.id,
            protocol_type="consumer",
            protocols=(protocol,),
        )
        answer = await wire.ask(request, 5)
        if answer.error_code == _E.MEMBER_ID_REQUIRED:
            self.id = answer.member_id
        elif answer.error_code == _E.NONE:
            self.id = answer.member_id
            self._note_generation(answer.generation_id)
            self._leads = tuple(each.member_id for each in answer.members)
            self._next = self._sync
        return int(answer.error_code)

    def _note_generation(self, generation: int) -> None:
        if generation < self.generation:
            self.group.broken.append(f"{self.name}: {generation} after {self.generation}")
        self.generation = generation
        self.generations.append(generation)

    async def _sync(self, wire: Wire) -> int:
        request = m.SyncGroupRequest(
            group_id=self.group.name,
            generation_id=self.generation,
            member_id=self.id,
            assignments=tuple(self._plan()),
            wants_token=True,
        )
        answer = await wire.ask(request, 4)
        if answer.error_code == _E.NONE:
            given = flatten(decode_assignment(answer.assignment).assigned_partitions)
            self._own({partition for _, partition in given}, answer.fencing_token)
            self._next = self._work
        return int(answer.error_code)

    def _plan(self) -> list[m.SyncGroupRequestAssignment]:
        """What each member is to have, if this one leads."""
        found = []
        for place, member_id in enumerate(self._leads):
            partitions = tuple(range(place, self.group.partitions, len(self._leads)))
            given = (TopicPartitions(topic=self.group.topic, partitions=partitions),)
            assignment = encode_assignment(Assignment(assigned_partitions=given), 0)
            found.append(m.SyncGroupRequestAssignment(member_id=member_id, assignment=assignment))
        return found

    def _own(self, partitions: set[int], token: int) -> None:
        now_s = time.monotonic()
        self.let_go(now_s)
        self.owned = dict.fromkeys(partitions, now_s)
        for partition in partitions:
            self.group.tokens.setdefault(partition, []).append(token)

    async def _work(self, wire: Wire) -> int:
        await asyncio.sleep(_PAUSE_S)
        request = m.HeartbeatRequest(
            group_id=self.group.name, generation_id=self.generation, member_id=self.id
        )
        answer = await wire.ask(request, 3)
        if answer.error_code != _E.NONE or not self.owned:
            return int(answer.error_code)
        return await self._commit(wire)

    async def _commit(self, wire: Wire) -> int:
        group, sent = self.group, {}
        for partition in self.owned:
            sent[partition] = group.sent[partition] = group.sent.get(partition, 0) + 1
        answer = await wire.ask(self.commit_request(sent), 7)
        errors = {each.error_code for each in answer.topics[0].partitions}
        (error,) = errors
        if error == _E.NONE:
            group.acknowledged |= sent
        return int(error)

    def commit_request(self, offsets: dict[int, int]) -> Any:
        """A commit of this member."""
        partitions = tuple(
            m.OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_metadata=None
            )
            for partition, offset in offsets.items()
        )
        return m.OffsetCommitRequest(
            group_id=self.group.name,
            generation_id_or_member_epoch=self.generation,
            member_id=self.id,
            topics=(m.OffsetCommitRequestTopic(name=self.group.topic, partitions=partitions),),
        )
