"""Commits for topics that this node has not heard of, though a client may have been told of them.

The node that has the catalogue tells of a new topic as soon as that is stored, and the other nodes
hear of it a moment later.  Meanwhile its members may commit to one of these, to which a partition
that it does not know is an error that most clients don't try again.  So it looks into the store
before it says so.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol, final

from coterie_protocol.committed import CommittedPartitions
from coterie_protocol.error_codes import ErrorCode
from coterie_server.serving.answering import Answering
from coterie_server.serving.failures import failure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from coterie_protocol import messages as m
    from coterie_server.log.troubles import TroubleLog
    from coterie_server.net import Exchange

__all__ = ["UnheardTopics"]


class KnownTopics(Protocol):
    """The topics, as this node knows them."""

    @property
    def may_be_behind(self) -> bool:
        """Whether another node may have told of topics that this one has not heard of."""

    @property
    def counts(self) -> Mapping[str, int]:
        """How many partitions each topic has, as far as this node knows."""

    async def refresh(self) -> None:
        """Know all that any node has told of topics."""


@final
class UnheardTopics:
    """Hands on commits, and before that looks for the topics that they are about."""

    def __init__(
        self, topics: KnownTopics, hand_on: Callable[[Exchange], None], troubles: TroubleLog
    ) -> None:
        self._topics = topics
        self._hand_on = hand_on
        self._troubles = troubles
        #: How many commits of each group are held; later ones must not overtake them.
        self._held: Counter[str] = Counter()
        self._answering = Answering()

    def take(self, exchange: Exchange) -> None:
        """Take a commit."""
        message: m.OffsetCommitRequest = exchange.message
        if not self._has_to_wait(message):
            self._hand_on(exchange)
            return
        self._held[message.group_id] += 1
        self._answering.begin(exchange, self._look_first)

    def _has_to_wait(self, message: m.OffsetCommitRequest) -> bool:
        if self._held and message.group_id in self._held:
            return True  # also if this node knows all topics by now
        topics = self._topics
        return topics.may_be_behind and _names_unknown(message, topics.counts)

    def close(self) -> None:
        """Look for nothing more."""
        self._answering.close()

    async def _look_first(self, exchange: Exchange) -> None:
        group_id = exchange.message.group_id
        try:
            await self._topics.refresh()
        except Exception as error:  # noqa: BLE001  # whatever it is, the client has to try again
            self._troubles.note("the topics can't be read", str(error) or repr(error))
            unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
            exchange.reply(failure(exchange.message, exchange.version, unavailable))
        else:
            self._hand_on(exchange)
        finally:
            self._held[group_id] -= 1
            if not self._held[group_id]:
                del self._held[group_id]


def _names_unknown(message: m.OffsetCommitRequest, counts: Mapping[str, int]) -> bool:
    for topic in message.topics:
        indexes = CommittedPartitions.of(topic.partitions).indexes
        if max(indexes, default=-1) >= counts.get(topic.name, 0):
            return True
    return False
