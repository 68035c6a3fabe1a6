"""Following one group for as long as there are watchers: what the watches of groups share.

A `Following` looks at its group when something of it may have changed, and adds what it finds to
its `changes`; `Followings` has one for each group that is watched.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, final

from coterie_server.group import Refusal
from coterie_server.log.logger import get_logger

if TYPE_CHECKING:
    from coterie_server.http.node_view import NodeView
    from coterie_server.http.streams import Broadcast

__all__ = ["FAILED", "Following", "Followings"]

_log = get_logger(__name__)

#: What watchers are told of a bug, whatever it is; they come anew.
FAILED = "The watch failed because of a fault in the node; its log has the details."


class Following(ABC):
    """Follows one group."""

    #: What is followed, for the log.
    what: ClassVar[str]

    def __init__(self, view: NodeView, group_id: str, changes: Broadcast[Any]) -> None:
        self._view = view
        self._group_id = group_id
        self._changes = changes
        self.watchers = 0
        self._touched = asyncio.Event()
        #: None before it has begun, and when it has ended: an ended task leads back here.
        self._task: asyncio.Task[None] | None = None
        self._life = view.life_of(group_id)

    @property
    def has_ended(self) -> bool:
        """Whether nothing is told any more."""
        return bool(self._changes.ended)

    async def start(self) -> None:
        """Look at the group, and go on doing so; raises `Refusal` if that can't be done."""
        self._view.listeners.add(self._group_id, self._touched.set)
        try:
            await self._begin()
        except BaseException:
            self._view.listeners.remove(self._group_id, self._touched.set)
            raise
        self._task = asyncio.get_running_loop().create_task(self._follow())

    def stop(self, why: str) -> None:
        """End it; its watchers learn why."""
        self._view.listeners.remove(self._group_id, self._touched.set)
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        self._changes.end(why)

    def _why_gone(self) -> str:
        """Why the group can't be followed here any more; empty if it can."""
        return self._view.why_gone(self._group_id, self._life)

    @abstractmethod
    async def _begin(self) -> None:
        """Look at the group for the first time; raises `Refusal` if that can't be done."""

    @abstractmethod
    async def _go_on(self) -> str:
        """Tell what changes; returns why that has ended, or raises `Refusal`."""

    async def _follow(self) -> None:
        try:
            why = await self._go_on()
        except Refusal as refusal:
            why = str(refusal)
        except Exception:  # noqa: BLE001  # a bug, whatever it is
            _log.exception(f"a watch of {self.what} failed", group=self._group_id)
            why = FAILED
        self.stop(why)


F = TypeVar("F", bound=Following)


@final
class Followings(Generic[F]):
    """The groups that are followed: each by one, for all who watch it."""

    def __init__(self, make: Callable[[str], F], *, linger_s: float = 0.0, most: int = 0) -> None:
        self._make = make
        #: For how long, and how many at most, they go on without watchers, which may come back.
        self._linger_s = linger_s
        self._most = most
        self._followings: dict[str, F] = {}
        self._starting = asyncio.Lock()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    async def join(self, group_id: str) -> F:
        """Watch a group, until `leave`; raises `Refusal` if that can't be done."""
        async with self._starting:
            following = self._followings.get(group_id)
            if following is None or following.has_ended:
                following = self._make(group_id)
                await following.start()
                self._followings[group_id] = following
        following.watchers += 1
        if timer := self._timers.pop(group_id, None):
            timer.cancel()
        return following

    def leave(self, group_id: str, following: F) -> None:
        """Watch a group no longer."""
        following.watchers -= 1
        if following.watchers or self._followings.get(group_id) is not following:
            return
        if following.has_ended or len(self._timers) >= self._most:
            self._end(group_id)
            return
        loop = asyncio.get_running_loop()
        self._timers[group_id] = loop.call_later(self._linger_s, self._end, group_id)

    def close(self) -> None:
        """End all, as the node is stopping."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for group_id in list(self._followings):
            self._followings.pop(group_id).stop("The node is stopping.")

    def _end(self, group_id: str) -> None:
        self._timers.pop(group_id, None)
        if following := self._followings.pop(group_id, None):
            following.stop("The watch is over.")
