"""The tables that the pipeline makes: every column, its type and its meaning.

`docs/pipeline.md` shows these declarations; tests compare them with the page and the steps.
Times are milliseconds since 1970 (`_ms`), as in the journal; what can't be known is null.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["TABLES", "Column", "Table", "declared"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    name: str
    #: As in Spark's SQL.
    type: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table: what a row stands for, and its columns."""

    name: str
    row: str
    columns: tuple[Column, ...]

    @property
    def ddl(self) -> str:
        """The columns as in Spark's SQL."""
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)

    @property
    def names(self) -> list[str]:
        """The names of the columns, in their order."""
        return [column.name for column in self.columns]


def declared(*texts: str) -> tuple[Column, ...]:
    """Parse declarations: `name | type | meaning`, which may continue in indented lines."""
    rows = "\n".join(text.strip() for text in texts).replace("\n    ", " ").splitlines()
    return tuple(Column(*(part.strip() for part in row.split("|", 2))) for row in rows)


_GROUP: Final = "group | STRING | the group"
_PARTITION: Final = """topic | STRING | the topic
partition | BIGINT | the partition's number
"""

NODES: Final = Table(
    "nodes",
    "one node, and whether its journal is whole",
    declared("""
node | STRING | the node
lines | BIGINT | how many lines it wrote, each counted once
first_seq | BIGINT | the number of its first line
last_seq | BIGINT | the number of its last line
first_ms | BIGINT | the earliest time in its lines
last_ms | BIGINT | the latest time in its lines
missing | BIGINT | how many numbers are missing between the first and the last line
gaps | BIGINT | in how many places they are missing
duplicates | BIGINT | how many lines were exact repetitions
conflicts | BIGINT | how many numbers were used for different lines, as by a node that began anew
    with nothing, or two nodes of one name; the later life counts
starts | BIGINT | how often the node started
crashes | BIGINT | how many starts did not follow an orderly stop
clock_back_ms | BIGINT | the most that its clock was set back: while it ran, as it told
    (`clock_stepped`), and over a restart, from one line to a later one, between commits from one
    file to a later one
clock_behind_ms | BIGINT | how far its clock is at least behind another node's, judged by groups
    that moved from there; 0 if nothing shows it
"""),
)

UNREAD: Final = Table(
    "unread",
    "one line that could not be read",
    declared("""
segment | STRING | the path of the file
why | STRING | `torn`: it begins like a line and is cut off, or lacks its line break at the end of
    a file, so that its number is used again; `foreign`: it is not a line of a journal; `newer`: its
    version is newer than this pipeline; `unknown_kind`: its kind is not known here; `misfit`: a
    field is missing, or has a value that it can't have; `damaged`: no line, but the rest of a
    compressed file that can't be unpacked
node | STRING | the node that wrote it, if that can be read
seq | BIGINT | its number, if that can be read
excerpt | STRING | the beginning of the line
"""),
)

REBALANCES: Final = Table(
    "rebalances",
    "one rebalance",
    declared(
        _GROUP,
        """
rebalance | BIGINT | the rebalance's number within the group, from 1 on
node | STRING | the node that coordinated its start
started_ms | BIGINT | when it began; worked out from its duration if its beginning is in no
    journal
joined_ms | BIGINT | when the first phase ended: all members had joined or were dropped
ended_ms | BIGINT | when it ended, in any way
outcome | STRING | `completed`: the assignment is in place; `superseded`: another one began
    before; `emptied`: the last member went; `interrupted`: the node went down; `running`: it
    goes on when the journal ends
from_state | STRING | the group's state when it began
generation | BIGINT | the generation that it led to, or else the one in which it began
cause | STRING | why it began, one of the journal's causes
detail | STRING | who or what caused it, in words
follows | BIGINT | the generation that called for it, if one did
root | BIGINT | the number of the rebalance that began the chain of follow-ups to which this
    one belongs; its own if it follows none
root_cause | STRING | the cause of that one
cause_chain | ARRAY<STRING> | the causes from that one to this one; of a longer chain the first
    1,000
protocol | STRING | the chosen protocol (assignor)
leader | STRING | the member that computed the assignment
members | BIGINT | how many members the generation has
came | ARRAY<STRING> | the members that joined since the generation before, but for those that a
    restart of the node has forgotten, as they were in no generation yet
went | ARRAY<STRING> | the members that went since the generation before
dropped | ARRAY<STRING> | the members that were removed because they did not join in time
awaited | ARRAY<STRING> | the members that had not joined when it began; null if its beginning is
    in no journal
late | ARRAY<STRUCT<member: STRING, instance: STRING, host: STRING, after_ms: BIGINT, how:
    STRING>> | those of them that did not join at once, the slowest first: after how long, and
    how that ended (`joined`; `away` for a static member that did not come and keeps its place;
    how it left the group, as in `member_gone`; `unclaimed` for a client that never claimed its
    id)
detection_ms | BIGINT | if members had died: for how long the one that was silent longest had
    not been heard of when it was given up
prepare_ms | BIGINT | how long the first phase took
complete_ms | BIGINT | how long the second phase took; null if it did not end with an assignment
total_ms | BIGINT | how long all of it took
partitions | BIGINT | how many partitions were assigned; null if the assignment can't be read
moved | BIGINT | how many partitions have another owner than before; the former one may have
    gone, or given them up in the round before, also before a restart of the node, which then does
    not count them itself
revoked | BIGINT | how many partitions were taken from their owners
kept | BIGINT | how many partitions stayed with their owner, of those that had one before and
    after
keepable | BIGINT | how many could at best have stayed with their owners, given how many
    partitions each member had before and has now
needs_rejoin | BOOLEAN | whether members were asked to join once more
stopped_partition_ms | BIGINT | for how long partitions stood still, summed over the partitions;
    null if that is not known. `groups why` shows the same figure
silent_partition_ms | BIGINT | for how long before that their owners had been silent when they were
    given up, likewise
""",
    ),
)

