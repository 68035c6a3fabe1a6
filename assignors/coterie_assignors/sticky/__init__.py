"""The sticky assignors: balanced, near in racks, and with as few moves as that allows.

What they optimise, in this order:

1. **Balance.**  No member has two partitions more than another one to which it could hand one,
   directly or through other members.
2. **Racks** (KIP-881).  As many partitions as possible are with a member in the rack of a replica.
3. **Stickiness.**  As few partitions as possible move away from their owners.

How they go about it
--------------------

- `assignors`: the two public classes.  They differ in what members do during a rebalance and in
  how they tell the leader what they owned; both then call `balance.balanced`.
- `balance`: the whole way, from claims to each member's partitions.
- `pools`: topics with the same subscribers form a pool, within which partitions are
  interchangeable.  So the problem is solved in numbers first, one per pool and member, however
  many partitions there are; which partitions move is decided last.
- `quotas`: how many partitions of each pool each member gets.  Unowned partitions are distributed
  by water-filling; then members with too many give some up, within a pool and along augmenting
  paths through several.  This settles balance.
- `cycles`: moves that turn out to be unnecessary are taken back, by cancelling negative cycles.
- `racks`: where racks matter, quotas per set of racks come from a minimum-cost flow, under the
  loads that `quotas` found.
- `min_cost_flow`: the solver for that.
- `interchange`: where members report state, partitions that are alike are exchanged for ones that
  their takers have copies of.

With `Weights`, they balance the loads of partitions instead of their number, and go another way:

- `loads`: the whole of it, from claims to each member's partitions.
- `weighing`: what each partition weighs, and which ones may move.
- `weighted`: who gets what has no owner, and what moves.
- `rankings`, `shelves`: find members by their loads, and partitions by their weights.

Members and partitions are numbers throughout: a member is its index in Kafka's order of members, a
partition its position in its pool.  Names come back with the answer.
"""

from coterie_assignors.sticky.assignors import CooperativeStickyAssignor, StickyAssignor
from coterie_assignors.sticky.interchange import prefer_copies

__all__ = ["CooperativeStickyAssignor", "StickyAssignor", "prefer_copies"]
