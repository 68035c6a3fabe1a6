"""An assignor with a fault, for the coordinator's ownership guard to make good."""

from __future__ import annotations

from typing import ClassVar

from coterie_assignors import (
    Claim,
    MemberInfo,
    RebalanceProtocol,
    RoundRobinAssignor,
)

__all__ = ["BrokenAssignor"]


class BrokenAssignor(RoundRobinAssignor):
    """Deals everything out anew, and does not see that members still own what it gives away.

    With it no leader withholds anything, so partitions go to new owners while their old ones are
    still at work, unless somebody else takes care.
    """

    name: ClassVar[str] = "broken"
    protocols: ClassVar[tuple[RebalanceProtocol, ...]] = (RebalanceProtocol.COOPERATIVE,)

    def claim(self, member: MemberInfo) -> Claim:
        """Overlook what a member has."""
        del member
        return Claim()
