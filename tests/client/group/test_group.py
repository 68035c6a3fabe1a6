"""Groups at work on a real daemon: which member works on what, and when that moves."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import AsyncExitStack

import pytest

from coterie_client import Group, Partition, PartitionLostError, Phase, Position
from coterie_client.errors import ConfigurationError
from coterie_client.events import (
    AssignmentReceived,
    Event,
    Fenced,
    GroupLeft,
    PartitionsLost,
    RetryPlanned,
    RevocationOverran,
    WorkHeldUp,
)
from coterie_protocol.errors import FencedInstanceIdError
from tests.client.group.world import TOPIC, world

pytestmark = pytest.mark.asyncio


async def forever() -> None:
    """Wait for nothing."""
    await asyncio.get_running_loop().create_future()


# -- one member ---------------------------------------------------------------------------------


async def test_lone_member_works_on_everything() -> None:
    async with world(3) as here, here.member("a") as a:
        await here.until_shared(a=3)
        assert a.owned == here.partitions(0, 1, 2)
        assert {partition.generation for partition in a.group.owned} == {a.group.generation}
        assert all(partition.is_owned for partition in a.group.owned)
        assert a.group.phase is Phase.STABLE
        assert a.group.member_id.startswith("a-")


async def test_nothing_is_committed_at_first_and_commits_last() -> None:
    seen: list[Position | None] = []

    async def work(partition: Partition) -> None:
        seen.append(await partition.committed())
        await partition.commit(10, "noted")
        seen.append(await partition.committed())
        here.recorder.note("begin", partition, "a")
        await forever()

    async with world(1) as here:
        for _ in range(2):
            async with here.member("a", work):
                await here.until_shared(a=1)
            here.recorder.entries.clear()
    assert seen == [None, Position(10, "noted"), Position(10, "noted"), Position(10, "noted")]


async def test_commits_of_many_partitions_travel_together() -> None:
    done = 0

    async def work(partition: Partition) -> None:
        nonlocal done
        here.recorder.note("begin", partition, "a")
        await gate.wait()
        await partition.commit(1)
        done += 1
        here.recorder.note("committed", partition, "a")
        await forever()

    gate = asyncio.Event()
    async with world(100) as here, here.member("a", work, heartbeat_interval=1.0) as a:
        await here.until_shared(a=100)
        before = a.group.counters.wire.requests
        gate.set()
        await here.recorder.until(lambda: here.recorder.count("committed") == 100)
        assert a.group.counters.wire.requests - before <= 10
        assert a.group.counters.commits == 100


async def test_last_commit_of_a_finally_block_is_stored() -> None:
    found: list[Position | None] = []

    async def look(partition: Partition) -> None:
        found.append(await partition.committed())
        here.recorder.note("begin", partition, "b")
        await forever()

    async with world(1) as here:
        async with here.member("a"):
            await here.until_shared(a=1)
        async with here.member("b", look):
            await here.recorder.until(lambda: bool(found))
    assert found == [Position(1, "a")]


async def test_closing_leaves_the_group() -> None:
    async with world(2) as here:
        async with here.member("a") as a:
            await here.until_shared(a=2)
        assert here.server_members() == set()
        assert (a.group.phase, a.group.owned) == (Phase.OVER, ())
        assert here.recorder.running() == set()
        assert [event.stays for event in here.recorder.of(GroupLeft)] == [False]


async def test_subscription_can_be_changed() -> None:
    async with world(2) as here, here.member("a") as a:
        await here.until_shared(a=2)
        a.group.subscribe(["parcels"])  # made with one partition, when it is first asked for
        await here.recorder.until(lambda: here.recorder.running() == {"parcels[0]"})
        assert here.recorder.overlaps() == []
        assert a.owned == {"parcels[0]"}


async def test_rejoin_makes_a_generation() -> None:
    """The member keeps its work meanwhile."""
    async with world(2) as here, here.member("a") as a:
        await here.until_shared(a=2)
        before = a.group.generation
        a.group.rejoin("because")
        await here.recorder.until(lambda: len(here.recorder.of(AssignmentReceived)) == 2)
        assert a.group.generation == before + 1
        assert here.recorder.count("begin") == 2


async def test_hook_that_raises_ends_nothing() -> None:
    def hook(event: Event) -> None:
        here.recorder.hear("a", event)
        raise ValueError("hook")

    async with world(2) as here, here.member("a", on_event=hook) as a:
        await here.until_shared(a=2)
        assert a.group.counters.hook_failures > 3


# -- scaling ------------------------------------------------------------------------------------


async def test_scaling_out_and_in_again() -> None:
    async with world(6) as here, here.member("a") as a:
        await here.until_shared(a=6)
        async with here.member("b"), here.member("c"):
            await here.until_shared(a=2, b=2, c=2)
            kept = here.recorder.running("a")
            assert here.recorder.count("end", "a") == 4
        await here.until_shared(a=6)
        assert a.owned == here.partitions(*range(6))
        assert here.recorder.overlaps() == []
        for partition in kept:
            assert here.recorder.count("begin", "a", partition) == 1
        assert here.recorder.count("end", "a") == 4


async def test_former_owner_ends_before_the_new_one_begins() -> None:
    gate = asyncio.Event()

    async def slow(partition: Partition) -> None:
        here.recorder.note("begin", partition, "a")
        try:
            await forever()
        finally:
            await gate.wait()
            await partition.commit(77)
            here.recorder.note("end", partition, "a")

    found: dict[str, Position | None] = {}

    async def look(partition: Partition) -> None:
        here.recorder.note("begin", partition, "b")
        found[str(partition)] = await partition.committed()
        here.recorder.note("found", partition, "b")
        await forever()

    async with world(2) as here, here.member("a", slow) as a:
        await here.until_shared(a=2)
        async with here.member("b", look):
            await here.recorder.until(
                lambda: a.group.phase is Phase.STABLE and a.group.generation > 1
            )
            # Heartbeats go on meanwhile, and both members know their new generation.
            await here.recorder.until(lambda: len(here.recorder.of(AssignmentReceived, "b")) > 0)
            assert here.recorder.count("begin", "b") == 0
            gate.set()
            await here.recorder.until(lambda: here.recorder.count("found", "b") == 1)
            assert here.recorder.overlaps() == []
            assert list(found.values()) == [Position(77)]
        gate.set()


async def test_tokens_grow_from_owner_to_owner() -> None:
    tokens: list[int] = []

    async def work(partition: Partition) -> None:
        tokens.append(partition.token)
        here.recorder.note("begin", partition, "x")
        await forever()

    async with world(1) as here:
        for count in range(1, 4):
            async with here.member("x", work):
                await here.recorder.until(lambda count=count: len(tokens) == count)  # type: ignore[misc]
    assert tokens == sorted(set(tokens))
    assert len(tokens) == 3


# -- losing -------------------------------------------------------------------------------------


async def test_fenced_member_stops_and_says_why() -> None:
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(world(2))
        old = await stack.enter_async_context(here.member("old", instance="one"))
        await here.until_shared(old=2)
        new = await stack.enter_async_context(here.member("new", instance="one"))
        await here.recorder.until(lambda: here.recorder.count("refused", "old") == 2)
        with pytest.raises(FencedInstanceIdError, match="taken over by member one-"):
            await old.running
        await here.until_shared(new=2)
        (fenced,) = here.recorder.of(Fenced)
        assert fenced.host == socket.gethostname()
        assert fenced.successor == new.group.member_id
        assert fenced.successor_host == "127.0.0.1"


async def test_fatal_error_that_was_not_raised_yet_is_raised_at_the_end() -> None:
    async with world(1) as here:
        with pytest.raises(FencedInstanceIdError):  # noqa: PT012  # it is the block that raises
            async with here.group("old", instance="one"):
                await here.recorder.until(lambda: bool(here.recorder.of(AssignmentReceived, "old")))
                async with here.member("new", instance="one"):
                    await here.recorder.until(lambda: bool(here.recorder.of(Fenced, "old")))


async def test_work_that_does_not_end_in_time_is_left_behind() -> None:
    gate = asyncio.Event()
    late: list[Exception] = []

    async def stubborn(partition: Partition) -> None:
        here.recorder.note("begin", partition, "a")
        try:
            await forever()
        finally:
            await gate.wait()
            try:
                await partition.commit(1)
            except PartitionLostError as error:
                late.append(error)
            here.recorder.note("end", partition, "a")

    async with world(2) as here, here.member("a", stubborn, rebalance_timeout=4.0) as a:
        await here.until_shared(a=2)
        async with here.member("b"):
            await here.recorder.until(lambda: bool(here.recorder.of(RevocationOverran, "a")))
            (overran,) = here.recorder.of(RevocationOverran, "a")
            ((topic, number),) = overran.partitions
            moved = f"{topic}[{number}]"
            await here.recorder.until(lambda: here.recorder.running("b") == {moved})
            assert moved in here.recorder.running("a")  # it can't be stopped, only fenced
        await here.recorder.until(lambda: bool(here.recorder.of(WorkHeldUp, "a")))
        assert here.recorder.count("begin", "a", moved) == 1
        gate.set()
        await here.recorder.until(lambda: here.recorder.count("begin", "a", moved) == 2)
        entries = [entry.what for entry in here.recorder.entries if entry.partition == moved]
        assert entries[-2:] == ["end", "begin"]
        assert [type(error) for error in late] == [PartitionLostError]
        assert a.group.counters.overran == 1


# -- static members -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("instance", "leave_on_close", "stays"),
    [(None, None, False), ("one", None, True), ("one", True, False), (None, False, True)],
)
async def test_static_members_stay_on_close_and_others_leave(
    instance: str | None,
    leave_on_close: bool | None,  # noqa: FBT001  # pytest hands it in by name
    stays: bool,  # noqa: FBT001
) -> None:
    """Unless `leave_on_close` says otherwise."""
    async with world(1) as here:
        async with here.member("a", instance=instance, leave_on_close=leave_on_close):
            await here.until_shared(a=1)
        assert here.server_members() == ({"a"} if stays else set())


async def test_static_member_comes_back_without_a_rebalance() -> None:
    async with world(4) as here, here.member("b", instance="two") as b:
        await here.until_shared(b=4)
        async with here.member("a", instance="one"):
            await here.until_shared(a=2, b=2)
            generation, mine = b.group.generation, here.recorder.running("a")
        async with here.member("a", instance="one") as a:
            await here.until_shared(a=2, b=2)
            assert (a.group.generation, a.owned) == (generation, mine)
            assert here.recorder.count("end", "b") == 2  # from when the first `a` came
            assert here.recorder.overlaps() == []


# -- sleep --------------------------------------------------------------------------------------


async def test_work_stops_when_the_machine_was_asleep_for_a_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept_s, elapsed = [0.0], time.clock_gettime
    monkeypatch.setattr(time, "clock_gettime", lambda clock: elapsed(clock) + slept_s[0])
    async with world(2) as here, here.member("a") as a:
        await here.until_shared(a=2)
        generation = a.group.generation
        slept_s[0] = 3_600.0
        await here.recorder.until(lambda: here.recorder.count("begin", "a") == 4)
        (lost,) = here.recorder.of(PartitionsLost)
        assert len(lost.partitions) == 2
        assert here.recorder.overlaps() == []
        assert a.group.generation == generation


# -- options ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"topics": TOPIC}, r"write topics=\['orders'\]"),
        ({"topics": []}, "topics must be .* at least one"),
        ({"session_timeout": 0.0}, "session_timeout must be a positive number of seconds, got 0.0"),
        (
            {"close_timeout": float("nan")},
            "close_timeout must be a positive number of seconds, got nan",
        ),
        (
            {"heartbeat_interval": 5.0},
            "heartbeat_interval must be at most a third of session_timeout",
        ),
        ({"instance": ""}, "instance"),
    ],
)
async def test_option_that_makes_no_sense_is_refused(
    options: dict[str, object], sentence: str
) -> None:
    async with world(1) as here:
        with pytest.raises(ValueError, match=sentence):
            here.group("a", **options)


async def test_configuration_errors_are_the_clients_own() -> None:
    async with world(1) as here:
        with pytest.raises(ConfigurationError):
            here.group("a", topics=[])


async def test_server_of_another_kind_is_told_in_words_and_tried_again() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1_000)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    retries: asyncio.Queue[RetryPlanned] = asyncio.Queue()

    def hear(event: Event) -> None:
        if isinstance(event, RetryPlanned) and event.what == "look for the coordinator":
            retries.put_nowait(event)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with server, Group(f"{host}:{port}", "billing", topics=[TOPIC], on_event=hear) as group:
        running = asyncio.create_task(group.run(lambda _: forever()))
        async with asyncio.timeout(60):
            reasons = [(await retries.get()).reason for _ in range(2)]
        running.cancel()
        await asyncio.wait({running})
    assert reasons[0].startswith(f"{host}:{port} answers HTTP, not Kafka's protocol.")
    assert reasons[1] == reasons[0]
