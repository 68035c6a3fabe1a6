"""The partition owner: what is owned, and what the listener is told."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from typing import cast

import pytest

from coterie_client.driver import Driver
from coterie_client.membership import Position
from coterie_client.partition import Partition
from coterie_client.partition_owner import PartitionOwner
from coterie_client.wire.addresses import TopicPartition

FIRST, SECOND = ("orders", 1), ("orders", 2)


class FakeDriver:
    """Notes what was released and given up."""

    def __init__(self) -> None:
        self.released_: list[TopicPartition] = []
        self.given_up: list[TopicPartition] = []

    def released(self, partitions: Iterable[TopicPartition]) -> None:
        self.released_ += partitions

    def give_up(self, partitions: Iterable[TopicPartition]) -> None:
        self.given_up += partitions

    def commit(self, *_: object) -> Awaitable[None]:
        """These tests do not commit."""
        raise NotImplementedError

    def fetch(self, *_: object) -> Awaitable[Position | None]:
        """These tests do not ask."""
        raise NotImplementedError

    def owns(self, *_: object) -> bool:
        """Everything is owned."""
        return True


class Worker:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[str]]] = []
        self.partitions: dict[TopicPartition, Partition] = {}

    def assigned(self, partitions: Sequence[Partition]) -> None:
        self.told.append(("assigned", [str(each) for each in partitions]))
        self.partitions |= {each.key: each for each in partitions}

    def revoked(self, partitions: Sequence[Partition]) -> None:
        self.told.append(("revoked", [str(each) for each in partitions]))

    def lost(self, partitions: Sequence[Partition], reason: str) -> None:
        self.told.append((reason, [str(each) for each in partitions]))

    def abandoned(self, partitions: Sequence[Partition]) -> None:
        self.told.append(("abandoned", [str(each) for each in partitions]))

    def ended(self) -> None:
        self.told.append(("ended", []))


class Harness:
    """An owner of two partitions."""

    def __init__(self) -> None:
        self.driver = FakeDriver()
        self.owner = PartitionOwner(cast(Driver, self.driver))
        self.worker = Worker()
        self.owner.assign({SECOND: 7, FIRST: 7}, 3)

    def names(self) -> list[str]:
        """What is owned."""
        return [str(each) for each in self.owner.partitions]


@pytest.fixture
def harness() -> Harness:
    """Give an owner of two partitions."""
    return Harness()


def test_listener_that_comes_late_is_told_what_is_owned(harness: Harness) -> None:
    harness.owner.attach(harness.worker)
    assert harness.worker.told == [("assigned", ["orders[1]", "orders[2]"])]
    assert harness.worker.partitions[FIRST].token == 7
    assert harness.worker.partitions[FIRST].generation == 3


def test_listener_of_an_owner_of_nothing_is_told_nothing(harness: Harness) -> None:
    harness.owner.lose([FIRST, SECOND], "fenced")
    harness.owner.attach(harness.worker)
    assert harness.worker.told == []


def test_without_a_listener_revoked_partitions_are_released(harness: Harness) -> None:
    harness.owner.revoke({FIRST})
    assert (harness.driver.released_, harness.names()) == ([FIRST], ["orders[2]"])


def test_revoked_partition_stays_until_it_is_released(harness: Harness) -> None:
    harness.owner.attach(harness.worker)
    harness.owner.revoke({FIRST})
    assert (harness.driver.released_, len(harness.names())) == ([], 2)
    harness.owner.released([harness.worker.partitions[FIRST]])
    assert (harness.driver.released_, harness.names()) == ([FIRST], ["orders[2]"])


def test_what_was_not_revoked_is_not_released(harness: Harness) -> None:
    harness.owner.attach(harness.worker)
    harness.owner.released([harness.worker.partitions[FIRST]])
    assert (harness.driver.released_, len(harness.names())) == ([], 2)


def test_late_release_does_not_concern_the_next_ownership(harness: Harness) -> None:
    harness.owner.attach(harness.worker)
    former = harness.worker.partitions[FIRST]
    harness.owner.revoke({FIRST})
    harness.owner.lose([FIRST], "fenced")
    harness.owner.assign({FIRST: 8}, 4)
    harness.owner.revoke({FIRST})
    harness.owner.released([former])
    assert harness.driver.released_ == []
    harness.owner.released([harness.worker.partitions[FIRST]])
    assert harness.driver.released_ == [FIRST]


@pytest.mark.parametrize("how", ["released", "lost", "given up"])
def test_revocation_does_not_concern_the_next_ownership(harness: Harness, how: str) -> None:
    harness.owner.attach(harness.worker)
    harness.owner.revoke({FIRST})
    match how:
        case "released":
            harness.owner.released([harness.worker.partitions[FIRST]])
        case "lost":
            harness.owner.lose([FIRST], "fenced")
        case "given up":
            harness.owner.give_up(harness.worker.partitions[FIRST])
    harness.driver.released_.clear()
    harness.owner.assign({FIRST: 8}, 4)
    harness.owner.released([harness.worker.partitions[FIRST]])
    harness.owner.detach()
    assert (harness.driver.released_, harness.names()) == ([], ["orders[1]", "orders[2]"])


@pytest.mark.parametrize("how", ["lose", "abandon"])
def test_lost_partitions_are_not_owned(harness: Harness, how: str) -> None:
    harness.owner.attach(harness.worker)
    if how == "lose":
        harness.owner.lose([FIRST], "fenced")
    else:
        harness.owner.abandon([FIRST])
    assert harness.names() == ["orders[2]"]
    name = "fenced" if how == "lose" else "abandoned"
    assert harness.worker.told[-1] == (name, ["orders[1]"])


def test_released_partition_can_be_lost_without_news(harness: Harness) -> None:
    harness.owner.attach(harness.worker)
    harness.owner.revoke({FIRST})
    harness.owner.released([harness.worker.partitions[FIRST]])
    told = len(harness.worker.told)
    harness.owner.lose([FIRST], "fenced")
    harness.owner.abandon([FIRST])
    assert len(harness.worker.told) == told


def test_given_up_partition_is_not_owned(harness: Harness) -> None:
    harness.owner.attach(harness.worker)
    harness.owner.give_up(harness.worker.partitions[FIRST])
    harness.owner.give_up(harness.worker.partitions[FIRST])
    assert (harness.driver.given_up, harness.names()) == ([FIRST], ["orders[2]"])


def test_given_up_partition_can_be_revoked_without_news(harness: Harness) -> None:
    harness.owner.attach(harness.worker)
    harness.owner.give_up(harness.worker.partitions[FIRST])
    harness.owner.revoke({FIRST, SECOND})
    assert harness.worker.told[-1] == ("revoked", ["orders[2]"])
    assert harness.driver.released_ == []


def test_worker_that_goes_leaves_nothing_revoked(harness: Harness) -> None:
    harness.owner.attach(harness.worker)
    harness.owner.revoke({FIRST})
    harness.owner.detach()
    assert harness.driver.released_ == [FIRST]
    harness.owner.revoke({SECOND})
    assert harness.driver.released_ == [FIRST, SECOND]


def test_end_is_passed_on(harness: Harness) -> None:
    harness.owner.end()
    harness.owner.attach(harness.worker)
    harness.owner.end()
    assert harness.worker.told[-1] == ("ended", [])
