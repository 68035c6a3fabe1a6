"""A worker of the demo, in a process of its own: `python -m coterie_cli.demo.worker OPTIONS`.

It prints `ready` when it has loaded everything, and joins its group when it reads a line.  Then it
does what users' programs do, and prints a line whenever work on a partition begins, is asked to
end, and has ended.  When its standard input ends, it leaves the group and prints `left`: so it does
not outlive the demo either.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Final

from coterie_assignors import Assignor, CooperativeStickyAssignor, RangeAssignor
from coterie_cli.connection import silenced
from coterie_cli.demo.messages import (
    Milestone,
    WorkerOptions,
    WorkEventKind,
    send,
    send_milestone,
)
from coterie_client import Group, Partition, Standby, WarmSettings

__all__ = ["main"]

_ASSIGNORS: Final[dict[str, type[Assignor]]] = {
    each.name: each for each in (CooperativeStickyAssignor, RangeAssignor)
}

#: Restoring a partition's state takes so many steps.
_RESTORE_STEPS: Final = 20
#: People should not wait long for what is ready.
_READY_INTERVAL_S: Final = 1.0


def main() -> None:
    """Run the worker that the command line describes."""
    send_milestone(Milestone.READY)
    if sys.stdin.readline():
        with silenced():
            asyncio.run(_run(WorkerOptions.of_text(sys.argv[1])))
        send_milestone(Milestone.LEFT)


async def _run(options: WorkerOptions) -> None:
    group = Group(
        options.bootstrap,
        options.group,
        topics=[options.topic],
        client_id=options.name,
        instance=options.name if options.is_static else None,
        assignors=[_ASSIGNORS[options.assignor]()],
        session_timeout=options.session_s,
        heartbeat_interval=options.heartbeat_s,
        warm=WarmSettings(acceptable_recovery_lag=0) if options.is_warm else None,
        ready_interval=_READY_INTERVAL_S,
    )
    states = _States(options.restore_s)

    async def restore(standby: Standby) -> None:
        await states.restore(standby.number, standby.lag)
        await asyncio.Event().wait()  # nothing more comes, so it stays complete

    async def work(partition: Partition) -> None:
        await states.restore(partition.number, partition.lag)
        await _work(partition, options.steps_s[partition.number])

    async with group:
        _stop_at_end_of_input(group)
        await group.run(work, warm=restore if options.is_warm else None)


class _States:
    """The state of each partition that this worker has restored, or some of it, in memory."""

    def __init__(self, restore_s: float) -> None:
        self._step_s = restore_s / _RESTORE_STEPS
        self._steps = _RESTORE_STEPS if restore_s else 0
        self._done: dict[int, int] = {}

    async def restore(self, partition: int, tell_lag: Callable[[int], None]) -> None:
        """Restore what is missing of a partition's state."""
        done = self._done.get(partition, 0)
        tell_lag(self._steps - done)
        while done < self._steps:
            await asyncio.sleep(self._step_s)
            done += 1
            self._done[partition] = done
            tell_lag(self._steps - done)


async def _work(partition: Partition, step_s: float) -> None:
    position = await partition.committed()
    done = position.offset if position is not None else 0
    send(WorkEventKind.BEGINS, partition.number)
    try:
        while True:
            await asyncio.sleep(step_s)
            done += 1
            await partition.commit(done)
    finally:
        # Another step is finished, as long as any, so that ending work on a partition takes the
        # same time in both groups.
        send(WorkEventKind.ENDING, partition.number)
        try:
            await asyncio.sleep(step_s)
            await partition.commit(done + 1)
        finally:
            send(WorkEventKind.ENDED, partition.number)


def _stop_at_end_of_input(group: Group) -> None:
    loop = asyncio.get_running_loop()

    def wait() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(group.stop)

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    main()
