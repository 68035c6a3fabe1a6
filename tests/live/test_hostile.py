"""Hostile clients, and a group that must not notice them.

All tests share one daemon and one well-behaved group; each looks at both before and after.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from coterie_protocol import encode_request
from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from tests.live.conftest import SETTINGS, errors_in
from tests.live.daemon import Daemon, eventually
from tests.live.hostile import (
    connections,
    deafen,
    mutations,
    room_for_connections,
    throw,
    valid_frames,
)
from tests.live.steady_group import SteadyGroup
from tests.live.wire import Pair, Wire, join_request, run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unharmed")]

PENDING_MAX: Final = 2000
CONNECTIONS: Final = 5000
#: A topic of so many partitions makes long answers of short questions.
WIDE: Final = 1000
HOSTILE_SETTINGS: Final = {
    **SETTINGS,
    "connection.first.byte.timeout.ms": 20_000,
    "connection.frame.timeout.ms": 1500,
    "connection.drain.timeout.ms": 1500,
    "connection.write.buffer.max.bytes": 1_000_000,
    "max.pending.members.per.group": PENDING_MAX,
    "socket.request.max.bytes": 1_000_000,
    # Fuzzed requests would create topics of any size.
    "topic.max.partitions": WIDE,
}
#: What hostile clients may cost: no test of these holds a tenth of it by right.
MEMORY_MAX_BYTES: Final = 150_000_000
#: Heartbeats that may be slow in one test, on a machine that is busy with much else.
SLOW_MAX: Final = 3


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Give a daemon with short limits."""
    room_for_connections(CONNECTIONS)
    folder = tmp_path_factory.mktemp("hostile")
    with Daemon(folder, settings=HOSTILE_SETTINGS, topics={"wide": WIDE}) as daemon:
        yield daemon
    assert errors_in(daemon.whole_log()) == []


@pytest.fixture(scope="module")
def steady_group(daemon: Daemon) -> Iterator[SteadyGroup]:
    """Give a group that behaves well."""
    with SteadyGroup(daemon.port) as steady_group:
        yield steady_group


@pytest.fixture
def unharmed(daemon: Daemon, steady_group: SteadyGroup) -> Iterator[None]:
    """Look at the daemon and the group before and after a test."""
    before, memory_bytes = steady_group.account(), daemon.rss_bytes()
    yield
    # At least one round of heartbeats after it all.
    eventually(
        lambda: (
            steady_group.account().beats >= before.beats + 3 or steady_group.account().complaints
        ),
        "heartbeats of the well-behaved group",
    )
    after = steady_group.account()
    assert after.complaints == ()
    assert after.generation == before.generation
    assert after.slow - before.slow <= SLOW_MAX
    assert daemon.rss_bytes() - memory_bytes < MEMORY_MAX_BYTES
    assert daemon.group("well-behaved")["generation"] == after.generation


# -- bytes -------------------------------------------------------------------------------------

FRAMES: Final = 3000
SENDERS: Final = 30


def test_fuzzed_requests_break_nothing(daemon: Daemon) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    chance = random.Random(seed)
    frames = mutations(chance, valid_frames(), FRAMES)

    async def play() -> None:
        await asyncio.gather(*(throw(daemon.port, frames[n::SENDERS]) for n in range(SENDERS)))

    run(play())


def test_random_bytes_close_only_their_connection(daemon: Daemon) -> None:
    async def play() -> None:
        wires = [await Wire.open(daemon.port) for _ in range(50)]
        for wire in wires:
            wire.send_bytes(b"\0\0\x10\0" + random.randbytes(4096))
        async with asyncio.timeout(60):
            await asyncio.gather(*(wire.until_closed() for wire in wires))
        for wire in wires:
            wire.close()

    run(play())


# -- slowness ----------------------------------------------------------------------------------


def test_unfinished_requests_are_cut_off(daemon: Daemon) -> None:
    frame = encode_request(m.ListGroupsRequest(), 4, 1, "slow")

    async def play() -> None:
        wires = [await Wire.open(daemon.port) for _ in range(200)]
        for number, wire in enumerate(wires):
            wire.send_bytes(frame[: 1 + number % (len(frame) - 1)])
        async with asyncio.timeout(60):
            await asyncio.gather(*(wire.until_closed() for wire in wires))
        for wire in wires:
            wire.close()

    run(play())


def test_request_that_arrives_byte_by_byte_in_time_is_answered(daemon: Daemon) -> None:
    request = m.ListGroupsRequest()
    frame = encode_request(request, 4, 1, "slow")

    async def play() -> None:
        wire = await Wire.open(daemon.port)
        with contextlib.closing(wire):
            for at in range(len(frame)):
                wire.send_bytes(frame[at : at + 1])
                await asyncio.sleep(0.01)
            answer = await wire.receive(request, 4, 1)
        assert answer.error_code == ErrorCode.NONE

    run(play())


DEAF: Final = 3


