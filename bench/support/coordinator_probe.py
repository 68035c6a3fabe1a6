"""Commits to many groups all the time, so that it is seen for how long each has no coordinator."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, Self

from coterie_protocol import messages as m
from tests.live.wire import Wire

__all__ = ["Probe", "commit_request", "group_in_shard"]

#: Between two commits of a group that are acknowledged, and between attempts if they are not.
_PAUSE_S: Final = 0.05
_RETRY_S: Final = 0.01
_TIMEOUT_S: Final = 1.0


def group_in_shard(shard: int, shards: int, number: int = 0) -> str:
    """The name of a group that falls into a shard; with other numbers, others."""
    names = (f"probed-{count}" for count in itertools.count())
    found = (name for name in names if zlib.crc32(name.encode()) % shards == shard)
    return next(itertools.islice(found, number, None))


def commit_request(group: str, topic: str, offsets: Sequence[int]) -> m.OffsetCommitRequest:
    """A commit from outside the group, of an offset for each partition from the first on."""
    partitions = tuple(
        m.OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=""
        )
        for index, offset in enumerate(offsets)
    )
    topics = (m.OffsetCommitRequestTopic(name=topic, partitions=partitions),)
    return m.OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=topics
    )


class Probe:
    """Commits to groups, at whichever node coordinates each; it works within its context."""

    def __init__(self, ports: Sequence[int], topic: str, groups: Sequence[str]) -> None:
        self._ports = tuple(ports)
        self._topic = topic
        #: When commits of each group were acknowledged.
        self.acks: dict[str, list[float]] = {group: [] for group in groups}
        #: Where each group's coordinator is, as far as that is known.
        self.places: dict[str, int] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._commit_for_ever(group)) for group in self.acks]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def raise_failure(self) -> None:
        """Raise the error that has ended a group's commits, if one has."""
        for task in self._tasks:
            if task.done():
                task.result()

    async def until_served(self, since_s: float) -> None:
        """Wait until each group has had a commit acknowledged that was sent after a moment."""
        while not all(acks and acks[-1] > since_s for acks in self.acks.values()):
            self.raise_failure()
            await asyncio.sleep(_RETRY_S)

    def longest_wait_s(self, since_s: float) -> float:
        """The longest time after a moment in which a group had no commit acknowledged."""
        return max(
            after - max(before, since_s)
            for acks in self.acks.values()
            for before, after in pairwise(acks)
            if after > since_s
        )

    async def _commit_for_ever(self, group: str) -> None:
        for offset in itertools.count():
            with contextlib.suppress(ConnectionError, TimeoutError):
                await self._commit_while_there(group, offset)
            self.places.pop(group, None)
            await asyncio.sleep(_RETRY_S)

    async def _commit_while_there(self, group: str, offset: int) -> None:
        """Find the coordinator, and commit to it until it is there no longer."""
        port = await self._find(group)
        if port is None:
            return
        wire = await Wire.open(port)
        self.places[group] = port
        with contextlib.closing(wire):
            while True:
                async with asyncio.timeout(_TIMEOUT_S):
                    answer = await wire.ask(commit_request(group, self._topic, [offset]), 8)
                if answer.topics[0].partitions[0].error_code:
                    return
                self.acks[group].append(time.perf_counter())
                await asyncio.sleep(_PAUSE_S)

    async def _find(self, group: str) -> int | None:
        """Ask the nodes in turn where the coordinator is, until one of them knows."""
        for port in self._ports:
            with contextlib.suppress(ConnectionError, TimeoutError):
                wire = await Wire.open(port)
                with contextlib.closing(wire):
                    async with asyncio.timeout(_TIMEOUT_S):
                        found = await wire.ask(m.FindCoordinatorRequest(key=group), 3)
                if not found.error_code:
                    return int(found.port)
        return None
