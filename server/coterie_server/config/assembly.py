"""From settings to the parts that go by them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from coterie_server.config.ids import RandomIds, SequenceIds
from coterie_server.group import Config
from coterie_server.net import Limits
from coterie_server.topics import Catalogue, PartitionEnds, TopicConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie_server.config.settings import Settings
    from coterie_server.group import IdSource
    from coterie_server.serving.node import NodeOptions

__all__ = ["catalogue_config", "catalogue_maker", "connection_limits", "group_config", "id_maker"]


def group_config(settings: Settings) -> Config:
    """What the coordinators go by."""
    return Config(
        initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
        min_session_timeout_ms=settings.group_min_session_timeout_ms,
        max_session_timeout_ms=settings.group_max_session_timeout_ms,
        max_size=settings.group_max_size,
        max_pending_members=settings.max_pending_members_per_group,
        max_groups=settings.max_groups,
        max_tombstones=math.ceil(settings.max_groups / settings.shards),
        new_member_join_timeout_ms=settings.group_new_member_join_timeout_ms,
        static_expansion_timeout_ms=settings.group_static_expansion_timeout_ms,
        ownership_guard=settings.group_ownership_guard,
        rebalance_on_topic_change=settings.group_topic_change_rebalance,
        offset_metadata_max=settings.offset_metadata_max_bytes,
        offsets_retention_ms=settings.offsets_retention_minutes * 60_000,
        offsets_check_interval_ms=settings.offsets_retention_check_interval_ms,
    )


def connection_limits(settings: Settings) -> Limits:
    """What a listener goes by."""
    return Limits(
        socket_request_max_bytes=settings.socket_request_max_bytes,
        max_connections=settings.max_connections,
        max_connections_per_ip=settings.max_connections_per_ip,
        connections_max_idle_ms=settings.connections_max_idle_ms,
        first_byte_timeout_ms=settings.connection_first_byte_timeout_ms,
        frame_timeout_ms=settings.connection_frame_timeout_ms,
        max_requests_in_flight=settings.connection_max_requests_in_flight,
        unfinished_frames_max_bytes=settings.unfinished_frames_max_bytes,
        write_buffer_max_bytes=settings.connection_write_buffer_max_bytes,
        drain_timeout_ms=settings.connection_drain_timeout_ms,
    )


def catalogue_config(settings: Settings, options: NodeOptions) -> TopicConfig:
    """What the catalogue of topics goes by."""
    return TopicConfig(
        node_id=options.node_id,
        host=options.host,
        port=options.port,
        cluster_id=settings.cluster_id,
        auto_create=settings.auto_create_topics_enable,
        default_partitions=settings.num_partitions,
        delete_enabled=settings.delete_topic_enable,
        max_partitions=settings.topic_max_partitions,
        max_topics=settings.max_topics,
        max_partitions_in_all=settings.max_partitions,
    )


def catalogue_maker(
    settings: Settings, options: NodeOptions
) -> Callable[[PartitionEnds], Catalogue]:
    """What makes the catalogue of topics, given where their partitions end."""
    config = catalogue_config(settings, options)
    return lambda ends: Catalogue(config, RandomIds(), ends)


def id_maker(settings: Settings) -> Callable[[int], IdSource]:
    """What makes the source of member ids, given a number that grows with every start."""
    if settings.group_consumer_id_style == "sequence":
        return SequenceIds
    return lambda _start: RandomIds()
