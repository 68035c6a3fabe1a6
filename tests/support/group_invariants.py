"""What must hold of a coordinator after every step, whatever came before."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from coterie_server.group import (
    GENERATIONS_SKIPPED,
    Group,
    GroupState,
    OffsetRow,
    Row,
    StoredRow,
)
from coterie_server.group.records import FloorRow, GroupRow, MemberRow, OperationsRow

if TYPE_CHECKING:
    from coterie_server.group.deadlines import Deadline
    from coterie_server.group.member import Member
    from tests.support.group_harness import World

__all__ = ["Ownership", "check_all", "check_owned", "check_survived", "saved_rows"]

_SWEEP = ("sweep", "", "")


def saved_rows(group: Group) -> Iterator[Row | OffsetRow]:
    """All rows of a group that are on disk, with a row for each offset."""
    yield group.row
    for member in group.members.values():
        if member.saved is not None:
            yield member.saved
    yield from group.offsets.values()
    if group.operations:
        yield OperationsRow(group_id=group.id, operations=group.operations)


def _can_follow(member: Member, protocol: str) -> bool:
    return any(each.name == protocol for each in member.row.protocols)


def check_all(world: World) -> None:
    """Check everything."""
    for group in world.coordinator.groups.values():
        _check_counts(group)
        _check_state(world, group)
        _check_leader(group)
        _check_ledger(group)
        _check_deadlines(world, group)
    _check_store(world)
    _check_generations(world)
    _check_tokens(world)
    _check_parked(world)
    _check_no_deadline_leaks(world)


@dataclass(frozen=True, slots=True)
class Ownership:
    """What is known of who owns what in a group, as far as its members are stored."""

    holders: Mapping[tuple[str, int], str]
    #: The generation whose assignment they were given in; it tells which of two claims is later.
    generation: int
    away: frozenset[str]
    has_not_joined: frozenset[str]
    follow_up: frozenset[str]

    @classmethod
    def of(cls, group: Group) -> Ownership:
        """What is known now."""
        stored = [member for member in group.members.values() if member.saved is not None]
        ids = {member.id for member in stored}
        holdings = group.ledger.holdings.items()
        return cls(
            {p: holding.member_id for p, holding in holdings if holding.member_id in ids},
            group.row.assigned_in,
            frozenset(member.id for member in stored if member.is_away),
            frozenset(member.id for member in stored if member.row.has_not_joined),
            frozenset(member.id for member in stored if group.asked_to_rejoin(member)),
        )


def _check_ledger(group: Group) -> None:
    """What the ledger says of a member is what it says of the partitions."""
    by_member: dict[str, set[tuple[str, int]]] = {}
    for partition, holding in group.ledger.holdings.items():
        by_member.setdefault(holding.member_id, set()).add(partition)
    for member_id in group.members.keys() | by_member.keys():
        assert group.ledger.owned_by(member_id) == by_member.get(member_id, set())


def check_owned(before: Mapping[str, Ownership], groups: Mapping[str, Group]) -> None:
    """Who owns what is known after a crash as it was before."""
    assert before == {group.id: Ownership.of(group) for group in groups.values()}


#: What starts a rebalance as soon as a group is read back.
_DUE_AT_RESTART = ("over_capacity", "topic_changed")


def check_survived(
    before: Mapping[str, Sequence[Row | OffsetRow]],
    groups: Mapping[str, Group],
    topics: Collection[str],
) -> None:
    """What was stored is there again after a crash: generation, members, offsets of topics."""
    assert before.keys() == groups.keys()
    for group_id, rows in before.items():
        group = groups[group_id]
        for row in rows:
            match row:
                case GroupRow():
                    assert group.generation == row.generation
                    if row.state in ("Stable", "Empty"):
                        has_new_state = group.row.cause in _DUE_AT_RESTART
                        assert group.row.state == row.state or has_new_state
                case MemberRow():
                    found = group.members[row.member_id].row
                    if group.row.cause in _DUE_AT_RESTART:  # which calls a second phase off
                        found = replace(found, is_void=row.is_void)
                    assert found == row
                case OperationsRow():
                    lasting = [o for o in row.operations if o.member_id in (None, *group.members)]
                    assert list(group.operations) == lasting
                case OffsetRow() if row.topic in topics:
                    assert group.offsets[row.topic, row.partition] == row


def _check_counts(group: Group) -> None:
    """The numbers that are kept in step by hand are what counting gives."""
    assert group.parked_joins == sum(m.join is not None for m in group.members.values())
    static = {m.instance_id: m.id for m in group.members.values() if m.instance_id is not None}
    assert group.static == static
    assert all(member_id == member.id for member_id, member in group.members.items())
    assert not group.pending_joins & group.members.keys()
    assert group.pending_syncs <= group.members.keys()
    away = [member for member in group.members.values() if member.is_away]
    assert group.away == {member.id for member in away}
    assert all(m.instance_id and not m.is_new and not m.is_waiting for m in away)
    assert not group.away & group.pending_syncs
    names = {p.name for m in group.members.values() for p in m.row.protocols}
    for name in names if group.members else ():
        everybody = all(_can_follow(member, name) for member in group.members.values())
        kind = group.row.protocol_type or ""
        assert group.supports(kind, [name]) == (everybody or group.state is GroupState.EMPTY)


def _check_state(world: World, group: Group) -> None:
    """What a state promises."""
    assert group.row.state == group.state.value
    members = group.members.values()
    if group.state is GroupState.EMPTY:
        assert not group.members
        assert group.row.leader is None
    if group.state in (GroupState.COMPLETING, GroupState.STABLE):
        settled = [member for member in members if not member.is_new]
        assert settled
        assert all(_can_follow(member, group.row.protocol_name or "") for member in settled)
        assert all(member.row == member.saved for member in settled)
    if group.state is not GroupState.COMPLETING:
        assert not any(member.sync for member in members)
    if group.state is not GroupState.PREPARING:
        assert group.initial_delay is None
        assert not any(m.join for m in members if not _waits_for_expansion(world, group, m))
    assert all(member.saved is None for member in members if member.is_new)


def _waits_for_expansion(world: World, group: Group, member: Member) -> bool:
    collects = world.table.deadlines.at(("expansion", group.id, "")) is not None
    is_newcomer = member.is_new and member.instance_id is not None
    return is_newcomer and group.state is GroupState.STABLE and collects


def _check_leader(group: Group) -> None:
    """A leader is a member, and a group with members has one."""
    if group.members:
        assert group.row.leader in group.members
    else:
        assert group.row.leader is None


def _check_deadlines(world: World, group: Group) -> None:
    """Whatever a group waits for ends one day."""
    armed = world.table.deadlines.at
    join, sync = armed(("join", group.id, "")), armed(("sync", group.id, ""))
    assert (join is not None) == (group.state is GroupState.PREPARING)
    if group.state is GroupState.COMPLETING:
        assert group.row.leader in group.pending_syncs
    if group.pending_syncs:
        assert sync is not None
    if sync is not None:
        assert group.state in (GroupState.COMPLETING, GroupState.STABLE)
    freezes = [operation for operation in group.operations if operation.kind == "freeze"]
    assert (armed(("freeze", group.id, "")) is not None) == bool(freezes)
    for member in group.members.values():
        session = armed(("session", group.id, member.id))
        if member.is_new or not member.is_waiting:
            assert session is not None
            assert session <= member.alive_until_ms
    for member_id in group.pending_joins:
        assert armed(("session", group.id, member_id)) is not None


def _names(world: World) -> Iterator[Deadline]:
    """Every deadline that may be armed."""
    yield _SWEEP
    for group in world.coordinator.groups.values():
        for kind in ("join", "sync", "expansion", "freeze"):
            yield kind, group.id, ""
        for member_id in {*group.members, *group.pending_joins}:
            yield "session", group.id, member_id


def _check_no_deadline_leaks(world: World) -> None:
    """Nothing is due for a former member."""
    deadlines = world.table.deadlines
    armed = [name for name in _names(world) if deadlines.at(name) is not None]
    assert len(deadlines) == len(armed)
    assert deadlines.at(_SWEEP) is not None


def _check_store(world: World) -> None:
    """The store holds what a recovery would have to find: no row more, less or different."""
    rows: list[StoredRow | OffsetRow] = list(world.table.tombstones.values())
    if world.table.floor != FloorRow():
        rows.append(world.table.floor)
    for group in world.coordinator.groups.values():
        rows.extend(saved_rows(group))
    assert sorted(world.rows, key=repr) == sorted(rows, key=repr)


def _check_generations(world: World) -> None:
    """A group's generation never goes back, and is never forgotten."""
    present = {
        group_id: tombstone.generation for group_id, tombstone in world.table.tombstones.items()
    }
    for group in world.coordinator.groups.values():
        assert group.id not in present
        present[group.id] = group.generation
    for group_id, before in world.generations.items():
        assert present.get(group_id, world.table.floor.generation) >= before
    assert len(world.table.tombstones) <= world.config.max_tombstones
    world.generations.update(present)


def _check_tokens(world: World) -> None:
    """Fencing tokens never go back either; a group that was just made has none yet."""
    for group in world.coordinator.groups.values():
        if group.token >= 0:
            assert group.token >= world.tokens.get(group.id, 0)
            skipped = (group.token >> 32) - group.generation
            assert skipped == 0 if world.timeline < 2 else skipped % GENERATIONS_SKIPPED == 0
            world.tokens[group.id] = group.token


def _check_parked(world: World) -> None:
    """A request without an answer is parked at its member; none is forgotten."""
    awaited = {asked for asked, answer in world.answers.items() if answer.is_parked}
    parked = [
        request
        for group in world.coordinator.groups.values()
        for member in group.members.values()
        for request in (member.join, member.sync)
        if request is not None
    ]
    assert len(parked) == len(set(parked))
    assert set(parked) == awaited
