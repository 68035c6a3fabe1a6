"""Bugs to plant in server and client, each by replacing one function, for the simulator to find.

They live here so that nothing that is installed can switch them on.
"""

# ruff: noqa: SLF001  # planting a bug takes reaching inside
from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final
from unittest.mock import patch

from coterie_assignors import Claim, leader, operations
from coterie_client.membership import joining as client_joining
from coterie_client.membership import operations as client_operations
from coterie_client.membership import ownership
from coterie_client.membership.actions import Committed
from coterie_client.membership.heartbeats import Heartbeats
from coterie_client.membership.offsets import Commits
from coterie_client.membership.ownership import Ownership
from coterie_client.membership.standbys import Standbys
from coterie_client.partition_owner import PartitionOwner
from coterie_client.standby import Standby
from coterie_client.work.restores import RestoreSupervisor
from coterie_client.work.supervisor import TaskSupervisor
from coterie_protocol.error_codes import ErrorCode
from coterie_server.group import (
    absence,
    commit,
    heartbeat,
    join,
    leave,
    ledger,
    rebalance,
    recovery,
    replacement,
    standing,
    step,
    sync,
)
from coterie_server.group.bundle import BundleRow
from coterie_server.group.group import Group
from coterie_server.group.offset_table import OffsetTable
from coterie_server.group.records import GroupRow, MemberRow
from coterie_server.group.states import GroupState
from coterie_server.group.step import Step
from coterie_server.group.table import CommitOrder
from coterie_server.serving import DurableQueue, LeaseKeeper, LeaseTrust, clock
from coterie_server.serving.clock import Clock
from coterie_server.serving.topic_copy import TopicCopy
from coterie_server.storage import Fence, MemoryStore
from tests.support.planting import planting

__all__ = ["MUTANTS", "Mutant"]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug, and how to plant it."""

    name: str
    #: What the system does then.
    story: str
    #: What has to go wrong for it to show.
    profile: str
    plant: Callable[[], AbstractContextManager[object]]


MUTANTS: Final[list[Mutant]] = []


def _mutant(
    target: Any, attribute: str, profile: str = "brief"
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Have the function that is decorated replace another one.

    It is named after what goes wrong, its docstring tells it, and its first argument is the
    original.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        name, story, plant = planting(target, attribute, function)
        MUTANTS.append(Mutant(name, story, profile, plant))
        return function

    return register


# -- the coordinator: what is stored ---------------------------------------------------------------


@_mutant(Step, "finish", "restarts")
def generation_not_stored(finish: Any, step_: Step) -> Any:
    """A group's row is stored with the generation before."""
    outcome = finish(step_)
    outcome.records = [
        replace(row, generation=max(row.generation - 1, 0)) if isinstance(row, GroupRow) else row
        for row in outcome.records
    ]
    return outcome


@_mutant(DurableQueue, "when_durable", "slow disks")
def answer_before_durable(
    _: Any, queue: DurableQueue, action: Callable[..., None], *rest: object
) -> None:
    """Replies leave while what they promise is still on its way to the disk."""
    if not queue._has_ended:
        action(*rest)


@_mutant(DurableQueue, "put", "slow disks")
def busy_disk_loses(put: Any, queue: DurableQueue, records: Iterable[Any]) -> None:
    """Commits during a write are answered and never stored."""
    put(queue, records if queue._writer is None else ())


@_mutant(OffsetTable, "restore", "restarts")
def recovery_drops_an_offset(restore: Any, table: OffsetTable, row: BundleRow) -> None:
    """After a restart the first offset of each bundle is missing."""
    restore(table, row if row.is_news else row.only(range(1, len(row.offsets))))


@_mutant(recovery, "_resume", "restarts")
def generation_starts_anew(resume: Any, step_: Step, group: Group) -> None:
    """After a restart the generations are counted from one again."""
    group.row = replace(group.row, generation=0)
    resume(step_, group)


@_mutant(recovery, "recover", "restarts")
def recovery_drops_a_member(recover: Any, step_: Step, rows: Iterable[Any], *rest: Any) -> None:
    """After a restart the last member is missing."""
    kept = list(rows)
    members = [row for row in kept if isinstance(row, MemberRow)]
    recover(step_, [row for row in kept if row not in members[1:][-1:]], *rest)


