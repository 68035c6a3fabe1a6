"""Where processes run: copies of one partition are kept apart, in different racks and zones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from coterie_assignors.base import MemberInfo
from coterie_assignors.copies import Copies

__all__ = ["Places"]

_Tag = tuple[str, str]


class Places:
    """The processes' places: a place is a set of tags, and the rack is one of them."""

    def __init__(self, copies: Copies) -> None:
        if any(each.rack is not None or (each.warm and each.warm.tags) for each in copies.order):
            tags = [_tags([copies.order[m] for m in members]) for members in copies.members_of]
        else:
            tags = [frozenset[_Tag]()] * len(copies.members_of)
        telling = _telling(tags)
        known: dict[frozenset[_Tag], int] = {}
        #: The place of each process, as a number.
        self.of: list[int] = [
            known.setdefault(frozenset(t for t in theirs if t[0] in telling), len(known))
            for theirs in tags
        ]
        #: How many tags each two places have in common: how much two copies there crowd each other.
        self.common: list[list[int]] = [[len(a & b) for b in known] for a in known]
        #: Whether there is only one place, so that copies can't be kept apart.
        self.is_one = len(known) <= 1


def _tags(members: Sequence[MemberInfo]) -> frozenset[_Tag]:
    tags: set[_Tag] = set()
    for member in members:
        if member.warm is not None:
            tags.update(member.warm.tags.items())
        if member.rack is not None:
            tags.add(("rack", member.rack))
    return frozenset(tags)


def _telling(tags: Sequence[frozenset[_Tag]]) -> set[str]:
    """The tags that tell some processes from others.

    Those that are the same everywhere, and those that are different everywhere (a host's name),
    make no difference.
    """
    counts: Counter[_Tag] = Counter(tag for theirs in tags for tag in theirs)
    return {key for (key, _), count in counts.items() if 1 < count < len(tags)}
