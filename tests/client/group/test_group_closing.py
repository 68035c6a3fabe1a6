"""How groups end: in order, under failure, under cancellation, and always in a bounded time."""

from __future__ import annotations

import asyncio
import gc
import pickle
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

from coterie_assignors import Cluster, CooperativeStickyAssignor, MemberInfo, Partitions
from coterie_client import (
    ClosedError,
    GroupMisuseError,
    Partition,
    PartitionLostError,
    Phase,
    Restart,
    Standby,
    Stop,
)
from coterie_client.errors import ConfigurationError
from coterie_client.events import (
    CoordinatorLost,
    GroupLeft,
    PartitionsAssigned,
    PartitionsLost,
    RevocationOverran,
    WorkLeftBehind,
)
from coterie_server.server import Server
from tests.client.group.conftest import LogLines
from tests.client.group.dialling import CuttableDial
from tests.client.group.world import World, server_options, world
from tests.support.profiles import by_profile

pytestmark = pytest.mark.asyncio


async def forever() -> None:
    """Wait for nothing."""
    await asyncio.get_running_loop().create_future()


# -- in order -----------------------------------------------------------------------------------


async def test_run_returns_after_stop_when_all_is_ended() -> None:
    async with world(2) as here, here.group("a") as group:
        running = asyncio.create_task(group.run(here.work("a")))
        await here.until_shared(a=2)
        group.stop()
        group.stop()
        await running
        assert here.recorder.running() == set()
        assert here.server_members() == set()
        assert group.phase is Phase.OVER


async def test_work_may_stop_the_group() -> None:
    async def work(partition: Partition) -> None:
        here.recorder.note("begin", partition, "a")
        try:
            if partition.number == 1:
                group.stop()
            await forever()
        finally:
            here.recorder.note("end", partition, "a")

    async with world(2) as here, here.group("a") as group:
        await group.run(work)
        assert here.recorder.running() == set()


class Calling(CooperativeStickyAssignor):
    """Calls back in the middle of what the member does with it."""

    def __init__(self, at: str, call: Callable[[], None]) -> None:
        self._at = at
        self._call = call

    def subscription_user_data(
        self, topics: Collection[str], owned: Partitions, generation: int
    ) -> bytes | None:
        self._reach("subscription_user_data")
        return super().subscription_user_data(topics, owned, generation)

    def assign(self, cluster: Cluster, members: Mapping[str, MemberInfo]) -> dict[str, Partitions]:
        self._reach("assign")
        return super().assign(cluster, members)

    def on_assignment(
        self, assignment: Partitions, generation: int, user_data: bytes | None = None
    ) -> None:
        self._reach("on_assignment")
        super().on_assignment(assignment, generation, user_data)

    def _reach(self, where: str) -> None:
        if where == self._at:
            self._call()


@pytest.mark.parametrize("at", ["subscription_user_data", "assign", "on_assignment"])
async def test_assignor_may_stop_the_group(at: str) -> None:
    async with world(2) as here:
        assignor = Calling(at, lambda: group.stop())  # noqa: PLW0108  # it is made below
        async with here.group("a", assignors=[assignor]) as group:
            await group.run(here.work("a"))
        assert group.phase is Phase.OVER
        assert here.recorder.running() == set()
        assert here.server_members() == set()


async def test_state_that_is_asked_for_may_stop_the_group() -> None:
    asked = 0

    def held() -> dict[tuple[str, int], int | None]:
        nonlocal asked
        asked += 1
        if asked > 1:  # First, `run` looks whether it can be asked.
            group.stop()
        return {}

    async def restore(_: Standby) -> None:
        await forever()

    async with world(2) as here, here.group("a") as group:
        await group.run(here.work("a"), warm=restore, held=held)
        assert here.recorder.entries == []
        assert here.server_members() == set()


async def test_stop_before_anything_has_come_about() -> None:
    async with world(2) as here, here.group("a") as group:
        group.stop()
        with pytest.raises(ClosedError):
            await group.run(here.work("a"))
    assert here.recorder.entries == []


async def test_error_in_the_block_is_raised_after_everything_has_ended() -> None:
    async with world(2) as here:
        with pytest.raises(ZeroDivisionError):  # noqa: PT012  # the block itself is the point
            async with here.group("a") as group:
                running = asyncio.create_task(group.run(here.work("a")))
                await here.until_shared(a=2)
                raise ZeroDivisionError
        await running
        assert here.recorder.running() == set()
        assert here.server_members() == set()


async def test_group_is_closed_without_ever_having_been_used() -> None:
    async with world(2) as here:
        async with here.group("a") as group:
            await here.recorder.until(lambda: bool(here.recorder.of(PartitionsAssigned)))
            assert len(group.owned) == 2
        assert here.server_members() == set()


