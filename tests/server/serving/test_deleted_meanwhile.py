"""A node that dies while it deletes a topic, in virtual time: what another one has yet to hear."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.schema import NIL_UUID
from coterie_protocol.shards import shard_of
from tests.server.serving.test_rights_everywhere import ADMIN, SHARDS, Machine, World, asked_by

TOPIC: Final = "orders"
DELETION: Final = m.DeleteTopicsRequest(
    topics=(m.DeleteTopicState(name=TOPIC, topic_id=NIL_UUID),), timeout_ms=60_000
)


class Deaf:
    """Keeps a node from reading what has become of the topics, while it serves its groups."""

    def __init__(self, machine: Machine) -> None:
        self.is_deaf = True
        self._load = machine.store.load
        machine.store.load = self._load_later  # type: ignore[method-assign]

    async def _load_later(self, shard: int) -> Any:
        while self.is_deaf:  # noqa: ASYNC110  # of another loop
            await asyncio.sleep(0.01)
        return await self._load(shard)


def group_of(machine: Machine) -> str:
    """A group that a node has."""
    assert machine.node is not None
    mine = machine.node.cluster.is_mine
    return next(f"g{n}" for n in range(100) if mine(shard_of(f"g{n}", SHARDS)))


def commit(group: str, offset: int) -> m.OffsetCommitRequest:
    """A commit of nobody's."""
    partition = m.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    topic = m.OffsetCommitRequestTopic(name=TOPIC, partitions=(partition,))
    return m.OffsetCommitRequest(group_id=group, topics=(topic,))


def committed(world: World, machine: Machine, group: str) -> int:
    """What a node says of that."""
    topic = m.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=(0,))
    asked = m.OffsetFetchRequestGroup(group_id=group, topics=(topic,))
    answer = world.ask(machine, ADMIN, m.OffsetFetchRequest(groups=(asked,)))
    offset: int = answer.groups[0].topics[0].partitions[0].committed_offset
    return offset


def test_topic_is_made_anew_by_a_node_that_starts_only_when_all_have_forgotten_it() -> None:
    """Or its groups would begin with offsets of the former one, or lose those of the new one."""
    world = World(2)
    owner, (other,) = world.owner, world.others
    group = group_of(other)
    answer = world.ask(other, ADMIN, commit(group, 777))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    deaf = Deaf(other)
    owner.take(asked_by(ADMIN, DELETION))
    world.scheduler.run(0.5)
    owner.process.kill()
    # It begins with the topic, as it does each time.
    world.machines[world.machines.index(owner)] = again = Machine(world, owner.node_id)
    world.scheduler.run(2.0)
    assert committed(world, other, group) == 777
    assert again.node is None
    deaf.is_deaf = False
    world.until(lambda: again.node is not None)
    assert committed(world, other, group) == -1
