"""The supervisor: one task per partition, started, cancelled and restarted; in virtual time."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from coterie_client import Partition, Release, Restart, Stop, WorkCancelledError
from coterie_client.errors import ConfigurationError
from coterie_client.events import (
    Event,
    WorkFailed,
    WorkFailedEnding,
    WorkFinished,
    WorkHeldUp,
    WorkRecovered,
    WorkStalled,
    WorkStarted,
)
from coterie_client.membership import PartitionLostError
from coterie_client.work import WorkStalledError
from coterie_client.work.supervisor import SupervisorOptions, TaskSupervisor, Work
from tests.client.group.doubles import FakeKeeper
from tests.support.virtual_time import settle, virtual_test

RESTART = Restart(first=1.0, limit=60.0)
#: Since Python 3.12.
EAGERLY = getattr(asyncio, "eager_task_factory", None)


class Harness:
    """A supervisor by itself, and a record of what it did."""

    def __init__(self, work: Work, options: SupervisorOptions) -> None:
        self.keeper = FakeKeeper()
        self.released: list[str] = []
        self.given_up: list[str] = []
        self.events: list[Event] = []
        self.failures = 0
        self.faults: list[Exception] = []
        self.on_event: Callable[[Event], None] = self.events.append
        self._tokens = 0
        self.supervisor = TaskSupervisor(
            work,
            options,
            released=lambda partitions: self.released.extend(map(str, partitions)),
            give_up=lambda partition: self.given_up.append(str(partition)),
            failed=self._failed,
            crash=self.faults.append,
            emit=self._tell,
            random=lambda: 0.5,  # no jitter
        )

    def _tell(self, event: Event) -> None:
        self.on_event(event)

    def _failed(self) -> None:
        self.failures += 1

    def assign(self, *numbers: int) -> list[Partition]:
        """Have partitions assigned."""
        self._tokens += 1
        partitions = [Partition(self.keeper, ("orders", n), self._tokens, 1) for n in numbers]
        self.supervisor.assigned(partitions)
        return partitions

    def lose(self, *partitions: Partition) -> None:
        """Have partitions lost, as the machine does it."""
        self.keeper.lost |= {each.token for each in partitions}
        self.supervisor.lost(partitions, "fenced")

    def events_of_failed_work(self) -> list[WorkFailed]:
        """What was told of it."""
        return [event for event in self.events if isinstance(event, WorkFailed)]

    def of(self, kind: type[Event]) -> list[Event]:
        """The events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]


@asynccontextmanager
async def running(
    work: Work,
    on_error: Restart | Release | Stop = RESTART,
    *,
    progress_deadline: float | None = None,
    on_stall: str = "report",
) -> AsyncIterator[Harness]:
    """Run a supervisor, and check that it leaves no task."""
    options = SupervisorOptions(
        on_error=on_error,
        progress_deadline=progress_deadline,
        on_stall=on_stall,  # type: ignore[arg-type]
    )
    here = Harness(work, options)
    yield here
    here.supervisor.revoked([each.partition for each in list(here.supervisor._active.values())])  # noqa: SLF001
    await settle()
    assert here.supervisor.tasks == {}
    assert here.faults == []


class RecordingWork:
    """Work that records when it begins and ends."""

    def __init__(self) -> None:
        self.entries: list[str] = []
        self.tasks: list[asyncio.Task[object] | None] = []

    async def work(self, partition: Partition) -> None:
        """Note begin and end, and wait in between."""
        self.entries.append(f"begin {partition}")
        self.tasks.append(asyncio.current_task())
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.entries.append(f"end {partition}")


def stubborn(seconds: float) -> tuple[Work, list[str]]:
    """Work that takes this long to end, and the list of what it did."""
    entries: list[str] = []

    async def work(partition: Partition) -> None:
        entries.append(f"begin {partition.token}")
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(seconds)
            entries.append(f"end {partition.token}")

    return work, entries


def failing(error: BaseException, after_s: float = 0.0) -> tuple[Work, list[float]]:
    """Work that raises, and the times at which it began."""
    begun: list[float] = []

    async def work(_: Partition) -> None:
        begun.append(asyncio.get_running_loop().time())
        await asyncio.sleep(after_s)
        raise error

    return work, begun


# -- starting and ending ------------------------------------------------------------------------