async def test_partitions_without_work_are_handed_over_at_once() -> None:
    async with world(2) as here, here.group("a"):
        await here.recorder.until(lambda: bool(here.recorder.of(PartitionsAssigned)))
        async with here.member("b"):
            await here.until_shared(b=1)


# -- cancelled ----------------------------------------------------------------------------------


async def test_cancelled_run_closes_the_group() -> None:
    async with world(2) as here, here.group("a") as group:
        running = asyncio.create_task(group.run(here.work("a")))
        await here.until_shared(a=2)
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
        assert here.recorder.running() == set()
        assert here.server_members() == set()
        assert group.counters.commits == 2


async def test_second_cancellation_of_run_is_obeyed_at_once() -> None:
    gate = asyncio.Event()

    async def slow(partition: Partition) -> None:
        here.recorder.note("begin", partition, "a")
        try:
            await forever()
        finally:
            await gate.wait()
            here.recorder.note("end", partition, "a")

    async with world(2) as here:
        async with here.group("a") as group:
            running = asyncio.create_task(group.run(slow))
            await here.until_shared(a=2)
            running.cancel()
            await here.recorder.until(lambda: group.phase is Phase.STABLE)
            await asyncio.sleep(0)
            running.cancel()
            await asyncio.wait([running])
            assert running.cancelled()
            assert len(here.recorder.running("a")) == 2
            gate.set()
        assert here.recorder.running("a") == set()


async def test_cancellation_while_closing_is_obeyed_afterwards() -> None:
    gate = asyncio.Event()

    async def slow(partition: Partition) -> None:
        here.recorder.note("begin", partition, "a")
        try:
            await forever()
        finally:
            here.recorder.note("ending", partition, "a")
            await gate.wait()
            await partition.commit(1)
            here.recorder.note("end", partition, "a")

    async def main() -> None:
        async with here.member("a", slow):
            await here.until_shared(a=1)

    async with world(1) as here:
        task = asyncio.create_task(main())
        await here.recorder.until(lambda: here.recorder.count("ending") == 1)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        gate.set()
        await asyncio.wait([task])
        assert task.cancelled()
        assert here.recorder.count("end") == 1
        assert here.server_members() == set()


async def whole_life(here: World, dial: CuttableDial) -> None:
    """Join, work, commit, be joined by another one, and leave."""
    options: dict[str, Any] = {"dial": dial, "heartbeat_interval": 0.001}
    async with here.group("a", **options) as group:
        running = asyncio.create_task(group.run(here.work("a")))
        try:
            await here.recorder.until(lambda: bool(here.recorder.running("a")))
            async with here.group("b", **options) as other:
                async for change in other.changes():
                    for partition in change.partitions:
                        await partition.commit(1)
                    break
        finally:
            group.stop()
            await running


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("first", range(by_profile(quick=1, long=5)))
async def test_cancellation_at_any_await_leaves_nothing(first: int, times: int) -> None:
    async with world(2) as here:
        for turns in range(first, 200, 5):
            dial = CuttableDial()
            before = asyncio.all_tasks()
            here.recorder.entries.clear()
            task = asyncio.create_task(whole_life(here, dial))
            for _ in range(turns):
                await asyncio.sleep(0)
            for _ in range(times):
                task.cancel()
                await asyncio.sleep(0)
            await asyncio.wait([task])
            assert task.cancelled() or task.exception() is None
            left = asyncio.all_tasks() - before - {task}
            # The daemon's own tasks come and go; ours are named.
            assert not [each for each in left if each.get_name().startswith(("coterie", "orders"))]
            assert dial.open == 0
            assert here.recorder.running() == set()
            assert here.server_members() == set()
    gc.collect()  # whatever was left unclosed warns now


async def test_death_of_the_loop_leaves_nothing() -> None:
    """When `asyncio.run` is torn down with a group at work, that ends its work and closes.

    It leaves the group as well, unless the teardown takes away the very request that says so.
    """

    def another_loop() -> list[str]:
        complaints: list[str] = []

        async def main() -> None:
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda _, context: complaints.append(str(context)))
            started = asyncio.Event()

            async def work(_: Partition) -> None:
                started.set()
                await forever()

            async def life() -> None:
                async with here.group("a") as group:
                    await group.run(work)

            background.append(asyncio.create_task(life()))
            await started.wait()

        background: list[asyncio.Task[None]] = []
        asyncio.run(main(), debug=True)
        assert background[0].cancelled()
        return complaints

    async with world(2) as here:
        complaints = await asyncio.to_thread(another_loop)
        assert complaints == []
    gc.collect()  # whatever was left unclosed warns now


