"""Restores beside work: never both on one partition, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping

import pytest

from coterie_client import GroupMisuseError, Partition, Restart, Role, Standby
from coterie_client.errors import WorkCancelledError
from coterie_client.events import (
    Event,
    RestoreFailed,
    RestoreFinished,
    RestoreStarted,
    WorkHeldUp,
)
from coterie_client.membership import PartitionLostError, Position
from coterie_client.partition_owner import PartitionOwner
from coterie_client.tasks import Hooks, Tasks
from coterie_client.wire.addresses import TopicPartition
from coterie_client.work.restores import Restore
from coterie_client.work.supervisor import SupervisorOptions, Work
from tests.support.virtual_time import settle, virtual_test

P0, P1 = ("orders", 0), ("orders", 1)
#: Since Python 3.12.
EAGERLY = getattr(asyncio, "eager_task_factory", None)


class FakeDriver:
    """Keeps nothing but notes."""

    def __init__(self) -> None:
        self.released_: list[TopicPartition] = []
        self.lags: list[tuple[TopicPartition, int]] = []
        self.failures: list[TopicPartition] = []
        self.held: set[TopicPartition] = set()

    def released(self, partitions: Iterable[TopicPartition]) -> None:
        self.released_ += partitions

    def give_up(self, partitions: Iterable[TopicPartition]) -> None:
        self.released_ += partitions

    def note_lag(self, partition: TopicPartition, lag: int) -> None:
        self.lags.append((partition, lag))

    def note_failure(self, partition: TopicPartition) -> None:
        self.failures.append(partition)

    def holds(self, partition: TopicPartition) -> bool:
        return partition in self.held

    def owns(self, *_: object) -> bool:
        """Everything is owned."""
        return True

    def commit(self, *_: object) -> Awaitable[None]:
        """These tests do not commit."""
        raise NotImplementedError

    async def fetch(self, *_: object) -> Position | None:
        return Position(7)

    def loss(self, _: TopicPartition) -> PartitionLostError:
        """Nothing is lost."""
        raise NotImplementedError


class Diary:
    """Work and restores that note when they begin and end, and how long they take to end."""

    def __init__(self, ends_s: float = 0.0) -> None:
        self.entries: list[str] = []
        self.ends_s = ends_s

    async def work(self, partition: Partition) -> None:
        """Work until cancelled."""
        await self._note(f"work {partition.number}")

    async def restore(self, standby: Standby) -> None:
        """Restore until cancelled."""
        await self._note(f"restore {standby.number}")

    async def _note(self, what: str) -> None:
        self.entries.append(f"+{what}")
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            if self.ends_s:
                await asyncio.sleep(self.ends_s)
            self.entries.append(f"-{what}")

    def take(self) -> list[str]:
        """What was noted since the last look."""
        entries, self.entries = self.entries, []
        return entries


class Harness:
    """Tasks, the owner that they listen to, and a record of what they told."""

    def __init__(self, work: Work, restore: Restore | None) -> None:
        self.driver = FakeDriver()
        self.owner = PartitionOwner(self.driver)  # type: ignore[arg-type]
        self.events: list[Event] = []
        self.faults: list[Exception] = []
        self.stops = 0
        hooks = Hooks(
            failed=self._failed,
            crash=self.faults.append,
            emit=self.events.append,
            random=lambda: 0.5,
        )
        options = SupervisorOptions(on_error=Restart())
        self.tasks = Tasks(self.owner, work, restore, options, hooks)

    def _failed(self) -> None:
        self.stops += 1

    def hold(self, *keys: TopicPartition, role: Role = Role.STANDBY) -> None:
        """Keep these up to date, and no others."""
        self.hold_as(dict.fromkeys(keys, role))

    def hold_as(self, roles: Mapping[TopicPartition, Role]) -> None:
        """Keep these up to date in their roles, and no others."""
        self.driver.held = set(roles)
        self.owner.keep_warm(roles, 3)

    def of(self, kind: type[Event]) -> list[Event]:
        """The events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]

    async def end(self) -> None:
        """See that nothing is left."""
        self.owner.end()
        self.owner.revoke([each.key for each in self.owner.partitions])
        for _ in range(3):
            await asyncio.sleep(60)
        assert self.tasks.running == []
        assert self.faults == []


def diary(ends_s: float = 0.0) -> tuple[Harness, Diary]:
    """Tasks that note what they do."""
    noted = Diary(ends_s)
    return Harness(noted.work, noted.restore), noted


@virtual_test
async def test_standby_has_a_task_until_it_is_withdrawn() -> None:
    here, noted = diary()
    here.hold(P0, P1)
    await settle()
    assert noted.take() == ["+restore 0", "+restore 1"]
    assert {task.get_name() for task in here.tasks.running} == {
        "orders[0] standby",
        "orders[1] standby",
    }
    here.hold(P1)
    await settle()
    assert noted.take() == ["-restore 0"]
    assert len(here.of(RestoreStarted)) == 2
    await here.end()


