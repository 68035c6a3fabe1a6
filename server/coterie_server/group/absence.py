"""Absence: a static member whose session is over and whose place is kept for it.

KIP-345's draft lets a static member be away for longer than a session: its registration timeout
is how long it may be silent before its place is given up.  Without one, or for a dynamic member,
the end of the session is the end of its place.

Where other members keep copies of its partitions' state, the end of its session starts a
rebalance, by which they may go on in its place; its return starts another one, so that it may get
back what it had.

A member that is away keeps its id, its assignment and its part in the choice of the protocol, and
counts for `group.max.size`.  It holds no partition any more, as the ledger sees it: its session is
over, and its work with that.  So a rebalance neither waits for it nor has to leave it what it had,
though a leader may.  It does not lead: if it was to bring an assignment, another member has to.

Anything that it sends and that is accepted ends its absence; so does a new process of its name.  A
request from a former generation is refused as ever: what the member had may be another's by now.

Its place survives a restart of the coordinator.  What is left of its time goes by dates, since its
session ended, as people count it; but it gets a fresh session to come back in, as all members do,
and never more than its whole time, whatever clocks say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie_protocol.journal import MemberAway, MemberReturned
from coterie_server.group.ledger import by_topic
from coterie_server.group.rebalance import prepare, try_complete
from coterie_server.group.states import GroupState
from coterie_server.group.warmth import has_copies_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coterie_server.group.group import Group
    from coterie_server.group.ledger import Partition
    from coterie_server.group.member import Member
    from coterie_server.group.step import Step

__all__ = ["begin", "end", "kept_ms", "note_losses", "registration_timeout_ms", "resume"]


def kept_ms(step: Step, member: Member) -> int:
    """How long a member keeps its place after its session; 0 if it loses it then."""
    if member.is_new:
        return 0
    return max(registration_timeout_ms(step, member) - member.row.session_timeout_ms, 0)


def registration_timeout_ms(step: Step, member: Member) -> int:
    """How long a static member may be silent before its place is given up; 0 if it is dynamic."""
    row = member.row
    if row.instance_id is None:
        return 0
    group_ms, own_ms = step.config.static_registration_timeout_ms, row.registration_timeout_ms
    return max(group_ms if own_ms < 0 else own_ms, row.session_timeout_ms)


def begin(step: Step, group: Group, member: Member) -> None:
    """Keep the place of a member whose session is over, as `kept_ms` says how long."""
    left_ms = kept_ms(step, member)
    step.keep_alive(group, member, left_ms)
    _store(step, group, member, step.date_ms)
    step.event(
        MemberAway(
            group=group.id,
            member=member.id,
            instance=member.instance_id or "",
            host=member.row.client_host,
            silent_ms=step.now_ms - member.last_seen_ms,
            session_timeout_ms=member.row.session_timeout_ms,
            registration_timeout_ms=registration_timeout_ms(step, member),
            until=step.date_ms + left_ms,
            owned=by_topic(group.ledger.owned_by(member.id)),
        )
    )
    if group.state is GroupState.COMPLETING and group.row.leader == member.id:
        group.move_last(member)
        prepare(step, group, "session_expired", f"{member.named('')} leads and is away")
        return
    group.pending_syncs.discard(member.id)
    if not group.pending_syncs:
        step.cancel(group, "sync")
    if group.state is GroupState.STABLE and has_copies_of(group, member):
        detail = f"{member.named('')} is away, and others keep copies of its state"
        prepare(step, group, "session_expired", detail)
    else:
        try_complete(step, group)


def end(step: Step, group: Group, member: Member) -> None:
    """Take note that a member was heard from, if it was away."""
    if not member.is_away:
        return
    away_ms = max(step.date_ms - member.row.away_since_ms, 0)
    _store(step, group, member, -1)
    step.keep_alive(group, member)
    step.event(
        MemberReturned(
            group=group.id,
            member=member.id,
            instance=member.instance_id or "",
            host=member.row.client_host,
            away_ms=away_ms,
        )
    )


def note_losses(group: Group, had: Mapping[str, frozenset[Partition]], former: int) -> None:
    """Remember which members that are away have lost partitions, so that their return is noticed.

    `had` is what they had before the assignment that is in place now, and `former` the generation
    of the one before.
    """
    for member_id in group.away & had.keys():
        member = group.members[member_id]
        lost = had[member_id] - group.ledger.owned_by(member_id)
        if lost or member.row.asked_to_rejoin_in == former >= 0:
            member.change(asked_to_rejoin_in=group.row.generation)


def resume(step: Step, group: Group, member: Member) -> None:
    """Go on keeping the place of a member that was away when the coordinator stopped."""
    whole_ms, session_ms = kept_ms(step, member), member.row.session_timeout_ms
    left_ms = whole_ms - max(step.date_ms - member.row.away_since_ms, 0)
    step.keep_alive(group, member, max(left_ms, session_ms))


def _store(step: Step, group: Group, member: Member, since_ms: int) -> None:
    row = group.note_absence(member, since_ms)
    if row is not None:
        step.record(row)
