"""Shards being served: leases, lives, and queues of what is durable before anybody hears of it."""

from coterie_server.serving.catalogue_shard import CATALOGUE_SHARD, CatalogueShard, TopicCounts
from coterie_server.serving.durable_queue import DurableQueue, Meter
from coterie_server.serving.group_shard import GroupShard
from coterie_server.serving.leases import LeaseKeeper, ShardsTakenError, Terms, Trust
from coterie_server.serving.shard import ServedShard, Surroundings

__all__ = [
    "CATALOGUE_SHARD",
    "CatalogueShard",
    "DurableQueue",
    "GroupShard",
    "LeaseKeeper",
    "Meter",
    "ServedShard",
    "ShardsTakenError",
    "Surroundings",
    "Terms",
    "TopicCounts",
    "Trust",
]
