"""Offsets: what groups have committed, and where partitions begin and end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, Literal

from coterie_client import checks
from coterie_client.admin import arguments
from coterie_client.admin.caller import Caller
from coterie_client.admin.models import CommittedOffset, FoundOffset, Result, Results
from coterie_client.admin.offset_messages import (
    EARLIEST,
    LATEST,
    commit_request,
    commit_results,
    delete_request,
    delete_results,
    fetch_request,
    fetched_offsets,
    list_request,
    list_results,
    partition_leaders,
)
from coterie_client.wire.addresses import NodeAddress, TopicPartition
from coterie_protocol.exceptions import CoterieError
from coterie_protocol.messages import MetadataRequest, MetadataRequestTopic

__all__ = ["Offsets"]

Committed = dict[TopicPartition, CommittedOffset]

_FOUND_BY: Final[Mapping[str, int]] = {"earliest": EARLIEST, "latest": LATEST}


class Offsets:
    """Operations on offsets; use `Admin.offsets`.

    Methods on several partitions raise `BatchFailedError`, with the error of each that failed, or
    that error itself if only one partition was given.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    # What groups have committed

    async def fetch(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> Committed:
        """Return what a group has committed, for some partitions or for all.

        With `require_stable`, wait for offsets that an open transaction may change.
        """
        asked = None if partitions is None else arguments.pairs(partitions)
        results = await self._fetch([group], asked, require_stable=require_stable)
        return results[group].get()

    async def fetch_many(
        self, groups: Iterable[str], *, require_stable: bool = False
    ) -> Results[str, Committed]:
        """Return all that several groups have committed."""
        return await self._fetch(groups, None, require_stable=require_stable)

    async def _fetch(
        self,
        groups: Iterable[str],
        partitions: tuple[TopicPartition, ...] | None,
        *,
        require_stable: bool,
    ) -> Results[str, Committed]:
        async def ask(
            node: NodeAddress, asked: Iterable[str], deadline_s: float
        ) -> Mapping[str, Result[Committed]]:
            async def ask_for(group: str) -> Result[Committed]:
                request = fetch_request(group, partitions, require_stable=require_stable)
                try:
                    answer = await self._caller.ask(request, deadline_s, node)
                    return Result(fetched_offsets(answer, group))
                except CoterieError as error:
                    return Result(error=error)

            async with asyncio.TaskGroup() as tasks:
                fetches = {group: tasks.create_task(ask_for(group)) for group in asked}
            return {group: fetch.result() for group, fetch in fetches.items()}

        return await self._caller.for_groups(groups, ask)

    async def set(
        self, group: str, offsets: Mapping[TopicPartition, int | CommittedOffset]
    ) -> None:
        """Set offsets of a group, which may be new but must not have active members.

        Raises `NonEmptyGroupError` while it has: they would continue from their own positions and
        overwrite the offsets.
        """
        positions = arguments.offsets_of(offsets)

        async def ask(
            node: NodeAddress, asked: Iterable[TopicPartition], deadline_s: float
        ) -> Mapping[TopicPartition, Result[None]]:
            request = commit_request(
                group, {partition: positions[partition] for partition in asked}
            )
            answer = await self._caller.ask(request, deadline_s, node)
            return commit_results(answer, group)

        (await self._caller.in_group(group, positions, ask)).get_all()

    async def reset(
        self,
        group: str,
        to: Literal["earliest", "latest"],
        partitions: Iterable[TopicPartition] | None = None,
    ) -> dict[TopicPartition, int]:
        """Set a group's offsets to the beginning or end of partitions; return the new offsets.

        Without `partitions`, those for which the group has offsets. As with `set`, the group must
        not have active members.
        """
        if to not in _FOUND_BY:
            checks.must_be("to", "'earliest' or 'latest'", to)
        chosen = await self.fetch(group) if partitions is None else partitions
        found = await self.find(chosen, _FOUND_BY[to])
        offsets = _numbers(found)
        await self.set(group, offsets)
        return offsets

    async def delete(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Delete offsets of a group.

        Raises `GroupSubscribedToTopicError` for topics that its members are subscribed to.
        """

        async def ask(
            node: NodeAddress, asked: Iterable[TopicPartition], deadline_s: float
        ) -> Mapping[TopicPartition, Result[None]]:
            answer = await self._caller.ask(delete_request(group, asked), deadline_s, node)
            return delete_results(answer, group)

        (await self._caller.in_group(group, arguments.pairs(partitions), ask)).get_all()

    # Where partitions begin and end

    async def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        return _numbers(await self.find(partitions, EARLIEST))

    async def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the end of each partition: the offset of its next record."""
        return _numbers(await self.find(partitions, LATEST))

    async def find(
        self, partitions: Iterable[TopicPartition], timestamp_ms: int
    ) -> dict[TopicPartition, FoundOffset]:
        """Return the first offset of each partition at or after a time, in ms since 1970."""
        wanted = arguments.pairs(partitions)
        checks.whole("timestamp_ms", timestamp_ms, -(2**63), 2**63 - 1)

        async def ask(
            node: NodeAddress, its: Iterable[TopicPartition], deadline_s: float
        ) -> Mapping[TopicPartition, Result[FoundOffset]]:
            return list_results(
                await self._caller.ask(list_request(its, timestamp_ms), deadline_s, node)
            )

        async def attempt(
            asked: Iterable[TopicPartition], deadline_s: float
        ) -> Mapping[TopicPartition, Result[FoundOffset]]:
            leaders = await self._leaders(asked, deadline_s)
            placed = {partition: r.value for partition, r in leaders.items() if r.value}
            failed: dict[TopicPartition, Result[FoundOffset]] = {
                partition: Result(error=r.error) for partition, r in leaders.items() if r.error
            }
            found = await self._caller.by_node(placed, lambda n, its: ask(n, its, deadline_s))
            return failed | found

        return (await self._caller.settle(wanted, attempt)).get_all()

    async def _leaders(
        self, partitions: Iterable[TopicPartition], deadline_s: float
    ) -> dict[TopicPartition, Result[NodeAddress]]:
        """The nodes that lead the partitions."""
        topics = dict.fromkeys(topic for topic, _ in partitions)
        request = MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=topic) for topic in topics),
            allow_auto_topic_creation=False,
        )
        return partition_leaders(await self._caller.ask(request, deadline_s), partitions)


def _numbers(found: Mapping[TopicPartition, FoundOffset]) -> dict[TopicPartition, int]:
    return {partition: f.offset for partition, f in found.items() if f.offset is not None}
