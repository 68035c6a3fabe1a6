"""SIGTERM and Ctrl-C stop the groups that ask for it."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator

import pytest
import uvloop

from coterie_client import Assigned, Group, GroupMisuseError, Phase
from coterie_client.events import AssignmentReceived, GroupLeft
from tests.client.group.world import world

BOTH = (signal.SIGTERM, signal.SIGINT)


def handlers() -> list[object]:
    """What handles the signals now."""
    return [signal.getsignal(number) for number in BOTH]


@pytest.fixture(autouse=True)
def nothing_changed() -> Iterator[None]:
    """Signals are handled as before when the groups are gone."""
    before = handlers()
    yield
    assert handlers() == before


async def turns(count: int) -> None:
    """Let the loop hear of signals."""
    for _ in range(count):
        await asyncio.sleep(0)


def lonely_group() -> Group:
    """A member whose coordinator can't be reached."""
    return Group("127.0.0.1:1", "billing", topics=["orders"], stop_on_signals=True)


@pytest.mark.asyncio
@pytest.mark.parametrize("number", BOTH)
async def test_signal_ends_run_in_good_order(number: signal.Signals) -> None:
    async with world(2) as here, here.group("a", stop_on_signals=True) as group:
        running = asyncio.create_task(group.run(here.work("a")))
        await here.until_shared(a=2)
        signal.raise_signal(number)
        await running
        assert here.recorder.running() == set()
        assert here.server_members() == set()
        assert group.phase is Phase.OVER


@pytest.mark.asyncio
async def test_signal_ends_changes() -> None:
    async with world(2) as here, here.group("a", stop_on_signals=True) as group:
        async for change in group.changes():
            if isinstance(change, Assigned):
                signal.raise_signal(signal.SIGTERM)
        assert here.server_members() == set()


@pytest.mark.asyncio
async def test_signal_stops_all_groups_of_the_loop() -> None:
    async with world(2) as here:
        async with (
            here.group("a", stop_on_signals=True) as a,
            here.group("b", stop_on_signals=True) as b,
        ):
            running = [asyncio.create_task(g.run(here.work(n))) for n, g in (("a", a), ("b", b))]
            await here.until_shared(a=1, b=1)
            signal.raise_signal(signal.SIGTERM)
            await asyncio.gather(*running)
        assert here.server_members() == set()


@pytest.mark.asyncio
async def test_groups_that_ended_are_not_stopped_and_others_are() -> None:
    async with lonely_group() as stays:
        async with lonely_group():
            pass
        signal.raise_signal(signal.SIGTERM)
        async for _ in stays.changes():
            pass
        assert stays.is_over


@pytest.mark.asyncio
async def test_signal_before_run_is_no_error() -> None:
    async with world(1) as here, here.group("a", stop_on_signals=True) as group:
        signal.raise_signal(signal.SIGTERM)
        await turns(5)
        await group.run(here.work("a"))


@pytest.mark.asyncio
async def test_signal_before_changes_are_read_is_no_error() -> None:
    async with world(1) as here, here.group("a", stop_on_signals=True) as group:
        await here.recorder.until(lambda: bool(here.recorder.of(AssignmentReceived)))
        signal.raise_signal(signal.SIGTERM)
        await here.recorder.until(lambda: bool(here.recorder.of(GroupLeft)))
        assert [change async for change in group.changes()] == []


@pytest.mark.asyncio
async def test_signals_are_left_alone_unless_asked_for() -> None:
    before = handlers()
    async with Group("127.0.0.1:1", "billing", topics=["orders"]):
        assert handlers() == before


@pytest.mark.asyncio
async def test_second_ctrl_c_is_handled_as_without_the_option() -> None:
    heard = 0

    def count(*_: object) -> None:
        nonlocal heard
        heard += 1

    former = signal.signal(signal.SIGINT, count)
    try:
        async with lonely_group():
            for _ in range(3):
                signal.raise_signal(signal.SIGINT)
                await turns(5)
            assert heard == 2
            signal.raise_signal(signal.SIGTERM)  # this one still changes nothing
            await turns(5)
    finally:
        signal.signal(signal.SIGINT, former)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_every_loop_of_a_process_may_have_groups(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def take_part() -> bool:
        async with lonely_group() as group:
            signal.raise_signal(signal.SIGTERM)
            async for _ in group.changes():
                pass
            return group.is_over

    for _ in range(2):
        with asyncio.Runner(loop_factory=new_loop) as runner:
            assert runner.run(take_part())


def test_other_threads_are_told_what_to_do() -> None:
    refused: list[str] = []

    async def take_part() -> None:
        with pytest.raises(GroupMisuseError) as error:
            async with lonely_group():
                pass
        refused.append(str(error.value))

    thread = threading.Thread(target=lambda: asyncio.run(take_part()))
    thread.start()
    thread.join()
    assert "main thread" in refused[0]
    assert "call_soon_threadsafe(group.stop)" in refused[0]


@pytest.mark.asyncio
async def test_loop_without_signals_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(asyncio.get_running_loop(), "add_signal_handler", missing)
    before = handlers()
    async with lonely_group():
        assert handlers() == before
