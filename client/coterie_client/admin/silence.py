"""Gives up on a node that is silent, if the other nodes do not name it any more.

A machine that has lost its power, or a process that hangs, breaks no connection.  Long before a
request to it has taken too long, others have its groups.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from coterie_client.errors import AnswerTimedOutError, ConnectionFailedError
from coterie_client.wire.addresses import ANY, AnyNode, NodeAddress, named_nodes
from coterie_client.wire.network import Network
from coterie_protocol.messages import MetadataRequest

__all__ = ["WHO_IS_THERE", "ask_unless_gone"]

#: Asks for the nodes of the cluster, and for no topics.
WHO_IS_THERE: Final = MetadataRequest(topics=(), allow_auto_topic_creation=False)

#: After how long without an answer the others are asked, again and again.
_LATE_S: Final = 2.0


async def ask_unless_gone(
    message: Any, node: NodeAddress, network: Network, timeout_s: float
) -> Any:
    """A node's answer; raises a retriable error if it is silent and not there any more."""
    sent = asyncio.Event()
    answer = network.request(message, to=node, timeout_s=timeout_s, on_sent=sent.set)
    asked = asyncio.ensure_future(answer)
    try:
        while not asked.done():
            await asyncio.wait((asked,), timeout=_LATE_S)
            if asked.done():
                break
            network.note_slow(node)
            if await _is_gone(node, asked, network, timeout_s):
                network.hang_up(node)
                sentence = f"{node} is silent, and no longer one of the cluster's nodes."
                # What was sent may have been carried out.
                raise (AnswerTimedOutError if sent.is_set() else ConnectionFailedError)(sentence)
        return asked.result()
    finally:
        asked.cancel()


async def _is_gone(
    node: NodeAddress, asked: asyncio.Future[Any], network: Network, timeout_s: float
) -> bool:
    """Whether the other nodes name this one no more; it is not, if it answers meanwhile.

    On another listener, it is named by another address; and one that was started anew may have
    another id.
    """
    node_id = network.id_of(node)
    is_alone = set(network.known.values()) <= {node}
    whom = ANY if is_alone else AnyNode(but=node)
    others = network.request(WHO_IS_THERE, to=whom, timeout_s=timeout_s)
    question = asyncio.ensure_future(others)
    try:
        await asyncio.wait((asked, question), return_when=asyncio.FIRST_COMPLETED)
        if not question.done() or question.exception() is not None or asked.done():
            return False
        named = named_nodes(question.result())
        return bool(named) and node_id not in named and node not in named.values()
    finally:
        question.cancel()
