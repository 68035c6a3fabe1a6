"""Whether an assignor's answer keeps to the rules that its interface states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coterie_assignors.base import MemberInfo, Partitions
from coterie_protocol.consumer import TopicPartitions

__all__ = ["InvalidAssignmentError", "check"]


class InvalidAssignmentError(Exception):
    """An assignor's answer breaks the rules that its interface states."""


def check(target: Mapping[str, Partitions], members: Mapping[str, MemberInfo]) -> None:
    """Raise `InvalidAssignmentError` if it does not."""
    if not _has_right_types(target):
        raise InvalidAssignmentError(
            f"the answer is not a dict of TopicPartitions by member: {target!r:.200}"
        )
    if target.keys() != members.keys():
        odd = ", ".join(sorted(target.keys() ^ members.keys()))
        raise InvalidAssignmentError(f"members missing or unknown: {odd}")
    assigned: dict[str, set[int]] = {}
    for name, partitions in target.items():
        topics = set(members[name].topics)
        for entry in partitions:
            if entry.topic not in topics:
                raise InvalidAssignmentError(f"{name} did not subscribe to {entry.topic}")
            of_topic = assigned.setdefault(entry.topic, set())
            expected = len(of_topic) + len(entry.partitions)
            of_topic.update(entry.partitions)
            if len(of_topic) != expected:
                raise InvalidAssignmentError(f"{name} is given some of {entry.topic} twice")


def _has_right_types(target: object) -> bool:
    """Not everybody who writes an assignor has its types checked."""
    return isinstance(target, Mapping) and all(
        isinstance(partitions, Sequence)
        and all(isinstance(entry, TopicPartitions) for entry in partitions)
        for partitions in target.values()
    )