def test_clients_that_read_no_answers_are_cut_off(daemon: Daemon) -> None:
    frame = encode_request(m.MetadataRequest(topics=None), 9, 1, "deaf")
    before = closed_for_not_reading(daemon)
    with contextlib.ExitStack() as deaf:
        for _ in range(DEAF):
            deaf.enter_context(deafen(daemon.port, frame * 500))
        eventually(lambda: closed_for_not_reading(daemon) == before + DEAF, "all are cut off")


def closed_for_not_reading(daemon: Daemon) -> float:
    """How many connections were closed for one of the two limits of unread answers."""
    reasons = 'reason="write_buffer_max_bytes"', 'reason="drain_timeout_ms"'
    return sum(daemon.figure("coterie_connections_closed_total", reason) for reason in reasons)


# -- numbers -----------------------------------------------------------------------------------


def test_thousands_of_idle_connections_cost_little(daemon: Daemon) -> None:
    number = room_for_connections(CONNECTIONS)
    memory_bytes = daemon.rss_bytes()

    async def play() -> None:
        async with connections(daemon.port, number):
            eventually(lambda: daemon.figure("coterie_connections") >= number, "all are there")
            assert daemon.rss_bytes() - memory_bytes < number * 20_000

    run(play())
    eventually(lambda: daemon.figure("coterie_connections") < 100, "all are gone")


def test_ids_that_are_never_claimed_are_bounded_and_expire(daemon: Daemon) -> None:
    request = join_request("besieged", session_ms=2000)

    async def play() -> None:
        wires = [await Wire.open(daemon.port) for _ in range(20)]
        errors = await asyncio.gather(*(ask_often(wire, PENDING_MAX // 20 + 10) for wire in wires))
        told = [error for some in errors for error in some]
        assert told.count(ErrorCode.MEMBER_ID_REQUIRED) == PENDING_MAX
        assert set(told) == {ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.GROUP_MAX_SIZE_REACHED}
        await join_at_last(wires[0])
        for wire in wires:
            wire.close()

    async def ask_often(wire: Wire, times: int) -> list[int]:
        return [(await wire.ask(request, 9)).error_code for _ in range(times)]

    async def join_at_last(wire: Wire) -> None:
        async with asyncio.timeout(60):
            answer = await wire.ask(request, 9)
            while answer.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                await asyncio.sleep(0.1)
                answer = await wire.ask(request, 9)
            joined = await wire.ask(join_request("besieged", answer.member_id), 9)
        assert joined.error_code == ErrorCode.NONE

    run(play())


def test_leader_that_never_syncs_is_dropped(daemon: Daemon) -> None:
    async def play() -> None:
        pair = await Pair.form(daemon.port, "waiting", rebalance_ms=1500)
        async with asyncio.timeout(60):
            synced = await pair.follower.ask(pair.follower_sync(), 3)
            again = await pair.follower.ask(join_request("waiting", pair.follower_id), 3)
        pair.close()
        assert synced.error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert (again.leader, len(again.members)) == (pair.follower_id, 1)

    run(play())


GROUPS: Final = 1500


def test_thousands_of_groups_cost_little(daemon: Daemon) -> None:
    memory_bytes = daemon.rss_bytes()

    async def play() -> None:
        wires = [await Wire.open(daemon.port) for _ in range(20)]
        names = [f"one-of-many-{number}" for number in range(GROUPS)]
        await asyncio.gather(*(form(wire, names[n :: len(wires)]) for n, wire in enumerate(wires)))
        listed = await wires[0].ask(m.ListGroupsRequest(states_filter=("Stable",)), 4)
        assert {group.group_id for group in listed.groups} >= set(names)
        for wire in wires:
            wire.close()

    async def form(wire: Wire, groups: list[str]) -> None:
        for group in groups:
            # Members before version 4 are not asked to come back with an id.
            joined = await wire.ask(join_request(group, session_ms=60_000), 3)
            assert joined.error_code == ErrorCode.NONE
            yours = m.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"yours")
            sync = m.SyncGroupRequest(
                group_id=group,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                assignments=(yours,),
            )
            assert (await wire.ask(sync, 3)).error_code == ErrorCode.NONE

    run(play())
    assert daemon.rss_bytes() - memory_bytes < GROUPS * 30_000


def test_connections_beyond_the_limit_of_open_files_are_refused(tmp_path: Path) -> None:
    shell = ("sh", "-c", 'ulimit -n 300; exec "$0" "$@"')
    with Daemon(tmp_path, settings=HOSTILE_SETTINGS, prefix=shell) as limited:

        async def play() -> None:
            async with connections(limited.port, 400):
                # A quarter of those that are left is for watchers of HTTP.
                eventually(lambda: refused(limited) == 250, "the rest is refused")

        run(play())
        assert '"limit": 150' in limited.log()
    assert errors_in(limited.whole_log()) == []


def refused(daemon: Daemon) -> float:
    """How many connections were refused because there were too many."""
    return daemon.figure("coterie_connections_refused_total", 'reason="max_connections"')
