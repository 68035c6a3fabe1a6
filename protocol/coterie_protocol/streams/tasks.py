"""Tasks: what a member of a group with state works on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from coterie_protocol.streams.versions import LATEST_VERSION, NAMED_TOPOLOGY_VERSION

__all__ = ["TaskId", "TopicTasks"]


@dataclass(frozen=True, slots=True)
class TaskId:
    """A partition of a subtopology, and the name of their topology if it has one."""

    subtopology: int
    partition: int
    topology: str | None = None

    def __str__(self) -> str:
        """Write it as Kafka does: "0_3", or "orders__0_3"."""
        name = f"{self.subtopology}_{self.partition}"
        return f"{self.topology}__{name}" if self.topology else name


class TopicTasks:
    """The tasks that stand for the partitions of the topics to which a member subscribes.

    Since version 10 the topic is the name of the task's topology.  In older versions, the number of
    the subtopology is the topic's place among the sorted topics.
    """

    def __init__(self, topics: Iterable[str]) -> None:
        self._topics = sorted(set(topics))
        self._places = {topic: place for place, topic in enumerate(self._topics)}

    def task_of(self, topic: str, partition: int, version: int = LATEST_VERSION) -> TaskId:
        """The task that stands for a partition; `KeyError` if it needs a topic's place in vain."""
        if version >= NAMED_TOPOLOGY_VERSION:
            return TaskId(0, partition, topic)
        return TaskId(self._places[topic], partition)

    def partition_of(self, task: TaskId) -> tuple[str, int] | None:
        """The topic and partition for which a task stands; None if it stands for none."""
        if task.topology is not None:
            return task.topology, task.partition
        if 0 <= task.subtopology < len(self._topics):
            return self._topics[task.subtopology], task.partition
        return None
