"""When something has to happen next, for any number of things."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

__all__ = ["Deadline", "Deadlines"]

#: What is due: the kind of deadline, the group, and the member if it is a member's.
Deadline = tuple[str, str, str]

#: Cancelled entries stay in the heap until they come up, or until they are most of it.
_REBUILD_FROM: Final = 1024


class Deadlines:
    """Deadlines by name; setting one again moves it.

    Moving a deadline further away costs a dictionary write: the entry in the heap comes up at its
    old time and goes back in with the new one.
    """

    __slots__ = ("_due", "_heap")

    def __init__(self) -> None:
        self._due: dict[Deadline, int] = {}
        self._heap: list[tuple[int, Deadline]] = []

    def __len__(self) -> int:
        return len(self._due)

    def set(self, deadline: Deadline, at_ms: int) -> None:
        """Let a deadline be due at a time."""
        before = self._due.get(deadline)
        self._due[deadline] = at_ms
        if before is None or at_ms < before:
            heappush(self._heap, (at_ms, deadline))
            if len(self._heap) > max(_REBUILD_FROM, 4 * len(self._due)):
                self._heap = [(at, name) for name, at in self._due.items()]
                heapify(self._heap)

    def cancel(self, deadline: Deadline) -> None:
        """Forget a deadline, if it is set."""
        self._due.pop(deadline, None)

    def at(self, deadline: Deadline) -> int | None:
        """When a deadline is due, if it is set."""
        return self._due.get(deadline)

    def next(self) -> int | None:
        """When the first deadline is due."""
        heap = self._heap
        if heap and self._due.get(heap[0][1]) != heap[0][0]:
            self._settle()
        return heap[0][0] if heap else None

    def pop_due(self, now_ms: int) -> Deadline | None:
        """Take out one deadline that is due."""
        self._settle()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        _, deadline = heappop(self._heap)
        del self._due[deadline]
        return deadline

    def _settle(self) -> None:
        """Bring the entry that is really first to the top of the heap."""
        while self._heap:
            at_ms, deadline = self._heap[0]
            due_ms = self._due.get(deadline)
            if due_ms == at_ms:
                return
            heappop(self._heap)
            if due_ms is not None and due_ms > at_ms:
                heappush(self._heap, (due_ms, deadline))
