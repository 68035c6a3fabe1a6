"""One member of a group: what is on disk of it, and what lives only as long as the node does."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypedDict

from coterie_protocol.consumer import Subscription, decode_subscription, flatten
from coterie_protocol.exceptions import ProtocolError
from coterie_protocol.member_data import MemberData, split_member_data
from coterie_protocol.schema import replaced
from coterie_server.group.records import SupportedProtocol

if TYPE_CHECKING:
    from coterie_protocol.messages import JoinGroupRequest
    from coterie_server.group.records import MemberRow
    from coterie_server.step import Request

__all__ = ["Member", "claims_of", "metadata_of", "protocols_of", "terms_of", "told_assignment"]

#: The members of a group mostly say the same, so a short subscription that was read is kept for
#: the next member: so many, of at most so many bytes.
_SHORT_KEPT: Final = 64
_SHORT_BYTES: Final = 1024


@dataclass(eq=False, slots=True)
class Member:
    """A member; `row` is replaced whole when anything in it changes."""

    row: MemberRow
    id: str = field(init=False)
    #: The name that a static member has given itself; None for a dynamic one.
    instance_id: str | None = field(init=False)
    #: The row as it is on disk; None while the member has not been part of a generation.
    saved: MemberRow | None = None
    #: Not yet part of a generation, so it may not know its id and can't send heartbeats.
    is_new: bool = False
    #: Its requests that are parked: their answers have to wait.
    join: Request | None = None
    sync: Request | None = None
    #: When its process came; None if that was before the group was read.
    came_at_ms: int | None = None
    joined_at_ms: int = 0
    alive_until_ms: int = 0
    last_seen_ms: int = 0
    #: Why it says that it joined (KIP-800).
    reason: str = ""
    #: What it tells of itself, and the user data behind which it does.
    _told: tuple[bytes | None, MemberData | None] = field(default=(None, None), repr=False)
    #: Its subscription, and of which protocols' bytes, in which protocol, it was read.
    _read: tuple[object, str | None, Subscription | None] = field(
        default=(None, None, None), repr=False
    )

    def __post_init__(self) -> None:
        # Read far more often than members are made.
        self.id, self.instance_id = self.row.member_id, self.row.instance_id

    @property
    def place(self) -> tuple[bool, str]:
        """By what members are told apart and ordered, whatever process they run in."""
        return self.instance_id is not None, self.instance_id or self.id

    @property
    def assignment(self) -> bytes:
        """The assignment that it is told."""
        return told_assignment(self.row)

    @property
    def is_away(self) -> bool:
        """Whether its session is over and its place is kept, as only a static member's is."""
        return self.row.away_since_ms >= 0

    @property
    def is_waiting(self) -> bool:
        """Whether a request of its is parked, which is as good as a heartbeat."""
        return self.join is not None or self.sync is not None

    def named(self, reason: str) -> str:
        """Its ids and a reason that it or an administrator gave, for people."""
        who = self.id if self.instance_id is None else f"{self.id} ({self.instance_id})"
        return f"{who}: {reason}" if reason else who

    def change(self, **values: Any) -> None:  # noqa: ANN401  # as `dataclasses.replace` has it
        """Put a changed row in place."""
        self.row = replaced(self.row, **values)

    def matches(self, protocols: tuple[SupportedProtocol, ...]) -> bool:
        """Whether a join with these protocols says nothing new."""
        return self.row.protocols == protocols

    def wants_the_topics_of(self, protocols: tuple[SupportedProtocol, ...]) -> bool:
        """Whether a consumer's join asks for what it had before.

        Its bytes may differ all the same: a cooperative member tells each time what it owns.
        """
        if self.matches(protocols):
            return True
        if [p.name for p in protocols] != [p.name for p in self.row.protocols]:
            return False
        before, now = _parse(self.row.protocols[0].metadata), _parse(protocols[0].metadata)
        return before is not None and now is not None and set(before.topics) == set(now.topics)

    def wants_other_topics(
        self, former: tuple[SupportedProtocol, ...], protocol: str | None
    ) -> bool:
        """Whether a consumer asks for other topics than in its former process."""
        before = _parse(_metadata(former, protocol))
        now = self.subscription(protocol)
        return before is not None and now is not None and set(before.topics) != set(now.topics)

    def vote(self, candidates: set[str]) -> str:
        """The candidate that the member likes best: it names its protocols in that order."""
        return next(p.name for p in self.row.protocols if p.name in candidates)

    def metadata(self, protocol: str | None) -> bytes:
        """Its subscription in a protocol."""
        return _metadata(self.row.protocols, protocol)

    def subscription(self, protocol: str | None) -> Subscription | None:
        """Its subscription as consumers write it; None if it is written otherwise."""
        protocols, read = self.row.protocols, self._read
        if read[0] is not protocols or read[1] != protocol:
            self._read = read = protocols, protocol, _parse(_metadata(protocols, protocol))
        return read[2]

    def data(self, protocol: str | None) -> MemberData | None:
        """What it tells of itself beside its subscription, if it does."""
        subscription = self.subscription(protocol)
        user_data = None if subscription is None else subscription.user_data
        if user_data is not self._told[0]:
            self._told = user_data, split_member_data(user_data)[1]
        return self._told[1]


