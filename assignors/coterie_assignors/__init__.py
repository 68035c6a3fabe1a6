"""Assignors decide which member of a group gets which partitions.

How an assignment comes about
-----------------------------

The group elects a leader, and the leader's client calls `lead` with an assignor, the `Cluster`
(topics, their partition counts, the racks of their replicas) and one `MemberInfo` per member
(subscription, owned partitions, rack, user data).  `lead`

1. calls `Assignor.assign`, which returns the partitions of each member, regardless of who owns
   them now; unless partitions are still on their way to where it last said (`plan`);
2. checks that answer: every member is in it, no partition twice, none without a subscription;
3. reassigns partitions that their member refused because it could not work on them;
4. carries out what administrators have ordered: drains, pins, freezes (`operations`);
5. for cooperative assignors, withholds partitions that another member still owns (`adjust`).

The result is an `Adjustment`: what to send to each member, and whether they have to rejoin.

Under the **eager** protocol members revoke all their partitions before they join, so the assignment
takes effect at once.  Under the **cooperative** one (KIP-429) they keep them: a partition that
changes hands is withheld in a first rebalance, which makes its owner revoke it, and assigned in a
second one.

Who owns what is known only from what members say, and they may contradict each other:
`resolve_claims` decides by generation.

Where to read on
----------------

- `base`: the interface, and the types that go in and out.
- `leader`: steps 2 to 5 above.
- `range`, `roundrobin`: Kafka's assignors of these names, to the letter.
- `sticky`: balanced, and with as few moves as that allows; a package with an introduction of its
  own.
- `weights`: the settings by which the sticky assignors balance loads instead of numbers.
- `operations`: what administrators have ordered, around any assignor.
- `plan`: what a leader keeps to until it is done, so that a group comes to rest.
- `presence`: balances without the members that are away, for assignors that call it.
- `outlook`: what a leader knows of the members some time after it has decided.
- `ownership`: resolves contradicting claims; used by `leader` and `sticky`.

Everything here is pure: the same question gets the same answer, and there is no I/O and no clock.
"""

from coterie_assignors.base import (
    NO_GENERATION,
    Assignor,
    Claim,
    Cluster,
    MemberInfo,
    Partitions,
    RebalanceProtocol,
    in_kafka_order,
)
from coterie_assignors.checking import InvalidAssignmentError
from coterie_assignors.leader import Adjustment, adjust, lead
from coterie_assignors.operations import Operations
from coterie_assignors.plan import Plan
from coterie_assignors.presence import among_present
from coterie_assignors.range import RangeAssignor
from coterie_assignors.roundrobin import RoundRobinAssignor
from coterie_assignors.state import RUNNING, STALLED, UNKNOWN, WarmReport, WarmSettings
from coterie_assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from coterie_assignors.warm import InstanceStickyAssignor, next_probing_ms
from coterie_assignors.weights import Weights

__all__ = [
    "NO_GENERATION",
    "RUNNING",
    "STALLED",
    "UNKNOWN",
    "Adjustment",
    "Assignor",
    "Claim",
    "Cluster",
    "CooperativeStickyAssignor",
    "InstanceStickyAssignor",
    "InvalidAssignmentError",
    "MemberInfo",
    "Operations",
    "Partitions",
    "Plan",
    "RangeAssignor",
    "RebalanceProtocol",
    "RoundRobinAssignor",
    "StickyAssignor",
    "WarmReport",
    "WarmSettings",
    "Weights",
    "adjust",
    "among_present",
    "in_kafka_order",
    "lead",
    "next_probing_ms",
]
