"""Log lines for operators: one for each rebalance, for each member that is gone, and so on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from coterie_protocol.journal import (
    CAUSES,
    ClockStepped,
    Event,
    GroupDeleted,
    GroupRecovered,
    IdUnclaimed,
    MemberAway,
    MemberFenced,
    MemberGone,
    MemberJoined,
    MemberReplaced,
    MemberReturned,
    NodePaused,
    NodeStarted,
    NodeStopped,
    OffsetsDeleted,
    OffsetsExpired,
    OperationEnded,
    OperationStarted,
    OwnershipConflict,
    Partitions,
    RebalanceCompleted,
    TopicChanged,
)
from coterie_server.history import History, RebalanceOutcome, RebalanceRecord, in_seconds
from coterie_server.log.logger import get_logger, is_heard

__all__ = ["LINES_PER_WINDOW", "WINDOW_MS", "EventLog"]

_log = get_logger(__name__)

#: How many lines may be written in so many milliseconds; further ones are counted, and one line
#: gives their number.  Otherwise a client that joins and leaves in a loop would fill the disk.
LINES_PER_WINDOW: Final = 200
WINDOW_MS: Final = 10_000
#: Errors are never left out, and neither are debug lines, which are there for completeness.
_COUNTED: Final = ("info", "warning")

#: How many partitions a line about conflicts names.
_CONFLICTS_NAMED: Final = 5
_CONFLICTS: Final = {
    False: "partitions have two owners",
    True: "partitions withheld until their owners give them up",
}

_OUTCOMES: Final[Mapping[RebalanceOutcome, str]] = {
    RebalanceOutcome.COMPLETED: "group rebalanced",
    RebalanceOutcome.SUPERSEDED: "rebalance superseded by another",
    RebalanceOutcome.EMPTIED: "group is empty",
    RebalanceOutcome.INTERRUPTED: "rebalance interrupted",
}

#: The level and the reason, for each way in which a member leaves its group.
_GONE: Final[Mapping[str, tuple[str, str]]] = {
    "left": ("info", "it asked to leave"),
    "removed": ("info", "an administrator removed it"),
    "session_expired": ("warning", "it was silent for longer than its session timeout"),
    "registration_expired": ("warning", "it was away for longer than its registration timeout"),
    "join_expired": ("warning", "its first join was parked for too long, without a sign of life"),
    "rebalance_expired": ("warning", "it did not join the rebalance in time"),
    "sync_expired": ("warning", "it joined but never asked for its assignment"),
    "turned_away": ("warning", "the group has as many members as group.max.size allows"),
}


class EventLog:
    """Writes a log line for each event that matters to an operator.

    Finished rebalances come from the history, so events must reach that first.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        history.listen(self._rebalance_over)
        self._window_ends_ms = 0
        self._lines_left = LINES_PER_WINDOW
        self._is_started = False
        #: Recovered groups that no line has told of yet: the state and number of members of each.
        self._recovered_groups: dict[str, tuple[str, int]] = {}
        self._conflicts: dict[str, list[OwnershipConflict]] = {}

    def observe(self, ts_ms: int, event: Event) -> None:
        """Take in an event; most kinds make no line."""
        handle = self._HANDLERS.get(type(event))
        if self._recovered_groups and self._is_started and type(event) is not GroupRecovered:
            self._summarize_recovered(ts_ms)
        if handle is not None:
            handle(self, ts_ms, event)

    def _say(self, ts_ms: int, level: str, event: str, **fields: object) -> None:
        """Write a line without its empty fields, unless there were too many lines lately."""
        if level in _COUNTED and not self._has_room(ts_ms):
            return
        known = {name: value for name, value in fields.items() if value not in (None, "")}
        getattr(_log, level)(event, **known)

    def _has_room(self, ts_ms: int) -> bool:
        if ts_ms >= self._window_ends_ms:
            if self._lines_left < 0:
                _log.warning("log lines left out", lines=-self._lines_left)
            self._window_ends_ms = ts_ms + WINDOW_MS
            self._lines_left = LINES_PER_WINDOW
        self._lines_left -= 1
        return self._lines_left >= 0

    # -- rebalances ----------------------------------------------------------------------------

    def _rebalance_over(self, rebalance: RebalanceRecord) -> None:
        stopped_ms = rebalance.stopped_partition_ms
        self._say(
            rebalance.ended_ms or 0,
            "warning" if rebalance.dropped else "info",
            _OUTCOMES[rebalance.outcome],
            group=rebalance.group,
            generation=rebalance.generation,
            because=CAUSES.get(rebalance.cause, rebalance.cause),
            detail=rebalance.detail,
            members=rebalance.members,
            came=str(rebalance.came),
            went=str(rebalance.went),
            dropped=str(rebalance.dropped),
            waited_for=str(rebalance.late[0]) if rebalance.late else "",
            seconds=in_seconds(rebalance.total_ms),
            moved=rebalance.moved,
            revoked=rebalance.revoked,
            stopped_partition_seconds=in_seconds(stopped_ms),
            # Of most rebalances it is none.
            silent_partition_seconds=in_seconds(rebalance.silent_partition_ms or None),
        )

    def _conflict(self, _ts_ms: int, event: OwnershipConflict) -> None:
        self._conflicts.setdefault(event.group, []).append(event)

    def _completed(self, ts_ms: int, event: RebalanceCompleted) -> None:
        """Tell of the conflicts in an assignment, which come right before it."""
        conflicts = self._conflicts.pop(event.group, [])
        for withheld in (False, True):
            some = [conflict for conflict in conflicts if conflict.withheld is withheld]
            if some:
                self._say(
                    ts_ms,
                    "warning" if withheld else "error",
                    _CONFLICTS[withheld],
                    group=event.group,
                    generation=event.generation,
                    partitions=len(some),
                    examples="; ".join(_describe(conflict) for conflict in some[:_CONFLICTS_NAMED]),
                )

    # -- members -------------------------------------------------------------------------------

    def _joined(self, ts_ms: int, event: MemberJoined) -> None:
        if not is_heard(_log.debug):
            return  # members come by the thousand
        self._say(
            ts_ms,
            "debug",
            "member joined",
            group=event.group,
            member=event.member,
            instance=event.instance,
            host=event.host,
            reason=event.reason,
        )

    def _gone(self, ts_ms: int, event: MemberGone) -> None:
        level, why = _GONE.get(event.how, ("warning", event.how))
        limit_ms = event.session_timeout_ms if event.how == "session_expired" else None
        self._say(
            ts_ms,
            level,
            "member gone",
            group=event.group,
            member=event.member,
            instance=event.instance,
            host=event.host,
            why=why,
            reason=event.reason,
            silent_seconds=None if event.how == "left" else in_seconds(event.silent_ms),
            limit_seconds=in_seconds(limit_ms),
            away_seconds=in_seconds(event.away_ms or None),
            waited_seconds=in_seconds(self._waited_ms(ts_ms, event)),
            partitions=_count(event.owned),
        )

    def _waited_ms(self, ts_ms: int, event: MemberGone) -> int | None:
        """How long the phase waited for which a member was dropped."""
        running = self._history.running(event.group)
        if running is None:
            return None
        if event.how == "rebalance_expired":
            return ts_ms - running.started_ms
        if event.how == "sync_expired" and running.joined_ms is not None:
            return ts_ms - running.joined_ms
        return None

    def _unclaimed(self, ts_ms: int, event: IdUnclaimed) -> None:
        is_waiting = self._history.running(event.group) is not None
        level = "warning" if is_waiting else "debug"
        why = "its client was given this id and did not join with it"
        self._say(
            ts_ms, level, "member id unclaimed", group=event.group, member=event.member, why=why
        )

    def _replaced(self, ts_ms: int, event: MemberReplaced) -> None:
        self._say(
            ts_ms,
            "info",
            "static member is back",
            group=event.group,
            instance=event.instance,
            member=event.member,
            host=event.host,
            former_member=event.former_member,
            former_host=event.former_host,
            silent_seconds=in_seconds(event.silent_ms),
        )

    def _away(self, ts_ms: int, event: MemberAway) -> None:
        self._say(
            ts_ms,
            "warning",
            "static member is away",
            group=event.group,
            instance=event.instance,
            member=event.member,
            host=event.host,
            why="its session is over, and its place is kept",
            silent_seconds=in_seconds(event.silent_ms),
            kept_seconds=in_seconds(event.registration_timeout_ms - event.session_timeout_ms),
            partitions=_count(event.owned),
        )

    def _returned(self, ts_ms: int, event: MemberReturned) -> None:
        self._say(
            ts_ms,
            "info",
            "static member is not away any more",
            group=event.group,
            instance=event.instance,
            member=event.member,
            host=event.host,
            away_seconds=in_seconds(event.away_ms),
        )

    def _fenced(self, ts_ms: int, event: MemberFenced) -> None:
        self._say(
            ts_ms,
            "warning",
            "member fenced",
            group=event.group,
            instance=event.instance,
            why="two processes use one group.instance.id; the later one keeps it",
            request=event.request,
            member=event.member,
            host=event.host,
            holder=event.holder,
            holder_host=event.holder_host,
        )

    # -- groups, offsets, topics ---------------------------------------------------------------

    def _deleted(self, ts_ms: int, event: GroupDeleted) -> None:
        self._say(
            ts_ms,
            "info",
            "group expired" if event.how == "expired" else "group deleted",
            group=event.group,
            generation=event.generation,
        )

    def _offsets_deleted(self, ts_ms: int, event: OffsetsDeleted) -> None:
        partitions = _count(event.partitions)
        self._say(
            ts_ms,
            "info",
            "offsets deleted",
            group=event.group,
            partitions=partitions,
            why=event.how,
        )

    def _operation(self, ts_ms: int, event: OperationStarted | OperationEnded) -> None:
        words = event.kind.replace("_", " ")
        self._say(
            *(ts_ms, "info", words),
            group=event.group,
            operation=event.operation,
            member=event.instance or event.member,
            partitions=_count(event.partitions),
            how=event.how if isinstance(event, OperationEnded) else None,
            by=event.by,
            reason=event.reason,
        )

    def _offsets_expired(self, ts_ms: int, event: OffsetsExpired) -> None:
        partitions = _count(event.partitions)
        self._say(ts_ms, "info", "offsets expired", group=event.group, partitions=partitions)

    def _topic(self, ts_ms: int, event: TopicChanged) -> None:
        self._say(
            ts_ms,
            "info",
            "topic changed",
            topic=event.topic,
            change=event.change,
            partitions_before=event.partitions_before,
            partitions=event.partitions,
        )

    # -- the node ------------------------------------------------------------------------------

    def _recovered(self, _ts_ms: int, event: GroupRecovered) -> None:
        if not event.members:
            return
        # While the store fails, a group is recovered over and over: count it once.
        self._recovered_groups[event.group] = (event.state, len(event.members))

    def _summarize_recovered(self, ts_ms: int) -> None:
        recovered, self._recovered_groups = self._recovered_groups, {}
        counts = Counter(state for state, _ in recovered.values())
        states = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
        self._say(
            ts_ms,
            "info",
            "groups with members recovered",
            groups=len(recovered),
            members=sum(members for _, members in recovered.values()),
            in_state=states,
        )

    def _started(self, ts_ms: int, event: NodeStarted) -> None:
        self._is_started = True
        if self._recovered_groups:
            self._summarize_recovered(ts_ms)
        self._say(
            ts_ms,
            "info",
            "node is ready",
            version=event.version,
            groups=event.groups,
            offsets=event.offsets,
            load_seconds=in_seconds(event.load_ms),
        )

    def _paused(self, ts_ms: int, event: NodePaused) -> None:
        seconds = in_seconds(event.paused_ms)
        self._say(ts_ms, "warning", "node did not run; its members are not blamed", seconds=seconds)

    def _stepped(self, ts_ms: int, event: ClockStepped) -> None:
        seconds = in_seconds(event.stepped_ms)
        self._say(ts_ms, "warning", "the system's clock was set", by_seconds=seconds)

    def _stopped(self, ts_ms: int, event: NodeStopped) -> None:
        self._say(ts_ms, "info", "node stopped", reason=event.reason)

    _HANDLERS: ClassVar[Mapping[type[Event], Callable[[EventLog, int, Any], None]]] = {
        ClockStepped: _stepped,
        GroupDeleted: _deleted,
        GroupRecovered: _recovered,
        IdUnclaimed: _unclaimed,
        MemberAway: _away,
        MemberFenced: _fenced,
        MemberGone: _gone,
        MemberJoined: _joined,
        MemberReplaced: _replaced,
        MemberReturned: _returned,
        NodePaused: _paused,
        NodeStarted: _started,
        NodeStopped: _stopped,
        OffsetsDeleted: _offsets_deleted,
        OffsetsExpired: _offsets_expired,
        OperationEnded: _operation,
        OperationStarted: _operation,
        OwnershipConflict: _conflict,
        RebalanceCompleted: _completed,
        TopicChanged: _topic,
    }


def _describe(conflict: OwnershipConflict) -> str:
    partition = f"{conflict.topic}-{conflict.partition}"
    return f"{partition} is held by {conflict.holder}, given to {conflict.given_to}"


def _count(partitions: Partitions | None) -> int | None:
    return None if partitions is None else sum(len(numbers) for numbers in partitions.values())
