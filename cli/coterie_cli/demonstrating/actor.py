"""A worker's process, as the demo sees it."""

from __future__ import annotations

import asyncio
import sys
import time
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Callable
from typing import Self, TypeAlias

from coterie_cli.demonstrating.lines import Line, Mark, Role

__all__ = ["Actor", "DemoError", "Hear"]

#: Told who says what; None is the end of all that it says.
Hear: TypeAlias = Callable[[str, Line | None], None]


class DemoError(Exception):
    """The show can't go on; the sentence says why."""


class Actor:
    """A worker in a process of its own, from its start to its end."""

    def __init__(self, role: Role, process: Process, hear: Hear) -> None:
        self.role = role
        self._process = process
        self._hear = hear
        self._complaint = ""
        self._passed = {mark: asyncio.Event() for mark in Mark}
        self._listening = asyncio.create_task(self._listen(), name=f"listening to {role.name}")

    @classmethod
    async def start(cls, role: Role, hear: Hear) -> Self:
        """Start a process, which begins to load what it needs."""
        command = (sys.executable, "-m", "coterie_cli.demonstrating.worker", role.to_text())
        # What it complains of comes down the same pipe. In a session of its own, it is not ended
        # by the Ctrl-C that is meant for the demo.
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=STDOUT, start_new_session=True
        )
        return cls(role, process, hear)

    @property
    def is_gone(self) -> bool:
        """Whether its process has ended."""
        return self._process.returncode is not None

    @property
    def complaint(self) -> str:
        """The last that it said which is none of our lines."""
        return self._complaint

    async def ready(self) -> None:
        """Wait until it could join, or is gone."""
        await self._passed[Mark.READY].wait()

    def join(self) -> None:
        """Have it join its group."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")

    async def leave(self) -> None:
        """Have it end its work, commit, and leave; wait until it has, or is gone."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._passed[Mark.LEFT].wait()

    async def kill(self) -> float:
        """`kill -9`; the moment when that was."""
        if self._process.returncode is None:
            self._process.kill()
        at_s = time.monotonic()
        # Who waits here may be interrupted; who listens is not.
        await asyncio.shield(self._listening)
        return at_s

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        async for read in self._process.stdout:
            text = read.decode(errors="replace").strip()
            line = Line.of_text(text)
            if line is not None:
                self._hear(self.role.name, line)
            elif text in self._passed:
                self._passed[Mark(text)].set()
            else:
                self._complaint = text or self._complaint
        await self._process.wait()
        for passed in self._passed.values():
            passed.set()  # nobody should wait for what will not come any more
        self._hear(self.role.name, None)
