"""How administrators change what stands: the rules of each operation, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from coterie_protocol.operations import (
    DRAIN,
    FREEZE,
    KEEP_FROM,
    PIN,
    Operation,
    partitions_of,
    topics_of,
)
from coterie_server.group.group import CONSUMER
from coterie_server.group.rebalance import prepare
from coterie_server.group.standing import (
    are_followed,
    concerns,
    end,
    end_all,
    freeze_of,
    is_drained,
    member_of,
    start,
)
from coterie_server.group.states import GroupState
from coterie_server.group.step import SHOWN_MAX
from coterie_server.step import Refusal, no_group

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from coterie_server.group.group import Group
    from coterie_server.group.ledger import Partition
    from coterie_server.group.member import Member
    from coterie_server.group.step import Step

__all__ = ["RULES", "Command", "end_freeze", "order"]

#: How long a group is frozen if nothing else is said.
_FREEZE_MS: Final = 3_600_000
#: Into how many steps a drain is divided if nothing else is said.
_DRAIN_STEPS: Final = 10
#: What a group can have at most; each generation's leader is told all of it.
_OPERATIONS_MAX: Final = 1_000
_PARTITIONS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What an administrator asks for."""

    name: str
    #: Whom it is about, by either.
    member_id: str | None = None
    instance_id: str | None = None
    partitions: frozenset[Partition] = frozenset()
    #: How many partitions a drained member gives up at a time, 0 for all; None for the default.
    at_a_time: int | None = None
    #: How long a freeze lasts; None for the default.
    for_ms: int | None = None
    by: str = ""
    reason: str = ""

    @property
    def said(self) -> str:
        """Who asks for it and why, as far as that is said, for people."""
        asked = f"asked for by {self.by}" if self.by else "asked for by an administrator"
        return f"{asked}: {self.reason}" if self.reason else asked


def order(step: Step, group_id: str, command: Command) -> None:
    """Do what an administrator asks for, or raise `Refusal` and change nothing."""
    group = step.group(group_id)
    if group is None:
        raise no_group(group_id)
    RULES[command.name](step, group, command)


def end_freeze(step: Step, group: Group) -> None:
    """A freeze may be over: its end is a date, and dates do not go as fast as time at times."""
    freeze = freeze_of(group)
    if freeze is None:
        return
    if freeze.until_ms > step.date_ms:
        step.arm(group, "freeze", freeze.until_ms - step.date_ms)
        return
    end(step, group, freeze, "expired")
    _rebalance(step, group, "freeze", "the time of the freeze is over")


def _rebalance(step: Step, group: Group, cause: str, detail: str) -> None:
    """Have the leader go by what stands now; one that is yet to be chosen is told anyway."""
    if group.state in (GroupState.STABLE, GroupState.COMPLETING):
        prepare(step, group, cause, detail)


# -- drains ------------------------------------------------------------------------------------


