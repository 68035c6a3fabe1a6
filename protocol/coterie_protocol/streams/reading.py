"""What can be read of members' reports and of a leader's orders, by those who only look on.

Members say how far behind their copies are in the user data of their subscriptions; leaders say in
that of assignments who is to keep which copies.  Others may have written such bytes as well, so
what can't be read, or is too long to be read in passing, is just not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from coterie_protocol.exceptions import ProtocolError
from coterie_protocol.streams.assignment import NO_REBALANCE, decode_assignment_info
from coterie_protocol.streams.envelope import join_user_data, split_user_data
from coterie_protocol.streams.subscription import LATEST_OFFSET, decode_subscription_info
from coterie_protocol.streams.tasks import TaskId, TopicTasks

__all__ = ["BLOCK_BYTES_MAX", "Orders", "has_block", "may_have_block", "read_lags", "read_orders"]

#: The longest block that is read, which has about a thousand tasks and takes some 30 ms.
BLOCK_BYTES_MAX: Final = 65_536

_Partition = tuple[str, int]

#: What a block's trailer ends with.
_MARK: Final = join_user_data(None, b"")[-4:]


@dataclass(frozen=True, slots=True)
class Orders:
    """What a leader told a member besides what it is to work on."""

    #: The partitions of which it is to keep a copy in case their owner fails.
    standbys: frozenset[_Partition] = frozenset()
    #: Those of which it makes a copy, to work on them once that has caught up.
    warming: frozenset[_Partition] = frozenset()
    #: Who is to work on partitions in the end, where another member does now.
    targets: Mapping[_Partition, str] = field(default_factory=dict)
    #: When the group is to look whether copies have caught up, if this member is to start that.
    next_rebalance_ms: int | None = None


def may_have_block(data: bytes) -> bool:
    """Whether there may be a block anywhere in some bytes; most have none, and this is quick."""
    return _MARK in data


def has_block(user_data: bytes | None) -> bool:
    """Whether user data ends with a report or with orders, as far as a glance shows."""
    return user_data is not None and split_user_data(user_data)[1] is not None


def read_lags(
    user_data: bytes | None, topics: Iterable[str]
) -> dict[_Partition, int | None] | None:
    """How far behind a member says that its copies are; None for a copy of which that is unknown.

    What it works on is not among them.  None if it reports nothing that can be read.
    """
    block = _block(user_data)
    if block is None:
        return None
    try:
        found = decode_subscription_info(block).task_offset_sums
    except ProtocolError:
        return None
    tasks = TopicTasks(topics)
    return {
        partition: lag if lag >= 0 else None
        for task, lag in found.items()
        if lag != LATEST_OFFSET and (partition := tasks.partition_of(task)) is not None
    }


def read_orders(user_data: bytes | None, topics: Iterable[str]) -> Orders | None:
    """What a leader ordered of a member with these topics; None if nothing that can be read."""
    block = _block(user_data)
    if block is None:
        return None
    try:
        found = decode_assignment_info(block)
    except ProtocolError:
        return None
    tasks = TopicTasks(topics)
    warming = _partitions(tasks, found.warmups)
    next_ms = found.next_rebalance_ms
    return Orders(
        standbys=_partitions(tasks, found.standby_tasks) - warming,
        warming=warming,
        targets={
            partition: member_id
            for task, member_id in found.targets.items()
            if (partition := tasks.partition_of(task)) is not None
        },
        next_rebalance_ms=next_ms if 0 < next_ms < NO_REBALANCE else None,
    )


def _block(user_data: bytes | None) -> bytes | None:
    block = split_user_data(user_data)[1]
    return block if block is not None and len(block) <= BLOCK_BYTES_MAX else None


def _partitions(tasks: TopicTasks, found: Iterable[TaskId]) -> frozenset[_Partition]:
    pairs = (tasks.partition_of(task) for task in found)
    return frozenset(pair for pair in pairs if pair is not None)
