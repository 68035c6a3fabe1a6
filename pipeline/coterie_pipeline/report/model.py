"""The data of a report: bounded, sorted, and without Spark."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "Advice",
    "Bar",
    "Caps",
    "CommitLine",
    "Cost",
    "Fault",
    "GroupDetail",
    "GroupLine",
    "Late",
    "NodeRead",
    "Process",
    "Rebalance",
    "Report",
    "Row",
    "Session",
    "Some",
    "Span",
    "Totals",
    "Unread",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """How much a report shows at most, so that it stays readable and below some 3 MB."""

    #: Groups in the overview.
    groups_listed: int = 200
    #: Groups with charts of their own.
    groups_drawn: int = 20
    #: Partitions in one group's chart.
    rows: int = 40
    #: Intervals of ownership, and times without an owner, over all groups.
    bars: int = 4_500
    #: Rebalances over all groups.
    rebalances: int = 800
    #: Processes in one group's chart of members.
    processes: int = 30
    #: Memberships over all groups.
    sessions: int = 1_000
    #: Partitions in one group's table of commits.
    commits: int = 12


@dataclass(frozen=True, slots=True)
class Span:
    """A time from a moment to another one."""

    from_ms: int
    to_ms: int

    @property
    def length_ms(self) -> int:
        """How long it is."""
        return self.to_ms - self.from_ms


@dataclass(frozen=True, slots=True)
class Some:
    """A number of members, and the names of the first of them."""

    count: int = 0
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRead:
    """One node's journal, and whether it is whole; as in the table `nodes`."""

    node: str
    lines: int
    first_ms: int
    last_ms: int
    missing: int
    gaps: int
    duplicates: int
    conflicts: int
    starts: int
    crashes: int
    clock_back_ms: int
    clock_behind_ms: int


