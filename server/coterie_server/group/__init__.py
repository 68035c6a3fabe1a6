"""The core of the coordinator: groups, their members and their offsets, without I/O.

How it works, and in which order to read it.

**What a group is.**  A group has members, a generation and a state.  The members agree on an
assignment of partitions for one generation; when they change, a rebalance begins the next one.
`states` says what a group may do in each state, and which may follow which; `group` and `member`
keep the group's parts consistent; `records` says what is stored of it: one row for the group, one
for each member that has been part of a generation, one for offsets that were committed together
(`offset_table`, `bundle`).

**A step.**  `coordinator` takes a request, or the time when something is due, and begins a `Step`
on the shard's `GroupTable`.  The rule for that request changes groups in memory, and notes rows to
store, replies to send and events to journal.  These are the step's outcome.  The shard that runs
the core stores the rows first, so what a reply or an event tells survives a crash.  A request that
has to wait is parked at its member (`member.join`, `member.sync`), and a later step answers it.

**A rebalance** has two phases (`rebalance`).  In the first, all members send JoinGroup (`join`),
which is parked until all have joined or the rebalance timeout has passed.  Then a new generation
begins and the joins are answered.  In the second, they send SyncGroup (`sync`), which is parked
until the leader's brings the assignment.  For consumers, the `ledger` knows who owns what, and can
withhold a partition from its new owner until the old one has let go of it.

**Time.**  A member is dropped when its session ends without a sign of life from it: a Heartbeat
(`heartbeat`), a commit, or a parked request.  Times are handed in, and `deadlines` names the next
moment at which something is due.  A heartbeat only moves the end of a session; the deadline is
looked at when it comes, and set anew if the session lasts longer.

**Absence.**  A static member may be away for longer than its session, if the settings or its join
say so (`absence`); a new process of its name is given its place (`replacement`).

**State.**  Members with state tell each other how far behind their copies are, and their leader
who is to make copies of what.  The coordinator only reads that, to tell people (`warmth`).

**Other requests.**  `leave` (LeaveGroup), `commit` (OffsetCommit), `offsets` (OffsetFetch,
OffsetDelete and expiry), `admin` (DescribeGroups, ListGroups, DeleteGroups).  What Kafka
has no requests for is in `operations`: forced rebalances, and what else operators ask of a group.

**Standing operations.**  Administrators can drain members, pin partitions and freeze a group
(`standing_rules`).  What they have ordered is stored (`standing`), and the leader is told, which
carries it out.

**Recovery** (`recovery`) applies the stored rows as they were applied when they were made.  The
generation stays, the members get a fresh session to come back in, and a rebalance that was going
on goes on.  A group's generation never goes back, not even when the group is deleted and made
anew: members use it as a fencing token.

Read `states`, `group`, `step`, `coordinator`, `join`, `rebalance`, `sync`, `heartbeat`; the others
stand by themselves.
"""

from coterie_server.group.bundle import BundleRow, OffsetRow
from coterie_server.group.coordinator import GroupCoordinator
from coterie_server.group.group import Group
from coterie_server.group.records import (
    END_OF_TIME_MS,
    Gone,
    OperationsRow,
    Record,
    Row,
    StoredRow,
    from_stored,
    to_stored,
)
from coterie_server.group.skipping import GENERATIONS_SKIPPED
from coterie_server.group.standing_rules import Command
from coterie_server.group.states import TRANSITIONS, GroupState
from coterie_server.group.table import CommitOrder, Config, IdSource
from coterie_server.step import Refusal, no_group

__all__ = [
    "END_OF_TIME_MS",
    "GENERATIONS_SKIPPED",
    "TRANSITIONS",
    "BundleRow",
    "Command",
    "CommitOrder",
    "Config",
    "Gone",
    "Group",
    "GroupCoordinator",
    "GroupState",
    "IdSource",
    "OffsetRow",
    "OperationsRow",
    "Record",
    "Refusal",
    "Row",
    "StoredRow",
    "from_stored",
    "no_group",
    "to_stored",
]