@_mutant(standing, "put", "operations")
def operations_not_stored(_: Any, __: Step, group: Group, ordered: Iterable[Any]) -> None:
    """What is ordered is kept in memory only, and forgotten when the shard is read again."""
    group.operations = tuple(ordered)


@_mutant(standing, "note_newcomer", "newcomers to a frozen group")
def newcomers_not_noted(_: Any, *__: Any) -> None:
    """Those that come while a group is frozen count as members that were there before."""


# -- the coordinator: members ----------------------------------------------------------------------


@_mutant(Group, "all_joined")
def one_member_not_awaited(_: Any, group: Group) -> bool:
    """The first phase ends although one member has not joined."""
    missing = len(group.members) - group.parked_joins
    return missing <= (1 if len(group.members) > 1 else 0) and not group.pending_joins


@_mutant(rebalance, "_answer_join")
def parked_join_forgotten(answer: Any, step_: Step, group: Group, member: Any) -> None:
    """Of several members, the last one to come never hears that the first phase is over."""
    if len(group.members) > 1 and member is list(group.members.values())[-1]:
        group.park_join(member, None)
    else:
        answer(step_, group, member)


@_mutant(rebalance, "_cancel_syncs", "crowd")
def parked_syncs_forgotten(_: Any, step_: Step, group: Group) -> None:
    """A member that awaits its assignment when another rebalance begins is not told so."""
    del step_
    for member in group.members.values():
        member.sync = None


@_mutant(heartbeat, "try_heartbeat", "calm")
def heartbeats_do_not_count(try_heartbeat: Any, table: Any, message: Any, now_ms: int) -> Any:
    """A heartbeat is answered, and does not make the session last longer."""
    group = table.groups.get(message.group_id)
    member = group.members.get(message.member_id) if group else None
    until_ms = member.alive_until_ms if member else 0
    answer = try_heartbeat(table, message, now_ms)
    if member is not None and answer is not None:
        member.alive_until_ms = until_ms
    return answer


@_mutant(heartbeat, "expire_session")
def session_timer_lost(expire: Any, step_: Step, group: Group, member_id: str) -> None:
    """A session's deadline that comes up after a heartbeat is not set again."""
    member = group.members.get(member_id)
    if member is None or member.alive_until_ms <= step_.now_ms:
        expire(step_, group, member_id)


@_mutant(heartbeat, "_expire")
def sessions_never_end(_: Any, step_: Step, group: Group, member: Any) -> None:
    """A member that died stays in the group."""
    del step_, group, member


@_mutant(Step, "arm")
def first_phase_never_times_out(arm: Any, step_: Step, group: Group, kind: str, ms: int) -> None:
    """The timer of the first phase is lost."""
    if kind != "join":
        arm(step_, group, kind, ms)


@_mutant(leave, "_rebalance_without", "calm")
def leaving_goes_unnoticed(_: Any, step_: Step, group: Group, causes: list[str]) -> None:
    """When a member leaves, its partitions get no new owner."""
    del step_, group, causes


@_mutant(step, "check_member", "namesakes")
def namesakes_not_fenced(check: Any, *arguments: Any) -> Any:
    """A process whose name another one took over is only told that it is unknown."""
    error = check(*arguments)
    return ErrorCode.UNKNOWN_MEMBER_ID if error is ErrorCode.FENCED_INSTANCE_ID else error


@_mutant(replacement, "_hand_over", "namesakes")
def replaced_member_stays(hand_over: Any, step_: Step, group: Group, old: Any, *rest: Any) -> Any:
    """A static member comes back under a new id, and its former one is valid as well."""
    new = hand_over(step_, group, old, *rest)
    group.members[old.id] = old
    return new


@_mutant(Group, "not_joined", "absences")
def the_absent_are_awaited(_: Any, group: Group) -> list[Any]:
    """A rebalance waits for members that are away."""
    return [member for member in group.members.values() if member.join is None]


@_mutant(absence, "end", "absences")
def returns_go_unnoticed(_: Any, step_: Step, group: Group, member: Any) -> None:
    """A member that was away is answered, and counts as away all the same."""
    del step_, group, member


