"""Who is told that something may have become of a group, once that is durable."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["GroupListeners"]


@final
class GroupListeners:
    """Listeners for single groups, and for all of them; none may raise."""

    def __init__(self) -> None:
        self._by_group: dict[str, list[Callable[[], None]]] = {}
        self._of_all: list[Callable[[str], None]] = []
        #: Whether there are any: a node without watchers does nothing for them.
        self.are_any = False

    def add(self, group_id: str, listener: Callable[[], None]) -> None:
        """Tell a listener of one group."""
        self._by_group.setdefault(group_id, []).append(listener)
        self._count()

    def remove(self, group_id: str, listener: Callable[[], None]) -> None:
        """Tell it no longer, if it was told."""
        listeners = self._by_group.get(group_id, [])
        if listener in listeners:
            listeners.remove(listener)
        if not listeners:
            self._by_group.pop(group_id, None)
        self._count()

    def add_to_all(self, listener: Callable[[str], None]) -> None:
        """Tell a listener of all groups, by their names."""
        self._of_all.append(listener)
        self._count()

    def remove_from_all(self, listener: Callable[[str], None]) -> None:
        """Tell it no longer, if it was told."""
        if listener in self._of_all:
            self._of_all.remove(listener)
        self._count()

    def _count(self) -> None:
        self.are_any = bool(self._by_group or self._of_all)

    def tell(self, group_id: str) -> None:
        """Tell those who listen for a group, and those who listen for all."""
        for listener in self._by_group.get(group_id, ()):
            listener()
        for each in self._of_all:
            each(group_id)