@virtual_test
async def test_each_partition_has_a_task_of_its_name() -> None:
    recording = RecordingWork()
    async with running(recording.work) as here:
        here.assign(0, 1)
        await settle()
        assert recording.entries == ["begin orders[0]", "begin orders[1]"]
        assert [task and task.get_name() for task in recording.tasks] == ["orders[0]", "orders[1]"]
        assert len(here.of(WorkStarted)) == 2


@virtual_test
async def test_revoked_partition_is_released_when_its_task_has_ended() -> None:
    work, entries = stubborn(3)
    async with running(work) as here:
        partitions = here.assign(0)
        await settle()
        here.supervisor.revoked(partitions)
        await asyncio.sleep(2.9)
        assert here.released == []
        await asyncio.sleep(0.2)
        assert (entries, here.released) == (["begin 1", "end 1"], ["orders[0]"])


@virtual_test
async def test_partitions_are_released_one_by_one() -> None:
    async def work(partition: Partition) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(partition.number)

    async with running(work) as here:
        partitions = here.assign(5, 1, 3)
        await settle()
        here.supervisor.revoked(partitions)
        released = []
        for _ in range(6):
            released.append(list(here.released))
            await asyncio.sleep(1.01)
        assert [len(each) for each in released] == [0, 1, 1, 2, 2, 3]
        assert here.released == ["orders[1]", "orders[3]", "orders[5]"]


@virtual_test
async def test_other_partitions_go_on() -> None:
    recording = RecordingWork()
    async with running(recording.work) as here:
        first, _ = here.assign(0, 1)
        await settle()
        here.supervisor.revoked([first])
        await settle()
        assert recording.entries[2:] == ["end orders[0]"]
        assert list(here.supervisor.tasks) == [("orders", 1)]


@virtual_test
async def test_task_that_never_ran_is_released() -> None:
    recording = RecordingWork()
    async with running(recording.work) as here:
        here.supervisor.revoked(here.assign(0))
        await settle()
        assert (recording.entries, here.released) == ([], ["orders[0]"])


@virtual_test
async def test_clean_up_is_not_interrupted() -> None:
    work, entries = stubborn(3)
    async with running(work) as here:
        partitions = here.assign(0)
        await settle()
        here.supervisor.revoked(partitions)
        await settle()
        here.lose(*partitions)
        await asyncio.sleep(4)
        assert entries == ["begin 1", "end 1"]
        assert here.released == []


@virtual_test
async def test_work_in_a_timeout_of_its_own_is_ended() -> None:
    outcome: list[str] = []

    async def work(_: Partition) -> None:
        try:
            async with asyncio.timeout(1):
                try:
                    await asyncio.sleep(10)
                finally:
                    await asyncio.sleep(1)  # the time-out has struck, and is not over yet
        except TimeoutError:
            outcome.append("timed out")
        await asyncio.sleep(100)

    async with running(work) as here:
        partitions = here.assign(0)
        await asyncio.sleep(1.5)
        here.supervisor.revoked(partitions)
        await settle()
        assert (here.released, outcome) == (["orders[0]"], [])


@virtual_test
async def test_work_that_swallows_its_cancellation_and_returns_has_ended() -> None:
    async def work(_: Partition) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            return

    async with running(work) as here:
        partitions = here.assign(0)
        await settle()
        here.supervisor.revoked(partitions)
        await settle()
        assert here.released == ["orders[0]"]
        assert [type(event) for event in here.events] == [WorkStarted]


@pytest.mark.parametrize(("how", "released"), [("revoked", ["orders[0]"]), ("lost", [])])
@virtual_test
async def test_error_while_ending_is_told(how: str, released: list[str]) -> None:
    async def work(_: Partition) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            raise ValueError("bad clean-up")

    async with running(work, Stop()) as here:
        partitions = here.assign(0)
        await settle()
        if how == "revoked":
            here.supervisor.revoked(partitions)
        else:
            here.lose(*partitions)
        await settle()
        assert here.released == released
        assert [type(e) for e in here.events] == [WorkStarted, WorkFailedEnding]
        assert here.failures == 0


@virtual_test
async def test_commit_that_comes_too_late_is_no_news() -> None:
    errors: list[Exception] = []

    async def work(partition: Partition) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            try:
                await partition.commit(1)
            except PartitionLostError as error:
                errors.append(error)
                raise

    async with running(work) as here:
        partitions = here.assign(0)
        await settle()
        here.lose(*partitions)
        await settle()
        assert len(errors) == 1
        assert here.of(WorkFailedEnding) == []