def protocols_of(message: JoinGroupRequest) -> tuple[SupportedProtocol, ...]:
    """The protocols that a member names as it joins; one that it names twice counts once.

    Those who say the same, as most members of a group do, share what is made of it.
    """
    named = tuple([(each.name, bytes(each.metadata)) for each in message.protocols])
    size = 0
    for name, metadata in named:
        size += len(name) + len(metadata)
    return _short_protocols(named) if size <= _SHORT_BYTES else _protocols(named)


def _protocols(named: tuple[tuple[str, bytes], ...]) -> tuple[SupportedProtocol, ...]:
    names: dict[str, bytes] = {}
    for name, metadata in named:
        names.setdefault(name, metadata)
    return tuple([SupportedProtocol(name=n, metadata=m) for n, m in names.items()])


_short_protocols: Final = lru_cache(_SHORT_KEPT)(_protocols)


class Terms(TypedDict):
    """On what terms a member joins, as its row has them."""

    session_timeout_ms: int
    rebalance_timeout_ms: int
    registration_timeout_ms: int
    follows_operations: bool


def terms_of(request: Request) -> Terms:
    """On what terms a member joins."""
    message: JoinGroupRequest = request.message
    # Version 0 has no rebalance timeout; one of zero there would let no rebalance ever succeed.
    rebalance_ms = message.rebalance_timeout_ms if request.version else message.session_timeout_ms
    is_static = message.group_instance_id is not None
    return {
        "session_timeout_ms": message.session_timeout_ms,
        "rebalance_timeout_ms": rebalance_ms,
        "registration_timeout_ms": max(message.registration_timeout_ms, -1) if is_static else -1,
        "follows_operations": message.wants_operations,
    }


def metadata_of(row: MemberRow, protocol: str | None) -> bytes:
    """A member's subscription in a protocol."""
    return _metadata(row.protocols, protocol)


def claims_of(
    protocols: tuple[SupportedProtocol, ...], protocol: str | None
) -> frozenset[tuple[str, int]]:
    """The partitions that a consumer says it owns, in its subscription in a protocol."""
    subscription = _parse(_metadata(protocols, protocol))
    return flatten(subscription.owned_partitions or ()) if subscription else frozenset()


def _metadata(protocols: tuple[SupportedProtocol, ...], protocol: str | None) -> bytes:
    for each in protocols:
        if each.name == protocol:
            return each.metadata
    return b""


def told_assignment(row: MemberRow) -> bytes:
    """The assignment that a member is told."""
    return b"" if row.is_void else row.assignment


def _parse(data: bytes) -> Subscription | None:
    return _parse_short(data) if len(data) <= _SHORT_BYTES else _parse_any(data)


@lru_cache(_SHORT_KEPT)
def _parse_short(data: bytes) -> Subscription | None:
    return _parse_any(data)


def _parse_any(data: bytes) -> Subscription | None:
    try:
        return decode_subscription(data)
    except ProtocolError:
        return None
