"""Topics: list, describe, create, grow and delete them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from coterie_client.admin import arguments
from coterie_client.admin.caller import Caller
from coterie_client.admin.models import (
    CreatedTopic,
    NewTopic,
    PartitionDescription,
    Result,
    Results,
    TopicDescription,
    TopicListing,
    error_of,
)
from coterie_client.wire.versions import ByVersion
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.exceptions import CoterieError
from coterie_protocol.messages import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from coterie_protocol.schema import NIL_UUID

__all__ = ["Topics"]

#: How long to wait for a node to show what the controller has done.
_VISIBLE_WITHIN_S: Final = 5.0
_POLL_INTERVAL_S: Final = 0.05
_NO_TOPIC: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
#: Means "the server's default" in requests.
_DEFAULT: Final = -1


class Topics:
    """Operations on topics; use `Admin.topics`.

    Methods on one topic raise that topic's error. Those whose names end in `_many` return a result
    for each topic, so that one topic's error does not hide the results of the others.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def list(self, *, internal: bool = False) -> tuple[TopicListing, ...]:
        """List all topics by name; those of the server itself only with `internal`."""

        async def call(deadline_s: float) -> tuple[TopicListing, ...]:
            answer = await self._metadata(None, deadline_s)
            listed = [_listing(topic) for topic in answer.topics if not topic.error_code]
            shown = [topic for topic in listed if internal or not topic.internal]
            return tuple(sorted(shown, key=lambda topic: topic.name))

        return await self._caller.once(call)

    async def describe(self, name: str) -> TopicDescription:
        """Describe a topic; raises `UnknownTopicOrPartitionError` if it does not exist."""
        return (await self.describe_many([name]))[name].get()

    async def describe_many(self, names: Iterable[str]) -> Results[str, TopicDescription]:
        """Describe topics with their partitions."""

        async def attempt(
            asked: Iterable[str], deadline_s: float
        ) -> Mapping[str, Result[TopicDescription]]:
            answer = await self._metadata(asked, deadline_s)
            return {topic.name or "": _described(topic) for topic in answer.topics}

        return await self._caller.settle(arguments.names(names), attempt)

    async def create(
        self,
        name: str,
        partitions: int | None = None,
        *,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> CreatedTopic:
        """Create a topic; raises `TopicAlreadyExistsError` if it exists."""
        topic = NewTopic(name, partitions, replication_factor, configs or {})
        return (await self.create_many([topic], validate_only=validate_only))[name].get()

    async def create_many(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> Results[str, CreatedTopic]:
        """Create topics, or with `validate_only` check that they could be created."""
        by_name = arguments.topics(topics)

        async def attempt(
            names: Iterable[str], deadline_s: float
        ) -> Mapping[str, Result[CreatedTopic]]:
            request = CreateTopicsRequest(
                topics=tuple(_creatable(by_name[name]) for name in names),
                timeout_ms=self._caller.request_timeout_ms,
                validate_only=validate_only,
            )
            answer = await self._caller.to_controller(request, deadline_s)
            results = {topic.name: _created(topic) for topic in answer.topics}
            return self._caller.noting_controller(results)

        results = await self._caller.settle(by_name, attempt)
        if not validate_only:
            await self._wait_until_visible(_succeeded(results), lambda found: found.ok)
        return results

    async def grow(self, name: str, partitions: int) -> None:
        """Increase a topic's number of partitions; otherwise raises `InvalidPartitionsError`."""
        (await self.grow_many({name: partitions}))[name].get()

    async def grow_many(self, partitions: Mapping[str, int]) -> Results[str, None]:
        """Increase the number of partitions of topics."""
        wanted = arguments.counts(partitions)

        async def attempt(names: Iterable[str], deadline_s: float) -> Mapping[str, Result[None]]:
            topics = (
                CreatePartitionsTopic(name=name, count=wanted[name], assignments=None)
                for name in names
            )
            request = CreatePartitionsRequest(
                topics=tuple(topics),
                timeout_ms=self._caller.request_timeout_ms,
                validate_only=False,
            )
            answer = await self._caller.to_controller(request, deadline_s)
            return self._caller.noting_controller(
                {r.name: _done(r, r.name) for r in answer.results}
            )

        results = await self._caller.settle(wanted, attempt)

        def has_grown(found: Result[TopicDescription]) -> bool:
            topic = found.value
            return topic is not None and len(topic.partitions) >= wanted[topic.name]

        await self._wait_until_visible(_succeeded(results), has_grown)
        return results

    async def delete(self, name: str) -> None:
        """Delete a topic; raises `UnknownTopicOrPartitionError` if it does not exist."""
        (await self.delete_many([name]))[name].get()

    async def delete_many(self, names: Iterable[str]) -> Results[str, None]:
        """Delete topics."""

        async def attempt(asked: Iterable[str], deadline_s: float) -> Mapping[str, Result[None]]:
            request = _deletion(tuple(asked), self._caller.request_timeout_ms)
            answer = await self._caller.to_controller(request, deadline_s)
            results = {r.name or "": _done(r, r.name) for r in answer.responses}
            return self._caller.noting_controller(results)

        results = await self._caller.settle(arguments.names(names), attempt, done_if=_NO_TOPIC)
        await self._wait_until_visible(_succeeded(results), lambda found: not found.ok)
        return results

    async def _metadata(self, names: Iterable[str] | None, deadline_s: float) -> MetadataResponse:
        asked = None if names is None else tuple(MetadataRequestTopic(name=n) for n in names)
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        answer = await self._caller.ask(request, deadline_s)
        assert isinstance(answer, MetadataResponse)
        return answer

    async def _wait_until_visible(
        self, names: Iterable[str], agrees: Callable[[Result[TopicDescription]], bool]
    ) -> None:
        """Wait for a node to show what was done, but not for long.

        The controller answers before other nodes know, and a topic is usually created to be used
        next.
        """
        loop = asyncio.get_running_loop()
        left, until_s = tuple(names), loop.time() + _VISIBLE_WITHIN_S
        while left:
            found = await self.describe_many(left)
            left = tuple(name for name, result in found.items() if not agrees(result))
            if not left or loop.time() >= until_s:
                return
            await asyncio.sleep(_POLL_INTERVAL_S)


def _succeeded(results: Results[str, Any]) -> tuple[str, ...]:
    return tuple(name for name, result in results.items() if result.ok)


def _listing(topic: MetadataResponseTopic) -> TopicListing:
    return TopicListing(
        topic.name or "", _id(topic.topic_id), len(topic.partitions), topic.is_internal
    )


def _described(topic: MetadataResponseTopic) -> Result[TopicDescription]:
    error = error_of(topic.error_code, f"topic {topic.name}")
    if error is not None:
        return Result(error=error)
    partitions = (
        PartitionDescription(
            p.partition_index,
            p.leader_id if p.leader_id >= 0 else None,
            p.replica_nodes,
            p.isr_nodes,
        )
        for p in topic.partitions
    )
    ordered = tuple(sorted(partitions, key=lambda p: p.partition))
    return Result(
        TopicDescription(topic.name or "", _id(topic.topic_id), topic.is_internal, ordered)
    )


def _creatable(topic: NewTopic) -> CreatableTopic:
    configs = (CreatableTopicConfig(name=k, value=v) for k, v in topic.configs.items())
    return CreatableTopic(
        name=topic.name,
        num_partitions=_DEFAULT if topic.partitions is None else topic.partitions,
        replication_factor=(
            _DEFAULT if topic.replication_factor is None else topic.replication_factor
        ),
        assignments=(),
        configs=tuple(configs),
    )


def _created(topic: CreatableTopicResult) -> Result[CreatedTopic]:
    error = _error(topic, topic.name)
    if error is not None:
        return Result(error=error)
    partitions = topic.num_partitions if topic.num_partitions >= 0 else None
    replication_factor = topic.replication_factor if topic.replication_factor >= 0 else None
    return Result(CreatedTopic(topic.name, _id(topic.topic_id), partitions, replication_factor))


def _deletion(names: tuple[str, ...], timeout_ms: int) -> ByVersion:
    """DeleteTopics: since version 6 topics may be named by ids as well, in another field."""

    def build(version: int) -> DeleteTopicsRequest:
        if version < 6:
            return DeleteTopicsRequest(topic_names=names, timeout_ms=timeout_ms)
        topics = tuple(DeleteTopicState(name=name, topic_id=NIL_UUID) for name in names)
        return DeleteTopicsRequest(topics=topics, timeout_ms=timeout_ms)

    return ByVersion(DeleteTopicsRequest, build)


def _done(result: Any, name: str | None) -> Result[None]:
    return Result(error=_error(result, name))


def _error(result: Any, name: str | None) -> CoterieError | None:
    return error_of(result.error_code, f"topic {name}", result.error_message)


def _id(topic_id: uuid.UUID) -> uuid.UUID | None:
    return None if topic_id == NIL_UUID else topic_id
