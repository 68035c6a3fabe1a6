"""Whether a soak has broken a promise.  Each check returns the breaches, in sentences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from coterie_protocol.journal import (
    GroupDeleted,
    GroupRecovered,
    Line,
    MemberGone,
    MemberJoined,
    RebalanceCompleted,
    RebalanceStarted,
)
from tests.live.ownership import TaskRun, overlaps, tokens_not_growing
from tests.soak.records import Record, Story, events_of

__all__ = [
    "CHECKS",
    "breaches",
    "groups_left_unheard",
    "groups_that_give_up",
    "waits_by_fault",
]

#: What may start a rebalance of a group whose members come and go; leaders of some libraries join
#: once more after some rebalances.
_RESTLESS_CAUSES: Final = frozenset(
    {"member_joined", "member_left", "revocation_follow_up", "leader_rejoined"}
)

_SECOND_PHASE: Final = "CompletingRebalance"

#: Libraries that join anew, without leaving, when they can't reach their coordinator for a moment.
_GIVE_UP: Final = frozenset({"kafkajs"})

Place = tuple[str, int]
"""A group and a partition."""


def _group_of(member: str) -> str:
    return member.rpartition("-")[0]


# -- commits ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Seen:
    """An offset that was read, and when that was asked for and answered."""

    asked_s: float
    at_s: float
    offset: int
    by: str


@dataclass(slots=True)
class _Offsets:
    """What was acknowledged for a partition, what was sent, and what was read."""

    acked: list[tuple[float, int]] = field(default_factory=list)
    sent: list[tuple[float, int]] = field(default_factory=list)
    read: list[_Seen] = field(default_factory=list)


def lost_commits(story: Story) -> Iterator[str]:
    """No reader finds less than was acknowledged before it asked, or what no member has sent."""
    for (group, partition), offsets in _offsets_by_place(story).items():
        acked, sent = _Highest(offsets.acked), _Highest(offsets.sent)
        where = f"{group}, partition {partition}"
        for seen in sorted(offsets.read, key=lambda each: each.asked_s):
            least = acked.until(seen.asked_s)
            if seen.offset < least:
                yield f"{where}: {seen.by} found {seen.offset} after {least} was acknowledged"
        for seen in sorted(offsets.read, key=lambda each: each.at_s):
            most = sent.until(seen.at_s)
            if seen.offset > most:
                yield f"{where}: {seen.by} found {seen.offset}, where at most {most} was sent"


class _Highest:
    """The highest number so far, of some that have times; to be asked in the order of times."""

    def __init__(self, timed: Iterable[tuple[float, int]]) -> None:
        self._timed = sorted(timed)
        self._next = 0
        self._highest = 0

    def until(self, moment_s: float) -> int:
        while self._next < len(self._timed) and self._timed[self._next][0] < moment_s:
            self._highest = max(self._highest, self._timed[self._next][1])
            self._next += 1
        return self._highest


def _offsets_by_place(story: Story) -> dict[Place, _Offsets]:
    found: dict[Place, _Offsets] = defaultdict(_Offsets)
    for record in story.records:
        group = _group_of(record.member)
        for partition, offset in record.offsets.items():
            offsets = found[group, partition]
            if record.what == "read":
                seen = _Seen(record.asked_s, record.at_s, offset, record.member)
                offsets.read.append(seen)
            else:
                offsets.sent.append((record.asked_s, offset))
            if record.what == "acked":
                offsets.acked.append((record.at_s, offset))
    for place, offsets in found.items():
        final = story.final.get(place, 0)
        offsets.read.append(_Seen(story.final_s, story.final_s, final, "the store in the end"))
    return found


# -- owners ----------------------------------------------------------------------------------------


def two_owners(story: Story) -> Iterator[str]:
    """No member is given a partition while another one has it, and tokens grow."""
    for group, runs in _runs_by_group(story).items():
        for before, after in overlaps(run.ownership for run in runs):
            yield (
                f"{group}, partition {after.partition}: {after.member} was given it at"
                f" {after.began_s:.3f}, and {before.member} had it until {before.ended_s:.3f}"
            )
        told = [run for run in runs if run.token]
        for former, latter in tokens_not_growing(told):
            yield (
                f"{group}, partition {latter.partition}: {latter.member} has token {latter.token}"
                f" after {former.token} of {former.member}"
            )


def commits_of_former_owners(story: Story) -> Iterator[str]:
    """No commit is acknowledged that was sent when another member had been given the partition."""
    acks: dict[Place, list[Record]] = defaultdict(list)
    for record in story.records:
        if record.what == "acked":
            for partition in record.offsets:
                acks[_group_of(record.member), partition].append(record)
    for group, runs in _runs_by_group(story).items():
        began: dict[int, list[tuple[float, str]]] = defaultdict(list)
        for run in runs:
            began[run.partition].append((run.began_s, run.member))
        for partition, starts in began.items():
            starts.sort()
            for ack in sorted(acks[group, partition], key=lambda each: each.asked_s):
                owner = _owner_at(starts, ack.asked_s)
                if owner not in (None, ack.member):
                    yield (
                        f"{group}, partition {partition}: a commit that {ack.member} sent at"
                        f" {ack.asked_s:.3f} was acknowledged, though {owner} had it"
                    )


def _owner_at(starts: list[tuple[float, str]], moment_s: float) -> str | None:
    """Who was given a partition last, with a moment's grace for the order of records."""
    found = None
    for began_s, member in starts:
        if began_s >= moment_s:
            break
        found = member
    return found


