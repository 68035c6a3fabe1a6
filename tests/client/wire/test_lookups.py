"""A resolver that hangs holds up nothing but the connections to the hosts that it is asked for."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvloop

from coterie_client import Directory, Group
from coterie_client.wire.addresses import NodeAddress
from coterie_client.wire.dialling import reach
from coterie_client.wire.lookups import look_up

HOST = NodeAddress("shop.internal", 9092)
LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])


@dataclass
class Resolver:
    """A resolver that hangs until it is told to answer."""

    may_answer: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)

    def getaddrinfo(self, host: str, port: int, **more: Any) -> list[Any]:
        del more
        self.asked.append(host)
        assert self.may_answer.wait(60)
        if host.startswith("no"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    """What answers for all names of hosts."""
    resolver = Resolver()
    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", resolver.getaddrinfo)
        yield resolver
        resolver.may_answer.set()
        for each in threads():
            each.join(60)


def threads() -> list[threading.Thread]:
    """The threads that look something up."""
    return [each for each in threading.enumerate() if "look-up" in each.name]


@LOOPS
def test_loop_ends_while_a_resolver_hangs(
    resolver: Resolver, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def take_part() -> int:
        hosts = [f"n{number}.internal:9092" for number in range(40)]
        async with (
            Directory("http://pages.internal:9080", "g"),
            Group(hosts, "g", topics=["t"], close_timeout=0.1),
        ):
            while len(resolver.asked) < 2:  # noqa: ASYNC110  # of a thread
                await asyncio.sleep(0.005)
            return await asyncio.wait_for(asyncio.to_thread(lambda: 7), 30)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(take_part()) == 7
    assert not resolver.may_answer.is_set()


@pytest.mark.asyncio
async def test_retries_wait_for_the_look_up_that_is_under_way(resolver: Resolver) -> None:
    for _ in range(20):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await look_up(HOST)
    assert resolver.asked == ["shop.internal"]
    assert len(threads()) == 1
    last = [asyncio.create_task(look_up(HOST)) for _ in range(2)]
    await asyncio.sleep(0)
    resolver.may_answer.set()
    for task in last:
        ((*_, target),) = await task
        assert target == ("127.0.0.1", 9092)
    assert resolver.asked == ["shop.internal"]


@pytest.mark.asyncio
async def test_name_is_looked_up_anew_for_each_connection(resolver: Resolver) -> None:
    resolver.may_answer.set()
    for _ in range(2):
        with pytest.raises(socket.gaierror, match="not known"):
            await look_up(NodeAddress("no.internal", 1))
    assert resolver.asked == ["no.internal"] * 2


@pytest.mark.asyncio
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_number_needs_no_thread(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a thread")

    monkeypatch.setattr(threading, "Thread", refuse)
    ((*_, target),) = await look_up(NodeAddress(host, 9092))
    assert target[:2] == (host, 9092)


@pytest.mark.asyncio
async def test_failure_to_start_a_thread_is_a_failed_connection(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(OSError, match="can't start new thread"):
            await reach(HOST)
    resolver.may_answer.set()
    assert await look_up(HOST)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked on this system")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.asyncio
async def test_child_that_is_forked_does_not_wait_for_its_parents_threads(
    resolver: Resolver,
) -> None:
    waiting = asyncio.create_task(look_up(HOST))
    while not resolver.asked:  # noqa: ASYNC110  # of a thread
        await asyncio.sleep(0.005)
    child = os.fork()
    if not child:
        from coterie_client.wire.lookups import _under_way  # noqa: PLC0415

        os._exit(len(_under_way))
    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    assert status == 0
    resolver.may_answer.set()
    assert await waiting
