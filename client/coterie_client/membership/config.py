"""How a member is configured, and what it is given from outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Final
from uuid import UUID

from coterie_assignors import WarmSettings
from coterie_client import checks
from coterie_client.errors import ConfigurationError
from coterie_protocol.streams import LATEST_VERSION

__all__ = ["REASON_CHARS", "MembershipConfig", "Sources"]

#: How much longer than the rebalance timeout a join may take, so that an answer which the
#: coordinator gives at the last moment still comes in time.
_JOIN_GRACE_MS: Final = 5_000

#: Answers are nearly always there before that, also from a machine with much to do.
_SILENCE_MS_MIN: Final = 500

#: How many heartbeats are sent in the time that silence may last, and how soon after one another at
#: most, whatever a rebalance may take: so little time can't be kept over a network.
_BEATS: Final = 3
_BEAT_MS_MIN: Final = 100

#: How many characters of a reason are sent; Kafka's clients send no more either.
REASON_CHARS: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipConfig:
    """How a member behaves. Names and defaults are Kafka's where Kafka has them."""

    group: str
    #: The static name (group.instance.id), if it has one.
    instance: str | None = None
    rack: str | None = None
    session_timeout_ms: int = 45_000
    #: How long a static member may be silent before its place is given up; 0 for its session, -1
    #: for what the group has.
    registration_timeout_ms: int = -1
    heartbeat_interval_ms: int = 3_000
    #: How long letting go of partitions may take (max.poll.interval.ms in Kafka's client).
    rebalance_timeout_ms: int = 300_000
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    #: How long to wait at most before looking for the coordinator again: while it is dead, another
    #: node may take the group over at any moment.
    lookup_backoff_max_ms: int = 500
    metadata_max_age_ms: int = 60_000
    allow_auto_create_topics: bool = True
    #: Whether work stops when the coordinator was silent for a session timeout, or for a shorter
    #: rebalance timeout.  It may then have given this member's partitions away, or may not be there
    #: at all.
    stop_when_silent: bool = True
    #: How partitions with state move, if this member leads; None for the defaults.
    warm: WarmSettings | None = None
    #: How often warm-ups that have caught up may make the group rebalance, at most.
    ready_interval_ms: int = 10_000
    #: What standbys are spread over, besides racks.
    tags: Mapping[str, str] = field(default_factory=dict)
    #: The latest version of reports and orders that this member knows.
    warm_version: int = LATEST_VERSION

    def __post_init__(self) -> None:
        checks.text("group", self.group)
        for name in ("instance", "rack"):
            if getattr(self, name) is not None:
                checks.text(name, getattr(self, name))
        for each in fields(self):
            if each.name.endswith("_ms"):
                first = -1 if each.name == "registration_timeout_ms" else 1
                checks.whole(each.name, getattr(self, each.name), first)
        for name in ("allow_auto_create_topics", "stop_when_silent"):
            checks.flag(name, getattr(self, name))
        session_ms, heartbeat_ms = self.session_timeout_ms, self.heartbeat_interval_ms
        # One heartbeat may get lost, and the next one has to come in time.
        if heartbeat_ms * 3 > session_ms:
            raise ConfigurationError(
                "heartbeat_interval must be at most a third of session_timeout, which is"
                f" {session_ms / 1000:g} s, got {heartbeat_ms / 1000:g} s"
            )

    @property
    def join_timeout_ms(self) -> int:
        """How long the answer to a join or sync may take, which waits for the other members."""
        return self.rebalance_timeout_ms + _JOIN_GRACE_MS

    @property
    def heartbeat_timeout_ms(self) -> int:
        """How long a heartbeat's answer may take: the session has to outlive a failed one."""
        return min(self.request_timeout_ms, max(self.session_timeout_ms // 3, 1))

    @property
    def silence_ms(self) -> int:
        """How long the coordinator may owe an answer before another node is asked about it."""
        return max(self.heartbeat_interval_ms // 3, _SILENCE_MS_MIN)

    @property
    def beat_ms(self) -> int:
        """How often to send a heartbeat."""
        often_ms = max(self.rebalance_timeout_ms // _BEATS, _BEAT_MS_MIN)
        return min(self.heartbeat_interval_ms, often_ms)

    @property
    def lease_ms(self) -> int:
        """How long an answered heartbeat lets the member go on.

        Somewhat shorter than what ends its membership without another one: the session that it
        renewed, or a rebalance that began right after it, which the member does not hear of.  To
        stop work takes a moment.
        """
        session_ms = self.session_timeout_ms - self.session_timeout_ms // 10
        return min(session_ms, max(self.release_ms, _BEATS * _BEAT_MS_MIN))

    @property
    def silence(self) -> str:
        """How long the coordinator may be silent, in words."""
        is_long = self.rebalance_timeout_ms >= self.session_timeout_ms
        return "a session timeout" if is_long else "a rebalance timeout"

    @property
    def release_ms(self) -> int:
        """How long letting go may take, with room for what follows it."""
        return self.rebalance_timeout_ms - self.rebalance_timeout_ms // 10


@dataclass(frozen=True, slots=True)
class Sources:
    """Randomness, the date, and what else a pure machine has to be given."""

    #: Random numbers in [0, 1), for jitter.
    random: Callable[[], float]
    #: The time of day in milliseconds, for fencing tokens where the coordinator issues none.
    wall_ms: Callable[[], int]
    #: Where this process runs, to tell it from another one of the same name; empty if not known.
    host: str = ""
    #: How long this machine has been asleep since some fixed moment, in milliseconds, where the
    #: event loop's clock leaves that out; None where it leaves nothing out.
    asleep_ms: Callable[[], int] | None = None
    #: Which process this is, for groups that have several members in one; None if each member
    #: counts as a process of its own.
    process: Callable[[], UUID] | None = None
