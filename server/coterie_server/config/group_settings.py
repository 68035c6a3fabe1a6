"""The settings of groups, their offsets, and topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from coterie_server.config.setting import INT32_MAX, INT64_MAX, declare, declare_number

__all__ = ["GroupSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """A part of `Settings`."""

    # Groups

    group_initial_rebalance_delay_ms: int = declare_number(
        3000,
        "How long an empty group waits for more members after the first joined; each arrival "
        "prolongs it, up to the rebalance timeout.",
        unit="ms",
        at_least=0,
        kafka=True,
    )
    group_min_session_timeout_ms: int = declare_number(
        6000, "The shortest session timeout that a member may ask for.", unit="ms", kafka=True
    )
    group_max_session_timeout_ms: int = declare_number(
        1_800_000, "The longest session timeout that a member may ask for.", unit="ms", kafka=True
    )
    group_max_size: int = declare_number(
        INT32_MAX,
        "How many members a group may have; further ones are refused.",
        unit="members",
        kafka=True,
    )
    group_new_member_join_timeout_ms: int = declare_number(
        300_000,
        "How long a new member may stay in a join that does not complete, whatever its rebalance "
        "timeout; Kafka has the same limit, but fixed.",
        unit="ms",
    )
    max_pending_members_per_group: int = declare_number(
        10_000,
        "How many clients of a group may have been given a member id without having joined with it "
        "yet; further ones are refused until some have joined or expired.",
        unit="members",
    )
    max_groups: int = declare_number(
        100_000,
        "How many groups there may be, with or without members; a join or commit that would create "
        "another one is refused. About as many deleted groups are remembered by name, if that has "
        "500 characters or less, so that their generations go on.",
        unit="groups",
    )
    group_static_expansion_timeout_ms: int = declare_number(
        0,
        "How long to wait for more static members after the first one joined a stable group, so "
        "that a scale-out is one rebalance; 0 does not wait.",
        unit="ms",
        at_least=0,
    )
    group_static_registration_timeout_ms: int = declare_number(
        0,
        "How long a static member may be silent before its place is given up, if that is longer "
        "than its session: meanwhile it is away, and its partitions wait for it. A member may ask "
        "for another time; 0 gives it up with the session.",
        unit="ms",
        at_least=0,
    )
    group_consumer_id_style: Literal["kafka", "sequence"] = declare(
        "kafka",
        "How member ids are made: `kafka` is the client id and a UUID, `sequence` is the group, "
        "the client's host and a number.",
    )
    group_ownership_guard: Literal["off", "report", "enforce"] = declare(
        "report",
        "What to do when an assignment gives a member a partition that another member still "
        "claims: nothing, report it, or withhold the partition until it is given up.",
    )
    group_freeze_max_ms: int = declare_number(
        86_400_000,
        "How long an administrator can freeze a group at most.",
        unit="ms",
        at_least=1,
    )
    group_topic_change_rebalance: bool = declare(
        default=True,
        help="Make a group rebalance at once when a topic that it subscribes to is created, grows "
        "or is deleted, instead of when its members notice.",
    )

    # Offsets

    offset_metadata_max_bytes: int = declare_number(
        4096,
        "How much metadata may be committed with an offset.",
        unit="bytes",
        at_least=0,
        kafka=True,
    )
    offsets_retention_minutes: int = declare_number(
        10_080,
        "How long offsets are kept after their group became empty or, without a group, after their "
        "commit.",
        unit="minutes",
        kafka=True,
    )
    offsets_retention_check_interval_ms: int = declare_number(
        600_000,
        "How often expired offsets and groups are looked for.",
        unit="ms",
        at_most=INT64_MAX,
        kafka=True,
    )

    # Topics

    auto_create_topics_enable: bool = declare(
        default=True,
        help="Create a topic when a client asks for its metadata and permits that.",
        kafka=True,
    )
    num_partitions: int = declare_number(
        1,
        "How many partitions a topic gets if its creator does not say.",
        unit="partitions",
        kafka=True,
    )
    topic_max_partitions: int = declare_number(
        100_000, "How many partitions a topic may have.", unit="partitions"
    )
    max_topics: int = declare_number(
        100_000,
        "How many topics there may be; further ones are refused, however they are created.",
        unit="topics",
    )
    max_partitions: int = declare_number(
        1_000_000,
        "How many partitions all topics may have together; requests for more are refused.",
        unit="partitions",
    )
    delete_topic_enable: bool = declare(
        default=True, help="Whether clients may delete topics.", kafka=True
    )
