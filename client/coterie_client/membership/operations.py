"""What administrators have ordered, as the leader of a generation is told it."""

from __future__ import annotations

from collections.abc import Iterable

from coterie_assignors import Operations
from coterie_protocol import operations as ordered
from coterie_protocol.consumer import decode_assignment, flatten
from coterie_protocol.exceptions import ProtocolError
from coterie_protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from coterie_protocol.operations import Operation, partitions_of

__all__ = ["read_operations"]


def read_operations(answer: JoinGroupResponse) -> Operations | None:
    """Read what is ordered, of members that are there; None if nothing is."""
    if not answer.operations:
        return None
    ids = {each.group_instance_id or each.member_id: each.member_id for each in answer.members}
    drained: dict[str, int] = {}
    pinned: dict[tuple[str, int], str] = {}
    kept: dict[tuple[str, int], set[str]] = {}
    newcomers: set[str] = set()
    for each in answer.operations:
        member = ids.get(each.instance_id or each.member_id or "")
        newcomers.update(ids[place] for place in each.newcomers if place in ids)
        if member is None:
            continue
        if each.kind == ordered.DRAIN:
            drained[member] = each.at_a_time
        elif each.kind == ordered.PIN:
            pinned |= dict.fromkeys(partitions_of(each), member)
        elif each.kind == ordered.KEEP_FROM:
            for partition in partitions_of(each):
                kept.setdefault(partition, set()).add(member)
    return Operations(
        drained=drained,
        pinned=pinned,
        kept_from={partition: frozenset(names) for partition, names in kept.items()},
        is_frozen=_is_frozen(answer.operations),
        newcomers=frozenset(newcomers),
        had={each.member_id: _had(each) for each in answer.members},
    )


def _is_frozen(operations: Iterable[Operation]) -> bool:
    return any(each.kind == ordered.FREEZE for each in operations)


def _had(member: JoinGroupResponseMember) -> frozenset[tuple[str, int]]:
    """What a member was assigned last; nothing if it is new, or if that can't be read."""
    if not member.assigned_last:
        return frozenset()
    try:
        return flatten(decode_assignment(member.assigned_last).assigned_partitions)
    except ProtocolError:
        return frozenset()