# -- under failure ------------------------------------------------------------------------------


async def test_daemon_that_is_gone_does_not_hold_up_the_end() -> None:
    dial = CuttableDial()
    async with world(2) as here:
        async with here.member("a", dial=dial, close_timeout=0.3) as a:
            await here.until_shared(a=2)
            dial.cut()
        assert here.recorder.count("refused", "a") == 2
        assert here.recorder.running() == set()
        assert a.group.phase is Phase.OVER


async def test_daemon_that_does_not_answer_does_not_hold_up_the_end() -> None:
    dial = CuttableDial()
    async with world(2) as here:
        options: dict[str, Any] = {"close_timeout": 0.3, "request_timeout": 0.2, "dial": dial}
        async with here.member("a", **options) as a:
            await here.until_shared(a=2)
            dial.freeze()
            dial.is_cut = True
        assert here.recorder.running() == set()
        assert a.group.phase is Phase.OVER


async def test_silent_coordinator_stops_the_work() -> None:
    dial = CuttableDial()
    async with world(2) as here, here.member("a", dial=dial, session_timeout=0.6) as a:
        await here.until_shared(a=2)
        dial.cut()
        await here.recorder.until(lambda: bool(here.recorder.of(PartitionsLost)))
        await here.recorder.until(lambda: here.recorder.running() == set())
        assert here.recorder.count("refused") == here.recorder.count("begin")
        dial.mend()
        await here.until_shared(a=2)
        assert a.group.counters.lost >= 2
        assert here.recorder.overlaps() == []


async def test_broken_connections_do_not_stop_the_work() -> None:
    dial = CuttableDial()
    async with world(2) as here, here.member("a", dial=dial) as a:
        await here.until_shared(a=2)
        dial.cut()
        await here.recorder.until(lambda: bool(here.recorder.of(CoordinatorLost)))
        dial.mend()
        before = a.group.counters.wire.answers
        a.group.rejoin()
        await here.recorder.until(lambda: a.group.counters.generations == 2)
        assert a.group.counters.wire.answers > before
        assert here.recorder.count("begin") == 2
        assert a.group.counters.lost == 0


async def test_restart_of_the_daemon_does_not_stop_the_work(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'groups.sqlite'}"

    async def work(partition: Partition) -> None:
        here.recorder.note("begin", partition, "a")
        try:
            for offset in range(10_000):
                await partition.commit(offset)
                here.recorder.note("committed", partition, "a")
                await asyncio.sleep(0.001)
        finally:
            here.recorder.note("end", partition, "a")

    first = Server(server_options(2, store=store))
    await first.start()
    port = first.address.port
    here = World(first)
    async with here.member("a", work) as a:
        await here.recorder.until(lambda: here.recorder.count("committed") > 10)
        generation = a.group.generation
        await first.stop()
        async with Server(server_options(2, store=store, port=port)) as here.server:
            before = here.recorder.count("committed")
            await here.recorder.until(lambda: here.recorder.count("committed") > before + 10)
            assert (a.group.generation, here.recorder.count("begin")) == (generation, 2)
            assert here.recorder.count("end") == 0
            assert (a.group.counters.lost, a.group.counters.commit_failures) == (0, 0)
            await a.stop()


async def test_no_server_at_the_bootstrap_address() -> None:
    dial = CuttableDial()
    dial.cut()
    async with world(1) as here, here.member("a", dial=dial) as a:
        await here.recorder.until(lambda: a.group.counters.retries > 2)


async def test_work_that_never_ends_does_not_hold_up_the_end() -> None:
    gate = asyncio.Event()
    errors: list[Exception] = []

    async def stubborn(partition: Partition) -> None:
        here.recorder.note("begin", partition, "a")
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                here.recorder.note("ignored", partition, "a")
        try:
            await partition.commit(1)
        except PartitionLostError as error:
            errors.append(error)
        here.recorder.note("end", partition, "a")

    async with world(1) as here:
        async with here.member("a", stubborn, close_timeout=0.2):
            await here.until_shared(a=1)
        assert here.recorder.running("a") == {"orders[0]"}
        assert here.server_members() == set()
        assert len(here.recorder.of(RevocationOverran)) == 1
        (left,) = here.recorder.of(WorkLeftBehind)
        assert left.partitions == (("orders", 0),)
        gate.set()
        await here.recorder.until(lambda: here.recorder.count("end") == 1)
        assert len(errors) == 1


# -- misuse -------------------------------------------------------------------------------------


