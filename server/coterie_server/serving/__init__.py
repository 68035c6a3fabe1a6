"""Shards being served: leases, lives, and queues of what is durable before it is told.

Read top down: `node` (which shard gets which request), `shard` (what all shards have in common:
held, taken, answered, read again), `stepping` (stored, then told), `group_shard` and
`catalogue_shard` (what their cores differ in), `durable_queue`, `leases`, `clock`.  `fan_out`
divides requests that ask several shards, `discovery` answers those that ask none, `failures` says
how requests are refused.
"""

from coterie_server.serving.catalogue_shard import CatalogueShard
from coterie_server.serving.cluster import (
    CATALOGUE_SHARD,
    Cluster,
    Directory,
    Neighbour,
    NodeNote,
    TopicsVersion,
)
from coterie_server.serving.context import NodeContext, PendingRequest
from coterie_server.serving.durable_queue import DurableQueue, Meter
from coterie_server.serving.group_shard import GroupShard
from coterie_server.serving.lease_terms import LeaseTerms
from coterie_server.serving.lease_trust import LeaseTrust
from coterie_server.serving.leases import LeaseKeeper
from coterie_server.serving.peers import Asker, AskNode, ask_node, wake
from coterie_server.serving.shard import ServedShard
from coterie_server.serving.topic_counts import TopicCounts
from coterie_server.serving.topic_service import TopicService

__all__ = [
    "CATALOGUE_SHARD",
    "AskNode",
    "Asker",
    "CatalogueShard",
    "Cluster",
    "Directory",
    "DurableQueue",
    "GroupShard",
    "LeaseKeeper",
    "LeaseTerms",
    "LeaseTrust",
    "Meter",
    "Neighbour",
    "NodeContext",
    "NodeNote",
    "PendingRequest",
    "ServedShard",
    "TopicCounts",
    "TopicService",
    "TopicsVersion",
    "ask_node",
    "wake",
]