OWNERSHIP: Final = Table(
    "ownership",
    "one interval in which a member owned a partition",
    declared(
        _GROUP,
        _PARTITION,
        """
holder | STRING | the owner: the `group.instance.id` of a static member, the member id of a
    dynamic one
member | STRING | the member id
instance | STRING | the `group.instance.id`, if it is a static member
host | STRING | the address that it came from
from_ms | BIGINT | when it began
to_ms | BIGINT | when it ended: when the coordinator knew that the member had let go, or took the
    partition away; the end of the journal if it goes on
released_ms | BIGINT | the latest time at which the member may have worked on it, if it keeps to
    the rules: later than `to_ms` if it was taken from a member that had not let go, or that was
    removed while it was alive
generation | BIGINT | the generation in which it was given
last_generation | BIGINT | the last generation in which the member had it
began | STRING | `assigned`; `claimed`: it was not assigned, but the member claimed it as it
    joined; `recovered`: the member had it when a node read the group back; `replaced`: it took
    the partition over from its former process
ended | STRING | `let_go`: the member joined again without it; `taken`: an assignment took it
    away; `replaced`: a static member came back under a new id; `emptied`, `deleted`: the group;
    `lost`: the journal does not say; `open`: it goes on; else how the member left the group, as
    in `member_gone`
""",
    ),
)

FAULTS: Final = Table(
    "ownership_faults",
    "one time in which a partition had two owners, none, or a silent one",
    declared(
        _GROUP,
        _PARTITION,
        """
fault | STRING | `overlap`; `gap`; `silence`: its owner was not heard of, until it was given up
    or a new process took its place
from_ms | BIGINT | when it began
to_ms | BIGINT | when it ended; of an overlap, at the latest
sure_ms | BIGINT | of an overlap, for how long two owners are certain: 0 if it is only possible;
    else its duration
most_ms | BIGINT | its duration at most
cause | STRING | of an overlap: `assigned_twice`, `claimed_twice`, `taken_while_held`: given to
    another member while it was still held, else how the first owner's membership was ended
    while it may have been alive (`rebalance_expired`, `removed`, ...); of a gap: the cause of
    the rebalance that it belongs to, or `none`; of a silence: how it ended, as `began`
began | STRING | how the first owner's interval ended
rebalance | BIGINT | of a gap, the number of the rebalance in which it ended, or which goes on;
    of a silence, of the one that followed; null if there was none
is_open | BOOLEAN | of a gap, whether it goes on when the journal ends
holder | STRING | the first owner
next_holder | STRING | the second owner; of a gap, the next one; two processes of one static member
    are one holder
member | STRING | the member id of the first owner
next_member | STRING | that of the second or next one
""",
    ),
)

