"""The pages that say who owns what: all of a group, the owner of one key, and a watch."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final
from urllib.parse import unquote_to_bytes

from aiohttp import web

from coterie_protocol.partitioner import partition_of_key
from coterie_server.group import Refusal, no_group
from coterie_server.group.owners import Ownership, Ownerships, OwnerState
from coterie_server.http.answers import bad_request, json_body
from coterie_server.http.elsewhere import Elsewhere
from coterie_server.http.owner_watch import GroupWatch, owner_watches
from coterie_server.http.ownership_json import head_of, pieces_of
from coterie_server.http.streams import ALIVE_S, Streams, write_in_pieces

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yarl import URL

    from coterie_server.group.ledger import Partition
    from coterie_server.http.node_view import NodeView

__all__ = ["OwnerPages"]

_NUMBER_CHARS_MAX: Final = 10
_UNOWNED: Final = Ownership(OwnerState.UNOWNED)


@dataclass(frozen=True, slots=True)
class _Query:
    """The one partition that is asked for; all of them if neither is given."""

    topic: str | None
    number: int | None
    key: bytes | None

    @classmethod
    def read(cls, url: URL) -> _Query:
        query = url.query
        key, text = _key(url), query.get("partition")
        if key is not None and text is not None:
            raise bad_request("Give either key or partition, not both.")
        if text is None:
            return cls(query.get("topic"), None, key)
        if not (text.isascii() and text.isdecimal() and len(text) <= _NUMBER_CHARS_MAX):
            raise bad_request("partition must be a whole number from 0.")
        return cls(query.get("topic"), int(text), None)

    def partition(self, sizes: Mapping[str, int]) -> Partition | None:
        """The partition that is meant, of topics of these sizes; None if all are."""
        if self.number is None and self.key is None:
            return None
        topic = self.topic
        if topic is None and len(sizes) == 1:
            (topic,) = sizes
        if topic is None:
            raise bad_request("topic must be given, as the group does not have just one topic.")
        if (size := sizes.get(topic, 0)) < 1:
            raise Refusal("topic_not_found", f"There is no topic {topic!r}.")
        if self.number is not None:
            if self.number >= size:
                sentence = f"The topic {topic!r} has {size} partitions, the last is {size - 1}."
                raise Refusal("partition_not_found", sentence)
            return topic, self.number
        return topic, partition_of_key(self.key or b"", size)


def _key(url: URL) -> bytes | None:
    """The key that is asked for; bytes that are no text are lost in the query as it is read."""
    for each in url.raw_query_string.split("&"):
        name, _, value = each.partition("=")
        if unquote_to_bytes(name) == b"key":
            return unquote_to_bytes(value.replace("+", " ").encode(errors="surrogateescape"))
    return None


@final
class OwnerPages:
    """Answers who owns what."""

    def __init__(
        self,
        node: NodeView,
        elsewhere: Elsewhere,
        streams: Streams,
        one_at_a_time: asyncio.Lock,
    ) -> None:
        self._node = node
        self._elsewhere = elsewhere
        self._streams = streams
        self._one_at_a_time = one_at_a_time
        self._watches = owner_watches(node)

    async def close(self, _app: web.Application) -> None:
        """End all watches, so that their clients turn to other nodes."""
        self._watches.close()

    async def owners(self, request: web.Request) -> web.StreamResponse:
        """Say who owns what, or who owns one partition."""
        self._node.require_open()
        group_id = request.match_info["group"]
        elsewhere = await self._elsewhere.answer(request, group_id)
        if elsewhere is not None:
            return elsewhere
        query = _Query.read(request.rel_url)
        async with self._one_at_a_time:
            found = await self._node.ownerships(group_id)
            if found is None:
                raise no_group(group_id)
            chosen = self._chosen(query, found)
            head = head_of(group_id, found)
            body = b"".join([each async for each in pieces_of(head, chosen.items())])
        await self._node.confirm(group_id)
        return json_body(body)

    def _chosen(self, query: _Query, found: Ownerships) -> Mapping[Partition, Ownership]:
        # A topic may be none of those that members work on now, as in a group without members.
        known = self._node.topics
        named = query.topic
        sizes = dict(found.topics)
        if named is not None and named not in sizes and named in known:
            sizes[named] = known[named]
        partition = query.partition(sizes)
        if partition is not None:
            return {partition: found.partitions.get(partition, _UNOWNED)}
        if named is None:
            return found.partitions
        if named not in sizes:
            raise Refusal("topic_not_found", f"There is no topic {named!r}.")
        if named not in found.topics:
            return {(named, number): _UNOWNED for number in range(sizes[named])}
        return {each: owner for each, owner in found.partitions.items() if each[0] == named}

    # -- watching ------------------------------------------------------------------------------

    async def watch(self, request: web.Request) -> web.StreamResponse:
        """Tell who owns what, and then each change, as server-sent events."""
        return await self._elsewhere.stream(request, self._streams, self._tell)

    async def _tell(self, request: web.Request, group_id: str) -> web.StreamResponse:
        watch = await self._watches.join(group_id)
        try:
            response = await self._streams.begin(request)
            await _Watcher(self._streams, watch, response).run(_last_seen(request))
            return response
        finally:
            self._watches.leave(group_id, watch)


def _last_seen(request: web.Request) -> str:
    return request.headers.get("Last-Event-ID") or request.query.get("after", "")


class _Watcher:
    """Sends one watcher what it has not seen yet."""

    def __init__(self, streams: Streams, watch: GroupWatch, response: web.StreamResponse) -> None:
        self._streams, self._watch, self._response = streams, watch, response

    async def run(self, last_seen: str) -> None:
        """Send events until the watch ends or the client goes."""
        watch, changes = self._watch, self._watch.changes
        place = watch.place_of(last_seen) if last_seen else None
        if place is None:
            place = await self._send_table(self._why_whole(last_seen))
        while True:
            missed = changes.after(place)
            if missed is None:
                place = await self._send_table("too_late")
                continue
            for number, event in missed:
                await write_in_pieces(self._response, event)
                place = number
            if changes.ended:
                break
            if not await changes.changed(place, ALIVE_S):
                await self._streams.say_alive(self._response)
        await self._streams.end(self._response, changes.ended)

    def _why_whole(self, last_seen: str) -> str:
        if not last_seen:
            return "new"
        return "too_late" if last_seen.startswith(f"{self._watch.epoch}.") else "other_node"

    async def _send_table(self, reason: str) -> int:
        number, pieces = await self._watch.snapshot()
        head = f'id: {self._watch.epoch}.{number}\nevent: snapshot\ndata: {{"reason":"{reason}",'
        await self._response.write(head.encode() + pieces[0][1:])
        # The pieces are the same for all watchers, and one is on its way to each at a time.
        for piece in pieces[1:]:
            await self._response.write(piece)
        await self._response.write(b"\n\n")
        return number
