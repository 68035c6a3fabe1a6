"""What the supervisor does when workers end, hang or can't be started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from coterie_server.config.options import ServerOptions, WorkerOptions
from coterie_server.config.settings import Settings
from coterie_server.workers.channel import PING, PONG, Ready, receive_options, stop_line
from coterie_server.workers.child import FIRST_PINGS_MAX, PINGS_MAX
from coterie_server.workers.supervisor import Supervisor

pytestmark = pytest.mark.asyncio

#: Only bounds a failure.
PATIENCE_S: Final = 30.0
READY: Final = Ready({"default": "127.0.0.1:1"}, groups=0, topics=1).line()


class Fake:
    """A process that a test answers for."""

    def __init__(self, its: socket.socket) -> None:
        self.socket = socket.socket(fileno=os.dup(its.fileno()))
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.options: ServerOptions

    async def begin(self) -> None:
        """Hear what it is."""
        self.options = await asyncio.to_thread(receive_options, self.socket)
        self.socket.settimeout(0)

    async def say(self, line: bytes) -> None:
        """Have it say something."""
        await asyncio.get_running_loop().sock_sendall(self.socket, line)

    async def expect(self, line: bytes) -> None:
        """Have it hear what it is told next."""
        assert await asyncio.get_running_loop().sock_recv(self.socket, len(line)) == line

    async def answer_ping(self) -> None:
        """Have it answer the next ping."""
        await self.expect(PING)
        await self.say(PONG)

    def end(self, code: int) -> None:
        """Have it end, with its end of the channel."""
        if not self._ended.done():
            self.socket.close()
            self._ended.set_result(code)

    @property
    def has_ended(self) -> bool:
        """Whether it does not run any more."""
        return self._ended.done()

    def kill(self) -> None:
        """As of a process."""
        self.end(-signal.SIGKILL)

    async def wait(self) -> int:
        """As of a process."""
        return await asyncio.shield(self._ended)


class Fakes:
    """The processes that a supervisor has started, by their nodes, in their order."""

    def __init__(self) -> None:
        self.started: dict[int, list[Fake]] = {1: [], 2: []}
        #: What the next starts of a node fail with.
        self.errors: dict[int, list[OSError]] = {1: [], 2: []}
        self._wake = asyncio.Event()

    async def start(self, options: ServerOptions, its: socket.socket) -> Fake:
        """In place of starting a process."""
        node_id = options.settings.node_id
        if self.errors[node_id]:
            raise self.errors[node_id].pop()
        fake = Fake(its)
        self.started[node_id].append(fake)
        self._wake.set()
        return fake

    async def get(self, node_id: int, number: int = 0) -> Fake:
        """A process, as soon as it has begun."""
        while len(self.started[node_id]) <= number:
            self._wake.clear()
            await self._wake.wait()
        fake = self.started[node_id][number]
        await fake.begin()
        return fake


def options(node_id: int) -> ServerOptions:
    return ServerOptions(
        settings=Settings(
            node_id=node_id,
            group_max_size=7,
            bootstrap_user="ann",
            bootstrap_password="secret",  # noqa: S106  # as good as any
            bootstrap_users_file="users.txt",
        ),
        data_dir=Path("data"),
        topics={"t": 4},
        worker=WorkerOptions((1, 2)),
    )


@contextlib.contextmanager
def fakes() -> Iterator[Fakes]:
    made = Fakes()
    try:
        yield made
    finally:
        for each in (*made.started[1], *made.started[2]):
            each.end(0)


async def never() -> None:
    """Wait for what does not come."""
    await asyncio.Event().wait()


Scene = Callable[[Fakes], Awaitable[None]]


async def supervised(
    scene: Scene,
    made: Fakes,
    say: Callable[[str], None] = lambda _: None,
    until_next_ping: Callable[[], Awaitable[object]] = never,
) -> int:
    """Run two workers, and what a test does with them; return the supervisor's exit code."""
    watched = Supervisor(
        [options(1), options(2)],
        start=made.start,
        say=say,
        until_next_ping=until_next_ping,
    )
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        code = tasks.create_task(watched.run())
        tasks.create_task(scene(made))  # type: ignore[arg-type]  # a coroutine
    return code.result()