@pytest.mark.skipif(EAGERLY is None, reason="this Python has no eager tasks")
@virtual_test
async def test_eager_restore_is_cancelled_when_its_first_step_has_it_withdrawn() -> None:
    asyncio.get_running_loop().set_task_factory(EAGERLY)
    noted = Diary()

    async def restore(standby: Standby) -> None:
        here.hold()
        await noted.restore(standby)

    here = Harness(noted.work, restore)
    here.hold(P0)
    await settle()
    assert noted.take() == ["+restore 0", "-restore 0"]
    await here.end()


@virtual_test
async def test_role_may_change_while_the_restore_goes_on() -> None:
    here, noted = diary()
    here.hold(P0)
    await settle()
    (standby,) = here.owner.standbys
    here.hold_as({P0: Role.WARM_UP})
    await settle()
    assert standby.role is Role.WARM_UP
    assert standby.is_held
    assert noted.take() == ["+restore 0"]
    await here.end()


@virtual_test
async def test_work_begins_when_the_restore_has_ended() -> None:
    here, noted = diary(ends_s=2.0)
    here.hold(P0)
    await settle()
    here.hold()
    here.owner.assign({P0: 1}, 4)
    await asyncio.sleep(1.9)
    assert noted.take() == ["+restore 0"]
    await asyncio.sleep(0.2)
    assert noted.take() == ["-restore 0", "+work 0"]
    assert here.of(WorkHeldUp) == []
    await here.end()


@virtual_test
async def test_restore_that_does_not_end_holds_work_up_and_that_is_told() -> None:
    here, noted = diary(ends_s=30.0)
    here.hold(P0)
    await settle()
    here.hold()
    here.owner.assign({P0: 1}, 4)
    await asyncio.sleep(6)
    assert noted.take() == ["+restore 0"]
    assert len(here.of(WorkHeldUp)) == 1
    await asyncio.sleep(30)
    assert noted.take() == ["-restore 0", "+work 0"]
    await here.end()


@virtual_test
async def test_work_that_waits_for_a_restore_may_be_revoked() -> None:
    here, noted = diary(ends_s=2.0)
    here.hold(P0)
    await settle()
    here.hold()
    here.owner.assign({P0: 1}, 4)
    here.owner.revoke([P0])
    assert here.driver.released_ == [P0]
    await asyncio.sleep(3)
    assert noted.take() == ["+restore 0", "-restore 0"]
    await here.end()


@virtual_test
async def test_work_that_returned_does_not_begin_again_when_a_restore_ends() -> None:
    begun: list[str] = []

    async def work(partition: Partition) -> None:
        begun.append(str(partition))

    here = Harness(work, Diary(ends_s=1.0).restore)
    here.owner.assign({P0: 1}, 4)
    here.hold(P1)
    await settle()
    here.hold()
    await asyncio.sleep(5)
    assert begun == ["orders[0]"]
    await here.end()


@virtual_test
async def test_restore_begins_when_work_has_ended() -> None:
    here, noted = diary(ends_s=2.0)
    here.owner.assign({P0: 1}, 4)
    await settle()
    here.hold(P0)
    here.owner.revoke([P0])
    await asyncio.sleep(1.9)
    assert noted.take() == ["+work 0"]
    await asyncio.sleep(0.2)
    assert noted.take() == ["-work 0", "+restore 0"]
    await here.end()


@pytest.mark.parametrize("how", ["lose", "abandon"])
def test_restore_waits_for_work_whose_partition_is_gone(how: str) -> None:
    @virtual_test
    async def test() -> None:
        here, noted = diary(ends_s=2.0)
        here.owner.assign({P0: 1}, 4)
        await settle()
        here.hold(P0)
        if how == "lose":
            here.owner.lose([P0], "fenced")
        else:
            here.owner.revoke([P0])
            here.owner.abandon([P0])
        await asyncio.sleep(1.9)
        assert noted.take() == ["+work 0"]
        await asyncio.sleep(0.2)
        assert noted.take() == ["-work 0", "+restore 0"]
        await here.end()

    test()


@virtual_test
async def test_restore_begins_when_idle_work_is_revoked() -> None:
    noted = Diary()

    async def work(_: Partition) -> None:
        return

    here = Harness(work, noted.restore)
    here.owner.assign({P0: 1}, 4)
    await settle()
    here.hold(P0)
    await settle()
    assert noted.take() == []
    here.owner.revoke([P0])
    await settle()
    assert noted.take() == ["+restore 0"]
    await here.end()


