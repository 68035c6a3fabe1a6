"""An operator accepts that the store lacks something that was acknowledged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from coterie_server.group import GENERATIONS_SKIPPED
from coterie_server.log.logger import get_logger
from coterie_server.storage import StoreError

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from coterie_server.serving.group_shard import GroupShard
    from coterie_server.storage import Store

__all__ = ["accept_loss", "tell_of_lost_topics"]

_log = get_logger(__name__)

#: How many topics a line of the log names.
_NAMED_MAX: Final = 100


async def accept_loss(store: Store, shards: Sequence[GroupShard]) -> None:
    """Take what the store lacks for lost, once the groups that were read have skipped it."""
    own = [shard for shard in shards if shard.is_owned]
    for shard in own:
        if shard.is_owned and not await shard.until_durable():
            raise StoreError(f"shard {shard.shard} can't be stored; the log says why")
    await store.accept_loss()
    _log.warning(
        "what the store lacks is taken for lost, and groups begin new generations;"
        " from now on start it without --accept-data-loss",
        generations_skipped=GENERATIONS_SKIPPED,
    )
    if others := len(shards) - len(own):
        _log.warning("other nodes have shards, whose groups go on as they were", shards=others)


def tell_of_lost_topics(shards: Sequence[GroupShard], topics: Container[str]) -> None:
    """Say in which topics groups have offsets that other nodes, and later starts, would drop."""
    lost = {
        topic
        for shard in shards
        if shard.core is not None
        for group in shard.core.groups.values()
        for topic, _ in group.offsets
        if topic not in topics
    }
    if lost:
        _log.warning(
            "groups have offsets in topics that the store lacks; they are kept if these are created"
            " before this node is started again, or another one",
            count=len(lost),
            topics=sorted(lost)[:_NAMED_MAX],
        )