@virtual_test
async def test_work_sees_the_context_of_the_caller_of_run() -> None:
    variable = contextvars.ContextVar("variable", default="none")
    seen: list[str] = []

    async def work(_: Partition) -> None:
        seen.append(variable.get())
        variable.set("another's")

    variable.set("the caller's")
    async with running(work) as here:
        variable.set("later")
        here.assign(0, 1)
        await settle()
        assert seen == ["the caller's"] * 2


# -- never two tasks of one partition -----------------------------------------------------------


@pytest.mark.parametrize("how", ["lost", "abandoned"])
@virtual_test
async def test_new_task_waits_for_the_former(how: str) -> None:
    work, entries = stubborn(3)
    async with running(work) as here:
        partitions = here.assign(0)
        await settle()
        if how == "lost":
            here.lose(*partitions)
        else:
            here.supervisor.revoked(partitions)
            here.supervisor.abandoned(partitions)
        here.assign(0)
        await asyncio.sleep(2)
        assert entries == ["begin 1"]
        assert len(here.of(WorkHeldUp)) == 1
        await asyncio.sleep(2)
        assert entries == ["begin 1", "end 1", "begin 2"]
        assert here.released == []
        here.supervisor.revoked([here.supervisor._active["orders", 0].partition])  # noqa: SLF001
        await asyncio.sleep(4)


@virtual_test
async def test_waiting_work_can_be_revoked() -> None:
    work, entries = stubborn(3)
    async with running(work) as here:
        partitions = here.assign(0)
        await settle()
        here.lose(*partitions)
        here.supervisor.revoked(here.assign(0))
        assert here.released == ["orders[0]"]
        await asyncio.sleep(4)
        assert entries == ["begin 1", "end 1"]


@virtual_test
async def test_waiting_work_can_be_lost_and_come_back_again() -> None:
    work, entries = stubborn(3)
    async with running(work) as here:
        here.lose(*here.assign(0))
        await settle()
        here.assign(0)
        await settle()
        here.lose(here.supervisor._active["orders", 0].partition)  # noqa: SLF001
        here.lose(*here.assign(0))
        here.assign(0)
        await asyncio.sleep(4)
        assert entries == ["begin 2", "end 2", "begin 4"]
        here.supervisor.revoked([here.supervisor._active["orders", 0].partition])  # noqa: SLF001
        await asyncio.sleep(4)


@virtual_test
async def test_partition_that_was_released_and_comes_back_can_be_lost() -> None:
    recording = RecordingWork()
    async with running(recording.work) as here:
        partitions = here.assign(0)
        await settle()
        here.supervisor.revoked(partitions)
        await settle()
        partitions = here.assign(0)
        await settle()
        here.lose(*partitions)
        await settle()
        assert recording.entries == ["begin orders[0]", "end orders[0]"] * 2


# -- policies -----------------------------------------------------------------------------------


@virtual_test
async def test_restart_pauses_longer_and_longer() -> None:
    work, begun = failing(ValueError("no"))
    async with running(work, Restart(first=1, limit=5)) as here:
        here.assign(0)
        await asyncio.sleep(19)
        assert begun == pytest.approx([0, 1, 3, 7, 12, 17])
        failed = here.of(WorkFailed)
        assert [getattr(event, "pause_s", None) for event in failed] == [1, 2, 4, 5, 5, 5]


@virtual_test
async def test_long_run_starts_over() -> None:
    """Work that ran for longer than the longest pause pauses as briefly as the first time."""
    work, begun = failing(ValueError("no"), after_s=6)
    async with running(work, Restart(first=1, limit=5)) as here:
        here.assign(0)
        await asyncio.sleep(22)
        assert begun == pytest.approx([0, 7, 14, 21])


@virtual_test
async def test_pause_outlives_the_ownership() -> None:
    """A partition that comes back while its work pauses goes on pausing."""
    work, begun = failing(ValueError("no"))
    async with running(work, Restart(first=10, limit=10)) as here:
        partitions = here.assign(0)
        await settle()
        here.supervisor.revoked(partitions)
        assert here.released == ["orders[0]"]
        here.assign(0)
        await asyncio.sleep(9)
        assert begun == [0]
        await asyncio.sleep(2)
        assert begun == pytest.approx([0, 10])


