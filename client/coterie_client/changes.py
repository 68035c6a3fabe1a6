"""`Group.changes`: one change of what is owned after the other, for schedulers of one's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

from coterie_client.errors import GroupMisuseError
from coterie_client.home import Home
from coterie_client.partition import Partition

__all__ = ["Assigned", "Change", "Changes", "Lost", "Revoked"]


@dataclass(frozen=True, slots=True)
class Assigned:
    """These are ours from now on."""

    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class Revoked:
    """Finish with these; they are let go of when the next change is asked for."""

    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class Lost:
    """These are not ours any more: stop at once. Commits fail."""

    partitions: tuple[Partition, ...]
    reason: str


Change: TypeAlias = Assigned | Revoked | Lost


class Changes:
    """Yields the changes of what is owned.

    What has changed back before the reader looked is left out: it does not hear of a partition that
    came and went in the meantime.
    """

    def __init__(
        self,
        released: Callable[[Sequence[Partition]], None],
        raise_reason: Callable[[], None],
        home: Home,
    ) -> None:
        self._released = released
        #: Raises the error that ended the group, if it was one.
        self._raise_reason = raise_reason
        self._home = home
        self._is_over = False
        self._pending: list[Change] = []
        #: Handed out as revoked, and not finished yet.
        self._finishing: tuple[Partition, ...] = ()
        self._reader: asyncio.Task[object] | None = None
        self._is_waiting = False
        self._stirred = asyncio.Event()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        """Wait for the next change; what was handed out as revoked is let go of first."""
        self._home.require()
        if self._is_waiting:
            raise GroupMisuseError(
                "Another task is waiting for these changes: read them in one task."
            )
        self._reader = asyncio.current_task()
        finished, self._finishing = self._finishing, ()
        if finished:
            self._released(finished)
        self._is_waiting = True
        try:
            while not self._pending and not self._is_over:
                self._stirred.clear()
                await self._stirred.wait()
        finally:
            self._is_waiting = False
        if not self._pending:
            self._raise_reason()
            raise StopAsyncIteration
        change = self._pending.pop(0)
        if isinstance(change, Revoked):
            self._finishing = change.partitions
        return change

    def is_read_elsewhere(self, task: asyncio.Task[object] | None) -> bool:
        """Whether another task than this one is reading the changes, and may finish its work."""
        reader = self._reader
        return reader is not None and reader is not task and not reader.done()

    def leave_out_unread(self) -> None:
        """Tell of nothing that was not read by now: the block was left, and nobody reads."""
        self._pending.clear()

    # -- what the partition owner tells --------------------------------------------------------

    def assigned(self, partitions: Sequence[Partition]) -> None:
        """Tell of these."""
        self._add(Assigned(tuple(partitions)))

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Tell of these, and let go at once of what the reader has not heard of."""
        unheard = self._forget(Assigned, partitions)
        heard = tuple(each for each in partitions if each not in unheard)
        if heard:
            self._add(Revoked(heard))
        if unheard:
            self._released(tuple(unheard))

    def lost(self, partitions: Sequence[Partition], reason: str) -> None:
        """Tell of these, as far as the reader has heard of them."""
        unheard = self._forget(Assigned, partitions)
        self._forget(Revoked, partitions)
        self._finishing = tuple(each for each in self._finishing if each not in partitions)
        heard = tuple(each for each in partitions if each not in unheard)
        if heard:
            self._add(Lost(heard, reason))

    def abandoned(self, partitions: Sequence[Partition]) -> None:
        """Tell that these were not let go of in time."""
        self.lost(partitions, "not let go of in time")

    def ended(self) -> None:
        """Let the reader's loop end."""
        self._is_over = True
        self._stirred.set()

    def _add(self, change: Change) -> None:
        self._pending.append(change)
        self._stirred.set()

    def _forget(
        self, kind: type[Assigned | Revoked], partitions: Iterable[Partition]
    ) -> set[Partition]:
        """Take partitions out of the changes not read yet; return those that were in them."""
        doomed, found, kept = set(partitions), set[Partition](), list[Change]()
        for change in self._pending:
            if isinstance(change, kind):
                found |= doomed & set(change.partitions)
                rest = tuple(each for each in change.partitions if each not in doomed)
                if rest:
                    kept.append(kind(rest))
            else:
                kept.append(change)
        self._pending = kept
        return found
