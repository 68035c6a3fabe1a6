"""The leader's work: from an assignor's answer to what is sent to the members.

`lead` checks the answer, reassigns what members refused, carries out what administrators have
ordered (`operations`), has partitions with state wait until they can move (`warm`), and for
cooperative assignors withholds what other members still own (KIP-429).
So no partition ever has two owners, whichever assignor is in use.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from coterie_assignors.absence import (
    has_uneven_absent,
    keep_for_absent,
    without_replaced,
    without_reports,
)
from coterie_assignors.base import (
    NO_CLAIM,
    Assignor,
    Claim,
    Cluster,
    MemberInfo,
    Partitions,
    RebalanceProtocol,
)
from coterie_assignors.checking import check
from coterie_assignors.operations import Operations, carry_out
from coterie_assignors.ownership import CONTESTED, Owners, resolve_claims
from coterie_assignors.plan import Plan, planned
from coterie_assignors.state import WarmSettings
from coterie_protocol.consumer import TopicPartitions, flatten, group_by_topic

if TYPE_CHECKING:
    from coterie_assignors.warm.refiner import Refined

__all__ = ["Adjustment", "adjust", "lead", "reassign_refused"]

_Pair = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Adjustment:
    """What to send to the members."""

    assignment: dict[str, Partitions]
    #: Whether members have to rejoin at once, because partitions were withheld (NEEDS_REJOIN).
    needs_rejoin: bool = False
    #: The withheld partitions, by the member that each is meant for.
    withheld: dict[str, Partitions] = field(default_factory=dict)
    #: The partitions whose state members are to keep a copy of, in case their owner fails, or until
    #: what is withheld for them is theirs.
    standbys: dict[str, Partitions] = field(default_factory=dict)
    #: The partitions that members are to become ready for.
    warmups: dict[str, Partitions] = field(default_factory=dict)
    #: For each partition that is to move in the end, where to, as a member id.
    targets: dict[_Pair, str] = field(default_factory=dict)
    #: Whether this is what is right in the end.  If not, the leader has to look again later.
    is_final: bool = True
    #: What the assignor wants, if partitions are still on their way there: for the next rebalance.
    plan: Plan | None = None


def lead(
    assignor: Assignor,
    cluster: Cluster,
    members: Mapping[str, MemberInfo],
    settings: WarmSettings | None = None,
    operations: Operations | None = None,
    plan: Plan | None = None,
) -> Adjustment:
    """Have the assignor decide, check its answer, and adjust it.

    With settings, and if any member reports state, partitions move only to members that are ready
    for them.  `operations` is what administrators have ordered.  `plan` is that of the answer for
    the generation before, if that is known; without it, partitions may change course on their way.

    Raises `InvalidAssignmentError` if the answer assigns a partition twice or to a member that does
    not subscribe to its topic, or if it leaves a member out, or is no answer at all.
    """
    claims = {name: assignor.claim(member) for name, member in members.items()}
    if settings is None or all(member.warm is None for member in members.values()):
        ask = partial(assignor.assign, cluster)
        target, kept = _target(assignor, ask, members, claims, cluster, None, operations, plan)
        effective = _effective(assignor, members, claims, target)
        return replace(effective, plan=kept if effective.withheld else None)
    from coterie_assignors.warm.refiner import refine

    members = _with_drains(without_reports(members), operations)
    if operations is None or not operations.is_frozen:
        members = without_replaced(members, settings.acceptable_recovery_lag)
    ask_warm = partial(assignor.assign_warm, cluster, settings=settings)
    target, kept = _target(assignor, ask_warm, members, claims, cluster, settings, operations, plan)
    refined = refine(target, members, claims, settings)
    if operations is not None and operations.is_frozen:
        refined = _frozen(refined, target)
    effective = _effective(assignor, members, claims, refined.active)
    return replace(
        effective,
        needs_rejoin=effective.needs_rejoin or refined.needs_rejoin,
        standbys=_with_copies_kept(refined.standbys, effective.withheld, members),
        warmups=refined.warmups,
        targets=refined.targets,
        is_final=refined.is_final and not has_uneven_absent(target, members),
        plan=kept if effective.withheld or refined.targets else None,
    )


def _with_drains(
    members: dict[str, MemberInfo], operations: Operations | None
) -> dict[str, MemberInfo]:
    drained = operations.drained if operations is not None else {}
    return members | {
        name: replace(members[name], is_drained=True) for name in drained if name in members
    }


def _frozen(refined: Refined, target: Mapping[str, Partitions]) -> Refined:
    """Let no partition go where copies are and later to where it belongs: nothing is to move."""
    standbys = {
        name: group_by_topic(flatten(partitions) - flatten(target[name]))
        for name, partitions in refined.standbys.items()
    }
    return replace(
        refined,
        active=dict(target),
        standbys={name: partitions for name, partitions in standbys.items() if partitions},
        warmups={},
        targets={},
        is_final=True,
        needs_rejoin=False,
    )


def _target(
    assignor: Assignor,
    ask: Callable[[Mapping[str, MemberInfo]], Mapping[str, Partitions]],
    members: Mapping[str, MemberInfo],
    claims: Mapping[str, Claim],
    cluster: Cluster,
    settings: WarmSettings | None,
    operations: Operations | None,
    former: Plan | None,
) -> tuple[Mapping[str, Partitions], Plan | None]:
    """What is right in the end, or for the next step of a drain; and what the assignor wants."""

    def ask_anew(some: Mapping[str, MemberInfo]) -> Mapping[str, Partitions]:
        return _wanted(ask(some), some, {name: claims[name] for name in some}, cluster)

    plan: Plan | None = None

    def wanted(some: Mapping[str, MemberInfo]) -> Plan:
        nonlocal plan
        plan = planned(former, assignor, cluster, some, settings, ask_anew)
        return plan

    if operations is None:
        return wanted(members).shares, plan
    target = carry_out(
        operations,
        wanted,
        cluster,
        members,
        claims,
        in_steps=RebalanceProtocol.COOPERATIVE in assignor.protocols,
    )
    check(target, members)
    return target, plan


def _wanted(
    answer: Mapping[str, Partitions],
    members: Mapping[str, MemberInfo],
    claims: Mapping[str, Claim],
    cluster: Cluster,
) -> Mapping[str, Partitions]:
    """What an assignor wants for the members, checked and put right."""
    check(answer, members)
    target = reassign_refused(answer, members)
    if not any(member.is_away for member in members.values()):
        return target
    return keep_for_absent(target, members, claims, cluster)


def _effective(
    assignor: Assignor,
    members: Mapping[str, MemberInfo],
    claims: Mapping[str, Claim],
    target: Mapping[str, Partitions],
) -> Adjustment:
    """What can take effect at once."""
    if RebalanceProtocol.COOPERATIVE not in assignor.protocols:
        return Adjustment(dict(target))
    # Even if this leader itself is still eager: during an upgrade, members of both kinds are in one
    # generation, and eager ones own nothing while they join.
    # Nothing is withheld for the sake of one that is away: it would not give that back.
    present = {name: claim for name, claim in claims.items() if not members[name].is_away}
    subscriptions = {name: member.topics for name, member in members.items()}
    return adjust(present, target, subscriptions)


def _with_copies_kept(
    standbys: Mapping[str, Partitions],
    withheld: Mapping[str, Partitions],
    members: Mapping[str, MemberInfo],
) -> dict[str, Partitions]:
    """Have members keep up their copies of what they get as soon as its owner has revoked it."""
    kept = dict(standbys)
    for name, partitions in withheld.items():
        if members[name].warm is not None and not members[name].is_away:
            pairs = flatten(partitions)
            kept[name] = _merged(kept[name], pairs) if name in kept else group_by_topic(pairs)
    return kept


# Refused partitions


def reassign_refused(
    target: Mapping[str, Partitions], members: Mapping[str, MemberInfo]
) -> Mapping[str, Partitions]:
    """Give partitions that their member refused to another one that subscribes to the topic.

    If that one then has more than the refuser, it gives up one of its own in return, preferably one
    that it did not own before.  What all members refuse stays where it is.
    """
    if not any(member.refused for member in members.values()):
        return target
    refusals = {name: flatten(member.refused) for name, member in members.items()}
    if not any(refused & flatten(target[name]) for name, refused in refusals.items() if refused):
        return target
    reassignment = _Reassignment(members, refusals, target)
    for name in sorted(target):
        for partition in sorted(reassignment.held[name] & refusals[name]):
            reassignment.move(name, partition)
    return {
        name: group_by_topic(reassignment.held[name])
        if name in reassignment.changed
        else partitions
        for name, partitions in target.items()
    }


class _Reassignment:
    def __init__(
        self,
        members: Mapping[str, MemberInfo],
        refusals: Mapping[str, frozenset[_Pair]],
        target: Mapping[str, Partitions],
    ) -> None:
        self._members = members
        self._refusals = refusals
        self.held = {name: set(flatten(partitions)) for name, partitions in target.items()}
        #: The members whose partitions differ from the target.
        self.changed: set[str] = set()

    def move(self, refuser: str, partition: _Pair) -> None:
        """Give a partition to another member, which gives one back if it then has more."""
        taker = self._taker(refuser, partition)
        if taker is None:
            return
        returnable = self._returnable(taker, refuser)
        self.held[refuser].remove(partition)
        self.held[taker].add(partition)
        self.changed |= {refuser, taker}
        if returnable and len(self.held[taker]) > len(self.held[refuser]) + 1:
            owned = flatten(self._members[taker].owned)
            given_back = min(returnable, key=lambda pair: (pair in owned, pair))
            self.held[taker].remove(given_back)
            self.held[refuser].add(given_back)

    def _taker(self, refuser: str, partition: _Pair) -> str | None:
        """The least loaded member that can take a partition and leave the group balanced.

        Assignors may spread each topic as well, and would move it on from one with more of it.
        A taker with nothing that the refuser would accept in return leaves it unbalanced, and the
        group would rebalance for that again and again; such a member comes last.
        """
        candidates = [
            name
            for name, member in self._members.items()
            if partition[0] in member.topics and partition not in self._refusals[name]
        ]
        candidates.sort(key=lambda name: self._rank(name, partition[0]))
        for name in candidates:
            if len(self.held[name]) < len(self.held[refuser]) or self._returnable(name, refuser):
                return name
        return candidates[0] if candidates else None

    def _rank(self, name: str, topic: str) -> tuple[int, int, str]:
        """Sorts members with few partitions first, and of equals those with few of the topic."""
        held = self.held[name]
        return len(held), sum(each == topic for each, _ in held), name

    def _returnable(self, taker: str, refuser: str) -> list[_Pair]:
        """What a member can give the refuser in return."""
        topics = self._members[refuser].topics
        return [pair for pair in self.held[taker] - self._refusals[refuser] if pair[0] in topics]


# Withheld partitions (KIP-429)


def adjust(
    claims: Mapping[str, Claim],
    target: Mapping[str, Partitions],
    subscriptions: Mapping[str, Collection[str]],
) -> Adjustment:
    """Withhold from the target what other members still own, and keep what the target lacks.

    - A partition that its new member already owns, or that no member owns, is assigned.
    - A partition that another member owns, or that several claim, is withheld until it is revoked.
    - A partition that is owned but in no member's target (its topic is gone, or unknown to the
      leader) stays with its owner, if that one still subscribes to the topic.
    """
    names = list(target)
    owners = resolve_claims([claims.get(name, NO_CLAIM) for name in names])
    assignment: dict[str, Partitions] = {}
    withheld: dict[str, Partitions] = {}
    for index, name in enumerate(names):
        waiting = tuple(_owned_by_others(target[name], index, owners))
        assignment[name] = _without(target[name], waiting) if waiting else target[name]
        if waiting:
            withheld[name] = waiting
    for index, pairs in _left_out(target.values(), owners).items():
        name = names[index]
        wanted = [(topic, number) for topic, number in pairs if topic in subscriptions[name]]
        if wanted:
            assignment[name] = _merged(assignment[name], wanted)
    return Adjustment(assignment, needs_rejoin=bool(withheld), withheld=withheld)


def _owned_by_others(
    partitions: Partitions, index: int, owners: Owners
) -> Iterator[TopicPartitions]:
    for entry in partitions:
        of_topic = owners.get(entry.topic)
        if of_topic is None:
            continue
        numbers = [n for n in entry.partitions if of_topic.get(n, index) != index]
        if numbers:
            yield replace(entry, partitions=tuple(numbers))


def _without(partitions: Partitions, removed: Partitions) -> Partitions:
    gone = {entry.topic: set(entry.partitions) for entry in removed}
    rest = []
    for entry in partitions:
        numbers = tuple(n for n in entry.partitions if n not in gone.get(entry.topic, ()))
        if numbers:
            rest.append(replace(entry, partitions=numbers))
    return tuple(rest)


def _left_out(target: Iterable[Partitions], owners: Owners) -> dict[int, list[_Pair]]:
    """The owned partitions that are in no member's target, by the index of their owner."""
    known: dict[str, set[int]] = {}
    for partitions in target:
        for entry in partitions:
            known.setdefault(entry.topic, set()).update(entry.partitions)
    left_out: dict[int, list[_Pair]] = {}
    for topic, of_topic in owners.items():
        for number in of_topic.keys() - known.get(topic, set()):
            if of_topic[number] != CONTESTED:
                left_out.setdefault(of_topic[number], []).append((topic, number))
    return left_out


def _merged(partitions: Partitions, more: Iterable[_Pair]) -> Partitions:
    pairs = [(entry.topic, number) for entry in partitions for number in entry.partitions]
    return group_by_topic([*pairs, *more])
