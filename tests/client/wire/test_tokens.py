"""Functions that give tokens, and what they may do: hang, ignore their cancellation, and fail."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from coterie_client.errors import ConnectionFailedError
from coterie_client.wire import Connection, SaslMechanism
from coterie_client.wire.tokens import current_token
from tests.client.wire.doubles import PATIENCE_S, FakeServer, soon
from tests.client.wire.test_sasl import TOKEN, FakeSaslServer, bearer

pytestmark = pytest.mark.asyncio


@dataclass
class Vault:
    """Gives tokens, once it may."""

    may_answer: threading.Event = field(default_factory=threading.Event)
    asked: int = 0

    def ask(self) -> str:
        self.asked += 1
        assert self.may_answer.wait(PATIENCE_S)
        return TOKEN


@pytest.fixture
def vault() -> Iterator[Vault]:
    """What hangs until the test is over, unless that lets it answer."""
    vault = Vault()
    yield vault
    vault.may_answer.set()
    for each in threads():
        each.join(PATIENCE_S)


def threads() -> list[threading.Thread]:
    """The threads in which tokens are asked for."""
    return [each for each in threading.enumerate() if "token" in each.name]


async def begin(source: Callable[[], Any]) -> asyncio.Task[str]:
    """Ask for a token, and let the loop turn until it has got to the function."""
    asking = asyncio.create_task(current_token(source))
    for _ in range(5):
        await asyncio.sleep(0)
    return asking


async def give_up(source: Callable[[], Any], has_begun: Callable[[], bool]) -> None:
    """Ask for a token, and wait for it no longer once the function is at it."""
    asking = await begin(source)
    await soon(has_begun)
    asking.cancel()
    done, _ = await asyncio.wait([asking], timeout=PATIENCE_S)
    assert done
    assert asking.cancelled()


async def test_function_that_hangs_takes_no_thread_from_other_work(vault: Vault) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    async with FakeServer(FakeSaslServer(SaslMechanism.OAUTHBEARER, knows=TOKEN).answer) as server:
        opening = asyncio.create_task(Connection.open(server.address, security=bearer(vault.ask)))
        await soon(lambda: vault.asked > 0)
        try:
            assert await asyncio.wait_for(asyncio.to_thread(lambda: 7), 20) == 7
        finally:
            vault.may_answer.set()
            await (await opening).close()


async def test_process_does_not_wait_for_a_function_that_hangs(vault: Vault) -> None:
    await give_up(vault.ask, lambda: vault.asked > 0)
    assert [each.daemon for each in threads()] == [True]


async def test_retries_wait_for_the_call_that_hangs(vault: Vault) -> None:
    source = vault.ask
    for _ in range(20):
        await give_up(source, lambda: vault.asked > 0)
    last = await begin(source)
    vault.may_answer.set()
    assert await last == TOKEN
    assert vault.asked == 1


async def test_token_that_came_too_late_is_not_used(vault: Vault) -> None:
    source = vault.ask
    await give_up(source, lambda: vault.asked > 0)
    vault.may_answer.set()
    await soon(lambda: not threads())
    assert await current_token(source) == TOKEN
    assert vault.asked == 2


async def test_connections_at_one_time_ask_each_for_itself(vault: Vault) -> None:
    both = [asyncio.create_task(current_token(vault.ask)) for _ in range(2)]
    await soon(lambda: vault.asked == 2)
    vault.may_answer.set()
    assert [await each for each in both] == [TOKEN] * 2


async def test_function_that_ignores_its_cancellation_is_left_behind() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def source() -> str:
        begun.set()
        while not may_end.is_set():
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                continue
        raise LookupError("the vault is sealed")  # which is of no interest any more

    try:
        await give_up(source, begun.is_set)
    finally:
        may_end.set()


def cancelled() -> str:
    raise asyncio.CancelledError


def closed() -> str:
    raise GeneratorExit


async def cancelled_later() -> str:
    await asyncio.sleep(0)
    raise asyncio.CancelledError


@pytest.mark.parametrize("source", [cancelled, cancelled_later, closed, iter(()).__next__])
async def test_whatever_a_function_raises_is_a_failure_to_give_a_token(
    source: Callable[[], Any],
) -> None:
    with pytest.raises(ConnectionFailedError, match="gives tokens failed"):
        await asyncio.wait_for(current_token(source), PATIENCE_S)
