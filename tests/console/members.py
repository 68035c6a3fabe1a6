"""Members at work beside a test that drives a browser, in an event loop of their own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Self, TypeVar

from coterie_client import Group, Partition

__all__ = ["Members"]

T = TypeVar("T")

_LIMIT_S = 60.0


class Members:
    """Starts and stops members."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._running: list[tuple[Group, Future[None]]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.ExitStack() as ending:  # all of it, also if a member failed
            ending.callback(self._end_loop)
            for group, _task in self._running:
                ending.callback(self.stop, group)

    def start(self, name: str, topic: str = "orders", *, offset: int = 0, **options: Any) -> Group:
        """Have one more member, which commits the offset for each partition if it is not 0."""
        group = self._do(self._make(name, topic, options))
        running = asyncio.run_coroutine_threadsafe(self._run(group, offset), self._loop)
        self._running.append((group, running))
        return group

    def stop(self, group: Group) -> None:
        """Have a member leave."""
        for known, running in self._running:
            if known is group:
                self._loop.call_soon_threadsafe(group.stop)
                running.result(_LIMIT_S)
        self._running = [each for each in self._running if each[0] is not group]

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_LIMIT_S)
        self._loop.close()

    async def _make(self, name: str, topic: str, options: dict[str, Any]) -> Group:
        return Group(self._bootstrap, name, topics=[topic], **options)

    async def _run(self, group: Group, offset: int) -> None:
        async def work(partition: Partition) -> None:
            if offset:
                await partition.commit(offset)
            await asyncio.Event().wait()

        async with group:
            await group.run(work)

    def _do(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(_LIMIT_S)
