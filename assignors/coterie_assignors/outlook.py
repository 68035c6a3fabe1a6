"""What a leader knows of the members' loads: when they join, and some time after it has decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from coterie_assignors.base import MemberInfo, Partitions
from coterie_protocol.consumer import flatten
from coterie_protocol.loads import Load, LoadReport, split_load_report

__all__ = ["later", "read_loads"]

_Loads = Mapping[tuple[str, int], Load]


def read_loads(members: Mapping[str, MemberInfo]) -> dict[str, MemberInfo]:
    """The members with the loads that they told behind their user data, and that without them."""
    return {name: _with_loads(member) for name, member in members.items()}


def _with_loads(member: MemberInfo) -> MemberInfo:
    if member.loads is not None:
        return member
    own, report = split_load_report(member.user_data)
    return member if report is None else replace(member, user_data=own, loads=report)


def later(
    members: Mapping[str, MemberInfo], assignment: Mapping[str, Partitions], elapsed_ms: int
) -> dict[str, MemberInfo]:
    """The members with what they were assigned, as they would join after so long.

    Loads are those told before the assignment, and go along with partitions that have moved.
    """
    told: dict[tuple[str, int], Load] = {}
    for member in members.values():
        if member.loads is not None:
            told = dict(member.loads.left) | told | dict(member.loads.owned)
    return {
        name: replace(member, owned=assignment.get(name, ()))
        if member.loads is None
        else replace(
            member,
            owned=assignment.get(name, ()),
            loads=_later(member.loads, flatten(assignment.get(name, ())), told, elapsed_ms),
        )
        for name, member in members.items()
    }


def _later(
    report: LoadReport, owned: frozenset[tuple[str, int]], told: _Loads, elapsed_ms: int
) -> LoadReport:
    unknown = Load(None, 0)
    return LoadReport(
        owned={
            pair: _older(report.owned[pair], elapsed_ms)
            if pair in report.owned
            else Load(told.get(pair, unknown).value, elapsed_ms)
            for pair in owned
        },
        left={pair: _older(load, elapsed_ms) for pair, load in report.left.items()}
        | {
            pair: Load(load.value, elapsed_ms)
            for pair, load in report.owned.items()
            if pair not in owned
        },
    )


def _older(load: Load, elapsed_ms: int) -> Load:
    return Load(load.value, load.age_ms + elapsed_ms)
