"""A daemon that is told to stop: parked requests are answered, and it ends well and soon."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from tests.live.conftest import SETTINGS, errors_in
from tests.live.daemon import Daemon, eventually
from tests.live.wire import LOOK_AGAIN, Pair, Wire, join_request, run

#: How long it would wait for clients that do not take their last answers.
PATIENCE_MS: Final = 600_000
#: How long members may be away: until then, the parked requests would not be over either.
AWAY_MS: Final = 600_000
TOPIC: Final = "parked"


@pytest.fixture(scope="module")
def stoppable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Give a daemon that is not running; tests start it."""
    settings = {**SETTINGS, "shutdown.timeout.ms": PATIENCE_MS}
    daemon = Daemon(tmp_path_factory.mktemp("stopping"), settings=settings, topics={TOPIC: 1})
    yield daemon
    daemon.kill()
    assert errors_in(daemon.whole_log()) == []


@dataclass(slots=True)
class Parked:
    """A request whose answer waits for another request."""

    request: Any
    wires: tuple[Wire, ...]
    sent: int

    @classmethod
    async def join(cls, port: int, group: str) -> Parked:
        """A second member joins, and the first does not join again."""
        first, second = [await Wire.open(port) for _ in range(2)]
        request = join_request(group, rebalance_ms=AWAY_MS)
        await first.ask(request, 3)
        return cls(request, (second, first), second.send(request, 3))

    @classmethod
    async def sync(cls, port: int, group: str) -> Parked:
        """A follower asks for its assignment, and the leader has not brought it."""
        pair = await Pair.form(port, group, rebalance_ms=AWAY_MS)
        request = pair.follower_sync()
        return cls(request, (pair.follower, pair.leader), pair.follower.send(request, 3))

    async def answer(self) -> ErrorCode:
        """Wait for the answer, and then for the end of all connections."""
        answer = await self.wires[0].receive(self.request, 3, self.sent)
        for wire in self.wires:
            await wire.until_closed()
            wire.close()
        return ErrorCode(answer.error_code)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_parked_requests_are_answered(stoppable: Daemon, number: signal.Signals) -> None:
    async def play() -> list[ErrorCode]:
        parked = [
            await Parked.join(stoppable.port, f"join-{number.name}"),
            await Parked.sync(stoppable.port, f"sync-{number.name}"),
        ]
        await until_parked(stoppable, "JoinGroup", "SyncGroup")
        stopping = asyncio.create_task(asyncio.to_thread(stoppable.stop, number))
        errors = [await each.answer() for each in parked]
        await stopping
        return errors

    with stoppable:
        assert set(run(play())) <= LOOK_AGAIN
    assert f'"reason": "{number.name}"' in stoppable.log()


async def until_parked(daemon: Daemon, *apis: str) -> None:
    """Wait until a request of each of these APIs waits."""

    def are_parked() -> bool:
        figures = (daemon.figure("coterie_parked_requests", f'api="{api}"') for api in apis)
        return all(figure > 0 for figure in figures)

    await asyncio.to_thread(eventually, are_parked, f"{apis} are parked")


def test_waiting_fetch_is_answered(stoppable: Daemon) -> None:
    partition = m.FetchPartition(
        partition=0, fetch_offset=7, log_start_offset=-1, partition_max_bytes=1000
    )
    request = m.FetchRequest(
        max_wait_ms=AWAY_MS,
        min_bytes=1,
        topics=(m.FetchTopic(topic=TOPIC, partitions=(partition,)),),
    )

    async def play() -> m.FetchResponse:
        wire = await Wire.open(stoppable.port)
        with contextlib.closing(wire):
            sent = wire.send(request, 11)
            await until_parked(stoppable, "Fetch")
            stopping = asyncio.create_task(asyncio.to_thread(stoppable.stop))
            answer: m.FetchResponse = await wire.receive(request, 11, sent)
            await stopping
            return answer

    with stoppable:
        (topic,) = run(play()).responses
    assert [(each.error_code, each.high_watermark) for each in topic.partitions] == [(0, 7)]


def test_systemd_is_notified(tmp_path: Path) -> None:
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(path))
        listening.settimeout(60)
        with Daemon(tmp_path / "daemon", environ={"NOTIFY_SOCKET": str(path)}):
            assert listening.recv(100) == b"READY=1"
        assert listening.recv(100) == b"STOPPING=1"


@pytest.mark.slow
def test_repeated_signals_still_end_cleanly(stoppable: Daemon) -> None:
    with stoppable:
        for _ in range(3):
            stoppable.process.send_signal(signal.SIGINT)
        stoppable.stop()
