"""Offsets: how far groups have come, and where partitions begin and end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, Literal

from coterie_client import checks
from coterie_client.admin import arguments
from coterie_client.admin.caller import Caller
from coterie_client.admin.models import CommittedOffset, FoundOffset
from coterie_client.admin.offset_messages import (
    EARLIEST,
    LATEST,
    commit_of,
    committed_in,
    deleted_in,
    deletion_of,
    fetch_of,
    find_of,
    found_in,
    leaders_in,
    stored_in,
)
from coterie_client.admin.results import Result, Results
from coterie_client.errors import ConfigurationError
from coterie_client.wire.addresses import NodeAddress, TopicPartition
from coterie_protocol.exceptions import CoterieError
from coterie_protocol.messages import MetadataRequest, MetadataRequestTopic

__all__ = ["Offsets"]

Committed = dict[TopicPartition, CommittedOffset]

_FOUND_BY: Final[Mapping[str, int]] = {"earliest": EARLIEST, "latest": LATEST}


class Offsets:
    """What can be done with offsets; reached as `Admin.offsets`.

    Methods on several partitions raise `BatchFailedError`, which has the error of each that failed,
    or that error itself if there was only one partition to begin with.
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
        """What a group has committed, for some partitions or for all; a group may have nothing.

        With `require_stable`, offsets that an open transaction may change are waited for.
        """
        asked = None if partitions is None else arguments.pairs(partitions)
        results = await self._fetch([group], asked, require_stable=require_stable)
        return results[group].get()

    async def fetch_many(
        self, groups: Iterable[str], *, require_stable: bool = False
    ) -> Results[str, Committed]:
        """All that several groups have committed."""
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
                request = fetch_of(group, partitions, require_stable=require_stable)
                try:
                    answer = await self._caller.ask(request, deadline_s, node)
                    return Result(committed_in(answer, group))
                except CoterieError as error:
                    return Result(error=error)

            async with asyncio.TaskGroup() as tasks:
                fetches = {group: tasks.create_task(ask_for(group)) for group in asked}
            return {group: fetch.result() for group, fetch in fetches.items()}

        return await self._caller.for_groups(groups, ask)

    async def set(
        self, group: str, offsets: Mapping[TopicPartition, int | CommittedOffset]
    ) -> None:
        """Set offsets of a group, which may be new but must not have members at work.

        Raises `NonEmptyGroupError` while it has: they would go on from where they are, and commit
        over it.
        """
        positions = arguments.offsets_of(offsets)

        async def ask(
            node: NodeAddress, asked: Iterable[TopicPartition], deadline_s: float
        ) -> Mapping[TopicPartition, Result[None]]:
            request = commit_of(group, {partition: positions[partition] for partition in asked})
            answer = await self._caller.ask(request, deadline_s, node)
            return stored_in(answer, group)

        (await self._caller.in_group(group, positions, ask)).get_all()

    async def reset(
        self,
        group: str,
        to: Literal["earliest", "latest"],
        partitions: Iterable[TopicPartition] | None = None,
    ) -> dict[TopicPartition, int]:
        """Set a group's offsets to where partitions begin or end; answer what they were set to.

        Without `partitions`, those for which the group has offsets. The same holds for the group's
        members as with `set`.
        """
        if to not in _FOUND_BY:
            raise ConfigurationError(f"{to!r} is not a place to reset to: say earliest or latest.")
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
            answer = await self._caller.ask(deletion_of(group, asked), deadline_s, node)
            return deleted_in(answer, group)

        (await self._caller.in_group(group, arguments.pairs(partitions), ask)).get_all()

    # Where partitions begin and end

    async def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where partitions begin."""
        return _numbers(await self.find(partitions, EARLIEST))

    async def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where partitions end: the offset that the next record gets."""
        return _numbers(await self.find(partitions, LATEST))

    async def find(
        self, partitions: Iterable[TopicPartition], timestamp_ms: int
    ) -> dict[TopicPartition, FoundOffset]:
        """The first offset of each partition that is as late as a time, in ms since 1970."""
        wanted = arguments.pairs(partitions)
        checks.whole("timestamp_ms", timestamp_ms, -(2**63), 2**63 - 1)

        async def ask(
            node: NodeAddress, its: Iterable[TopicPartition], deadline_s: float
        ) -> Mapping[TopicPartition, Result[FoundOffset]]:
            return found_in(await self._caller.ask(find_of(its, timestamp_ms), deadline_s, node))

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
        """Where the partitions' leaders are."""
        topics = dict.fromkeys(topic for topic, _ in partitions)
        request = MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=topic) for topic in topics),
            allow_auto_topic_creation=False,
        )
        return leaders_in(await self._caller.ask(request, deadline_s), partitions)


def _numbers(found: Mapping[TopicPartition, FoundOffset]) -> dict[TopicPartition, int]:
    return {partition: f.offset for partition, f in found.items() if f.offset is not None}
