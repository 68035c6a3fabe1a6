"""A member of a group that uses Coterie's client: a task for each partition, which commits.

It tells what happens in lines of JSON, each with the time of the monotonic clock, which is the same
for all processes of a machine:

    {"at": 1.5, "what": "start", "partition": 3, "token": 41}     a task has begun
    {"at": 1.6, "what": "resume", ..., "offset": 7}               where it goes on
    {"at": 1.7, "what": "acked", ..., "offset": 8}                a commit was acknowledged
    {"at": 1.8, "what": "end", ...}                               the task has ended
    {"at": 1.2, "what": "state", "generation": 2, ...}            how the group stands now
    {"at": 1.7, "what": "revoking", "partitions": [3], ...}       some are to be let go of
    {"at": 1.7, "what": "lost", "partitions": [3], ...}           some are lost
    {"at": 1.4, "what": "decided", "members": 2}                  it leads, and has shared out
    {"at": 1.9, "what": "over", "error": null, "text": ""}        the group was left

A task has at most one commit under way, of the next higher offset. The member stops at the end of
its input, or at SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

import structlog

from coterie_assignors import (
    Assignor,
    CooperativeStickyAssignor,
    RangeAssignor,
    RoundRobinAssignor,
)
from coterie_client import Group, Partition
from coterie_client.events import Event, LeaderDecided, PartitionsLost, RevocationStarted
from tests.live.programs.lines import Options, say

#: Between two commits of a task.
_PAUSE_S: Final = 0.3
#: How long a task cleans up after it was cancelled, so that a client that does not wait for it is
#: found out: longer than a rebalance usually takes, and shorter than what is left of a session.
_CLEAN_UP_S: Final = 0.4
_LOOK_S: Final = 0.05

_ASSIGNORS: Final[dict[str, type[Assignor]]] = {
    each.name: each for each in (CooperativeStickyAssignor, RangeAssignor, RoundRobinAssignor)
}


def _tell(what: str, **details: object) -> None:
    say(json.dumps({"at": time.monotonic(), "what": what, **details}))


async def _work(partition: Partition) -> None:
    _tell_of("start", partition)
    try:
        await _commit_for_ever(partition)
    finally:
        _tell_of("end", partition)


async def _commit_for_ever(partition: Partition) -> None:
    position = await partition.committed()
    offset = position.offset if position else 0
    _tell_of("resume", partition, offset=offset)
    try:
        while True:
            offset = await _step(partition, offset)
            await asyncio.sleep(_PAUSE_S)
    finally:
        await asyncio.sleep(_CLEAN_UP_S)
        if partition.is_owned:
            await _step(partition, offset)


async def _step(partition: Partition, offset: int) -> int:
    await partition.commit(offset + 1)
    _tell_of("acked", partition, offset=offset + 1)
    return offset + 1


def _tell_of(what: str, partition: Partition, **details: object) -> None:
    _tell(what, partition=partition.number, token=partition.token, **details)


def _heed(event: Event) -> None:
    match event:
        case LeaderDecided(members=members):
            _tell("decided", members=members)
        case RevocationStarted(partitions=partitions, reason=reason):
            _tell("revoking", partitions=[number for _, number in partitions], reason=reason)
        case PartitionsLost(partitions=partitions, reason=reason):
            _tell("lost", partitions=[number for _, number in partitions], reason=reason)


async def _watch(group: Group) -> None:
    """Tell how the group stands, whenever that has changed."""
    told: dict[str, Any] = {}
    while True:
        state = {
            "member": group.member_id,
            "generation": group.generation,
            "is_settled": group.is_settled,
            "owned": len(group.owned),
        }
        if state != told:
            _tell("state", **state)
            told = state
        await asyncio.sleep(_LOOK_S)


async def _take_part(options: Options) -> None:
    loop = asyncio.get_running_loop()
    async with Group(
        options.bootstrap,
        options.group,
        topics=[options.topic],
        instance=options.instance,
        client_id=options.client,
        assignors=_assignors(options.assignor.split(",")),
        session_timeout=options.session_ms / 1000,
        heartbeat_interval=options.heartbeat_ms / 1000,
        rebalance_timeout=options.rebalance_ms / 1000,
        on_event=_heed,
    ) as group:

        def stop() -> None:
            loop.remove_reader(sys.stdin)
            group.stop()

        loop.add_signal_handler(signal.SIGTERM, stop)
        loop.add_reader(sys.stdin, stop)
        watching = asyncio.create_task(_watch(group))
        try:
            await group.run(_work)
        finally:
            watching.cancel()


def _assignors(names: Sequence[str]) -> list[Assignor]:
    return [_ASSIGNORS[name]() for name in names]


async def main() -> None:
    """Take part until told to stop."""
    try:
        await _take_part(Options.read())
    except Exception as error:  # noqa: BLE001 - the test is told, whatever it is
        _tell("over", error=type(error).__name__, text=str(error))
    else:
        _tell("over", error=None, text="")


if __name__ == "__main__":
    structlog.configure(
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )
    asyncio.run(main())
