"""Makes the configurations of the node's parts, and its sources of ids, from the settings."""

from __future__ import annotations

import math
import os
import uuid
from itertools import count
from typing import TYPE_CHECKING, Final

from coterie_server.group import Config
from coterie_server.net import Limits
from coterie_server.security.authorizer import AccessConfig
from coterie_server.security.java_text import trimmed
from coterie_server.topics import Catalogue, PartitionEnds, TopicConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from coterie_server.config.settings import Settings
    from coterie_server.group import IdSource
    from coterie_server.serving.node import NodeOptions

__all__ = [
    "RandomIds",
    "SequenceIds",
    "access_config",
    "catalogue_config",
    "catalogue_maker",
    "connection_limits",
    "group_config",
    "id_maker",
]

#: How many member ids there may be between two starts of a node.
_IDS_PER_START: Final = 1_000_000
#: Digits of a UUID, and for how many UUIDs the system is asked at once: it takes longer to ask than
#: to answer.
_UUID_DIGITS: Final = 32
_UUIDS_AT_ONCE: Final = 64
#: The digits that a random UUID may have in the place of its variant.
_VARIANTS: Final = "89ab"


def group_config(settings: Settings) -> Config:
    """The configuration of the group coordinators."""
    return Config(
        initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
        min_session_timeout_ms=settings.group_min_session_timeout_ms,
        max_session_timeout_ms=settings.group_max_session_timeout_ms,
        max_size=settings.group_max_size,
        max_size_by_owner=_numbers(settings.group_max_size_overrides),
        max_pending_members=settings.max_pending_members_per_group,
        max_groups=settings.max_groups,
        max_groups_per_owner=settings.max_groups_per_principal,
        max_groups_by_owner=_numbers(settings.max_groups_per_principal_overrides),
        max_tombstones=math.ceil(settings.max_groups / settings.shards),
        new_member_join_timeout_ms=settings.group_new_member_join_timeout_ms,
        static_expansion_timeout_ms=settings.group_static_expansion_timeout_ms,
        static_registration_timeout_ms=settings.group_static_registration_timeout_ms,
        ownership_guard=settings.group_ownership_guard,
        freeze_max_ms=settings.group_freeze_max_ms,
        rebalance_on_topic_change=settings.group_topic_change_rebalance,
        offset_metadata_max=settings.offset_metadata_max_bytes,
        offsets_retention_ms=settings.offsets_retention_minutes * 60_000,
        offsets_check_interval_ms=settings.offsets_retention_check_interval_ms,
    )


def _numbers(text: str) -> dict[str, int]:
    """What a setting says of principals: `User:ann=10; User:bob=20`."""
    pairs = (each.rpartition("=") for each in text.split(";") if trimmed(each))
    return {trimmed(principal): int(number) for principal, _, number in pairs}


def access_config(settings: Settings) -> AccessConfig | None:
    """The configuration of the authorizer; None if there is none."""
    if not settings.authorizer_class_name:
        return None
    names = map(trimmed, settings.super_users.split(";"))
    return AccessConfig(
        super_users=frozenset(filter(None, names)),
        allow_if_no_acl=settings.allow_everyone_if_no_acl_found,
    )


def connection_limits(settings: Settings, per_ip_overrides: Mapping[str, int]) -> Limits:
    """The limits of the listener."""
    return Limits(
        socket_request_max_bytes=settings.socket_request_max_bytes,
        max_connections=settings.max_connections,
        max_connections_per_ip=settings.max_connections_per_ip,
        max_connections_per_ip_overrides=per_ip_overrides,
        max_connection_creation_rate=settings.max_connection_creation_rate,
        max_handshakes=settings.connection_max_handshakes,
        connections_max_idle_ms=settings.connections_max_idle_ms,
        first_byte_timeout_ms=settings.connection_first_byte_timeout_ms,
        login_timeout_ms=settings.connection_login_timeout_ms,
        frame_timeout_ms=settings.connection_frame_timeout_ms,
        max_requests_in_flight=settings.connection_max_requests_in_flight,
        unfinished_frames_max_bytes=settings.unfinished_frames_max_bytes,
        write_buffer_max_bytes=settings.connection_write_buffer_max_bytes,
        drain_timeout_ms=settings.connection_drain_timeout_ms,
    )


def catalogue_config(settings: Settings, options: NodeOptions) -> TopicConfig:
    """The configuration of the topic catalogue."""
    return TopicConfig(
        node_id=options.node_id,
        cluster_id=settings.cluster_id,
        auto_create=settings.auto_create_topics_enable,
        default_partitions=settings.num_partitions,
        delete_enabled=settings.delete_topic_enable,
        max_partitions=settings.topic_max_partitions,
        max_topics=settings.max_topics,
        max_partitions_in_all=settings.max_partitions,
        has_authorizer=bool(settings.authorizer_class_name),
        max_acls=settings.max_acls,
        max_users=settings.max_users,
    )


def catalogue_maker(
    settings: Settings, options: NodeOptions
) -> Callable[[PartitionEnds], Catalogue]:
    """A function that makes the topic catalogue, given the ends of its partitions."""
    config = catalogue_config(settings, options)
    return lambda ends: Catalogue(config, RandomIds(), ends)


def id_maker(settings: Settings) -> Callable[[int], IdSource]:
    """A function that makes the source of member ids, given the number of the node's start."""
    if settings.group_consumer_id_style == "sequence":
        return SequenceIds
    return lambda _start: RandomIds()


class RandomIds:
    """Ids as Kafka makes them: the client's name and a random number."""

    def __init__(self) -> None:
        self._digits = ""

    def member_id(self, group_id: str, client_id: str, host: str, instance_id: str | None) -> str:
        """`<instance or client id>-<uuid>`."""
        del group_id, host
        name = client_id if instance_id is None else instance_id
        # As `uuid4` has it, which takes several times as long.
        if not self._digits:
            self._digits = os.urandom(_UUIDS_AT_ONCE * _UUID_DIGITS // 2).hex()
        digits, self._digits = self._digits[:_UUID_DIGITS], self._digits[_UUID_DIGITS:]
        variant = _VARIANTS[int(digits[16], 16) & 3]
        return (
            f"{name}-{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}"
            f"-{digits[20:]}"
        )

    def topic_id(self) -> uuid.UUID:
        """A random id."""
        return uuid.uuid4()


class SequenceIds(RandomIds):
    """Ids as in Kafka's first design: group, host, and a number that only grows.

    `start` counts the starts of the node, so that no number comes twice even after a crash.
    """

    def __init__(self, start: int) -> None:
        super().__init__()
        self._numbers = count(start * _IDS_PER_START + 1)

    def member_id(self, group_id: str, client_id: str, host: str, instance_id: str | None) -> str:
        """`<group>-<host>-<number>`."""
        del client_id, instance_id
        return f"{group_id}-{host.removeprefix('/')}-{next(self._numbers)}"
