"""What operators have a group do, beside what Kafka's protocol has requests for.

Each either does all that is asked for, or raises `Refusal` and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from coterie_protocol.journal import GroupDeleted, OffsetsCommitted, OffsetsDeleted
from coterie_server.group.ledger import by_topic
from coterie_server.group.offset_table import Committed
from coterie_server.group.rebalance import drop_member, prepare, rebalance_or_complete
from coterie_server.group.states import GroupState
from coterie_server.step import Refusal, no_group

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie_server.group.group import Group
    from coterie_server.group.member import Member
    from coterie_server.group.step import Step

__all__ = ["MemberName", "delete_group", "force_rebalance", "remove_members", "reset_offsets"]

_BY_ADMINISTRATOR: Final = "by an administrator"
#: A rebalance that many removals caused names no more of them than this.
_NAMED_MAX: Final = 3


class MemberName(NamedTuple):
    """A member by its id, or a static one by its instance id."""

    member: str | None
    instance: str | None


def _existing(step: Step, group_id: str) -> Group:
    group = step.group(group_id)
    if group is None:
        raise no_group(group_id)
    return group


def _empty(step: Step, group_id: str) -> Group:
    group = _existing(step, group_id)
    if group.state is not GroupState.EMPTY:
        raise Refusal("group_not_empty", f"Group {group_id!r} has members; stop them first.")
    return group


def force_rebalance(step: Step, group_id: str) -> None:
    """Start one rebalance of a group of static members at once.

    This is the ForceStaticRebalance of KIP-345's draft, for when an operator knows better than
    the session timeouts do.
    """
    group = _existing(step, group_id)
    if group.state in (GroupState.PREPARING, GroupState.COMPLETING):
        raise Refusal("rebalance_in_progress", f"Group {group_id!r} is rebalancing already.")
    if group.state is GroupState.EMPTY:
        raise Refusal("group_empty", f"Group {group_id!r} has no members.")
    dynamic = [member.id for member in group.members.values() if member.instance_id is None]
    if dynamic:
        sentence = f"Group {group_id!r} has dynamic members, such as {dynamic[0]}."
        raise Refusal("dynamic_members", sentence)
    prepare(step, group, "admin", "asked for by an administrator")


# -- members ---------------------------------------------------------------------------------------


def remove_members(step: Step, group_id: str, names: Sequence[MemberName]) -> None:
    """Take members out of a group, with one rebalance for all.

    A process that still runs is told at its next request, and may join anew.
    """
    group = _existing(step, group_id)
    members = {member.id: member for member in (_named(group, name) for name in names)}
    for member in members.values():
        drop_member(step, group, member, "removed", _BY_ADMINISTRATOR)
    details = [member.named(_BY_ADMINISTRATOR) for member in members.values()]
    detail = ", ".join(details[:_NAMED_MAX])
    if len(details) > _NAMED_MAX:
        detail += f" and {len(details) - _NAMED_MAX} more"
    rebalance_or_complete(step, group, "member_removed", detail)


def _named(group: Group, name: MemberName) -> Member:
    member_id = name.member
    if member_id is None:
        member_id = group.static.get(name.instance or "")
    member = group.members.get(member_id or "")
    if member is None:
        sought = name.instance if name.member is None else name.member
        raise Refusal("member_not_found", f"Group {group.id!r} has no member {sought!r} any more.")
    return member


# -- offsets ---------------------------------------------------------------------------------------


def reset_offsets(
    step: Step, group_id: str, topic: str, partitions: Sequence[int] | None, offset: int | None
) -> None:
    """Commit one offset for partitions of an empty group, or forget theirs if it is None.

    Without `partitions`, all of the topic are meant.
    """
    group = _empty(step, group_id)
    size = step.table.topics.get(topic, 0)
    if size < 1:
        raise Refusal("topic_not_found", f"There is no topic {topic!r}.")
    chosen = range(size) if partitions is None else sorted(set(partitions))
    if chosen and not 0 <= chosen[0] <= chosen[-1] < size:
        sentence = f"The topic {topic!r} has {size} partitions, the last is {size - 1}."
        raise Refusal("partition_not_found", sentence)
    if offset is None:
        _forget(step, group, [(topic, number) for number in chosen])
    else:
        _commit(step, group, topic, chosen, offset)


def _forget(step: Step, group: Group, asked: Sequence[tuple[str, int]]) -> None:
    gone = [each for each in asked if each in group.offsets]
    step.drop_offsets(group, gone)
    if gone:
        step.event(OffsetsDeleted(group=group.id, partitions=by_topic(gone), how="requested"))


def _commit(step: Step, group: Group, topic: str, numbers: Sequence[int], offset: int) -> None:
    if count := len(numbers):
        places = tuple((topic, number) for number in numbers)
        columns = (offset,) * count, (-1,) * count, ("",) * count
        step.save_offsets(group, Committed(places, *columns, step.date_ms))
        # As a commit from outside any generation is journalled.
        offsets = {topic: {str(number): offset for number in numbers}}
        step.event(OffsetsCommitted(group=group.id, member="", generation=-1, offsets=offsets))


# -- the group -------------------------------------------------------------------------------------


def delete_group(step: Step, group_id: str) -> None:
    """Delete an empty group with its offsets."""
    group = _empty(step, group_id)
    step.event(GroupDeleted(group=group_id, generation=group.row.generation, how="requested"))
    step.delete(group)