@virtual_test
async def test_resting_work_is_not_started_after_a_revocation() -> None:
    work, begun = failing(ValueError("no"))
    async with running(work) as here:
        partitions = here.assign(0)
        await settle()
        here.supervisor.revoked(partitions)
        await asyncio.sleep(100)
        assert (begun, here.released) == ([0], ["orders[0]"])


@virtual_test
async def test_release_gives_the_partition_up() -> None:
    work, begun = failing(ValueError("no"))
    async with running(work, Release()) as here:
        here.assign(0)
        await asyncio.sleep(100)
        assert (begun, here.given_up, here.released) == ([0], ["orders[0]"], [])
        (failed,) = here.of(WorkFailed)
        assert isinstance(failed, WorkFailed)
        assert failed.policy == "release"


@virtual_test
async def test_partition_that_was_given_up_and_comes_back_rests_first() -> None:
    work, begun = failing(ValueError("no"))
    async with running(work, Release(first=1, limit=60)) as here:
        for _ in range(3):
            here.assign(0)
            await asyncio.sleep(8)
        assert begun == pytest.approx([0, 8, 16])
        here.assign(0)  # the pause after the third failure is 4 s, and 8 s have passed
        here.assign(1)
        await settle()
        assert len(begun) == 5
        here.assign(0)
        await asyncio.sleep(7)
        assert len(begun) == 5
        await asyncio.sleep(2)
        assert len(begun) == 6


@virtual_test
async def test_stop_keeps_the_first_error() -> None:
    first, calls = ValueError("first"), []

    async def work(partition: Partition) -> None:
        calls.append(partition.number)
        await asyncio.sleep(partition.number)
        raise first if partition.number == 1 else ValueError("second")

    async with running(work, Stop()) as here:
        here.assign(2, 1)
        await asyncio.sleep(10)
        assert here.supervisor.failure is first
        assert first.__notes__ == ["Raised by the work on orders[1]."]
        assert (here.failures, sorted(calls)) == (1, [1, 2])
        assert len(here.of(WorkFailed)) == 2


@virtual_test
async def test_cancellation_of_its_own_is_an_error() -> None:
    work, begun = failing(asyncio.CancelledError())
    async with running(work, Stop()) as here:
        here.assign(0)
        await settle()
        assert isinstance(here.supervisor.failure, WorkCancelledError)
        assert begun == [0]


@virtual_test
async def test_work_that_returns_rests() -> None:
    """Work that returns is not started again, until its partition is assigned anew."""
    begun: list[int] = []

    async def work(partition: Partition) -> None:
        begun.append(partition.token)

    async with running(work) as here:
        partitions = here.assign(0)
        await asyncio.sleep(100)
        assert begun == [1]
        assert len(here.of(WorkFinished)) == 1
        here.supervisor.revoked(partitions)
        assert here.released == ["orders[0]"]
        here.assign(0)
        await settle()
        assert begun == [1, 2]


@virtual_test
async def test_only_the_error_that_is_raised_is_called_raised() -> None:
    async def work(partition: Partition) -> None:
        raise ValueError(str(partition))

    async with running(work, Stop()) as here:
        here.assign(0, 1)
        await settle()
        failures = {str(each.exception): each for each in here.events_of_failed_work()}
        assert here.supervisor.failure is failures["orders[0]"].exception
        assert {text: each.is_raised for text, each in failures.items()} == {
            "orders[0]": True,
            "orders[1]": False,
        }
        assert [each.untold is None for each in failures.values()] == [True, False]


@pytest.mark.parametrize("policy", [RESTART, Release(first=1.0, limit=60.0), Stop()])
@virtual_test
async def test_work_that_can_not_be_awaited_is_not_tried_again(
    policy: Restart | Release | Stop,
) -> None:
    calls: list[int] = []

    def work(partition: Partition) -> Awaitable[None]:
        calls.append(partition.number)
        return 7  # type: ignore[return-value]

    async with running(work, policy) as here:
        here.assign(0, 1, 2)
        await asyncio.sleep(1_000)
        assert (here.failures, sorted(calls)) == (1, [0, 1, 2])
        assert [each.policy for each in here.events_of_failed_work()] == ["stop"]
        assert isinstance(here.supervisor.failure, ConfigurationError)
        assert str(here.supervisor.failure) == (
            "work must be an async function, but this one returned a value of type int, which"
            " can't be awaited"
        )
        assert here.supervisor.failure.__notes__ == ["Raised by the work on orders[0]."]