@_mutant(absence, "resume", "absences")
def absences_begin_anew(_: Any, step_: Step, group: Group, member: Any) -> None:
    """A restart gives back their places for good to members that are away."""
    step_.keep_alive(group, member, 3_600_000)


@_mutant(Group, "renew", "namesakes")
def heir_has_the_same_token(_: Any, group: Group) -> None:
    """A process that takes over a name gets the fencing token of the one that had it."""
    del group


@_mutant(Step, "finish", "namesakes and restarts")
def renewals_not_stored(finish: Any, step_: Step) -> Any:
    """How often names were taken over in a generation is forgotten in a restart."""
    outcome = finish(step_)
    outcome.records = [
        replace(row, renewals=min(row.renewals, 0)) if isinstance(row, GroupRow) else row
        for row in outcome.records
    ]
    return outcome


@_mutant(CommitOrder, "admits", "held up")
def commits_taken_in_any_order(_: Any, order: CommitOrder, *rest: Any) -> bool:
    """A commit that was held up undoes a later one."""
    del order, rest
    return True


@_mutant(commit, "check_generation", "hostile")
def late_commits_pass(check: Any, *arguments: Any) -> Any:
    """A commit of a client that is no member any more, or of a former generation, is stored."""
    error = check(*arguments)
    known = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
    return None if error in known else error


@_mutant(commit, "check_generation", "namesakes")
def fenced_commits_pass(check: Any, *arguments: Any) -> Any:
    """A commit of a process whose name another one took over is stored."""
    error = check(*arguments)
    return None if error is ErrorCode.FENCED_INSTANCE_ID else error


@_mutant(ledger, "_conflicts")
def guard_sees_nothing(*_: Any) -> list[Any]:
    """The ownership guard finds no conflicts, and so withholds nothing."""
    return []


@_mutant(rebalance, "prepare", "newcomers")
def journal_skips_a_start(prepare: Any, step_: Step, group: Group, *rest: Any) -> None:
    """The journal is not told of a rebalance that starts in the second phase of another."""
    events = len(step_.outcome.events)
    completing = group.state is GroupState.COMPLETING
    prepare(step_, group, *rest)
    if completing:
        del step_.outcome.events[events:]


@_mutant(heartbeat, "try_heartbeat", "strangers")
def heartbeat_of_any_generation(try_heartbeat: Any, table: Any, message: Any, now_ms: int) -> Any:
    """A heartbeat of a former generation is answered as one of the present."""
    group = table.groups.get(message.group_id)
    if group is not None:
        message = replace(message, generation_id=group.generation)
    return try_heartbeat(table, message, now_ms)


@_mutant(Group, "all_joined", "crowd")
def pending_ids_not_awaited(_: Any, group: Group) -> bool:
    """A rebalance ends its first phase although a client was just given an id to join with."""
    return len(group.members) == group.parked_joins


@_mutant(commit, "_check_commit", "strangers")
def commits_pass_before_the_assignment(check: Any, *arguments: Any) -> Any:
    """A commit is stored before its generation has an assignment."""
    error = check(*arguments)
    return None if error is ErrorCode.REBALANCE_IN_PROGRESS else error


@_mutant(sync, "_answer", "slow leaders")
def session_not_armed_after_a_sync(answer: Any, *arguments: Any) -> None:
    """The session of a member that waited for its assignment does not start anew."""
    with patch.object(Step, "keep_alive", lambda *_: None):
        answer(*arguments)


@_mutant(join, "_is_settled", "leaders look")
def leader_taken_for_settled(is_settled: Any, group: Group, member: Any, protocols: Any) -> Any:
    """A leader that joins again is told the present generation, as if it had nothing to change."""
    is_same = not member.is_new and member.wants_the_topics_of(protocols)
    return is_settled(group, member, protocols) or (is_same and group.state is GroupState.STABLE)


@_mutant(sync, "_check", "strangers")
def superseded_sync_unanswered(check: Any, step_: Step, group: Group | None, request: Any) -> Any:
    """A member that syncs again gets no answer to its sync before."""
    error = check(step_, group, request)
    if error is None and group is not None:
        group.members[request.message.member_id].sync = None
    return error


MUTANTS.append(
    Mutant(
        "pauses are silence",
        "Time during which the node did not run counts as its members' silence",
        "pauses",
        partial(patch.object, clock, "_COUNTED_AT_MOST_MS", 10**9),
    )
)


