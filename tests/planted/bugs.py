"""Bugs in what the simulator leaves out or can't see, and the tests that have to find each.

`make sim-mutants` runs the tests of each bug twice: as they are, when they have to pass, and with
the bug planted, when one of them has to fail.  Most of these bugs were there once.
"""

# ruff: noqa: SLF001  # planting a bug takes reaching inside
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final
from unittest.mock import patch

from coterie_assignors import leader, plan
from coterie_assignors.sticky import assignors as sticky_assignors
from coterie_assignors.warm import actives, refiner, standby_moves
from coterie_assignors.warm import group as warm_group
from coterie_assignors.warm import standbys as warm_standbys
from coterie_client import checks, driver, group
from coterie_client.membership import heartbeats, leaving, standbys, warm_blocks
from coterie_client.membership import offsets as commits
from coterie_protocol.consumer import flatten
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import GroupRecovered
from coterie_server.group import BundleRow, Group, heartbeat, offset_table, recovery
from coterie_server.http import AllowedHosts
from coterie_server.journal import AcknowledgedState
from coterie_server.net import (
    connection,
    exchange,
    guard,
    outgoing,
    registry,
    resumption,
    time_limits,
)
from coterie_server.security import authentication, tokens
from coterie_server.security.acls import PatternType, Permission
from coterie_server.security.authorizer import Acls, Authorizer
from coterie_server.security.sasl import plain, scram
from coterie_server.security.screening import Asking
from coterie_server.serving import (
    catalogue_shard,
    claims,
    clock,
    group_shard,
    lease_trust,
    parked_fetches,
    shard,
    stepping,
    topic_copy,
    topic_counts,
)
from coterie_server.storage import guard as store_guard
from coterie_server.storage import schema, sqlite, transaction
from coterie_server.topics import ends, fetch
from tests.support.planting import planting

__all__ = ["BUGS", "Bug"]


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug, the tests that find it, and how to plant it."""

    name: str
    #: What the system does then.
    story: str
    #: What to hand to pytest.
    tests: tuple[str, ...]
    plant: Callable[[], AbstractContextManager[object]]


BUGS: Final[list[Bug]] = []


def _bug(
    target: Any, attribute: str, *tests: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Have the function that is decorated replace another one, which is its first argument."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        name, story, plant = planting(target, attribute, function)
        BUGS.append(Bug(name, story, tests, plant))
        return function

    return register


# -- shards and leases -----------------------------------------------------------------------------


@_bug(shard.ServedShard, "_end_former_life", "tests/server/serving/test_lives.py")
async def shard_read_too_early(_: Any, served: Any) -> None:
    """A shard is read again while the appends of its former life go on."""
    served._queue = None
    for request in served._take_open():
        served._refuse(request)


@_bug(catalogue_shard.CatalogueShard, "_handle", "tests/server/serving/test_catalogue_shard.py")
def change_told_too_early(handle: Any, served: Any, request: Any, now_ms: int) -> Any:
    """Groups and journal hear of a topic's change before it is durable."""
    outcome = handle(served, request, now_ms)
    served._tell(outcome.events)
    outcome.events.clear()
    return outcome


@_bug(
    catalogue_shard.CatalogueShard,
    "_begin_deletion",
    "tests/server/serving/test_catalogue_shard.py",
)
def deletion_answered_too_early(*_: Any) -> None:
    """A deletion is answered before the groups have forgotten the topic's offsets."""


@_bug(topic_counts.TopicCounts, "_differences", "tests/server/serving/test_catalogue_shard.py")
def catalogue_changes_unseen(*_: Any) -> list[Any]:
    """A catalogue that is read again with other topics does not announce that."""
    return []


