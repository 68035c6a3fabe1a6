"""Replaying a group's control lines in plain Python: what the tables say about groups.

`order` puts the lines of a group in order, `members` knows its members by their ids, and `groups`
passes each line to what follows it: `rebalances`, `holdings` (who owns what), `kept` and
`memberships`.  `faults` then compares the intervals of ownership with one another.

A group may have millions of lines, so none of this holds all of them in memory: `spool` keeps what
does not fit in a temporary file, and sorts there.  What is held grows with the members of the
group, and by a few numbers with each rebalance.
"""

from coterie_protocol.replay.clock_steps import ClockSteps, clocks_of
from coterie_protocol.replay.deletions import Deletion, in_time_of
from coterie_protocol.replay.givings import Giving, given_away_ms
from coterie_protocol.replay.groups import Row, replay_group
from coterie_protocol.replay.order import GroupLines, Source

__all__ = [
    "ClockSteps",
    "Deletion",
    "Giving",
    "GroupLines",
    "Row",
    "Source",
    "clocks_of",
    "given_away_ms",
    "in_time_of",
    "replay_group",
]
