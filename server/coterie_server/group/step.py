"""A step of the coordinator: what the rules of a request may look at, change and ask for.

A rule gets a `Step` and a `Request`.  It changes groups in memory, parks requests or answers them,
and notes what is to be stored and told.  `Step.finish` gathers that as the step's `Outcome`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import MemberFenced
from coterie_server import step
from coterie_server.group.group import Group
from coterie_server.group.records import Gone, GroupRow, OperationsRow, Record, Row
from coterie_server.group.skipping import skipped_since
from coterie_server.group.states import GroupState
from coterie_server.security import ANONYMOUS
from coterie_server.step import Outcome, Request

if TYPE_CHECKING:
    from collections.abc import Collection

    from coterie_server.group.bundle import Place
    from coterie_server.group.member import Member
    from coterie_server.group.offset_table import Committed
    from coterie_server.group.table import GroupTable

__all__ = ["SHOWN_MAX", "Step", "check_generation", "check_member"]

#: A group's name can be as long as any text; this much of it is shown to people.
SHOWN_MAX: Final = 1_000
#: How long the name of a deleted group may be to be remembered: Kafka takes 32 kilobytes.
_REMEMBERED_CHARACTERS: Final = 500


class Step(step.Step[Record]):
    """A step that is being taken, at one moment, on the groups of one shard."""

    __slots__ = ("_has_forgotten", "_touched", "config", "table")

    def __init__(self, table: GroupTable, now_ms: int) -> None:
        self.now_ms = now_ms
        self.outcome = Outcome()
        self.table = table
        self.config = table.config
        self._touched: dict[str, tuple[Group, GroupRow]] = {}
        self._has_forgotten = False

    @property
    def date_ms(self) -> int:
        """The date, for what is stored or told; deadlines and durations go by `now_ms`.

        It is one for the whole step, though dates go on while a long one is taken.
        """
        date_ms = self.outcome.date_ms
        if date_ms is None:
            date_ms = self.outcome.date_ms = self.table.date_of(self.now_ms)
        return date_ms

    # -- groups --------------------------------------------------------------------------------

    def group(self, group_id: str) -> Group | None:
        """A group, if it exists; its row is stored at the end of the step if it has changed."""
        group = self.table.groups.get(group_id)
        if group is not None and group_id not in self._touched:
            self._touched[group_id] = (group, group.row)
        return group

    def create(self, group_id: str, request: Request) -> Group | None:
        """Make a group, if there is room; it carries on counting generations used before."""
        owner = _owner_of(request)
        if owner and self._owns_too_many(owner, group_id):
            return None
        table, max_groups = self.table, self.config.max_groups
        if table.count_groups() >= max_groups:
            self.hit_limit("max.groups", max_groups, f"group {group_id[:SHOWN_MAX]}")
            return None
        tombstone = table.tombstones.pop(group_id, None)
        known = tombstone or table.floor
        group = table.groups[group_id] = Group(
            group_id,
            generation=known.generation,
            timeline=known.timeline,
            date_ms=self.date_ms,
            owner=owner,
        )
        table.owned[owner] += 1
        unsaved = GroupRow(group_id=group_id, state="", generation=-1)
        self._touched[group_id] = (group, unsaved)
        return group

    def _owns_too_many(self, owner: str, group_id: str) -> bool:
        config = self.config
        limit = config.max_groups_by_owner.get(owner, config.max_groups_per_owner)
        if self.table.count_owned(owner) < limit:
            return False
        wanted = f"group {group_id[:SHOWN_MAX]} for {owner[:SHOWN_MAX]}"
        self.hit_limit("max.groups.per.principal", limit, wanted)
        return True

    def max_size(self, group: Group) -> int:
        """How many members a group may have."""
        return self.config.max_size_by_owner.get(group.row.owner, self.config.max_size)

    def delete(self, group: Group) -> None:
        """Delete an empty group with all that belongs to it, but for its generation."""
        group.enter(GroupState.DEAD, self.date_ms)
        self.drop_offsets(group, list(group.offsets))
        for member_id in group.pending_joins:
            self.forget_session(group, member_id)
        if group.operations:
            self.record(Gone(OperationsRow, group.id))
            self.cancel(group, "freeze")
        table = self.table
        del table.groups[group.id]
        table.disown(group.row.owner)
        self._touched.pop(group.id, None)
        if group.generation <= table.floor.generation:
            self.record(Gone(GroupRow, group.id))
        elif len(group.id) > _REMEMBERED_CHARACTERS:
            self.record(Gone(GroupRow, group.id))
            self._raise_floor(group.row)
        else:
            tombstone = replace(group.row, protocol_type=None, protocol_name=None, cause="")
            table.tombstones[group.id] = tombstone
            self.record(tombstone)
            self._forget_tombstones()

    def _forget_tombstones(self) -> None:
        """Let one floor stand for the oldest tombstones, so that they do not pile up."""
        table = self.table
        while len(table.tombstones) > self.config.max_tombstones:
            oldest = table.tombstones.pop(next(iter(table.tombstones)))
            self.record(Gone(GroupRow, oldest.group_id))
            self._raise_floor(oldest)

    def _raise_floor(self, forgotten: GroupRow) -> None:
        """Have no group's generations begin below those of one that was forgotten."""
        table = self.table
        skipped = skipped_since(forgotten.timeline, table.timeline)
        if forgotten.generation + skipped > table.floor.generation:
            table.floor = replace(table.floor, generation=forgotten.generation + skipped)
            self.record(table.floor)

    # -- what is to be stored ------------------------------------------------------------------

    def record(self, record: Record) -> None:
        """Store a row, or that it is gone."""
        self.outcome.records.append(record)

    def save(self, group: Group, row: Row) -> None:
        """Take over a row and store it."""
        group.apply(row)
        self.outcome.records.append(row)

    def save_offsets(self, group: Group, committed: Committed) -> None:
        """Take over offsets, and store them."""
        self.outcome.records += group.offsets.commit(committed, self.table.bundle_numbers)

    def drop_offsets(self, group: Group, places: Collection[Place]) -> None:
        """Forget offsets, those that there are, and store that."""
        rows = group.offsets.drop(places)
        self._has_forgotten = self._has_forgotten or bool(rows)
        self.outcome.records += rows

    def finish(self) -> Outcome[Record]:
        """Store the groups that have changed, and hand over what came of the step."""
        for group, before in self._touched.values():
            if group.row is not before and group.row != before:
                self.outcome.records.append(group.row)
        if self._has_forgotten:
            floor = self.table.floor
            at_ms = max(floor.forgot_at_ms, self.date_ms)
            self.table.floor = replace(floor, forgot_at_ms=at_ms)
            self.outcome.records.append(self.table.floor)
        return self.outcome

    # -- time ----------------------------------------------------------------------------------

    def arm(self, group: Group, kind: str, after_ms: int) -> None:
        """Set a deadline of a group."""
        self.table.deadlines.set((kind, group.id, ""), self.now_ms + after_ms)

    def cancel(self, group: Group, kind: str) -> None:
        """Forget a deadline of a group."""
        self.table.deadlines.cancel((kind, group.id, ""))

    def keep_alive(self, group: Group, member: Member, for_ms: int | None = None) -> None:
        """Give a member a new session.

        As long as its deadline is armed for then or for before, only a number changes.
        """
        timeout_ms = member.row.session_timeout_ms if for_ms is None else for_ms
        member.alive_until_ms = until_ms = self.now_ms + timeout_ms
        key, deadlines = ("session", group.id, member.id), self.table.deadlines
        armed = deadlines.at(key)
        if armed is None or armed > until_ms:
            deadlines.set(key, until_ms)

    def forget_session(self, group: Group, member_id: str) -> None:
        """Forget the deadline of a member that is gone."""
        self.table.deadlines.cancel(("session", group.id, member_id))