SESSIONS: Final = Table(
    "member_sessions",
    "one membership: from when a member was taken in until it went",
    declared(
        _GROUP,
        """
member | STRING | the member id
instance | STRING | the `group.instance.id`, if it is a static member
client_id | STRING | what its client calls itself
host | STRING | the address that it came from
identity | STRING | what identifies a process over its memberships: the instance, or client id
    and host, with `#2`, `#3` and so on for members that were there at the same time
kind | STRING | `static` or `dynamic`
joined_ms | BIGINT | when it began; null if that is in no journal
ended_ms | BIGINT | when it ended; null if it goes on
began | STRING | `joined`; `replaced`: it took over from its former process; `known`: it was
    there when the journal begins
ended | STRING | how it left the group, as in `member_gone`; `replaced`; `emptied`, `deleted`:
    the group; `lost`: the journal does not say; `open`
silent_ms | BIGINT | how long it had been silent at the end
session_timeout_ms | BIGINT | how long it was allowed to be silent
rebalance_timeout_ms | BIGINT | how long it was allowed to take to join again
protocols | ARRAY<STRING> | the protocols that it supported
topics | ARRAY<STRING> | the topics that it subscribed to as it joined
join_reason | STRING | the reason that it gave for joining, if it did
leave_reason | STRING | the reason that it gave for leaving, if it did
back_after_ms | BIGINT | after how long a member of the same identity joined next; null if none did
returns | BIGINT | how often members of its identity had gone in the hour before it began
is_flapping | BOOLEAN | whether that was three times or more
""",
    ),
)

COMMITS: Final = Table(
    "commits",
    "one partition's commits within an hour",
    declared(
        _GROUP,
        _PARTITION,
        """
hour_ms | BIGINT | when the hour began
commits | BIGINT | how many commits there were
per_minute | DOUBLE | how many that is a minute, between the first and the last of them; null if
    there is only one
first_ms | BIGINT | when the first one was
last_ms | BIGINT | when the last one was
first_offset | BIGINT | the first offset
last_offset | BIGINT | the last offset
advanced | BIGINT | by how much offsets went up, summed over all steps, including the one from
    the hour before
regressions | BIGINT | how many commits went back behind the one before
deepest_regression | BIGINT | the furthest that one went back; 0 if none did
members | BIGINT | how many different members committed
outside | BIGINT | how many commits did not come from members
end_offset | BIGINT | the partition's end, if it is known
lag | BIGINT | how far the last offset is behind that
""",
    ),
)

HEALTH: Final = Table(
    "group_health",
    "one group's hour",
    declared(
        _GROUP,
        """
hour_ms | BIGINT | when the hour began
members | BIGINT | the most members that the group had
partitions | BIGINT | how many partitions had an owner at any time
rebalances | BIGINT | how many rebalances began
by_cause | MAP<STRING, BIGINT> | how many of each cause
rebalancing_ms | BIGINT | for how long the group rebalanced
owned_partition_ms | BIGINT | for how long partitions had an owner, summed over the partitions
stopped_partition_ms | BIGINT | for how long they had none though the group had members, likewise
silent_partition_ms | BIGINT | for how long they had one that was silent and then given up or
    replaced, likewise
availability | DOUBLE | the share of the time in which partitions had an owner that was not silent
    so; null if there are none
moved | BIGINT | how many partitions moved
kept | BIGINT | how many partitions stayed with their owners, over all rebalances
keepable | BIGINT | how many could have stayed at best
stickiness | DOUBLE | `kept` of `keepable`; null if there was nothing to keep
overlaps | BIGINT | how many overlaps of ownership began that are certain
possible_overlaps | BIGINT | how many more are possible
session_timeouts | BIGINT | how many members' sessions expired
commits | BIGINT | how many offsets were committed
regressions | BIGINT | how many of them went back
""",
    ),
)

ADVICE: Final = Table(
    "advice",
    "one thing to look into",
    declared("""
group | STRING | the group; empty if it is about a node
rule | STRING | the rule that found it
severity | STRING | `wrong`: something happened that must not happen; `costly`: something cost
    time; `note`: worth knowing
about | STRING | the member, host, partition or node that it is about; empty if it is the group
    as a whole
sentence | STRING | what was seen and what to do about it, for a person
saves_partition_ms | BIGINT | how much stopped time it would have saved, summed over the
    partitions; null if that is not known
from_ms | BIGINT | when it was first seen
to_ms | BIGINT | when it was last seen
evidence | MAP<STRING, STRING> | the numbers behind the sentence
"""),
)

#: All tables that are made of `events`, in the order in which they are made.
TABLES: Final = (
    NODES,
    UNREAD,
    REBALANCES,
    OWNERSHIP,
    FAULTS,
    SESSIONS,
    COMMITS,
    HEALTH,
    ADVICE,
)
