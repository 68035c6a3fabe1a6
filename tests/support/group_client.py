"""Clients for the tests of the coordinator's core: they send what a test says, when it says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coterie_protocol.consumer import Subscription, encode_subscription, group_by_topic
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

if TYPE_CHECKING:
    from tests.support.group_harness import Answer, World

__all__ = ["Client"]


@dataclass(eq=False, slots=True)
class Client:
    """A client that sends a consumer's requests, when the test says so."""

    world: World
    name: str
    group: str = "g"
    topics: Sequence[str] = ("t",)
    protocols: Sequence[str] = ("range",)
    #: Bytes in place of a subscription.
    metadata: bytes | None = None
    #: Whether it follows operations if it leads, as Coterie's client does.
    follows: bool = False
    user_data: bytes | None = None
    owned: Iterable[tuple[str, int]] = ()
    owned_generation: int = -1
    protocol_type: str = "consumer"
    static: str | None = None
    version: int = 9
    session_ms: int = 10_000
    rebalance_ms: int = 60_000
    host: str = "/10.0.0.1"
    #: What it has been told.
    id: str = ""
    generation: int = -1
    leader: str = ""
    protocol: str | None = None
    roster: dict[str, bytes] = field(default_factory=dict)
    assignment: bytes | None = None

    @property
    def leads(self) -> bool:
        """Whether it has been told that it leads."""
        return bool(self.id) and self.id == self.leader

    def restarted(self, **attributes: Any) -> Client:
        """The same program in a new process: it remembers nothing."""
        values = {
            name: getattr(self, name)
            for name in (
                "group",
                "topics",
                "protocols",
                "static",
                "version",
                "session_ms",
                "follows",
            )
        }
        values |= {"rebalance_ms": self.rebalance_ms, "host": self.host} | attributes
        return Client(self.world, self.name, **values)

    def subscription(self) -> bytes:
        """Its subscription's bytes."""
        if self.metadata is not None:
            return self.metadata
        subscription = Subscription(
            topics=tuple(self.topics),
            user_data=self.user_data,
            owned_partitions=group_by_topic(self.owned),
            generation_id=self.owned_generation,
        )
        return encode_subscription(subscription, 2)

    def join(self, **fields: Any) -> Answer:
        """Join; if it is told its id first, join with that."""
        answer = self.join_once(**fields)
        if not answer.is_parked and answer.error is ErrorCode.MEMBER_ID_REQUIRED:
            return self.join_once(**fields)
        return answer

    def join_once(self, **fields: Any) -> Answer:
        """Send one JoinGroup; fields of the request can be given."""
        version = fields.pop("version", self.version)
        metadata = self.subscription()
        values: dict[str, Any] = {
            "group_id": self.group,
            "session_timeout_ms": self.session_ms,
            "rebalance_timeout_ms": self.rebalance_ms,
            "member_id": self.id,
            "group_instance_id": self.static,
            "protocol_type": self.protocol_type,
            "wants_operations": self.follows,
            "protocols": tuple(
                JoinGroupRequestProtocol(name=name, metadata=metadata) for name in self.protocols
            ),
        }
        return self.world.request(JoinGroupRequest(**values | fields), version, client=self)

    def sync(self, plan: Mapping[Client, bytes] | None = None, **fields: Any) -> Answer:
        """Ask for the assignment, or bring it."""
        version = fields.pop("version", 5)
        values: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.static,
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocol,
            "assignments": tuple(
                SyncGroupRequestAssignment(member_id=client.id, assignment=data)
                for client, data in (plan or {}).items()
            ),
        }
        return self.world.request(SyncGroupRequest(**values | fields), version, client=self)

    def heartbeat(self, **fields: Any) -> ErrorCode:
        """Send a heartbeat; what it is told."""
        version = fields.pop("version", 4)
        values: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.static,
        }
        return self.world.request(HeartbeatRequest(**values | fields), version, client=self).error

    def leave(self, **fields: Any) -> ErrorCode:
        """Leave; what it is told."""
        values: dict[str, Any] = {"member_id": self.id, "group_instance_id": self.static}
        message = LeaveGroupRequest(
            group_id=self.group, members=(MemberIdentity(**values | fields),)
        )
        answer = self.world.request(message, 5, client=self)
        return answer.part_errors[0] if answer.reply.members else answer.error

    def commit(self, offsets: Mapping[tuple[str, int], int], **fields: Any) -> Answer:
        """Commit as a member of its generation."""
        values: dict[str, Any] = {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.id,
            "group_instance_id": self.static,
        }
        return self.world.commit(offsets, client=self, **values | fields)

    def receive(self, message: Any) -> None:
        """Remember what an answer says."""
        if isinstance(message, JoinGroupResponse):
            if message.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.id = message.member_id
            elif message.error_code == ErrorCode.NONE:
                self.id, self.generation = message.member_id, message.generation_id
                self.leader, self.protocol = message.leader, message.protocol_name
                self.roster = {member.member_id: member.metadata for member in message.members}
        elif isinstance(message, SyncGroupResponse) and message.error_code == ErrorCode.NONE:
            self.assignment = message.assignment
