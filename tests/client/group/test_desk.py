"""The desk: what is owned, and who works on it."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from typing import cast

import pytest

from coterie_client.desk import Desk
from coterie_client.driver import Driver
from coterie_client.membership import Position
from coterie_client.partition import Partition
from coterie_client.wire.addresses import TopicPartition

FIRST, SECOND = ("orders", 1), ("orders", 2)


class FakeDriver:
    """Notes what was released and given up."""

    def __init__(self) -> None:
        self.released_: list[TopicPartition] = []
        self.given_up: list[TopicPartition] = []

    def released(self, partitions: Iterable[TopicPartition]) -> None:
        """Note it."""
        self.released_ += partitions

    def give_up(self, partitions: Iterable[TopicPartition]) -> None:
        """Note it."""
        self.given_up += partitions

    def commit(self, *_: object) -> Awaitable[None]:
        """Nobody commits here."""
        raise NotImplementedError

    def fetch(self, *_: object) -> Awaitable[Position | None]:
        """Nobody asks here."""
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
        """Note it."""
        self.told.append(("assigned", [str(each) for each in partitions]))
        self.partitions |= {each.key: each for each in partitions}

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Note it."""
        self.told.append(("revoked", [str(each) for each in partitions]))

    def lost(self, partitions: Sequence[Partition], reason: str) -> None:
        """Note it."""
        self.told.append((reason, [str(each) for each in partitions]))

    def abandoned(self, partitions: Sequence[Partition]) -> None:
        """Note it."""
        self.told.append(("abandoned", [str(each) for each in partitions]))

    def ended(self) -> None:
        """Note it."""
        self.told.append(("ended", []))


class Office:
    """A desk with two partitions on it."""

    def __init__(self) -> None:
        self.driver = FakeDriver()
        self.desk = Desk(cast(Driver, self.driver))
        self.worker = Worker()
        self.desk.assign({SECOND: 7, FIRST: 7}, 3)

    def names(self) -> list[str]:
        """What is on the desk."""
        return [str(each) for each in self.desk.partitions]


@pytest.fixture
def office() -> Office:
    """Give a desk."""
    return Office()


def test_who_comes_late_is_told_what_is_owned(office: Office) -> None:
    """What was assigned before anybody worked is handed over at once, in order."""
    office.desk.attach(office.worker)
    assert office.worker.told == [("assigned", ["orders[1]", "orders[2]"])]
    assert office.worker.partitions[FIRST].token == 7
    assert office.worker.partitions[FIRST].generation == 3


def test_who_comes_to_an_empty_desk_is_told_nothing(office: Office) -> None:
    """An assignment of nothing is none."""
    office.desk.lose([FIRST, SECOND], "fenced")
    office.desk.attach(office.worker)
    assert office.worker.told == []


def test_nobody_at_work_releases_at_once(office: Office) -> None:
    """As long as nobody works, what is revoked is let go of."""
    office.desk.revoke({FIRST})
    assert (office.driver.released_, office.names()) == ([FIRST], ["orders[2]"])


def test_revoked_partition_stays_until_it_is_released(office: Office) -> None:
    """Whoever works on it says when that has ended."""
    office.desk.attach(office.worker)
    office.desk.revoke({FIRST})
    assert (office.driver.released_, len(office.names())) == ([], 2)
    office.desk.released([office.worker.partitions[FIRST]])
    assert (office.driver.released_, office.names()) == ([FIRST], ["orders[2]"])


def test_what_was_not_revoked_is_not_released(office: Office) -> None:
    """A partition that nobody wants back stays, whatever its worker says."""
    office.desk.attach(office.worker)
    office.desk.released([office.worker.partitions[FIRST]])
    assert (office.driver.released_, len(office.names())) == ([], 2)


def test_late_release_does_not_concern_the_next_ownership(office: Office) -> None:
    """A partition that was lost and came back is not released by its former object."""
    office.desk.attach(office.worker)
    former = office.worker.partitions[FIRST]
    office.desk.revoke({FIRST})
    office.desk.lose([FIRST], "fenced")
    office.desk.assign({FIRST: 8}, 4)
    office.desk.revoke({FIRST})
    office.desk.released([former])
    assert office.driver.released_ == []
    office.desk.released([office.worker.partitions[FIRST]])
    assert office.driver.released_ == [FIRST]


@pytest.mark.parametrize("how", ["released", "lost", "given up"])
def test_revocation_does_not_concern_the_next_ownership(office: Office, how: str) -> None:
    """A partition that was being let go of and came back is nobody's to release."""
    office.desk.attach(office.worker)
    office.desk.revoke({FIRST})
    match how:
        case "released":
            office.desk.released([office.worker.partitions[FIRST]])
        case "lost":
            office.desk.lose([FIRST], "fenced")
        case "given up":
            office.desk.give_up(office.worker.partitions[FIRST])
    office.driver.released_.clear()
    office.desk.assign({FIRST: 8}, 4)
    office.desk.released([office.worker.partitions[FIRST]])
    office.desk.detach()
    assert (office.driver.released_, office.names()) == ([], ["orders[1]", "orders[2]"])


@pytest.mark.parametrize("how", ["lose", "abandon"])
def test_lost_partitions_leave_the_desk(office: Office, how: str) -> None:
    """They are not ours, and their worker hears of it."""
    office.desk.attach(office.worker)
    if how == "lose":
        office.desk.lose([FIRST], "fenced")
    else:
        office.desk.abandon([FIRST])
    assert office.names() == ["orders[2]"]
    name = "fenced" if how == "lose" else "abandoned"
    assert office.worker.told[-1] == (name, ["orders[1]"])


def test_released_partition_can_be_lost_without_news(office: Office) -> None:
    """Its commits may still be on their way, but nobody works on it any more."""
    office.desk.attach(office.worker)
    office.desk.revoke({FIRST})
    office.desk.released([office.worker.partitions[FIRST]])
    told = len(office.worker.told)
    office.desk.lose([FIRST], "fenced")
    office.desk.abandon([FIRST])
    assert len(office.worker.told) == told


def test_given_up_partition_leaves_the_desk(office: Office) -> None:
    """Its worker is not asked to let go of it again."""
    office.desk.attach(office.worker)
    office.desk.give_up(office.worker.partitions[FIRST])
    office.desk.give_up(office.worker.partitions[FIRST])
    assert (office.driver.given_up, office.names()) == ([FIRST], ["orders[2]"])


def test_given_up_partition_can_be_revoked_without_news(office: Office) -> None:
    """The membership may ask for it before it hears that it was given up."""
    office.desk.attach(office.worker)
    office.desk.give_up(office.worker.partitions[FIRST])
    office.desk.revoke({FIRST, SECOND})
    assert office.worker.told[-1] == ("revoked", ["orders[2]"])
    assert office.driver.released_ == []


def test_worker_that_goes_leaves_nothing_revoked(office: Office) -> None:
    """What it was to finish is released, and what is revoked later too."""
    office.desk.attach(office.worker)
    office.desk.revoke({FIRST})
    office.desk.detach()
    assert office.driver.released_ == [FIRST]
    office.desk.revoke({SECOND})
    assert office.driver.released_ == [FIRST, SECOND]


def test_end_is_passed_on(office: Office) -> None:
    """Whoever works hears that the group is over."""
    office.desk.end()
    office.desk.attach(office.worker)
    office.desk.end()
    assert office.worker.told[-1] == ("ended", [])