@dataclass(frozen=True, slots=True)
class Unread:
    """Lines that could not be read, for one reason."""

    why: str
    lines: int
    segment: str
    excerpt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLine:
    """A group in one line of the overview."""

    group: str
    rebalances: int
    stopped_partition_ms: int
    silent_partition_ms: int
    owned_partition_ms: int
    overlaps: int
    possible_overlaps: int
    members: int
    partitions: int
    flapping: int
    regressions: int
    #: What cost most, and how many rebalances that caused; empty if nothing did.
    main_cause: str
    main_cause_rebalances: int
    #: What stood still, in equal parts of the report's time.
    stopped_by_time_ms: tuple[int, ...]

    @property
    def cost_ms(self) -> int:
        """For how long partitions waited, whether it was known or not."""
        return self.stopped_partition_ms + self.silent_partition_ms

    @property
    def availability(self) -> float | None:
        """The share of the time in which partitions had an owner that was not silent."""
        return _availability(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The figures of all groups together."""

    groups: int
    rebalances: int
    stopped_partition_ms: int
    silent_partition_ms: int
    owned_partition_ms: int
    overlaps: int
    possible_overlaps: int
    groups_with_overlaps: int
    flapping: int

    @property
    def cost_ms(self) -> int:
        """For how long partitions waited, whether it was known or not."""
        return self.stopped_partition_ms + self.silent_partition_ms

    @property
    def availability(self) -> float | None:
        """The share of the time in which partitions had an owner that was not silent."""
        return _availability(self)


def _availability(figures: GroupLine | Totals) -> float | None:
    whole = figures.owned_partition_ms + figures.stopped_partition_ms
    # Of two owners at once, one may have been silent.
    working = max(figures.owned_partition_ms - figures.silent_partition_ms, 0)
    return working / whole if whole else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One thing to look into; as in the table `advice`."""

    group: str
    rule: str
    severity: str
    about: str
    sentence: str
    saves_partition_ms: int | None
    from_ms: int | None
    to_ms: int | None
    evidence: tuple[tuple[str, str], ...]
    #: The pieces of the same rule that are not shown, and what some of them are about.
    alike: Some = Some()
    #: How many groups all of them are about.
    groups: int = 1

    @property
    def others(self) -> str:
        """The pieces like this one, in words; empty if there are none."""
        if not self.alike.count:
            return ""
        groups = f" in {self.groups:,} groups" if self.groups > 1 else ""
        names = ", ".join(self.alike.names)
        such_as = f", such as {names}" if names else ""
        return f"{self.alike.count:,} more like this{groups}{such_as}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """An interval of ownership, or several of one owner that were merged."""

    holder: str
    #: The process that it is, over all its memberships.
    identity: str
    member: str
    host: str
    from_ms: int
    to_ms: int
    released_ms: int
    generation: int | None
    last_generation: int | None
    began: str
    ended: str
    intervals: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A time in which a partition had two owners, none or a silent one; or several, merged."""

    fault: str
    from_ms: int
    to_ms: int
    sure_ms: int
    cause: str
    rebalance: int | None
    is_open: bool
    holder: str
    next_holder: str
    member: str = ""
    next_member: str = ""
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A partition: who owned it when."""

    topic: str
    partition: int
    bars: tuple[Bar, ...]
    faults: tuple[Fault, ...]
    #: All its intervals, also those that are not drawn apart.
    intervals: int
    overlaps: int
    stopped_ms: int

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Late:
    """A member that the others waited for."""

    member: str
    instance: str
    host: str
    after_ms: int
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """One rebalance; as in the table `rebalances`, with lists of members cut short."""

    number: int
    started_ms: int
    joined_ms: int | None
    ended_ms: int | None
    outcome: str
    from_state: str
    generation: int | None
    cause: str
    detail: str
    root: int
    cause_chain: tuple[str, ...]
    protocol: str
    members: int | None
    came: Some
    went: Some
    dropped: Some
    awaited: Some
    late: tuple[Late, ...]
    late_count: int
    detection_ms: int | None
    prepare_ms: int | None
    complete_ms: int | None
    total_ms: int | None
    partitions: int | None
    moved: int | None
    revoked: int | None
    kept: int | None
    keepable: int | None
    needs_rejoin: bool
    stopped_partition_ms: int | None
    silent_partition_ms: int | None = 0

    @property
    def cost_ms(self) -> int:
        """For how long partitions waited, whether it was known or not."""
        return (self.stopped_partition_ms or 0) + (self.silent_partition_ms or 0)


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a root cause: its rebalances and their follow-ups."""

    cause: str
    rebalances: int
    follow_ups: int
    stopped_ms: int
    follow_ups_stopped_ms: int
    #: How long owners had been silent before that.
    silent_ms: int = 0

    @property
    def whole_ms(self) -> int:
        """All of it."""
        return self.stopped_ms + self.silent_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One membership; as in the table `member_sessions`."""

    member: str
    holder: str
    host: str
    joined_ms: int | None
    ended_ms: int | None
    began: str
    ended: str
    silent_ms: int | None
    session_timeout_ms: int | None
    join_reason: str
    leave_reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process, which has one identity over its memberships."""

    identity: str
    kind: str
    sessions: tuple[Session, ...]
    #: All its memberships, also those that are not drawn.
    memberships: int
    expired: int
    is_flapping: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitLine:
    """One partition's commits over the whole time."""

    topic: str
    partition: int
    commits: int
    per_minute: float | None
    advanced: int
    regressions: int
    deepest_regression: int
    outside: int
    lag: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDetail:
    """The details of one group; the figures `..._in_all` include what is left out."""

    line: GroupLine
    span: Span
    advice: tuple[Advice, ...]
    rows: tuple[Row, ...]
    rows_in_all: int
    #: Of the partitions that are left out: how many had a fault.
    faulty_rows_left_out: int
    #: Intervals of one owner that are closer than this are drawn as one.
    merged_below_ms: int
    rebalances: tuple[Rebalance, ...]
    costs: tuple[Cost, ...]
    processes: tuple[Process, ...]
    processes_in_all: int
    commits: tuple[CommitLine, ...]
    commits_in_all: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All data of a report."""

    span: Span
    nodes: tuple[NodeRead, ...]
    unread: tuple[Unread, ...]
    totals: Totals
    lines: tuple[GroupLine, ...]
    advice: tuple[Advice, ...]
    details: tuple[GroupDetail, ...]
