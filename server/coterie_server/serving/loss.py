"""Holds what a journal says against what the store has: a store can be an older copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coterie_server.journal import AcknowledgedState
    from coterie_server.serving.node import Node

__all__ = ["find_loss"]


def find_loss(node: Node, journal: AcknowledgedState) -> str | None:
    """What a journal knows and the groups do not, in words; None if nothing is missing."""

    def generation_of(group_id: str) -> int:
        coordinator = node.coordinator(group_id)
        return coordinator.generation_of(group_id) if coordinator else 0

    def committed_at(group_id: str, topic: str, partition: int) -> int | None:
        group = node.group(group_id)
        row = group.offsets.get((topic, partition)) if group else None
        return row.committed_at_ms if row else None

    def forgot_at(group_id: str) -> int:
        coordinator = node.coordinator(group_id)
        return coordinator.table.floor.forgot_at_ms if coordinator else -1

    return journal.find_loss(generation_of, committed_at, forgot_at)
