"""The events of operations, for import from `coterie_protocol.journal`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coterie_protocol._journal_base import Event, Partitions

__all__ = ["OperationEnded", "OperationStarted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationStarted(Event):
    """An administrator has ordered something of the group."""

    kind: ClassVar[str] = "operation_started"

    #: One of drain, pin, keep-from, freeze.
    operation: str
    #: Whom it is about; a static member is named by its instance id, whatever its member id.
    member: str | None
    instance: str | None
    #: What a pin or keep-from is about.
    partitions: Partitions | None
    #: How many partitions a drained member gives up at a time; 0 for all at once.
    at_a_time: int
    #: When it ends by itself; None if it does not.
    until: int | None
    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationEnded(Event):
    """What an administrator had ordered does not stand any more.

    `how` is one of lifted (by an administrator), replaced (by another operation), expired, and
    member_gone.
    """

    kind: ClassVar[str] = "operation_ended"

    operation: str
    member: str | None
    instance: str | None
    #: What stands no more, of a pin or keep-from.
    partitions: Partitions | None
    how: str
    by: str
    reason: str
