"""How many partitions stay with their holders from one assignment to the next."""

from __future__ import annotations

from collections.abc import Mapping

from coterie_protocol.replay.members import Members
from coterie_protocol.replay.order import Placed
from coterie_protocol.replay.partitions import Partition, partitions_of
from coterie_protocol.replay.rebalances import closes, is_readable

__all__ = ["Kept"]


class Kept:
    """Compares each assignment with what was the case before."""

    def __init__(self, members: Members) -> None:
        self._members = members
        #: What each holder had by the latest line that told of all; None if that is not known.
        self._former: dict[str, frozenset[Partition]] | None = None

    def note(self, line: Placed) -> dict[str, int | None]:
        """Take in the next line; what it says if it is an assignment."""
        if not closes(line):
            return {}
        if _is_empty(line) or not is_readable(line):
            self._former = {} if _is_empty(line) else None
            return {}
        owned = {
            self._members.holder(member): frozenset(partitions_of(own))
            for member, own in sorted(line["assigned"].items())
        }
        former = self._former
        self._former = owned
        return {
            "partitions": len(frozenset().union(*owned.values())),
            "kept": None if former is None else _kept(former, owned),
            "keepable": None if former is None else _keepable(former, owned),
        }


def _is_empty(line: Placed) -> bool:
    """Whether a closing leaves the group without members."""
    return line.kind in ("group_emptied", "rebalance_started") or line["state"] == "Empty"


_Owned = Mapping[str, frozenset[Partition]]


def _kept(former: _Owned, owned: _Owned) -> int:
    return sum(len(own & former[holder]) for holder, own in owned.items() if holder in former)


def _keepable(former: _Owned, owned: _Owned) -> int:
    """A holder can keep as many as it had before and has now."""
    return sum(
        min(len(own), len(former[holder])) for holder, own in owned.items() if holder in former
    )