def _runs_by_group(story: Story) -> dict[str, list[TaskRun]]:
    """When each member owned which partition, by what it was told."""
    found: dict[str, list[TaskRun]] = defaultdict(list)
    running: dict[tuple[str, int], dict[int, TaskRun]] = defaultdict(dict)
    over: set[tuple[str, int]] = set()
    for record in sorted(story.records, key=lambda each: each.at_s):
        life = (record.member, record.life)
        if life in over:
            continue  # some clients still finish a rebalance, and work no more
        mine = running[life]
        match record.what:
            case "assigned":
                for partition in record.partitions:
                    if partition not in mine:
                        mine[partition] = TaskRun(
                            partition=partition,
                            member=record.member,
                            token=record.token or 0,
                            began_s=record.at_s,
                        )
                        found[_group_of(record.member)].append(mine[partition])
            case "revoked" | "lost":
                for partition in record.partitions:
                    _end(mine, partition, record.at_s)
            case "left":
                over.add(life)
                for partition in list(mine):
                    _end(mine, partition, record.at_s)
            case _:
                pass
    return found


def _end(running: dict[int, TaskRun], partition: int, at_s: float) -> None:
    run = running.pop(partition, None)
    if run is not None:
        run.ended_s = at_s


# -- generations and rebalances --------------------------------------------------------------------


def generations_back(story: Story) -> Iterator[str]:
    """No generation goes back, neither for a member nor in the journals of all nodes."""
    latest: dict[tuple[str, int], int] = {}
    for record in sorted(story.records, key=lambda each: each.at_s):
        if record.generation is not None:
            life = (record.member, record.life)
            before = latest.get(life, -1)
            if record.generation < before:
                yield f"{record.member} went from generation {before} to {record.generation}"
            latest[life] = record.generation
    yield from _generations_back_in_journals(story.journal.lines)


def _generations_back_in_journals(lines: Iterable[Line]) -> Iterator[str]:
    completed: dict[str, tuple[int, str]] = {}
    for line in lines:
        event = line.event
        generation, node = completed.get(event.group, (-1, ""))
        told = f"{event.group}: after generation {generation} was complete on {node}, {line.node}"
        match event:
            case GroupDeleted():
                completed.pop(event.group, None)
            case RebalanceCompleted(generation=number):
                if number <= generation:
                    yield f"{told} completed {number}"
                completed[event.group] = (max(number, generation), line.node)
            case GroupRecovered(generation=number) | RebalanceStarted(generation=number):
                if number < generation:
                    yield f"{told} went on in {number} ({event.kind})"
            case _:
                pass


def needless_rebalances(story: Story) -> Iterator[str]:
    """Rebalances start only where members come or go, and each cause is known."""
    restless = {group.name for group in story.groups if group.is_restless}
    excused = groups_that_give_up(story) | groups_left_unheard(story)
    phases_taken_over = _second_phases_taken_over(story)
    for line in events_of(story.journal, RebalanceStarted):
        event = line.event
        assert isinstance(event, RebalanceStarted)
        if not story.formed_ms <= line.ts < story.ended_ms or event.group in excused:
            continue
        is_anew = event.cause == "subscription_changed" and event.from_state == _SECOND_PHASE
        if is_anew and (event.group, event.generation) in phases_taken_over:
            continue
        if event.group not in restless or event.cause not in _RESTLESS_CAUSES:
            yield (
                f"{event.group} rebalanced on {line.node} at {line.ts}:"
                f" {event.cause} ({event.detail})"
            )


def _second_phases_taken_over(story: Story) -> set[tuple[str, int]]:
    """Groups and generations that a node went on with when assignments were still to come.

    Java's members who wait for theirs join again when they are told of another coordinator.  By
    then they know their new generation and say so, which is not what they said before; Kafka starts
    over with that as well.
    """
    lines = events_of(story.journal, GroupRecovered)
    return {
        (line.event.group, line.event.generation)
        for line in lines
        if isinstance(line.event, GroupRecovered) and line.event.state == _SECOND_PHASE
    }


def ended_sessions(story: Story) -> Iterator[str]:
    """No member goes but those that say so."""
    excused = groups_that_give_up(story) | groups_left_unheard(story)
    for line in events_of(story.journal, MemberGone):
        event = line.event
        assert isinstance(event, MemberGone)
        if event.how != "left" and event.group not in excused:
            yield (
                f"{event.group}: {event.member} was dropped by {line.node} at {line.ts}:"
                f" {event.how}, silent for {event.silent_ms} ms"
            )


def torn_journals(story: Story) -> Iterator[str]:
    """Every journal is whole, but for what a kill may cut off."""
    return iter(story.journal.problems)