@virtual_test
async def test_configuration_errors_of_the_work_itself_follow_the_policy() -> None:
    work, begun = failing(ConfigurationError("not ours"))
    async with running(work) as here:
        here.assign(0)
        await asyncio.sleep(0.5)
        await asyncio.sleep(1)
        assert here.supervisor.failure is None
        assert len(begun) == 2


# -- watching -----------------------------------------------------------------------------------


async def silent(_: Partition) -> None:
    """Work that never says anything."""
    await asyncio.get_running_loop().create_future()


@virtual_test
async def test_stall_is_reported_with_its_position() -> None:
    async def work(partition: Partition) -> None:
        await partition.commit(17)
        await asyncio.sleep(30)
        partition.progress()
        await silent(partition)

    async with running(work, progress_deadline=10) as here:
        here.assign(0)
        await asyncio.sleep(35)
        (stalled,), (recovered,) = here.of(WorkStalled), here.of(WorkRecovered)
        assert isinstance(stalled, WorkStalled)
        assert stalled.position is not None
        assert (stalled.position.offset, stalled.action) == (17, "report")
        assert isinstance(recovered, WorkRecovered)
        assert recovered.stalled_s == pytest.approx(30)
        assert len(here.supervisor.tasks) == 1


@pytest.mark.parametrize("policy", [RESTART, Stop(), Release()])
@virtual_test
async def test_stalled_work_is_restarted(policy: Restart | Release | Stop) -> None:
    """With `on_stall="restart"`, whatever `on_error` says."""
    begun: list[float] = []

    async def work(partition: Partition) -> None:
        begun.append(asyncio.get_running_loop().time())
        await silent(partition)

    async with running(work, policy, progress_deadline=10, on_stall="restart") as here:
        here.assign(0)
        await asyncio.sleep(15)
        assert begun == pytest.approx([0, 11])
        (failed,) = here.of(WorkFailed)
        assert isinstance(failed, WorkFailed)
        assert isinstance(failed.exception, WorkStalledError)
        assert (here.supervisor.failure, here.given_up) == (None, [])


@virtual_test
async def test_stalled_work_is_restarted_however_it_ends() -> None:
    begun: list[float] = []

    async def work(_: Partition) -> None:
        begun.append(asyncio.get_running_loop().time())
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            return

    async with running(work, progress_deadline=10, on_stall="restart") as here:
        here.assign(0)
        await asyncio.sleep(15)
        assert begun == pytest.approx([0, 11])
        assert here.of(WorkFinished) == []


@virtual_test
async def test_stalled_work_that_raises_tells_what() -> None:
    async def work(_: Partition) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            raise ValueError("bad clean-up")

    async with running(work, progress_deadline=10, on_stall="restart") as here:
        here.assign(0)
        await asyncio.sleep(10.5)
        (failed,) = here.of(WorkFailed)
        assert isinstance(failed, WorkFailed)
        assert isinstance(failed.exception, WorkStalledError)
        assert isinstance(failed.exception.__cause__, ValueError)


@virtual_test
async def test_stalled_work_gives_its_partition_up() -> None:
    work, entries = stubborn(3)
    async with running(work, progress_deadline=10, on_stall="release") as here:
        here.assign(0)
        await asyncio.sleep(12)
        assert (entries, here.given_up) == (["begin 1"], [])
        await asyncio.sleep(2)
        assert (entries, here.given_up) == (["begin 1", "end 1"], ["orders[0]"])


@virtual_test
async def test_stalled_work_that_is_revoked_meanwhile_is_released() -> None:
    work, _ = stubborn(3)
    async with running(work, progress_deadline=10, on_stall="restart") as here:
        partitions = here.assign(0)
        await asyncio.sleep(11)
        here.supervisor.revoked(partitions)
        await asyncio.sleep(20)
        assert here.released == ["orders[0]"]
        assert len(here.of(WorkStarted)) == 1
        assert here.of(WorkFailedEnding) == []  # its clean-up did not fail