@_mutant(Clock, "_set_date", "coordinator's clock")
def date_read_once(_: Any, clock: Clock, date_ms: int, wall_ms: int) -> None:
    """The date is the one of the node's start and the time that has passed since."""
    clock._date_ms, clock._wall_ms = date_ms, wall_ms


@_mutant(Clock, "_set_date", "coordinator's clock")
def date_goes_back(_: Any, clock: Clock, date_ms: int, wall_ms: int) -> None:
    """The date follows the system's clock even when that is set back."""
    del date_ms
    clock._date_ms = clock._wall_ms = wall_ms


# -- the client ------------------------------------------------------------------------------------


@_mutant(leader, "adjust")
def leader_withholds_nothing(_: Any, claims: Any, target: Any, subscriptions: Any) -> Any:
    """The leader gives partitions to new owners while their old ones are still at work."""
    del claims, subscriptions
    return leader.Adjustment(dict(target))


@_mutant(client_joining, "offers")
def joins_as_if_owning_nothing(
    offers: Any, assignors: Any, wanted: Any, had: Any, **rest: Any
) -> Any:
    """A member that keeps its partitions while it joins does not say so."""
    del had
    return offers(assignors, wanted, Claim(), **rest)


@_mutant(Ownership, "revoke")
def keeps_what_it_was_not_given(
    revoke: Any, self: Ownership, doomed: Any, reason: str, *rest: Any
) -> None:
    """A member goes on with partitions that are not in its assignment."""
    if reason != "assigned elsewhere":
        revoke(self, doomed, reason, *rest)


@_mutant(PartitionOwner, "revoke")
def lets_go_before_work_ends(revoke: Any, owner: PartitionOwner, partitions: Any) -> None:
    """A partition is released while its task is still finishing."""
    revoke(owner, partitions)
    owner._driver.released(list(partitions))


@_mutant(TaskSupervisor, "lost", "rifts")
def lost_work_goes_on(_: Any, supervisor: TaskSupervisor, partitions: Any, reason: str) -> None:
    """Work on partitions that were lost is not ended."""
    del supervisor, partitions, reason


@_mutant(Heartbeats, "has_run_out", "rifts")
def lease_ignored(has_run_out: Any, heartbeats: Heartbeats, now_ms: int) -> bool:
    """A member that hears nothing of the coordinator works on when its session must have ended."""
    if has_run_out(heartbeats, now_ms):
        heartbeats.lease_until_ms = now_ms + 3_600_000
    return False


@_mutant(Heartbeats, "has_lease", "late answers")
def works_before_it_is_proven(*_: Any) -> bool:
    """Work begins before the member knows that it is still in the group."""
    return True


@_mutant(Commits, "add", "stubborn")
def commits_under_a_stale_token(
    add: Any, commits: Commits, key: Any, partition: Any, token: int, position: Any
) -> None:
    """A task whose partition was lost commits with the token of the next ownership."""
    token = commits._state.owned.get(partition, token)
    add(commits, key, partition, token, position)


@_mutant(Commits, "add", "restarts")
def commit_confirmed_when_asked(add: Any, commits: Commits, key: Any, *rest: Any) -> None:
    """A commit is reported as stored before it has been sent."""
    commits._outbox.add(Committed(key, None))
    add(commits, key, *rest)


