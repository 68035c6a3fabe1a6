"""Warm scaling: partitions with state move only to members that are ready for them (KIP-441).

Two parts
---------

Any assignor says what is right in the end, its **target**.  The **refiner** turns target, present
owners and the lags that members report into what is to be now.  So warm-ups come with every
assignor, also with one of the user's own.

Each partition is active on one member.  Others may have a copy of its state: **standbys** for the
case that its owner fails, **warm-ups** to take over from it later.  A copy is caught up if its lag
is acceptable.

Where to read on
----------------

- `refiner`: the whole way.
- `group`: what is known of the group, in numbers.
- `actives`: which member works on a partition now.
- `standbys`, `places`: which processes keep copies, spread over racks and tags.
- `standby_moves`: standbys that would be better elsewhere.
- `assignor`, `spreading`: an assignor that balances over processes and topics.
- `probing`: when the leader looks again.
"""

from coterie_assignors.warm.assignor import InstanceStickyAssignor
from coterie_assignors.warm.probing import next_probing_ms

__all__ = ["InstanceStickyAssignor", "next_probing_ms"]
