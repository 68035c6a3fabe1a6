"""A member of a group, as a machine without I/O.  This page explains how it works.

**What goes in and out.**  `Membership` is told what happens: an answer, a failure, a wish of the
user's, a deadline that has come, always with the time.  It returns actions: requests to send,
partitions to work on or to stop working on, outcomes of commits, events.  Its driver
(`coterie_client.driver`) does what they say, in their order.  A request carries a ticket, under
which its answer or its `Failure` comes back.

**How a turn goes.**  An event only changes the `MemberState`, which all parts share: the
identity, the phase, and what is owned.  Then each part, in a fixed order, does what can be done
now (its `advance`), and names the moment at which it could do more (its `deadline_ms`).  So a
second event in the middle of anything needs no case of its own.

**The phases.**  `phases.TRANSITIONS` is the whole table.  A round goes from OUT or STABLE through
PREPARING, where work on partitions that may not be kept is ended; JOINING and, for the leader,
LEADING; SYNCING, at whose end the assignment is known; and PROVING, until the member has a lease,
to STABLE.  A cooperative member works on through all of that on what it keeps.

**What an error code does** stands in one table in `coordinator.py`: wait and retry, find the
coordinator, join again, join as a member that has lost everything, stop.  A code only counts for
the identity that it was an answer to, and while an answer to a join or sync is on its way, that
answer decides.

**The lease.**  The coordinator drops a member that was silent for a session timeout, counted from
when a request came in.  That was no earlier than it was sent, so an answered heartbeat lets the
member work until a session timeout after it was *sent*, less a tenth; or a rebalance timeout, if
that is shorter, as a rebalance may begin right after the answer and end without the member.  When
that has passed, all work stops (`Lose`).  The membership need not be over: if a heartbeat is
answered, and then a sync in the same generation, no other member was given anything, and the work
begins again, without a rebalance.  The heartbeat alone proves nothing then, as coordinators that
are still reading their groups answer each; and the sync alone does not make the session longer with
Kafka's brokers.

**The deadline.**  The coordinator waits for a member's join no longer than a rebalance timeout,
counted from when the rebalance began.  That was after it last said that all was calm, so what is
let go of has to be gone a rebalance timeout after that was asked, less a tenth.  What is not gone
by then is abandoned: its commits fail, and only its fencing token keeps it from doing harm.

**State.**  A member whose partitions have state (`keep_warm`) reports how far behind its
copies are, in its subscription, and is told in its assignment which ones to keep up to date beside
what it works on: standbys and warm-ups (`KeepWarm`).  They outlive a lost membership, since nothing
that another member does can clash with them.  A warm-up that has caught up makes its member join
again; besides, the leader joins again at times of its own, as long as something warms up.

**Where to begin.**  `phases`, `actions`, `machine`; then the parts in the order in which a member
needs them: `coordinator`, `joining` (with `consumer_protocol` and `topics`), `assigning`,
`heartbeats`, `ownership`, `standbys` (with `warm_blocks`), `offsets`, `fetches`, `leaving`.
`loads`, `smoothing` and `imbalance` are for groups that balance loads.  `context` holds what they
share.
"""

from coterie_client.membership.actions import (
    Abandon,
    Action,
    Assign,
    Committed,
    Failure,
    FailureKind,
    Fetched,
    Hangup,
    KeepWarm,
    Lose,
    Position,
    ReportEvent,
    Revoke,
    Role,
    Send,
    Stop,
)
from coterie_client.membership.config import MembershipConfig, Sources
from coterie_client.membership.context import Identity
from coterie_client.membership.leaving import ClosedError
from coterie_client.membership.machine import Membership
from coterie_client.membership.offsets import PartitionLostError
from coterie_client.membership.phases import Phase

__all__ = [
    "Abandon",
    "Action",
    "Assign",
    "ClosedError",
    "Committed",
    "Failure",
    "FailureKind",
    "Fetched",
    "Hangup",
    "Identity",
    "KeepWarm",
    "Lose",
    "Membership",
    "MembershipConfig",
    "PartitionLostError",
    "Phase",
    "Position",
    "ReportEvent",
    "Revoke",
    "Role",
    "Send",
    "Sources",
    "Stop",
]