# -- who sent this -------------------------------------------------------------------------------


def _owner_of(request: Request) -> str:
    """The principal that a group belongs to; empty if clients need not say who they are."""
    return "" if request.principal == ANONYMOUS else str(request.principal)


def check_member(
    step: Step, group: Group, member_id: str, instance_id: str | None, request: Request
) -> ErrorCode | None:
    """Why a member id, with its instance id if it names one, is not accepted; None if it is.

    A member whose instance id has passed to another one is fenced: two processes share a name, and
    only the one that came last may go on.
    """
    if instance_id is not None:
        holder = group.static.get(instance_id)
        if holder is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if holder != member_id:
            _note_fenced(step, group, member_id, instance_id, request)
            return ErrorCode.FENCED_INSTANCE_ID
    if member_id not in group.members:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return None


def check_generation(
    step: Step,
    group: Group,
    member_id: str,
    instance_id: str | None,
    generation: int,
    request: Request,
) -> ErrorCode | None:
    """Why a member is not accepted as one of the present generation; None if it is."""
    error = check_member(step, group, member_id, instance_id, request)
    if error is None and generation != group.row.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return error


def _note_fenced(
    step: Step, group: Group, member_id: str, instance_id: str, request: Request
) -> None:
    holder = group.members[group.static[instance_id]]
    step.event(
        MemberFenced(
            group=group.id,
            instance=instance_id,
            member=member_id,
            host=request.host,
            holder=holder.id,
            holder_host=holder.row.client_host,
            request=type(request.message).__name__.removesuffix("Request"),
        )
    )
