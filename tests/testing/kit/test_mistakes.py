"""What tests get wrong is refused at once: a fault that never applies lets any test pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_server.topics import TopicRefusal
from coterie_testing.kit import Cluster, Faults, LoopbackCoordinator


@pytest.fixture
def cluster(coterie_cluster: Callable[..., Cluster]) -> Cluster:
    return coterie_cluster({"orders": 2})


@pytest.mark.parametrize(
    ("order", "sentence"),
    [
        (lambda faults: faults.refuse("NOT_COORDINATOR"), "error must be an ErrorCode, such as"),
        (lambda faults: faults.delay("1"), "by_s must be a number of seconds, got '1'"),
        (lambda faults: faults.delay(-1), "by_s must be a number of seconds from 0 on, got -1"),
        (lambda faults: faults.drop(seconds="1"), "seconds must be a number of seconds"),
        (lambda faults: faults.drop(seconds=-1), "seconds must be a number of seconds from 0"),
        (lambda faults: faults.drop(times="1"), "times must be a whole number, got '1'"),
        (lambda faults: faults.drop(times=True), "times must be a whole number, got True"),
        (lambda faults: faults.drop(times=0), "times must be at least 1, got 0"),
        (lambda faults: faults.hang_up(times=-1), "times must be at least 1, got -1"),
    ],
)
def test_faults_that_make_no_sense_are_refused(
    cluster: Cluster, order: Callable[[Any], object], sentence: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=sentence):
        order(cluster.faults)


def test_an_error_may_be_ordered_by_its_number(cluster: Cluster) -> None:
    faults: Faults = cluster.faults
    assert faults.refuse(ErrorCode(16), times=1).hits == 0


def test_a_condition_that_is_async_does_not_hold_by_itself(cluster: Cluster) -> None:
    async def never() -> bool:
        return False

    for condition in (never, lambda: never()):  # noqa: PLW0108  # both are written by people
        with pytest.raises(TypeError, match="a condition must not be async"):
            cluster.run_until(condition)  # type: ignore[arg-type]  # which is the mistake


@pytest.mark.parametrize("topics", [["orders"], "orders"])
def test_topics_without_numbers_are_refused(
    coterie_cluster: Callable[..., Cluster], topics: Any
) -> None:
    with pytest.raises(TypeError, match="topics must be names with their numbers of partitions"):
        coterie_cluster(topics)


def test_a_coordinator_can_be_made_after_one_that_was_refused(
    coterie_coordinator: Callable[..., LoopbackCoordinator],
) -> None:
    with pytest.raises(TopicRefusal):
        coterie_coordinator({"orders": 0})
    assert coterie_coordinator({"orders": 1}).bootstrap
