"""How a server goes that shares its store with others: its groups first, then their members.

A member learns with an answer that its group has another coordinator, and carries on there.  One
that finds its connection closed can't know that: some clients then give up their place in the
group, which has to rebalance, and some join anew beside their former selves.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from coterie_server.log.logger import get_logger

if TYPE_CHECKING:
    from coterie_server.net import Listener
    from coterie_server.serving.node import Node

__all__ = ["hand_over"]

_log = get_logger(__name__)

#: How often to look whether members still have to hear of it.
_LOOK_S: Final = 0.05


async def hand_over(node: Node, listener: Listener, linger_s: float) -> None:
    """Give the groups to other nodes, and stay until their members have heard of it.

    Members ask with each heartbeat and commit; those that don't within `linger_s` are not waited
    for.
    """
    await node.leave()
    if asked := _asked(node, listener, linger_s):
        _log.info("members are told that their groups are elsewhere", connections=asked)
        if silent := await _left_unheard(node, listener, linger_s):
            _log.info("members have not asked", connections=silent, linger_s=linger_s)


async def _left_unheard(node: Node, listener: Listener, within_s: float) -> int:
    """Wait until all have heard; return how many have not."""
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while True:
                if not _asked(node, listener, within_s):
                    return 0
                await asyncio.sleep(_LOOK_S)
    return _asked(node, listener, within_s)


def _asked(node: Node, listener: Listener, linger_s: float) -> int:
    """On how many connections members still ask here, though others have what the node had.

    There are none to be told if the node has something yet, or no other is there to stay.
    """
    if any(shard.is_owned for shard in node.all_shards()):
        return 0
    is_followed = any(not note.is_leaving for note in node.cluster.others)
    return listener.members(linger_s) if is_followed else 0