async def both_ready(made: Fakes) -> tuple[Fake, Fake]:
    first, second = await made.get(1), await made.get(2)
    for each in (first, second):
        await each.say(READY)
    return first, second


def stop(made: Fakes) -> None:
    """As Ctrl-C does; all processes end in good order."""
    signal.raise_signal(signal.SIGINT)
    for each in (*made.started[1], *made.started[2]):
        each.end(0)


async def test_worker_that_can_not_begin_ends_all_while_another_waits_to_begin_again() -> None:
    async def scene(made: Fakes) -> None:
        first, second = await made.get(1), await made.get(2)
        await first.say(READY)
        first.end(-signal.SIGKILL)  # and is to be started again in a moment
        second.end(1)

    with fakes() as made:
        assert await supervised(scene, made) == 1
        assert all(each.has_ended for each in made.started[1])


async def test_worker_that_is_being_started_as_all_are_to_end_is_ended_as_well() -> None:
    is_asked, may_start = asyncio.Event(), asyncio.Event()

    class Slow(Fakes):
        async def start(self, options: ServerOptions, its: socket.socket) -> Fake:
            if self.started[1] and options.settings.node_id == 1:
                is_asked.set()
                await may_start.wait()
            return await super().start(options, its)

    async def scene(made: Fakes) -> None:
        first, second = await made.get(1), await made.get(2)
        await first.say(READY)
        first.end(-signal.SIGKILL)
        await is_asked.wait()
        second.end(1)
        may_start.set()

    made = Slow()
    assert await supervised(scene, made) == 1
    assert all(each.has_ended for each in made.started[1])


