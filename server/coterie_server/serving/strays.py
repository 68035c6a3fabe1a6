"""Groups in shards that are not their own, as where a store's number of shards was changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie_protocol.shards import shard_of
from coterie_server.storage import StoreError

if TYPE_CHECKING:
    from coterie_server.group import GroupCoordinator

__all__ = ["refuse_strays"]


def refuse_strays(url: str, shard: int, shards: int, coordinator: GroupCoordinator) -> None:
    """Raise `StoreError` if a group was read that no request looks for in this shard.

    It would pass for gone, with its offsets.
    """
    for group_id in (*coordinator.groups, *coordinator.table.tombstones):
        if shard_of(group_id, shards) != shard:
            raise StoreError(
                f"{url} is damaged (group {group_id!r} is in shard {shard}, but not by its number"
                " of shards): restore a backup, or see how to recover a store in the documentation"
            )
