"""The core of the coordinator, without I/O: groups, their members and their offsets."""

from coterie_server.group.administration import Refusal
from coterie_server.group.commit_order import CommitOrder
from coterie_server.group.coordinator import Coordinator
from coterie_server.group.group import Group
from coterie_server.group.offsets import END_OF_TIME_MS
from coterie_server.group.records import (
    Gone,
    OffsetRow,
    Record,
    Row,
    StoredRow,
    from_stored,
    to_stored,
)
from coterie_server.group.states import TRANSITIONS, GroupState
from coterie_server.group.turn import Call, Config, IdSource, Outcome

__all__ = [
    "END_OF_TIME_MS",
    "TRANSITIONS",
    "Call",
    "CommitOrder",
    "Config",
    "Coordinator",
    "Gone",
    "Group",
    "GroupState",
    "IdSource",
    "OffsetRow",
    "Outcome",
    "Record",
    "Refusal",
    "Row",
    "StoredRow",
    "from_stored",
    "to_stored",
]