@_mutant(Ownership, "take", "clocks")
def tokens_by_the_clock(take: Any, self: Ownership, partitions: Any, *_: Any) -> None:
    """A fencing token is the date, and not what the coordinator issued."""
    with patch.object(ownership, "token_of", lambda _, wall_ms: wall_ms // 100):
        take(self, partitions, self._state.identity.generation, None)


@_mutant(Ownership, "take", "namesakes")
def tokens_made_by_the_client(
    take: Any, self: Ownership, partitions: Any, generation: int, _: Any
) -> None:
    """A client makes its tokens up, of the generation and the date."""
    take(self, partitions, generation, None)


# -- the client: state -----------------------------------------------------------------------------


@_mutant(RestoreSupervisor, "is_running", "warm-ups")
def work_overtakes_its_restore(*_: Any) -> bool:
    """Work on a partition that was a standby begins while its restore still ends."""
    return False


@_mutant(TaskSupervisor, "is_at_work", "warm-ups")
def restore_overtakes_the_work(*_: Any) -> bool:
    """What was worked on becomes a standby, and its restore begins while the work still ends."""
    return False


@_mutant(RestoreSupervisor, "withdrawn", "warm-ups")
def withdrawn_restores_go_on(_: Any, restores: RestoreSupervisor, standbys: Any) -> None:
    """A standby that is taken away is restored on."""
    for standby in standbys:
        restores._jobs.pop(standby.key)


@_mutant(RestoreSupervisor, "review", "warm-ups")
def restores_do_not_follow_work(_: Any, restores: RestoreSupervisor) -> None:
    """What was worked on becomes a standby, and its restore never begins."""
    del restores


@_mutant(Standbys, "advance", "warm-ups")
def no_one_looks_again(_: Any, standbys: Standbys, now_ms: int) -> None:
    """Neither a warm-up that has caught up nor the leader makes the group rebalance."""
    standbys._probe_ms, standbys._ready_from_ms = None, now_ms + 3_600_000


@_mutant(Standbys, "take_over", "warm-ups")
def promotion_leaves_the_standby(
    take_over: Any, standbys: Standbys, block: Any, assigned: Any, now_ms: int
) -> None:
    """A partition that is to be worked on stays a standby as well."""
    roles = dict(standbys.roles)
    take_over(standbys, block, assigned, now_ms)
    standbys._hold(standbys.roles | {p: roles[p] for p in assigned if p in roles})


@_mutant(Standbys, "report", "warm-ups")
def state_is_not_reported(report: Any, standbys: Standbys, *rest: Any) -> Any:
    """A member says that it holds state, and not of which partitions."""
    with patch.object(standbys, "_look", lambda _: {}):
        return report(standbys, *rest)


@_mutant(Standby, "commit", "warm-ups")
async def standbys_commit(_: Any, standby: Standby, offset: int, *rest: Any) -> None:
    """A commit for a standby seems to succeed."""
    del standby, offset, rest


# -- several coordinators --------------------------------------------------------------------------


@_mutant(MemoryStore, "_is_under", "paused among several")
def former_owners_write(_: Any, store: MemoryStore, shard: int, fence: Fence) -> bool:
    """A store takes the writes of a node that has lost the shard."""
    del fence
    return shard in store._content.leases


@_mutant(LeaseTrust, "extend", "paused among several")
def trust_has_no_end(_: Any, trust: LeaseTrust, asked_s: float, ttl_ms: int) -> None:
    """A node that hears nothing of the store takes its shards for its own for ever."""
    del asked_s, ttl_ms
    trust.until_s = math.inf


@_mutant(DurableQueue, "_run_ready", "slow database")
def gathered_counts_as_durable(run_ready: Any, queue: DurableQueue) -> None:
    """What came while an append was under way is told with it, though it is still to be written."""
    queue._durable = queue._handed_in
    run_ready(queue)


@_mutant(Group, "changed_topic", "several")
def missed_changes_stay_missed(_: Any, group: Group, partitions: Any) -> None:
    """What became of topics while no coordinator served a group is overlooked."""
    del group, partitions


@_mutant(TopicCopy, "refresh", "several")
async def copies_grow_old(refresh: Any, copy: TopicCopy) -> None:
    """A node tells of topics what it has read before, however old that is."""
    if copy.topics is None:
        await refresh(copy)


@_mutant(LeaseKeeper, "_move_on", "several")
def shards_stay_free(_: Any, keeper: LeaseKeeper) -> None:
    """No node claims what another one left behind."""
    del keeper


# -- the leader: what administrators have ordered --------------------------------------------------


@_mutant(client_operations, "_is_frozen", "operations")
def frozen_group_is_balanced(*_: Any) -> bool:
    """A leader does not notice that its group is frozen."""
    return False


@_mutant(operations._Shares, "_is_there", "operations")
def pins_count_for_nothing(*_: Any) -> bool:
    """No member is there for a pin."""
    return False


@_mutant(operations._Shares, "_rank", "newcomers to a frozen group")
def orphans_go_to_anyone(_: Any, shares: Any, name: str, __: Any) -> Any:
    """What has no owner goes to the least busy member, drained, new or neither."""
    return (len(shares.held[name]), name)
