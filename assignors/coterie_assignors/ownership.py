"""Who owned which partition, according to all members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from coterie_assignors.base import NO_CLAIM, Claim, MemberInfo

__all__ = ["CONTESTED", "UNOWNED", "Owners", "owners_among", "resolve_claims"]

#: No member claims the partition.
UNOWNED: Final = -1
#: Several members claim it, and none of them more recently than the others.
CONTESTED: Final = -2

#: The owner of each claimed partition, by topic and partition: an index into the claims.
Owners = dict[str, dict[int, int]]


def owners_among(members: Sequence[MemberInfo], claims: Mapping[str, Claim]) -> Owners:
    """Decide between the claims of members, as far as they may have what they claim.

    What a member claims of a topic to which it no longer subscribes is nobody's to keep, and takes
    nothing from others that claim it; whoever gets it has to wait until it is released.
    """
    return resolve_claims([_of_subscribed(member, claims) for member in members])


def _of_subscribed(member: MemberInfo, claims: Mapping[str, Claim]) -> Claim:
    claim = claims.get(member.member_id, NO_CLAIM)
    if not claim.owned:
        return claim
    topics = frozenset(member.topics)
    if all(entry.topic in topics for entry in claim.owned):
        return claim
    owned = tuple(entry for entry in claim.owned if entry.topic in topics)
    return Claim(owned, claim.generation)


def resolve_claims(claims: Sequence[Claim]) -> Owners:
    """Decide between conflicting claims: that of the newest generation counts.

    A member that was away while its partitions went to others comes back with an outdated claim.
    Of two claims in one generation at least one is wrong, and nothing tells which.
    """
    owners: Owners = {}
    by_generation: dict[int, list[int]] = {}
    for index, claim in enumerate(claims):
        by_generation.setdefault(claim.generation, []).append(index)
    if len(by_generation) == 1:
        return _of_one_generation(claims, range(len(claims)))
    for _, indexes in sorted(by_generation.items()):
        for topic, partitions in _of_one_generation(claims, indexes).items():
            owners.setdefault(topic, {}).update(partitions)
    return owners


def _of_one_generation(claims: Sequence[Claim], indexes: Sequence[int]) -> Owners:
    owners: Owners = {}
    for index in indexes:
        for entry in claims[index].owned:
            of_topic = owners.setdefault(entry.topic, {})
            # For many partitions, that is much faster than one at a time.
            if len(entry.partitions) > 1 and of_topic.keys().isdisjoint(entry.partitions):
                of_topic.update(dict.fromkeys(entry.partitions, index))
                continue
            for partition in entry.partitions:
                if of_topic.setdefault(partition, index) != index:
                    of_topic[partition] = CONTESTED
    return owners