@_bug(shard.ServedShard, "fence", "tests/server/serving/test_lives.py")
def fence_passed_over(_: Any, served: Any) -> None:
    """A shard that another node has is read again and served."""
    served._end_life(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    served._reload.soon(0)


@_bug(group_shard.GroupShard, "_hold", "tests/server/serving/test_together.py")
def held_before_what_came_first(_: Any, served: Any, request: Any) -> None:
    """Of two requests of one turn, the later one is held first when leases run out in between."""
    shard.ServedShard._hold(served, request)


@_bug(group_shard.GroupShard, "run", "tests/server/serving/test_together.py")
def step_before_what_came_first(_: Any, served: Any, step: Any, *arguments: Any) -> None:
    """A step that need not wait overtakes requests that wait for the next turn."""
    shard.ServedShard.run(served, step, *arguments)


@_bug(stepping, "for_each", "tests/server/serving/test_together.py")
def telling_ends_with_a_bug(_: Any, things: Any, do: Any) -> None:
    """A bug in telling of one step leaves those behind it without a line or an answer."""
    for thing in things:
        do(thing)


@_bug(lease_trust.LeaseTrust, "holds", "tests/server/serving/test_leases.py")
def leases_trusted_for_ever(*_: Any) -> bool:
    """A node answers under leases that may have run out."""
    return True


@_bug(lease_trust.LeaseTrust, "extend", "tests/server/serving/test_leases.py")
def leases_counted_from_the_answer(extend: Any, trust: Any, _asked_s: float, ttl_ms: int) -> None:
    """A lease counts from when the store answered."""
    extend(trust, trust.now_s(), ttl_ms)


@_bug(claims.Claims, "give_back", "tests/server/serving/test_leases.py")
async def unanswered_claims_kept(*_: Any) -> None:
    """What a node got without being told so is served by no node until the lease expires."""


@_bug(sqlite.SqliteStore, "reserve", "tests/server/storage/test_contract.py")
async def names_shared(*_: Any) -> None:
    """Two processes on one store go by one name."""


# -- stores ----------------------------------------------------------------------------------------


@_bug(schema, "_refuse_loss", "tests/server/storage/test_damage.py")
def mark_ignored(*_: Any) -> None:
    """A store that is behind its mark is opened."""


@_bug(store_guard.Guard, "writing", "tests/server/storage/test_damage.py")
@contextlib.contextmanager
def lost_file_written_to(_: Any, watching: Any) -> Iterator[None]:
    """A file that is gone goes on being written to."""
    yield
    watching._seen = watching._opened = watching._look()


@_bug(store_guard.Guard, "_inspect", "tests/server/storage/test_damage.py")
def foreign_writes_ignored(*_: Any) -> None:
    """What another program writes into a store is not looked at."""


@_bug(transaction, "check_record", "tests/server/storage/test_damage.py")
def checksums_ignored(*_: Any) -> None:
    """A record that is not what was written is read."""


@_bug(AcknowledgedState, "find_loss", "tests/server/journal/test_acknowledged.py")
def journal_ignored(*_: Any) -> None:
    """A store that knows less than the node's own journal is served."""


@_bug(recovery, "_missed_change", "tests/server/group/test_recovery.py")
def growth_forgotten_in_a_restart(*_: Any) -> str:
    """A group is not told of a topic that grew in the node's last moment."""
    return ""


@_bug(recovery, "_resume", "tests/server/group/test_recovery.py")
def empty_groups_untold(resume: Any, step: Any, group_: Any) -> None:
    """The journal does not tell of empty groups that are read back, so members never end in it."""
    resume(step, group_)
    told = step.outcome.events
    told[:] = [each for each in told if not isinstance(each, GroupRecovered) or each.members]


@_bug(recovery, "_forget_deleted_topics", "tests/server/group/test_recovery.py")
def deleted_topics_leave_offsets(*_: Any) -> None:
    """Offsets of a topic that was deleted come back with a restart."""


# -- connections and pages -------------------------------------------------------------------------


@_bug(connection.Connection, "_work_off", "tests/server/net/test_reading.py")
def backlog_leaves_reading_off(work_off: Any, client: Any) -> None:
    """A connection whose pipeline outlasts a turn is never read again."""
    going_on = connection.Connection._go_on
    with patch.object(
        connection.Connection,
        "_go_on",
        lambda self: going_on(self) if self._backlog or self._full else None,
    ):
        work_off(client)


@_bug(exchange.Exchange, "resume", "tests/server/net/test_resuming.py")
def all_let_go_at_once(_: Any, _exchange: Any, action: Callable[[], None]) -> None:
    """Requests that have waited for one thing are all handled in the turn in which it comes."""
    action()


@_bug(resumption.Resumption, "_may_go_on", "tests/server/net/test_resuming.py")
def first_waits_for_what_is_behind(_: Any, waiting: Any, waited: Any, path: Any) -> bool:
    """A request that has waited waits for answers behind it to be sent, which wait for it."""
    is_held_up = path.in_turns or waiting._outgoing.is_clogged
    return waited.takes_turns or not is_held_up


@_bug(clock.Alarm, "go_on", "tests/server/serving/test_clock.py")
def held_heartbeats_come_too_late(_: Any, alarm: Any, **_waited: bool) -> None:
    """Members whose heartbeats were held expire before these are heard."""
    alarm.arm(0)


@_bug(outgoing.Outgoing, "is_clogged", "tests/server/net/test_answers_behind.py")
def ready_answers_pile_up(*_: Any) -> bool:
    """Behind a request that waits, any number of answers is made."""
    return False


@_bug(time_limits.TimeLimits, "note_read", "tests/server/net/test_time.py")
def steady_reader_closed(*_: Any) -> None:
    """A client that reads a long answer all the time has to have read it in one timeout."""


@_bug(registry, "_is_closed", "tests/server/net/test_reading.py")
def client_gone_unseen(*_: Any) -> bool:
    """A client that goes while nothing is read from it is not missed."""
    return False


@_bug(parked_fetches.ParkedFetches, "_drop", "tests/server/serving/test_parked_fetches.py")
def fetch_outlives_its_client(*_: Any) -> None:
    """A Fetch whose client has gone waits on."""


@_bug(fetch, "_is_worth_waiting_for", "tests/server/topics/test_fetch.py")
def fetch_waits_in_vain(*_: Any) -> bool:
    """A Fetch waits for partitions that do not exist."""
    return True


@_bug(AllowedHosts, "allow", "tests/server/http")
def rebound_name_let_through(*_: Any) -> bool:
    """Whatever name a page was asked by is taken for the node's own."""
    return True


# -- who may do what -------------------------------------------------------------------------------


@_bug(topic_copy.TopicCopy, "_take_in", "tests/server/serving/test_rights_everywhere.py")
def rows_are_known_that_nothing_went_by(take_in: Any, copy: Any, stored: Any) -> None:
    """A node that had the catalogue goes on allowing what another has forbidden since."""
    take_in(copy, stored)
    copy._stored = stored


@_bug(Asking, "sort", "tests/server/security/test_screening.py")
def any_topic_is_committed_to(sort: Any, asking: Any, *arguments: Any) -> Any:
    """Who may read a group may commit to all topics."""
    allowed, refused = sort(asking, *arguments)
    return [*allowed, *refused], []


@_bug(Authorizer, "_decide", "tests/server/security/test_authorizer.py")
def denials_of_prefixes_are_not_seen(
    decide: Any, authorizer: Any, principal: str, host: str, operation: Any, kind: Any, name: str
) -> bool:
    """An ACL that denies a prefix is overlooked."""
    every = list(authorizer.acls)
    kept = [acl for acl in every if (acl.pattern, acl.permission) != _DENIED_PREFIX]
    authorizer.acls = Acls(kept)
    try:
        return bool(decide(authorizer, principal, host, operation, kind, name))
    finally:
        authorizer.acls = Acls(every)


_DENIED_PREFIX: Final = (PatternType.PREFIXED, Permission.DENY)


# -- what clients are told -------------------------------------------------------------------------


@_bug(ends.PartitionEnds, "note", "tests/server/topics/test_ends.py")
def what_is_left_counts(note: Any, known: Any, records: Any, accepted_at: int) -> None:
    """Offsets of a deleted topic, from which others went, move the end of its successor."""
    note(
        known,
        [r._replace(is_news=True) if type(r) is BundleRow else r for r in records],
        accepted_at,
    )


@_bug(offset_table.OffsetTable, "copy", "tests/server/group/test_offset_table.py")
def copy_changes(_: Any, table: Any) -> Any:
    """What is told in pieces changes while it is told."""
    return table


@_bug(ends.PartitionEnds, "end", "tests/server/topics/test_list_offsets.py")
def partitions_end_at_zero(*_: Any) -> int:
    """A partition ends at 0, whatever was committed for it."""
    return 0


@_bug(heartbeat, "try_heartbeat", "tests/server/serving/test_heartbeats_at_once.py")
def any_generation_is_heard(try_heartbeat: Any, table: Any, message: Any, now_ms: int) -> Any:
    """A heartbeat of a generation long gone is answered as if all were well."""
    known = table.groups.get(message.group_id)
    if known is not None:
        message = replace(message, generation_id=known.generation)
    return try_heartbeat(table, message, now_ms)


@_bug(
    heartbeats.Heartbeats,
    "_proves_membership",
    "tests/client/membership/test_leases.py",
    "tests/client/membership/test_meeting_failures.py",
)
def any_heartbeat_begins_a_lease(*_: Any) -> bool:
    """What a coordinator that still reads its groups answers has a dropped member work again."""
    return True


@_bug(Group, "has_assigned", "tests/server/group/test_forced_rebalance.py")
def topic_known_late_is_news(*_: Any) -> bool:
    """A coordinator that hears of a topic later than its leader has the group rebalance for it."""
    return False


@_bug(Group, "raise_sizes", "tests/server/group/test_recovery.py")
def sizes_of_late_topics_forgotten(*_: Any) -> None:
    """The next coordinator takes for news what the leader knew before the last one did."""


@_bug(clock.Clock, "_set_date", "tests/server/serving/test_clock.py")
def date_never_set_again(_: Any, node_clock: Any, date_ms: int, wall_ms: int) -> None:
    """A node goes by the date at which it was started."""
    node_clock._date_ms, node_clock._wall_ms = date_ms, wall_ms


# -- the client ------------------------------------------------------------------------------------


@_bug(checks, "must_be", "tests/client/test_options.py")
def options_unchecked(*_: Any) -> None:
    """An option that makes no sense is taken."""


@_bug(group, "require_async", "tests/client/group")
def sync_work_tried_for_ever(*_: Any) -> None:
    """Work that can't be awaited is begun, and fails, again and again."""


@_bug(leaving.Leaving, "_plans_another_attempt", "tests/client/membership/test_closing.py")
def leave_said_once(*_: Any) -> bool:
    """A member does not care whether its coordinator has heard that it leaves."""
    return False


@_bug(standbys.Standbys, "_look", "tests/client/membership/test_warm_meetings.py")
def unknown_lag_counts_as_none(look: Any, self: Any, held: Any) -> Any:
    """A member that does not know how far behind its state is says that it has caught up."""
    return {partition: max(lag, 0) for partition, lag in look(self, held).items()}


@_bug(warm_blocks, "orders_of", "tests/client/membership/test_warm_meetings.py")
def coming_partitions_grow_cold(orders_of: Any, *arguments: Any) -> Any:
    """What a member is about to get is no standby of it until the owner has let go."""
    orders = orders_of(*arguments)
    member, adjustment = arguments[:2]
    coming = flatten(adjustment.withheld.get(member.member_id, ()))
    return replace(orders, standbys=orders.standbys - coming)


@_bug(standbys.Standbys, "begin_join", "tests/client/membership/test_standbys.py")
def reports_are_made_once(_: Any, self: Any) -> None:
    """A member reports at all joins what it held at the first."""
    self._joined_topics = self._state.subscribed


@_bug(standbys, "next_version", "tests/client/membership/test_warm_meetings.py")
def versions_never_change(_: Any, used: int, *rest: Any) -> int:
    """A member whose leader can't read its report writes the next one in the same version."""
    del rest
    return used


@_bug(driver.Driver, "note_lag", "tests/client/group/test_driver.py")
def caught_up_in_silence(_: Any, self: Any, partition: Any, lag: int) -> None:
    """A warm-up that has caught up waits for the next heartbeat to say so."""
    self._membership.note_lag(partition, lag)


@_bug(commits.Commits, "_requeue", "tests/client/membership/test_commits.py")
def unsettled_commits_forgotten(_: Any, self: Any, _unfinished: Any) -> None:
    """A commit that was not answered is not sent again."""
    self._sent = {}


BUGS.append(
    Bug(
        "fetch waits for weeks",
        "A Fetch waits for as long as its client says",
        ("tests/server/topics/test_fetch.py",),
        partial(patch.object, fetch, "WAIT_MAX_MS", 2**31),
    )
)


# -- logging in -----------------------------------------------------------------------------------


@_bug(scram, "_proves", "tests/server/security/sasl/test_scram.py")
def proof_not_checked(*_: Any) -> bool:
    """Any proof of a user's password is taken for one."""
    return True


@_bug(scram.ScramConversation, "_bound", "tests/server/security/sasl/test_node.py")
def proof_not_bound(_: Any, _self: Any, header: str, _binding: Any) -> set[bytes]:
    """A node's proof can be passed on by a machine in between."""
    return {header.encode()}


@_bug(authentication.Authentication, "_receive_of_known", "tests/server/net/test_guard.py")
def session_without_end(*_: Any) -> authentication.Admitted:
    """A client that has logged in is served for ever."""
    return authentication.Admitted()


@_bug(plain.RightPasswords, "_hash", "tests/server/security/sasl/test_plain.py")
def former_password_good(_: Any, _self: Any, _name: str, password: bytes, _found: Any) -> bytes:
    """A password that was right once is right for ever."""
    return password


@_bug(guard.Guard, "_bound", "tests/server/net/test_guard.py")
def strangers_trusted(*_: Any) -> None:
    """A client that has not logged in may send as much as any, and for as long as it likes."""


@_bug(tokens, "_check_scopes", "tests/server/security/test_tokens.py")
def scopes_unchecked(*_: Any) -> None:
    """A token's scopes may be anything."""


# -- partitions with state ------------------------------------------------------------------------

_SCENARIOS: Final = "tests/assignors/test_warm_scenarios.py"
_CONVERGENCE: Final = "tests/assignors/test_warm_convergence.py"
_PLACES: Final = "tests/assignors/test_standby_places.py"


@_bug(warm_group.Group, "is_ready", _SCENARIOS)
def cold_members_ready(*_: Any) -> bool:
    """Partitions move at once, to members that have none of their state."""
    return True


@_bug(warm_group.Group, "is_at_work", _SCENARIOS)
def cold_owners_at_work(*_: Any) -> bool:
    """An owner that is still restoring keeps what another member is caught up with."""
    return True


@_bug(actives._Substitutes, "_with_copies", _SCENARIOS)
def copies_unused(*_: Any) -> list[Any]:
    """What has no owner goes to a cold member though another one is caught up."""
    return []


@_bug(refiner, "_urgency", _CONVERGENCE, "tests/assignors/test_warm_rules.py")
def budget_swings(urgency: Any, group: Any, standbys: Any) -> Any:
    """Copies that were not begun come before those that are under way."""
    key = urgency(group, standbys)
    return lambda task: (-key(task)[0], task)


@_bug(refiner, "_moves", _SCENARIOS)
def standbys_warmed_up_twice(_: Any, group: Any, active: Any, _standbys: Any) -> list[Any]:
    """A member with a standby gets a warm-up of the same partition."""
    return [task for task, wanted in enumerate(group.target) if active[task] != wanted]


@_bug(warm_standbys.Standbys, "able", _PLACES, _CONVERGENCE)
def standbys_with_the_owner(_: Any, standbys: Any, task: int) -> list[int]:
    """A process that works on a partition also keeps a standby of it."""
    return list(standbys.group.lags[task])


@_bug(warm_standbys.Standbys, "crowding", _PLACES)
def zones_ignored(_: Any, standbys: Any, _task: Any) -> list[int]:
    """Copies of one partition are put into one zone."""
    return [0] * len(standbys.places.common)


@_bug(standby_moves._Search, "to_caught_up", _PLACES, _CONVERGENCE)
def standbys_never_moved(*_: Any) -> None:
    """A standby stays where it is though its new place has caught up, and probing goes on."""


@_bug(leader, "planned", _CONVERGENCE, "tests/assignors/test_plan.py")
def changed_course(planned: Any, _former: Any, *rest: Any) -> Any:
    """The assignor is asked again while partitions are on their way, and wants something else."""
    return planned(None, *rest)


@_bug(plan, "_same", "tests/assignors/test_plan.py")
def outdated_plan(*_: Any) -> bool:
    """What was planned for other members is carried out."""
    return True


@_bug(leader, "_with_copies_kept", _PLACES)
def copies_dropped_on_the_way(_: Any, standbys: Any, *_rest: Any) -> dict[str, Any]:
    """A member gives up its copy of what is withheld for it."""
    return dict(standbys)


@_bug(sticky_assignors, "prefer_copies", "tests/assignors/test_interchange.py")
def copies_begun_anew(_: Any, assignment: Any, *_rest: Any, **_named: Any) -> Any:
    """Each answer of a sticky assignor means other partitions for a newcomer."""
    return assignment