async def test_worker_that_can_not_be_started_again_at_once_is_started_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As while its program is replaced, or the machine has no memory for another process."""

    async def scene(made: Fakes) -> None:
        first, _ = await both_ready(made)
        made.errors[1] = [FileNotFoundError(2, "No such file or directory", "python")]
        first.end(-signal.SIGKILL)
        again = await made.get(1, 1)
        await again.say(READY)
        stop(made)

    with fakes() as made:
        assert await supervised(scene, made) == 0
    assert "a worker can't be started" in caplog.text
    assert "No such file or directory: 'python'" in caplog.text


async def test_worker_that_can_not_be_started_at_all_ends_the_others() -> None:
    async def scene(_made: Fakes) -> None:
        """Nothing that a worker would have to say."""

    with fakes() as made:
        made.errors[2] = [PermissionError(13, "Permission denied", "python")]
        assert await supervised(scene, made) == 1
        assert all(each.has_ended for each in made.started[1])


async def test_worker_that_hangs_while_it_begins_is_killed() -> None:
    async def scene(made: Fakes) -> None:
        first, second = await both_ready(made)
        first.end(-signal.SIGKILL)
        hangs = await made.get(1, 1)
        for _ in range(FIRST_PINGS_MAX + 1):
            assert not hangs.has_ended
            rounds.put_nowait(None)
            await second.answer_ping()
        third = await made.get(1, 2)
        assert hangs.has_ended
        await third.say(READY)
        stop(made)

    rounds: asyncio.Queue[None] = asyncio.Queue()
    with fakes() as made:
        assert await supervised(scene, made, until_next_ping=rounds.get) == 0


async def test_worker_is_given_more_time_to_begin_than_to_answer() -> None:
    async def scene(made: Fakes) -> None:
        first, second = await made.get(1), await made.get(2)
        for _ in range(PINGS_MAX + 1):
            rounds.put_nowait(None)
            await first.expect(PING)  # which it does not answer
        assert not first.has_ended
        for each in (first, second):
            await each.say(READY)
        stop(made)

    rounds: asyncio.Queue[None] = asyncio.Queue()
    with fakes() as made:
        assert await supervised(scene, made, until_next_ping=rounds.get) == 0


async def test_worker_that_hangs_as_all_are_to_end_is_killed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scene(made: Fakes) -> None:
        first, second = await both_ready(made)
        await until_ready.wait()
        signal.raise_signal(signal.SIGTERM)
        await second.expect(stop_line("SIGTERM"))
        second.end(0)
        for _ in range(PINGS_MAX + 1):
            assert not first.has_ended
            rounds.put_nowait(None)
            await asyncio.sleep(0)

    rounds: asyncio.Queue[None] = asyncio.Queue()
    until_ready = asyncio.Event()
    with fakes() as made:
        code = await supervised(scene, made, lambda _: until_ready.set(), rounds.get)
        assert code == 1
    assert "a worker does not answer, and is killed" in caplog.text


async def test_worker_that_answers_has_the_time_that_it_needs_to_end() -> None:
    """As while the store is slow to take what it hands over."""

    async def scene(made: Fakes) -> None:
        first, second = await both_ready(made)
        await until_ready.wait()
        signal.raise_signal(signal.SIGTERM)
        for each in (first, second):
            await each.expect(stop_line("SIGTERM"))
        second.end(0)
        for _ in range(FIRST_PINGS_MAX * 2):
            rounds.put_nowait(None)
            await first.answer_ping()
        first.end(0)

    rounds: asyncio.Queue[None] = asyncio.Queue()
    until_ready = asyncio.Event()
    with fakes() as made:
        assert await supervised(scene, made, lambda _: until_ready.set(), rounds.get) == 0


async def test_worker_that_is_started_again_begins_nothing() -> None:
    """Others use the store, and operators may have changed topics, and removed users, since."""

    async def scene(made: Fakes) -> None:
        first, _ = await both_ready(made)
        first.end(-signal.SIGKILL)
        again = await made.get(1, 1)
        assert begun_by(first) == (False, {"t": 4}, "ann", "secret", "users.txt")
        assert begun_by(again) == (True, {}, "", "", "")
        assert again.options.settings.group_max_size == 7
        stop(made)

    with fakes() as made:
        assert await supervised(scene, made) == 0


def begun_by(fake: Fake) -> tuple[object, ...]:
    settings, worker = fake.options.settings, fake.options.worker
    assert worker is not None
    return (
        worker.is_again,
        fake.options.topics,
        settings.bootstrap_user,
        settings.bootstrap_password,
        settings.bootstrap_users_file,
    )


async def test_worker_that_is_asked_to_end_before_it_serves_has_not_failed() -> None:
    """As by systemd, which sends SIGTERM to all processes of a service."""

    async def scene(made: Fakes) -> None:
        first, second = await made.get(1), await made.get(2)
        signal.raise_signal(signal.SIGTERM)
        await first.expect(stop_line("SIGTERM"))
        first.end(-signal.SIGTERM)
        second.end(0)

    with fakes() as made:
        assert await supervised(scene, made) == 0


async def test_worker_that_is_asked_to_end_by_itself_before_it_serves_is_started_again() -> None:
    async def scene(made: Fakes) -> None:
        first, second = await made.get(1), await made.get(2)
        first.end(0)
        again = await made.get(1, 1)
        for each in (again, second):
            await each.say(READY)
        stop(made)

    with fakes() as made:
        assert await supervised(scene, made) == 0


async def test_ready_line_tells_where_all_workers_are() -> None:
    said: asyncio.Queue[str] = asyncio.Queue()

    async def scene(made: Fakes) -> None:
        await both_ready(made)
        line = await said.get()
        assert "2 workers on 127.0.0.1:1, 127.0.0.1:1; data: 0 groups, 1 topic" in line
        stop(made)

    with fakes() as made:
        assert await supervised(scene, made, said.put_nowait) == 0
