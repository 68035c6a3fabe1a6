"""What administrators have ordered of a group, carried out around any assignor.

- **Drained** members are left out when the assignor decides.  Under the cooperative protocol they
  then give up a few partitions in each rebalance, so that not all of them stand still together;
  what is given up leads to the next rebalance, and so on until nothing is left.  Under the eager
  one all partitions stand still in each rebalance anyway, so they give up everything at once.
- **Pinned** partitions go to their member, and those that are kept from members to others; a member
  that gets one more that way gives up another one in return, if the numbers are uneven then.
- In a **frozen** group the assignor is not asked.  Members keep what they have, and what has no
  owner goes to the least busy of them; those that came since the freeze began get nothing.

Work goes on all the same.  What no other member could have goes to one that it is kept from, else
to a newcomer, and at last to a drained member.  A pin counts while its member is there and
subscribes to the topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from coterie_assignors.base import Claim, Cluster, MemberInfo, Partitions
from coterie_assignors.copies import UNKNOWN_LAG, Pair
from coterie_assignors.ownership import resolve_claims
from coterie_assignors.plan import Plan
from coterie_protocol.consumer import flatten, group_by_topic

__all__ = ["Operations", "carry_out"]


@dataclass(frozen=True, slots=True)
class Operations:
    """What is ordered; members are named by their ids."""

    #: How many partitions each drained member gives up at a time; 0 for all at once.
    drained: Mapping[str, int] = field(default_factory=dict)
    pinned: Mapping[Pair, str] = field(default_factory=dict)
    kept_from: Mapping[Pair, frozenset[str]] = field(default_factory=dict)
    is_frozen: bool = False
    #: The members that came since the freeze began.
    newcomers: frozenset[str] = frozenset()
    #: What each member was assigned last: eager members do not say what they had.
    had: Mapping[str, frozenset[Pair]] = field(default_factory=dict)


#: What an assignor has planned for some of the members.
Ask = Callable[[Mapping[str, MemberInfo]], Plan]


def carry_out(
    operations: Operations,
    ask: Ask,
    cluster: Cluster,
    members: Mapping[str, MemberInfo],
    claims: Mapping[str, Claim],
    *,
    in_steps: bool,
) -> dict[str, Partitions]:
    """Return what each member is to have by what is ordered.

    With `in_steps`, drained members give up a few of the partitions that they claim.
    """
    shares = _Shares(operations, cluster, members)
    if operations.is_frozen:
        shares.keep(claims)
    else:
        able = {name: each for name, each in members.items() if name not in operations.drained}
        plan = ask(able) if able else None
        shares.take({} if plan is None else plan.shares, claims)
        if plan is not None:
            shares.place(plan.members)
        if in_steps:
            shares.hold_back(claims)
    return {name: group_by_topic(pairs) for name, pairs in shares.held.items()}


class _Shares:
    """What each member is to have, while it is worked out."""

    def __init__(
        self, operations: Operations, cluster: Cluster, members: Mapping[str, MemberInfo]
    ) -> None:
        self._operations = operations
        self._cluster = cluster
        self._members = members
        self._topics = {name: frozenset(member.topics) for name, member in members.items()}
        self._refused = {name: flatten(member.refused) for name, member in members.items()}
        self.held: dict[str, set[Pair]] = {name: set() for name in members}
        self._holder: dict[Pair, str] = {}

    # -- a frozen group ------------------------------------------------------------------------

    def keep(self, claims: Mapping[str, Claim]) -> None:
        """Leave everything where it is, and give to others what has no owner."""
        present = {name: self._present(name, each) for name, each in claims.items()}
        self._leave(self._existing(), self._had() | _claimed(present))

    def _present(self, name: str, claim: Claim) -> Claim:
        """A claim, without what a newcomer had in a former life, of which eager ones tell."""
        is_new = name in self._operations.newcomers
        return replace(claim, owned=self._members[name].owned) if is_new else claim

    # -- drains --------------------------------------------------------------------------------

    def take(self, target: Mapping[str, Partitions], claims: Mapping[str, Claim]) -> None:
        """Take over what an assignor gave; what none but drained members could have is theirs.

        They keep what they have of that: if it went to where a copy is, the owner would make one,
        and have it back in the next rebalance.
        """
        for name, partitions in target.items():
            for pair in flatten(partitions):
                self._give(pair, name)
        drained = self._operations.drained
        served = {t for name in target for t in self._topics[name]}
        if not any(self._topics.get(name, frozenset()) - served for name in drained):
            return
        owners = self._had() | _claimed(claims)
        self._leave(
            (pair for pair in self._existing() if pair[0] not in served),
            {pair: name for pair, name in owners.items() if not self._is_away(name)},
        )

    def hold_back(self, claims: Mapping[str, Claim]) -> None:
        """Let drained members keep what is not their turn to give up."""
        owners = _claimed(claims)
        for name, at_a_time in sorted(self._operations.drained.items()):
            if not at_a_time or name not in self.held or self._members[name].is_away:
                continue
            leaving = [
                pair
                for pair, owner in sorted(owners.items())
                if owner == name != self._holder.get(pair, name) and self._may_have(name, pair)
            ]
            for pair in leaving[at_a_time:]:
                self._give(pair, name)

    # -- pins ----------------------------------------------------------------------------------

    def place(self, planned: Mapping[str, MemberInfo]) -> None:
        """Move what is pinned to its member, and what is kept from its member to another one.

        What is given in return depends on what members owned when it was `planned`: if it depended
        on what they own on the way, the next rebalance might take it back.
        """
        for pair, name in sorted(self._operations.pinned.items()):
            if self._is_there(name) and self._may_have(name, pair) and self._exists(pair):
                self._move(pair, name, planned)
        for pair, kept in sorted(self._operations.kept_from.items()):
            takers = [n for n in self.held if self._is_there(n) and self._may_have(n, pair)]
            takers = [name for name in takers if name not in kept]
            if self._holder.get(pair) in kept and takers:
                self._move(pair, min(takers, key=lambda n: (len(self.held[n]), n)), planned)

    def _move(self, pair: Pair, taker: str, planned: Mapping[str, MemberInfo]) -> None:
        """Give a partition to another member, which gives one back if it then has more."""
        giver = self._holder.get(pair)
        if giver == taker:
            return
        self._give(pair, taker)
        if giver is not None and len(self.held[taker]) > len(self.held[giver]) + 1:
            back = [each for each in self.held[taker] if self._may_go(each, taker, giver)]
            if back:
                owned = flatten(planned[taker].owned)
                self._give(min(back, key=lambda each: (each in owned, each)), giver)

    def _may_go(self, pair: Pair, taker: str, giver: str) -> bool:
        """Whether one may give a partition to another in return."""
        pinned, kept = self._operations.pinned, self._operations.kept_from
        return (
            pinned.get(pair) != taker
            and giver not in kept.get(pair, ())
            and self._may_have(giver, pair)
        )

    # -- what they share -----------------------------------------------------------------------

    def _leave(self, pairs: Iterable[Pair], owners: Mapping[Pair, str]) -> None:
        """Leave partitions where they are, and give to the others what has no owner."""
        orphans = []
        for pair in pairs:
            owner = owners.get(pair)
            if owner in self.held and self._may_have(owner, pair):
                self._give(pair, owner)
            else:
                orphans.append(pair)
        for pair in orphans:
            self._give_to_best(pair)

    def _had(self) -> dict[Pair, str]:
        """Who was assigned what last."""
        return {pair: name for name, pairs in self._operations.had.items() for pair in pairs}

    def _give(self, pair: Pair, name: str) -> None:
        former = self._holder.get(pair)
        if former is not None:
            self.held[former].discard(pair)
        self.held[name].add(pair)
        self._holder[pair] = name

    def _give_to_best(self, pair: Pair) -> None:
        """Give a partition to the member that should have it rather than others, if one can."""
        able = [name for name in self._members if self._may_have(name, pair)]
        if able:
            self._give(pair, min(able, key=lambda name: self._rank(name, pair)))

    def _rank(self, name: str, pair: Pair) -> tuple[bool, bool, bool, bool, bool, int, int, str]:
        """Sorts members by how much they should have a partition, the first one most.

        One that is away is the last, but when it comes back no rebalance may give it what it lacks.
        """
        ordered, report = self._operations, self._members[name].warm
        lag = report.lags.get(pair, -1) if report is not None else 0
        return (
            self._members[name].is_away,
            name in ordered.drained,
            name in ordered.newcomers,
            name in ordered.kept_from.get(pair, ()),
            ordered.pinned.get(pair) != name,
            lag if lag >= 0 else UNKNOWN_LAG,
            len(self.held[name]),
            name,
        )

    def _is_there(self, name: str) -> bool:
        member = self._members.get(name)
        return member is not None and not member.is_away and name not in self._operations.drained

    def _is_away(self, name: str) -> bool:
        member = self._members.get(name)
        return member is not None and member.is_away

    def _may_have(self, name: str, pair: Pair) -> bool:
        return pair[0] in self._topics[name] and pair not in self._refused[name]

    def _exists(self, pair: Pair) -> bool:
        return pair[1] < self._cluster.topics.get(pair[0], 0)

    def _existing(self) -> Iterator[Pair]:
        return self._cluster.partitions_of(t for topics in self._topics.values() for t in topics)


def _claimed(claims: Mapping[str, Claim]) -> dict[Pair, str]:
    """Who owns what by the members' own word; what is contested, none does."""
    names = list(claims)
    owners = resolve_claims([claims[name] for name in names])
    return {
        (topic, number): names[index]
        for topic, of_topic in owners.items()
        for number, index in of_topic.items()
        if index >= 0
    }
