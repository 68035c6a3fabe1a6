"""Operations: what administrators have ordered of a group, until it is lifted or ends.

- A *drain* has a member give up what it has, a few partitions at a time, and get nothing new.
- A *pin* gives partitions to a member, a *keep-from* to any other one.
- A *freeze* has all members keep what they have, for a while; only what has no owner moves.

The coordinator keeps them and tells them to the group's leader, which carries them out as it
assigns (`coterie_assignors.operations`).  So a leader is needed that asks for them as it joins, as
those of Coterie's client do; while there are operations, one that does is preferred (`elect`).  If
none is left, they stay, and are shown as not followed.

This module keeps what stands; `standing_rules` has the rules by which administrators change it.

A static member is meant by its name, whichever processes have it, and for a day while none has; a
dynamic one by its id, until it is gone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from coterie_protocol.journal import OperationEnded, OperationStarted
from coterie_protocol.operations import DRAIN, FREEZE, partitions_of
from coterie_server.group.ledger import by_topic
from coterie_server.group.records import Gone, OperationsRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from coterie_protocol.journal import Partitions
    from coterie_protocol.operations import Operation
    from coterie_server.group.group import Group
    from coterie_server.group.member import Member
    from coterie_server.group.step import Step

__all__ = [
    "are_followed",
    "concerns",
    "end",
    "end_all",
    "forget_lost",
    "forget_member",
    "freeze_of",
    "is_drained",
    "member_of",
    "note_newcomer",
    "partitions_named",
    "put",
    "resume",
    "start",
]

#: How long what was ordered of a static member stands while there is none of its name.
_MISSING_MAX_MS: Final = 24 * 3_600_000


# -- what stands -------------------------------------------------------------------------------


def are_followed(group: Group) -> bool:
    """Whether a member is there that follows operations, and so leads the next generation."""
    return any(m.row.follows_operations and not m.is_away for m in group.members.values())


def concerns(operation: Operation, member: Member) -> bool:
    """Whether an operation is about a member."""
    if operation.instance_id is not None:
        return operation.instance_id == member.instance_id
    return operation.member_id is not None and operation.member_id == member.id


def member_of(group: Group, operation: Operation) -> Member | None:
    """The member that an operation is about, if it is there."""
    member_id = operation.member_id
    if operation.instance_id is not None:
        member_id = group.static.get(operation.instance_id)
    return group.members.get(member_id or "")


def is_drained(group: Group, member: Member) -> bool:
    """Whether a member is to give up what it has."""
    return any(each.kind == DRAIN and concerns(each, member) for each in group.operations)


def freeze_of(group: Group) -> Operation | None:
    """The freeze of a group, if it is frozen."""
    return next((each for each in group.operations if each.kind == FREEZE), None)


def partitions_named(operation: Operation) -> Partitions | None:
    """What a pin or keep-from is about, as the journal has it; None for the others."""
    return by_topic(partitions_of(operation)) if operation.topics else None


# -- changing it -------------------------------------------------------------------------------


def put(step: Step, group: Group, operations: Iterable[Operation]) -> None:
    """Let these stand in place of all that stood."""
    after = tuple(operations)
    if after == group.operations:
        return
    if after:
        step.save(group, OperationsRow(group_id=group.id, operations=after))
    else:
        group.operations = ()
        step.record(Gone(OperationsRow, group.id))
    _arm(step, group)


def start(step: Step, group: Group, operation: Operation) -> None:
    """Let an operation stand."""
    put(step, group, (*group.operations, operation))
    step.event(
        OperationStarted(
            group=group.id,
            operation=operation.kind,
            member=operation.member_id,
            instance=operation.instance_id,
            partitions=partitions_named(operation),
            at_a_time=operation.at_a_time,
            until=None if operation.until_ms < 0 else operation.until_ms,
            by=operation.by,
            reason=operation.reason,
        )
    )


def end(
    step: Step, group: Group, operation: Operation, how: str, *, by: str = "", reason: str = ""
) -> None:
    """Let an operation stand no more."""
    end_all(step, group, [(operation, None)], how, by=by, reason=reason)


def end_all(
    step: Step,
    group: Group,
    ended: Sequence[tuple[Operation, Operation | None]],
    how: str,
    *,
    by: str = "",
    reason: str = "",
) -> None:
    """Let operations stand no more, but for what is left of each.

    That is stored once: each time, all that stands is written.
    """
    left = {id(operation): rest for operation, rest in ended}
    kept = (left.get(id(each), each) for each in group.operations)
    put(step, group, [each for each in kept if each is not None])
    for operation, rest in ended:
        gone = partitions_of(operation)
        if rest is not None:
            gone -= partitions_of(rest)
        step.event(
            OperationEnded(
                group=group.id,
                operation=operation.kind,
                member=operation.member_id,
                instance=operation.instance_id,
                partitions=by_topic(gone) if operation.topics else None,
                how=how,
                by=by,
                reason=reason,
            )
        )


def _arm(step: Step, group: Group) -> None:
    freeze = freeze_of(group)
    if freeze is None:
        step.cancel(group, "freeze")
    else:
        step.arm(group, "freeze", max(freeze.until_ms - step.date_ms, 0))


# -- members come and go -----------------------------------------------------------------------


def note_newcomer(step: Step, group: Group, member: Member) -> None:
    """Remember that a member came, if the group is frozen; of those before, who is still there."""
    freeze = freeze_of(group)
    if freeze is not None:
        present = {each.instance_id or each.id for each in group.members.values()}
        known = (place for place in freeze.newcomers if place in present)
        places = dict.fromkeys((*known, member.instance_id or member.id))
        _replace(step, group, freeze, replace(freeze, newcomers=tuple(places)))


def forget_member(step: Step, group: Group, member: Member) -> None:
    """Drop what was ordered of a dynamic member that is gone; it does not come back."""
    if group.operations and member.instance_id is None:
        lost = [(each, None) for each in group.operations if each.member_id == member.id]
        end_all(step, group, lost, "member_gone")


def forget_lost(step: Step, group: Group) -> None:
    """Drop what was ordered of static members that have been gone for long."""
    put(step, group, [_noted(step, group, each) for each in group.operations])
    lost = [
        (each, None)
        for each in group.operations
        if 0 <= each.missing_since_ms <= step.date_ms - _MISSING_MAX_MS
    ]
    end_all(step, group, lost, "member_gone")


def _noted(step: Step, group: Group, operation: Operation) -> Operation:
    """The operation with since when its static member is missing."""
    since_ms = operation.missing_since_ms
    if operation.instance_id is None or operation.instance_id in group.static:
        since_ms = -1
    elif since_ms < 0:
        since_ms = step.date_ms
    if since_ms == operation.missing_since_ms:
        return operation
    return replace(operation, missing_since_ms=since_ms)


def _replace(step: Step, group: Group, former: Operation, operation: Operation) -> None:
    put(step, group, [operation if each is former else each for each in group.operations])


def resume(step: Step, group: Group) -> None:
    """Go on with what stood when the coordinator stopped, but for members that are not stored."""
    named = ((each, each.member_id) for each in group.operations)
    lost = [(each, None) for each, name in named if name and name not in group.members]
    end_all(step, group, lost, "member_gone")
    if group.operations:
        _arm(step, group)