def groups_that_give_up(story: Story) -> set[str]:
    """Groups with members that join anew by themselves when their coordinator changes."""
    return {group.name for group in story.groups if _GIVE_UP & set(group.libraries.values())}


def groups_left_unheard(story: Story) -> set[str]:
    """Groups that a member left when no coordinator heard it, so that its session has to end.

    They wait for it in their next rebalance, and each take-over gives it another session's time.
    """
    came_back = {record.member for record in story.records if record.life > 1}
    found: set[str] = set()
    latest: dict[str, str] = {}
    for line in story.journal.lines:
        match line.event:
            case MemberJoined(member=member, client_id=client) if client in came_back:
                latest[client] = member
            case MemberGone(group=group, member=member, how="session_expired"):
                if _client_of(member) in came_back:
                    found.add(group)
            case GroupRecovered(group=group, members=members):
                if any(latest.get(_client_of(each), each) != each for each in members):
                    found.add(group)
            case _:
                pass
    return found


def _client_of(member: str) -> str:
    """The client's id, with which the ids of members begin; a UUID follows."""
    return member[: -len("-00000000-0000-0000-0000-000000000000")]


# -- service ---------------------------------------------------------------------------------------


#: How long groups may go without a coordinator, besides the lease and the fault itself: clients
#: look for it again and again, with pauses that grow.
_SLACK_S: Final = 5.0


def unserved(story: Story) -> Iterator[str]:
    """Each group is served again soon enough after each fault."""
    # They wait for members that are gone.
    excused = groups_left_unheard(story) | groups_that_give_up(story)
    for index, waits in enumerate(waits_by_fault(story)):
        fault = story.faults[index]
        limit_s = story.lease_s + fault.away_s + _SLACK_S
        for group, waited_s in sorted(waits.items()):
            if waited_s > limit_s and group not in excused:
                yield (
                    f"{group} had no commit acknowledged for {waited_s:.1f} s after {fault.kind} of"
                    f" {fault.target} at {fault.at_s:.1f}; {limit_s:.1f} s are allowed"
                )


def answered_late(story: Story) -> Iterator[str]:
    """Each request of each member is answered soon enough, also while others are served."""
    excused = groups_left_unheard(story) | groups_that_give_up(story)
    for record in _answers(story):
        group, waited_s = _group_of(record.member), record.at_s - record.asked_s
        if not record.asked_s or waited_s <= story.lease_s + _SLACK_S or group in excused:
            continue
        since_s = record.asked_s - story.lease_s - _SLACK_S
        away_s = max(
            (f.away_s for f in story.faults if f.at_s < record.at_s and f.over_s > since_s),
            default=0.0,
        )
        limit_s = story.lease_s + away_s + _SLACK_S
        if waited_s > limit_s and record.asked_s < story.ended_s:
            yield (
                f"{record.member} waited {waited_s:.1f} s for an answer ({record.what}) to what it"
                f" asked at {record.asked_s:.1f}; {limit_s:.1f} s are allowed"
            )


def _answers(story: Story) -> Iterator[Record]:
    """The answers that members got, and those for which they still waited in the end."""
    answers = [record for record in story.records if record.what != "sent"]
    answered = {_request(record) for record in answers}
    yield from answers
    for record in story.records:
        if _request(record) not in answered:
            yield replace(record, at_s=story.ended_s)


def _request(record: Record) -> tuple[str, int, float]:
    return record.member, record.life, record.asked_s


def waits_by_fault(story: Story) -> list[dict[str, float]]:
    """For each fault, how long each group went without an acknowledged commit at the longest.

    A time counts from the fault on, and to the fault in whose course it began.
    """
    acks: dict[str, list[float]] = defaultdict(list)
    for record in story.records:
        if record.what == "acked":
            acks[_group_of(record.member)].append(record.at_s)
    found: list[dict[str, float]] = [{} for _ in story.faults]
    starts = [fault.at_s for fault in story.faults]
    for group in story.groups:
        times = [story.formed_s, *sorted(acks[group.name]), story.ended_s]
        for began_s, ended_s in pairwise(times):
            _count_wait(found, starts, group.name, began_s, min(ended_s, story.ended_s))
    return found


def _count_wait(
    found: list[dict[str, float]], starts: list[float], group: str, began_s: float, ended_s: float
) -> None:
    index = next((i for i, at_s in enumerate(starts) if began_s <= at_s < ended_s), None)
    if index is None:  # it began in the course of a fault
        index = sum(at_s < began_s for at_s in starts) - 1
        if index < 0:
            return
    waited_s = ended_s - max(began_s, starts[index])
    found[index][group] = max(found[index].get(group, 0.0), waited_s)


CHECKS: Final = {
    "acknowledged commits lost": lost_commits,
    "two owners at once": two_owners,
    "commits of former owners": commits_of_former_owners,
    "generations that went back": generations_back,
    "rebalances without need": needless_rebalances,
    "sessions that ended": ended_sessions,
    "groups not served in time": unserved,
    "members answered late": answered_late,
    "journals that are not whole": torn_journals,
}


def breaches(story: Story) -> Mapping[str, list[str]]:
    """What each check has found."""
    return {name: list(check(story)) for name, check in CHECKS.items()}
