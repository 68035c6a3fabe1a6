"""Tasks and the partitions for which they stand."""

from __future__ import annotations

import pytest

from coterie_protocol.streams import TaskId, TopicTasks

TASKS = TopicTasks(["orders", "clicks", "orders"])


@pytest.mark.parametrize(
    ("task", "text"), [(TaskId(0, 3), "0_3"), (TaskId(1, 2, "orders"), "orders__1_2")]
)
def test_a_task_is_written_as_kafka_does(task: TaskId, text: str) -> None:
    assert str(task) == text


@pytest.mark.parametrize("version", [10, 11])
def test_a_topic_is_the_name_of_its_tasks_topology(version: int) -> None:
    task = TASKS.task_of("orders", 3, version)
    assert task == TaskId(0, 3, "orders")
    assert TASKS.partition_of(task) == ("orders", 3)


@pytest.mark.parametrize("version", range(1, 10))
def test_in_older_versions_a_topic_is_its_place_among_the_sorted_topics(version: int) -> None:
    assert TASKS.task_of("clicks", 3, version) == TaskId(0, 3)
    assert TASKS.task_of("orders", 3, version) == TaskId(1, 3)
    assert TASKS.partition_of(TaskId(1, 3)) == ("orders", 3)


def test_a_topic_that_is_not_subscribed_to_has_no_place() -> None:
    with pytest.raises(KeyError):
        TASKS.task_of("other", 3, 9)


@pytest.mark.parametrize("subtopology", [-1, 2, 2**31 - 1])
def test_a_place_that_no_topic_has_stands_for_nothing(subtopology: int) -> None:
    assert TASKS.partition_of(TaskId(subtopology, 0)) is None


def test_a_name_stands_for_itself() -> None:
    """Also for a topic of which only the sender knows."""
    assert TASKS.partition_of(TaskId(5, 3, "other")) == ("other", 3)
