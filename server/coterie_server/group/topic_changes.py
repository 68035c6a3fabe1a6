"""Topics that come, grow or go: which groups have to rebalance for that.

A coordinator may hear of a topic later than the leader of a group, which asks any node.  What the
leader has assigned already needs no rebalance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie_server.group.rebalance import prepare
from coterie_server.group.states import GroupState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coterie_server.group.group import Group
    from coterie_server.group.step import Step

__all__ = ["rebalance_for_topics", "settle_topics"]


def rebalance_for_topics(step: Step, group: Group, changes: Mapping[str, str]) -> None:
    """Start a rebalance if topics that the group subscribes to are not what it goes by."""
    if group.state is GroupState.COMPLETING and "deleted" not in changes.values():
        group.late_topics |= changes  # its leader may know of them
        return
    news = [
        f"{topic} {change}"
        for topic, change in changes.items()
        if change == "deleted" or not group.has_assigned(topic, step.table.topics)
    ]
    if news and group.state in (GroupState.STABLE, GroupState.COMPLETING):
        step.group(group.id)  # so that its row is stored
        prepare(step, group, "topic_changed", news[0])


def settle_topics(step: Step, group: Group) -> None:
    """Start another rebalance if topics changed meanwhile, and the assignment lacks that."""
    late, group.late_topics = group.late_topics, {}
    group.raise_sizes()
    if late:
        rebalance_for_topics(step, group, late)
