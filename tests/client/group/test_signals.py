"""SIGTERM and Ctrl-C stop the groups that ask for it."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytest
import uvloop

from coterie_client import Assigned, Group, GroupMisuseError, Phase
from coterie_client.events import AssignmentReceived, GroupLeft
from coterie_client.signals import StopSignals
from coterie_client.wire.network import Network
from tests.client.group.world import world

BOTH = (signal.SIGTERM, signal.SIGINT)
LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])


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
async def test_second_signal_changes_nothing_while_connections_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The process would die of it, though it may have more to put in order behind its group."""
    close = Network.aclose

    async def aclose(self: Network) -> None:
        signal.raise_signal(signal.SIGTERM)
        await turns(1)
        await close(self)

    async with lonely_group() as group:
        monkeypatch.setattr(Network, "aclose", aclose)
    assert group.is_over


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


@LOOPS
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
    missing = asyncio.AbstractEventLoop.add_signal_handler
    monkeypatch.setattr(type(asyncio.get_running_loop()), "add_signal_handler", missing)
    before = handlers()
    async with lonely_group():
        assert handlers() == before


@LOOPS
@pytest.mark.parametrize("number", BOTH)
def test_handlers_that_the_loop_was_given_before_are_called_as_well_and_stay(
    new_loop: Callable[[], asyncio.AbstractEventLoop], number: signal.Signals
) -> None:
    heard: list[str] = []

    async def live() -> None:
        loop = asyncio.get_running_loop()
        former = signal.getsignal(number)
        loop.add_signal_handler(number, heard.append, "the program")
        async with lonely_group() as group:
            signal.raise_signal(number)
            async for _ in group.changes():
                pass
        for _ in range(2):
            signal.raise_signal(number)
            await asyncio.sleep(0.05)  # uvloop reads signals from a socket
        loop.remove_signal_handler(number)
        signal.signal(number, former)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(live())
    assert heard == ["the program"] * 3


@LOOPS
def test_handler_that_is_set_while_a_group_is_open_is_left_alone(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    def mine(*_: object) -> None: ...

    async def live() -> None:
        async with lonely_group():
            signal.signal(signal.SIGTERM, mine)
        assert signal.getsignal(signal.SIGTERM) is mine
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(live())


def test_signal_does_what_it_did_when_the_loop_was_closed_with_a_group_in_it() -> None:
    heard: list[int] = []
    former = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))

    async def abandon() -> None:
        listening = StopSignals(lambda _: None)
        listening.listen()

    with asyncio.Runner() as runner:
        runner.run(abandon())
    signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGTERM)
    assert heard == [signal.SIGTERM] * 2
    signal.signal(signal.SIGTERM, former)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked on this system")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@LOOPS
def test_child_that_is_forked_dies_of_a_signal_and_its_parent_goes_on(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def live() -> int:
        async with lonely_group() as group:
            child = os.fork()
            if not child:
                os.kill(os.getpid(), signal.SIGTERM)
                os._exit(0)
            _, status = await asyncio.to_thread(os.waitpid, child, 0)
            await asyncio.sleep(0.05)
            assert not group.is_over
            signal.raise_signal(signal.SIGTERM)
            async for _ in group.changes():
                pass
        return os.waitstatus_to_exitcode(status)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(live()) == -signal.SIGTERM