async def test_group_has_one_user() -> None:
    """Two runs, or a run and a loop, would work on the same partitions."""
    async with world(1) as here, here.member("a") as a:
        await here.until_shared(a=1)
        with pytest.raises(GroupMisuseError, match=r"already used by run\(\)"):
            await a.group.run(here.work("a"))
        with pytest.raises(GroupMisuseError, match=r"already used by run\(\)"):
            a.group.changes()
    async with world(1) as here, here.group("a") as group:
        group.changes()
        with pytest.raises(GroupMisuseError, match=r"already used by changes\(\)"):
            await group.run(here.work("a"))


async def test_work_that_is_not_async_is_refused() -> None:
    def work(_: Partition) -> None:
        """Block."""

    async with world(1) as here, here.group("a") as group:
        with pytest.raises(ConfigurationError, match="and not a plain function"):
            await group.run(work)  # type: ignore[arg-type]
        running = asyncio.create_task(group.run(here.work("a")))
        await here.until_shared(a=1)
        group.stop()
        await running


async def test_work_that_can_not_be_awaited_ends_the_group() -> None:
    async with world(3) as here:
        with pytest.raises(ConfigurationError, match="returned None, which can't be awaited"):
            async with here.group("a") as group:
                await group.run(lambda _: [None][0])  # type: ignore[arg-type,return-value]
        assert here.server_members() == set()


async def test_error_that_something_else_is_raised_instead_of(log: LogLines) -> None:
    async def work(_: Partition) -> None:
        raise LookupError("the group's")

    async def leave(here: World) -> None:
        async with here.group("a") as group:
            running = asyncio.create_task(group.run(work, on_error=Stop()))
            await here.recorder.until(lambda: bool(here.recorder.of(GroupLeft)))
            running.cancel()
            raise ValueError("the block's")

    async with world(1) as here:
        with pytest.raises(ValueError, match="the block's"):
            await leave(here)
    stacks = [line["stack"] for line in log if "the group's" in line.get("stack", "")]
    assert [stack.count("Traceback") for stack in stacks] == [1]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"on_error": Restart},
            r"on_error must be a Restart\(\), Release\(\) or Stop\(\), got <class",
        ),
        ({"on_stall": "panic", "progress_deadline": 1.0}, "on_stall must be .*, got 'panic'"),
        ({"on_stall": "restart"}, "progress_deadline must be given"),
        ({"progress_deadline": 0.0}, "progress_deadline must be .*, got 0.0"),
        ({"progress_deadline": "5"}, "progress_deadline must be .*, got '5'"),
    ],
)
async def test_option_of_run_that_makes_no_sense_is_refused(
    options: dict[str, Any], sentence: str
) -> None:
    async with world(1) as here, here.group("a") as group:
        with pytest.raises(ConfigurationError, match=sentence):
            await group.run(here.work("a"), **options)
        running = asyncio.create_task(group.run(here.work("a")))
        await here.until_shared(a=1)
        group.stop()
        await running


async def test_group_has_to_be_entered() -> None:
    async with world(1) as here:
        group = here.group("a")
        with pytest.raises(GroupMisuseError, match="async with"):
            await group.run(here.work("a"))
        with pytest.raises(GroupMisuseError, match="async with"):
            group.stop()
        assert (group.owned, group.generation, group.phase) == ((), -1, Phase.OUT)


async def test_group_is_entered_once() -> None:
    async with world(1) as here:
        async with here.group("a") as group:
            with pytest.raises(GroupMisuseError, match="once"):
                await group.__aenter__()
        with pytest.raises(GroupMisuseError, match="once"):
            await group.__aenter__()
        with pytest.raises(ClosedError):
            group.rejoin()
        with pytest.raises(ClosedError):
            await group.run(here.work("a"))


async def test_work_can_not_wait_for_its_own_end() -> None:
    errors: list[Exception] = []

    async def work(_: Partition) -> None:
        try:
            await group.aclose()
        except GroupMisuseError as error:
            errors.append(error)
            group.stop()

    async with world(1) as here, here.group("a") as group:
        await group.run(work)
    assert len(errors) == 1


async def test_partition_of_a_closed_group_is_lost() -> None:
    kept: list[Partition] = []

    async def work(partition: Partition) -> None:
        kept.append(partition)
        group.stop()

    async with world(1) as here, here.group("a") as group:
        await group.run(work)
    (partition,) = kept
    assert not partition.is_owned
    sentence = r"^orders\[0\] is not ours any more: the group has been left$"
    with pytest.raises(PartitionLostError, match=sentence) as caught:
        await partition.commit(1)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301  # ours
    with pytest.raises(PartitionLostError, match=sentence):
        await partition.committed()
    assert len(here.recorder.of(GroupLeft)) == 1
