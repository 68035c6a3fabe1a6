"""A member of a group for scenarios: without a client library, in any version, with any mistake."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final, Self

from coterie_protocol import messages as m
from coterie_protocol.consumer import Subscription, encode_subscription
from coterie_protocol.error_codes import ErrorCode
from tests.interop.differential.script import ANSWER_S, Exchange, Reply, Script, ScriptError
from tests.interop.differential.wire import CLOSED, Connection

__all__ = ["Member", "cast", "offsets", "settle", "stable", "subscribed", "together"]

_POLL_S: Final = 0.1
_NONE: Final = ErrorCode.NONE


def subscribed(*topics: str, note: str = "") -> bytes:
    """What a consumer says that it subscribes to; `note` tells one member from another."""
    return encode_subscription(Subscription(topics=topics, user_data=note.encode()), 1)


def offsets(
    wanted: Mapping[tuple[str, int], int], **fields: Any
) -> tuple[m.OffsetCommitRequestTopic, ...]:
    """Offsets by topic and partition, as a commit carries them."""
    fields.setdefault("committed_metadata", None)
    by_topic: dict[str, list[m.OffsetCommitRequestPartition]] = {}
    for (topic, index), offset in wanted.items():
        partition = m.OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, **fields
        )
        by_topic.setdefault(topic, []).append(partition)
    return tuple(
        m.OffsetCommitRequestTopic(name=topic, partitions=tuple(partitions))
        for topic, partitions in by_topic.items()
    )


class Member:
    """A member that remembers what it was last told; a request can override any of it.

    The keyword arguments of its requests are fields of the message, or `version`.
    """

    def __init__(self, script: Script, name: str, connection: Connection) -> None:
        """Speak on a connection; `of` is the way to get a member."""
        self.script = script
        self.name = name
        self.connection = connection
        self.group = script.group
        self.instance: str | None = None
        self.session_ms = 30_000
        self.rebalance_ms = 30_000
        self.kind = "consumer"
        self.protocols: Mapping[str, bytes] = {"range": subscribed(note=name)}
        self.id = ""
        self.generation = -1
        self.protocol: str | None = None

    @classmethod
    async def of(cls, script: Script, name: str, **attributes: Any) -> Self:
        """A new member on a connection of its own; `client_id` is its name unless given."""
        connection = await script.connect(attributes.pop("client_id", name))
        member = cls(script, name, connection)
        for attribute, value in attributes.items():
            assert hasattr(member, attribute)
            setattr(member, attribute, value)
        return member

    async def again(self, **attributes: Any) -> Member:
        """The same member in a new process: it knows nothing but its settings."""
        settings = {
            name: getattr(self, name)
            for name in ("group", "instance", "session_ms", "rebalance_ms", "kind", "protocols")
        }
        return await Member.of(self.script, f"{self.name}'", **{**settings, **attributes})

    async def elsewhere(self) -> Member:
        """The same member on one more connection."""
        twin = await self.again(client_id=self.connection.client_id)
        twin.id, twin.generation, twin.protocol = self.id, self.generation, self.protocol
        return twin

    async def reconnect(self) -> None:
        """Open a new connection, as after a restart of the broker."""
        self.connection = await self.script.connect(self.connection.client_id)

    def ask(self, message: Any, version: int) -> Exchange:
        """Send any request."""
        return self.script.send(self.name, self.connection, message, version, self._heed)

    # -- joining -------------------------------------------------------------------------------

    def join(self, **fields: Any) -> Exchange:
        """Ask to join."""
        version = fields.pop("version", 9)
        protocols = fields.pop("protocols", self.protocols)
        pairs = protocols.items() if isinstance(protocols, Mapping) else protocols
        values: dict[str, Any] = {
            "group_id": self.group,
            "session_timeout_ms": self.session_ms,
            "rebalance_timeout_ms": self.rebalance_ms,
            "member_id": self.id,
            "group_instance_id": self.instance if version >= 5 else None,
            "protocol_type": self.kind,
            "protocols": tuple(
                m.JoinGroupRequestProtocol(name=name, metadata=data) for name, data in pairs
            ),
        }
        return self.ask(m.JoinGroupRequest(**{**values, **fields}), version)

    async def get_id(self, **fields: Any) -> None:
        """Join for the first time, to be told the member id."""
        await self.join(**fields)

    async def begin(self, **fields: Any) -> Exchange:
        """Join for the first time, up to where the join is parked."""
        if not self.id and not self.instance and fields.get("version", 9) >= 4:
            await self.get_id(**fields)
        return await self.join(**fields).parked()

    async def enter(self, **fields: Any) -> Reply:
        """Join, a second time if the first was only for the id."""
        reply = await self.join(**fields)
        if reply.message.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            reply = await self.join(**fields)
        return reply

    def sync(self, plan: Mapping[Member, bytes] | None = None, **fields: Any) -> Exchange:
        """Ask for the assignment, or bring it."""
        version = fields.pop("version", 5)
        values: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance if version >= 3 else None,
            "protocol_type": self.kind,
            "protocol_name": self.protocol,
            "assignments": tuple(
                m.SyncGroupRequestAssignment(member_id=member.id, assignment=data)
                for member, data in (plan or {}).items()
            ),
        }
        return self.ask(m.SyncGroupRequest(**{**values, **fields}), version)

    # -- staying and going ---------------------------------------------------------------------

    def heartbeat(self, **fields: Any) -> Exchange:
        """Send a heartbeat."""
        version = fields.pop("version", 4)
        values: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance if version >= 3 else None,
        }
        return self.ask(m.HeartbeatRequest(**{**values, **fields}), version)

    async def until_told(self) -> Reply:
        """Send heartbeats until one is answered with an error; note that one."""
        deadline = time.monotonic() + ANSWER_S
        while (await self.heartbeat().quietly()).error_code == _NONE:
            if time.monotonic() > deadline:
                raise ScriptError(f"{self.name}: heartbeats are fine for {ANSWER_S:g} s")
            await asyncio.sleep(_POLL_S)
        return await self.heartbeat()

    async def beats(self, seconds: float) -> Reply:
        """Send heartbeats for some time; note what they were answered."""
        seen: dict[str, None] = {}
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            answer = await self.heartbeat().quietly()
            seen[ErrorCode(answer.error_code).name] = None
            await asyncio.sleep(_POLL_S)
        return self.script.note(f"{self.name}: heartbeats for {seconds:g} s", list(seen))

    def leave(self, *identities: m.MemberIdentity, **fields: Any) -> Exchange:
        """Leave, or make others leave."""
        version = fields.pop("version", 5)
        values: dict[str, Any] = {"group_id": self.group}
        if version < 3:
            values["member_id"] = self.id
        else:
            values["members"] = identities or (self.identity(),)
        return self.ask(m.LeaveGroupRequest(**{**values, **fields}), version)

    def identity(self, **fields: Any) -> m.MemberIdentity:
        """What LeaveGroup calls this member."""
        values = {"member_id": self.id, "group_instance_id": self.instance}
        return m.MemberIdentity(**{**values, **fields})

    # -- offsets -------------------------------------------------------------------------------

    def commit(
        self, wanted: Mapping[tuple[str, int], int] | None = None, **fields: Any
    ) -> Exchange:
        """Commit offsets, one of the shared topic unless others are given."""
        version = fields.pop("version", 9)
        metadata = fields.pop("metadata", None)
        offsets_wanted = {(self.script.topic, 0): 7} if wanted is None else wanted
        values: dict[str, Any] = {
            "group_id": self.group,
            "generation_id_or_member_epoch": fields.pop("generation", self.generation),
            "member_id": self.id,
            "group_instance_id": self.instance if version >= 7 else None,
            "topics": offsets(offsets_wanted, committed_metadata=metadata),
        }
        return self.ask(m.OffsetCommitRequest(**{**values, **fields}), version)

    # -- what it is told -----------------------------------------------------------------------

    def _heed(self, message: Any) -> None:
        if message is CLOSED:
            return
        if isinstance(message, m.JoinGroupResponse):
            if message.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.id = message.member_id
            elif message.error_code == _NONE:
                self.id, self.generation = message.member_id, message.generation_id
                self.protocol = message.protocol_name


async def cast(script: Script, *names: str, **attributes: Any) -> list[Member]:
    """Several members of a kind."""
    return [await Member.of(script, name, **attributes) for name in names]


async def together(*members: Member, **fields: Any) -> None:
    """Bring members into one generation, led by the first; none has synced yet."""
    first, *others = members
    await first.enter(**fields)
    if others:
        parked = [await other.begin(**fields) for other in others]
        await first.join(**fields)
        for exchange in parked:
            await exchange


async def stable(*members: Member) -> None:
    """Bring members into one generation, led by the first, and give each an assignment."""
    await together(*members)
    await settle(*members)


async def settle(*members: Member) -> None:
    """Let the first bring an assignment for all and the others ask for it."""
    leader, *others = members
    await leader.sync({member: f"for {member.name}".encode() for member in members})
    for other in others:
        await other.sync()