@virtual_test
async def test_standby_that_comes_back_waits_for_its_former_restore() -> None:
    here, noted = diary(ends_s=2.0)
    here.hold(P0)
    await settle()
    here.hold()
    here.hold(P0)
    await asyncio.sleep(1.0)
    assert noted.take() == ["+restore 0"]
    await asyncio.sleep(1.5)
    assert noted.take() == ["-restore 0", "+restore 0"]
    await here.end()


@virtual_test
async def test_restore_that_raises_is_started_again_after_a_pause() -> None:
    begun: list[float] = []

    async def restore(_: Standby) -> None:
        begun.append(asyncio.get_running_loop().time())
        raise OSError("disk")

    here = Harness(Diary().work, restore)
    here.hold(P0)
    await asyncio.sleep(4)
    assert len(begun) >= 2
    assert begun[1] - begun[0] >= 0.5
    (first, *_) = here.of(RestoreFailed)
    assert isinstance(first, RestoreFailed)
    assert first.pause_s > 0
    assert here.stops == 0
    await here.end()
    count = len(begun)
    await asyncio.sleep(100)
    assert len(begun) == count


@virtual_test
async def test_restore_that_can_not_be_awaited_ends_the_group() -> None:
    def restore(_: Standby) -> object:
        return 7

    here = Harness(Diary().work, restore)  # type: ignore[arg-type]
    here.hold(P0, P1)
    await asyncio.sleep(100)
    assert here.stops == 1
    assert "warm must be an async function, but this one returned a value of type int" in str(
        here.tasks.failure
    )
    assert len(here.of(RestoreFailed)) == 1
    await here.end()


@virtual_test
async def test_restore_that_fails_as_it_ends_is_told_and_forgotten() -> None:
    async def restore(_: Standby) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            raise OSError("disk")

    here = Harness(Diary().work, restore)
    here.hold(P0)
    await settle()
    here.hold()
    await settle()
    (failed,) = here.of(RestoreFailed)
    assert isinstance(failed, RestoreFailed)
    assert failed.pause_s == 0
    assert here.tasks.running == []
    await here.end()


@virtual_test
async def test_restore_that_cancels_itself_has_failed() -> None:
    async def restore(_: Standby) -> None:
        raise asyncio.CancelledError

    here = Harness(Diary().work, restore)
    here.hold(P0)
    await settle()
    (failed,) = here.of(RestoreFailed)
    assert isinstance(failed, RestoreFailed)
    assert isinstance(failed.exception, WorkCancelledError)
    await here.end()


@virtual_test
async def test_restore_that_returns_rests() -> None:
    begun: list[str] = []

    async def restore(standby: Standby) -> None:
        begun.append(str(standby))
        standby.lag(0)

    here = Harness(Diary().work, restore)
    here.hold(P0)
    await asyncio.sleep(100)
    here.owner.assign({P1: 1}, 4)
    await settle()
    here.owner.revoke([P1])
    await asyncio.sleep(100)
    assert begun == ["orders[0]"]
    assert here.driver.lags == [(P0, 0)]
    assert len(here.of(RestoreFinished)) == 1
    await here.end()


@virtual_test
async def test_lag_of_a_former_standby_is_not_told() -> None:
    here, _ = diary()
    here.hold(P0)
    (old,) = here.owner.standbys
    here.hold()
    here.hold(P0)
    (new,) = here.owner.standbys
    old.lag(5)
    assert not old.is_held
    new.lag(6)
    assert here.driver.lags == [(P0, 6)]
    await settle()
    await here.end()


@virtual_test
async def test_standby_can_read_offsets_and_not_commit() -> None:
    here, _ = diary()
    here.hold(P0)
    (standby,) = here.owner.standbys
    assert await standby.committed() == Position(7)
    with pytest.raises(GroupMisuseError, match=r"orders\[0\] is a standby here"):
        await standby.commit(1)
    assert not hasattr(standby, "token")
    await here.end()


@pytest.mark.parametrize("value", ["3", 1.5, True, None])
def test_lag_is_a_whole_number(value: object) -> None:
    standby = Standby(FakeDriver(), P0, Role.STANDBY, 1)
    with pytest.raises(TypeError, match="lag must be a whole number"):
        standby.lag(value)  # type: ignore[arg-type]


def test_lag_is_not_negative() -> None:
    standby = Standby(FakeDriver(), P0, Role.STANDBY, 1)
    with pytest.raises(ValueError, match="from 0 to"):
        standby.lag(-1)


@virtual_test
async def test_group_without_restores_runs_as_before() -> None:
    noted = Diary()
    here = Harness(noted.work, None)
    here.owner.assign({P0: 1}, 4)
    here.hold(P1)
    await settle()
    assert noted.take() == ["+work 0"]
    await here.end()