def _drain(step: Step, group: Group, command: Command) -> None:
    _check_group(group)
    _check_not_frozen(group)
    member = _find(group, command)
    _check_room(group, command, _of(group, DRAIN, member))
    for topic in sorted(_topics(group, member)):
        _check_others(group, topic, {member.id})
    owned = len(group.ledger.owned_by(member.id))
    at_a_time = -(-owned // _DRAIN_STEPS) or 1
    if command.at_a_time is not None:
        at_a_time = command.at_a_time
    for former in _of(group, DRAIN, member):
        end(step, group, former, "replaced", by=command.by, reason=command.reason)
    _start(step, group, Operation(kind=DRAIN, at_a_time=at_a_time), command, member)
    _rebalance(step, group, "drain", f"{member.named('')} is drained, {command.said}")


def _undrain(step: Step, group: Group, command: Command) -> None:
    is_meant = _meant(group, command)
    found = [each for each in group.operations if each.kind == DRAIN and is_meant(each)]
    if not found:
        name = command.instance_id or command.member_id or ""
        raise Refusal("nothing_to_end", f"{_shown(name)} is not drained.")
    for operation in found:
        end(step, group, operation, "lifted", by=command.by, reason=command.reason)
        who = operation.instance_id or operation.member_id
        _rebalance(step, group, "drain", f"{who} is drained no more, {command.said}")


# -- pins --------------------------------------------------------------------------------------


def _pin(step: Step, group: Group, command: Command) -> None:
    member = _check_placement(step, group, command)
    if is_drained(group, member):
        sentence = f"{member.named('')} is drained; undrain it first, or pin to another member."
        raise Refusal("contradiction", sentence)
    _check_opposite(group, command, member, KEEP_FROM)
    former = [each for each in group.operations if each.kind == PIN]
    _check_room(group, command, former)
    _take_back(step, group, command, "replaced", former)
    _place(step, group, command, member, PIN)


def _keep_from(step: Step, group: Group, command: Command) -> None:
    member = _check_placement(step, group, command)
    _check_opposite(group, command, member, PIN)
    former = _of(group, KEEP_FROM, member)
    _check_room(group, command, former)
    without = _kept_from(group, command)
    for topic, others in sorted({(topic, without[topic, n]) for topic, n in command.partitions}):
        _check_others(group, topic, {member.id, *others})
    _take_back(step, group, command, "replaced", former)
    _place(step, group, command, member, KEEP_FROM)


def _kept_from(group: Group, command: Command) -> Mapping[Partition, tuple[str, ...]]:
    """From which members some partitions are kept already."""
    found: dict[Partition, set[str]] = {each: set() for each in command.partitions}
    for operation in group.operations:
        if operation.kind == KEEP_FROM and (member := member_of(group, operation)) is not None:
            for each in partitions_of(operation) & command.partitions:
                found[each].add(member.id)
    return {partition: tuple(sorted(names)) for partition, names in found.items()}


def _unpin(step: Step, group: Group, command: Command) -> None:
    meant = list(filter(_meant(group, command), group.operations))
    if not _take_back(step, group, command, "lifted", meant):
        what = f"{_listed(command.partitions)} is pinned to no member, and kept from none."
        raise Refusal("nothing_to_end", what)
    _rebalance(step, group, "pin", f"{_listed(command.partitions)} is free, {command.said}")


def _check_placement(step: Step, group: Group, command: Command) -> Member:
    _check_group(group)
    _check_not_frozen(group)
    member = _find(group, command)
    subscribed = _topics(group, member)
    for topic, number in sorted(command.partitions):
        if number >= step.table.topics.get(topic, 0):
            raise Refusal("partition_not_found", f"There is no partition {_shown(topic)}:{number}.")
        if topic not in subscribed:
            sentence = f"{member.named('')} does not subscribe to {_shown(topic)}."
            raise Refusal("not_subscribed", sentence)
    return member


def _check_opposite(group: Group, command: Command, member: Member, kind: str) -> None:
    for operation in _of(group, kind, member):
        both = partitions_of(operation) & command.partitions
        if both:
            how = "pinned to" if kind == PIN else "kept from"
            sentence = f"{_listed(both)} is {how} {member.named('')}; unpin it first."
            raise Refusal("contradiction", sentence)


def _take_back(
    step: Step, group: Group, command: Command, how: str, meant: Iterable[Operation]
) -> bool:
    """End what stands of partitions, in some operations; whether there was any."""
    ended: list[tuple[Operation, Operation | None]] = []
    for operation in meant:
        before = partitions_of(operation)
        left = before - command.partitions
        if len(left) < len(before):
            rest = replace(operation, topics=topics_of(left)) if left else None
            ended.append((operation, rest))
    end_all(step, group, ended, how, by=command.by, reason=command.reason)
    return bool(ended)


def _place(step: Step, group: Group, command: Command, member: Member, kind: str) -> None:
    operation = Operation(kind=kind, topics=topics_of(command.partitions))
    _start(step, group, operation, command, member)
    how = "pinned to" if kind == PIN else "kept from"
    what = f"{_listed(command.partitions)} is {how} {member.named('')}"
    _rebalance(step, group, "pin", f"{what}, {command.said}")


# -- freezes -----------------------------------------------------------------------------------


def _freeze(step: Step, group: Group, command: Command) -> None:
    _check_group(group)
    for_ms = _FREEZE_MS if command.for_ms is None else command.for_ms
    longest_ms = step.config.freeze_max_ms
    if command.for_ms is None:
        for_ms = min(for_ms, longest_ms)
    if for_ms > longest_ms:
        sentence = f"A freeze lasts at most {longest_ms} ms here (group.freeze.max.ms)."
        raise Refusal("bad_request", sentence)
    former = freeze_of(group)
    _check_room(group, command, () if former is None else (former,))
    newcomers = () if former is None else former.newcomers
    if former is not None:
        end(step, group, former, "replaced", by=command.by, reason=command.reason)
    operation = Operation(kind=FREEZE, until_ms=step.date_ms + for_ms, newcomers=newcomers)
    _start(step, group, operation, command)
    if group.state is GroupState.COMPLETING:
        # The leader is at work, and was not told.
        prepare(step, group, "freeze", f"frozen in the middle of a rebalance, {command.said}")


def _unfreeze(step: Step, group: Group, command: Command) -> None:
    freeze = freeze_of(group)
    if freeze is None:
        raise Refusal("nothing_to_end", f"Group {_shown(group.id)} is not frozen.")
    end(step, group, freeze, "lifted", by=command.by, reason=command.reason)
    _rebalance(step, group, "freeze", f"frozen no more, {command.said}")


RULES: Final[dict[str, Callable[[Step, Group, Command], None]]] = {
    "drain": _drain,
    "undrain": _undrain,
    "pin": _pin,
    "keep-from": _keep_from,
    "unpin": _unpin,
    "freeze": _freeze,
    "unfreeze": _unfreeze,
}


# -- what they share ---------------------------------------------------------------------------


def _start(
    step: Step, group: Group, operation: Operation, command: Command, member: Member | None = None
) -> None:
    is_static = member is not None and member.instance_id is not None
    operation = replace(
        operation,
        member_id=None if member is None or is_static else member.id,
        instance_id=None if member is None else member.instance_id,
        by=command.by,
        reason=command.reason,
        since_ms=step.date_ms,
    )
    start(step, group, operation)


def _check_group(group: Group) -> None:
    """Refuse what a group can't have at all, before anything is changed."""
    name = _shown(group.id)
    if not group.members:
        raise Refusal("group_empty", f"Group {name} has no members.")
    if group.row.protocol_type != CONSUMER:
        sentence = f"Group {name} shares out something other than partitions of topics."
        raise Refusal("unreadable", sentence)
    if not are_followed(group):
        leader = group.members[group.row.leader or next(iter(group.members))]
        host = leader.row.client_host.lstrip("/")
        sentence = (
            f"Group {name} is led by {leader.named('')}, client {leader.row.client_id!r} at {host},"
            " which does not follow operations, and neither would another member: only Coterie's"
            " own client does."
        )
        raise Refusal("leader_cannot_follow", sentence)


def _check_room(group: Group, command: Command, replaced: Collection[Operation]) -> None:
    """Refuse what is too much, before anything is changed; some of what stands is replaced."""
    former = set(map(id, replaced))
    operations, named = 1, len(command.partitions)
    for each in group.operations:
        left = partitions_of(each)
        if id(each) in former:
            left -= command.partitions
        operations += bool(left) or id(each) not in former
        named += len(left)
    if operations > _OPERATIONS_MAX or named > _PARTITIONS_MAX:
        sentence = (
            f"Group {_shown(group.id)} has as many operations as it can have: {_OPERATIONS_MAX},"
            f" or {_PARTITIONS_MAX} partitions that are pinned or kept from members."
        )
        raise Refusal("too_many_operations", sentence)


def _check_not_frozen(group: Group) -> None:
    if freeze_of(group) is not None:
        sentence = f"Group {_shown(group.id)} is frozen: nothing is to move. Unfreeze it first."
        raise Refusal("group_frozen", sentence)


def _check_others(group: Group, topic: str, without: set[str]) -> None:
    """Refuse what would leave no member that may have a topic's partitions."""
    for other in group.members.values():
        is_able = other.id not in without and not other.is_away and not is_drained(group, other)
        if is_able and topic in _topics(group, other):
            return
    sentence = (
        f"No other member of {_shown(group.id)} could have the partitions of {_shown(topic)}: those"
        " that subscribe to it are drained, away, or not to have them."
    )
    raise Refusal("no_other_member", sentence)


def _find(group: Group, command: Command) -> Member:
    member_id, name = command.member_id, command.member_id
    if command.instance_id is not None:
        member_id, name = group.static.get(command.instance_id), command.instance_id
    member = group.members.get(member_id or "")
    if member is None:
        sentence = f"Group {_shown(group.id)} has no member {_shown(name or '')}."
        raise Refusal("member_not_found", sentence)
    return member


def _meant(group: Group, command: Command) -> Callable[[Operation], bool]:
    """Which operations a command is about, whose member may be gone; if it names none, all."""
    member = group.members.get(command.member_id or "")
    names = {command.instance_id, command.member_id, member and member.instance_id} - {None}
    return lambda each: not names or not names.isdisjoint({each.instance_id, each.member_id})


def _of(group: Group, kind: str, member: Member) -> list[Operation]:
    return [each for each in group.operations if each.kind == kind and concerns(each, member)]


def _topics(group: Group, member: Member) -> frozenset[str]:
    """What a member subscribes to, as far as that can be read."""
    protocol = group.row.protocol_name or member.row.protocols[0].name
    subscription = member.subscription(protocol)
    return frozenset(subscription.topics) if subscription is not None else frozenset()


def _shown(name: str) -> str:
    return repr(name[:SHOWN_MAX])


def _listed(partitions: frozenset[Partition]) -> str:
    """Partitions in a sentence, a few of them by name."""
    named = [f"{topic[:SHOWN_MAX]}:{number}" for topic, number in sorted(partitions)]
    more = f" and {len(named) - 3} more" if len(named) > 3 else ""
    return ", ".join(named[:3]) + more