@virtual_test
async def test_stalled_work_whose_clean_up_fails_after_it_was_revoked_tells_what() -> None:
    async def work(_: Partition) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(3)
            raise ValueError("bad clean-up")

    async with running(work, progress_deadline=10, on_stall="restart") as here:
        partitions = here.assign(0)
        await asyncio.sleep(11)
        here.supervisor.revoked(partitions)
        await asyncio.sleep(20)
        (failed,) = here.of(WorkFailedEnding)
        assert isinstance(failed, WorkFailedEnding)
        assert isinstance(failed.exception, ValueError)


@virtual_test
async def test_stall_may_make_its_hook_stop_the_group() -> None:
    async with running(silent, progress_deadline=10, on_stall="restart") as here:
        partitions = here.assign(0)

        def hear(event: Event) -> None:
            here.events.append(event)
            if isinstance(event, WorkStalled):
                here.supervisor.revoked(partitions)

        here.on_event = hear
        await asyncio.sleep(20)
        assert here.released == ["orders[0]"]
        assert here.of(WorkFailedEnding) == []


@virtual_test
async def test_resting_work_is_not_watched() -> None:
    work, _ = failing(ValueError("no"))
    async with running(work, Restart(first=60, limit=60), progress_deadline=10) as here:
        here.assign(0)
        await asyncio.sleep(50)
        assert here.of(WorkStalled) == []


@virtual_test
async def test_ending_work_is_not_watched() -> None:
    work, _ = stubborn(30)
    async with running(work, progress_deadline=10) as here:
        partitions = here.assign(0)
        await settle()
        here.supervisor.revoked(partitions)
        await asyncio.sleep(40)
        assert here.of(WorkStalled) == []


# -- eager tasks --------------------------------------------------------------------------------


@pytest.mark.skipif(EAGERLY is None, reason="this Python has no eager tasks")
@pytest.mark.parametrize("progress_deadline", [None, 10.0])
@virtual_test
async def test_eager_work_is_cancelled_when_its_first_step_has_it_revoked(
    progress_deadline: float | None,
) -> None:
    asyncio.get_running_loop().set_task_factory(EAGERLY)
    entries: list[str] = []

    async def work(partition: Partition) -> None:
        here.supervisor.revoked([partition])
        try:
            await asyncio.sleep(100)
        finally:
            entries.append(f"end, {here.released} released")

    async with running(work, progress_deadline=progress_deadline) as here:
        here.assign(0)
        await settle()
        assert entries == ["end, [] released"]
        assert here.released == ["orders[0]"]
        await asyncio.sleep(200)
        assert here.of(WorkStalled) == []


# -- hooks that come back -----------------------------------------------------------------------


@virtual_test
async def test_hook_may_have_everything_revoked_at_the_first_start() -> None:
    recording = RecordingWork()
    async with running(recording.work) as here:
        partitions: list[Partition] = []

        def hook(event: Event) -> None:
            if isinstance(event, WorkStarted) and not here.released:
                workers = list(here.supervisor._active.values())  # noqa: SLF001
                here.supervisor.revoked([worker.partition for worker in workers])

        here.on_event = hook
        partitions += here.assign(0, 1, 2)
        await settle()
        assert sorted(here.released) == ["orders[0]", "orders[1]", "orders[2]"]
        assert recording.entries == []


@pytest.mark.parametrize("policy", [RESTART, Release()])
@virtual_test
async def test_hook_may_have_failed_work_revoked(policy: Restart | Release) -> None:
    work, begun = failing(ValueError("no"))
    async with running(work, policy) as here:
        partitions: list[Partition] = []

        def hook(event: Event) -> None:
            if isinstance(event, WorkFailed):
                here.supervisor.revoked(partitions)

        here.on_event = hook
        partitions += here.assign(0)
        await asyncio.sleep(100)
        assert (begun, here.released, here.given_up) == ([0], ["orders[0]"], [])


@pytest.mark.parametrize("where", [WorkFailed, WorkStarted, WorkStalled])
@virtual_test
async def test_fault_of_ours_is_not_left_to_the_loop(where: type[Event]) -> None:
    async def work(_: Partition) -> None:
        await asyncio.sleep(15)
        raise ValueError("no")

    def fault(event: Event) -> None:
        if isinstance(event, where) and asyncio.get_running_loop().time() > 0:
            raise ZeroDivisionError

    async with running(work, progress_deadline=10) as here:
        here.on_event = fault
        here.assign(0)
        await asyncio.sleep(17)
        assert [type(error) for error in here.faults] == [ZeroDivisionError]
        here.faults.clear()
