"""Each node on a store is reached at an address of its own.

Clients that look for one of two nodes at the same address find the other one, which refuses them,
and so do nodes; nothing else would tell an operator why some groups are not served.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from coterie_server.log.logger import get_logger
from coterie_server.server_error import ServerError
from coterie_server.serving import NodeNote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from coterie_server.address import Address
    from coterie_server.security.records import Credentials
    from coterie_server.serving.node import Node, NodeOptions
    from coterie_server.storage import NodeEntry, Store

__all__ = ["start_in_own_place"]

_log = get_logger(__name__)

#: How often to look whether a node that may have ended is still listed.
_LOOK_S: Final = 0.1
#: How much longer than its entry is valid for a node may be listed that has ended.
_SLACK_S: Final = 0.5


async def start_in_own_place(
    node: Node,
    store: Store,
    options: NodeOptions,
    topics: Mapping[str, int],
    users: Credentials,
) -> None:
    """Start a node; raise `ServerError` if another one is reached at an address of its."""
    is_shared, place = options.look_every_ms is not None, _Place(options)
    if is_shared:
        await place.wait_until_free(store)
    await node.start(dict(topics), users)
    if is_shared:
        # Another one may have come at the same time.
        place.refuse(node.cluster.others)


class _Place:
    """Where clients and other nodes reach a node."""

    def __init__(self, options: NodeOptions) -> None:
        self._me = options.owner
        self._addresses = dict(options.addresses) or {"": options.address}

    async def wait_until_free(self, store: Store) -> None:
        """Wait for nodes at the same address that may have ended, until they are listed no more."""
        time_s = asyncio.get_running_loop().time
        #: The entry of each as it was first seen, and until when it is listed if it has ended.
        first: dict[str, tuple[str, float]] = {}
        while rivals := list(self._rivals((await store.survey()).nodes)):
            for entry, note in rivals:
                if entry.owner not in first:
                    _log.info(
                        "waiting for a node at the same address, which may have ended",
                        other=note.node_id,
                        left_ms=entry.left_ms,
                    )
                    first[entry.owner] = entry.until, time_s() + entry.left_ms / 1000 + _SLACK_S
                until, over_s = first[entry.owner]
                if entry.until != until or time_s() > over_s:
                    # It was renewed, so that node is there.
                    self.refuse([note])
            await asyncio.sleep(_LOOK_S)

    def _rivals(self, entries: Iterable[NodeEntry]) -> Iterator[tuple[NodeEntry, NodeNote]]:
        for entry in entries:
            if entry.is_valid and entry.owner != self._me:
                note = NodeNote.in_entry(entry)
                if note is not None and self._shared_with(note) is not None:
                    yield entry, note

    def refuse(self, others: Iterable[NodeNote]) -> None:
        """Raise an error if one of these is at the same address."""
        for note in others:
            if (address := self._shared_with(note)) is not None:
                raise ServerError(
                    f"node {note.node_id}, on the same store, is reached at {address} as well, so"
                    " clients would look for groups of the one at the other."
                    " Give each node an address of its own."
                )

    def _shared_with(self, note: NodeNote) -> Address | None:
        """An address by which both are reached; one that is about to stop is in nobody's way."""
        if note.is_leaving:
            return None
        mine, theirs = self._addresses, note.addresses
        same = [address for name, address in mine.items() if theirs.get(name) == address]
        if _first(mine) == _first(theirs):
            same.append(_first(mine))
        return same[0] if same else None


def _first(addresses: Mapping[str, Address]) -> Address:
    """Where other nodes reach it."""
    return next(iter(addresses.values()))
