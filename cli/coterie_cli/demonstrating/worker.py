"""A worker of the demo, in a process of its own: `python -m coterie_cli.demonstrating.worker ROLE`.

It prints `ready` when it is loaded, and joins its group when a line comes in. Then it does what
users' programs do, and prints a line whenever work on a partition begins, is asked to end, and has
ended. When its standard input ends it leaves, prints `left`, and does not outlive the demo either.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Final

from coterie_assignors import Assignor, CooperativeStickyAssignor, RangeAssignor
from coterie_cli.demonstrating.lines import Mark, Role, What, say, say_passed
from coterie_cli.doing.quiet import quiet
from coterie_client import Group, Partition

__all__ = ["main"]

_ASSIGNORS: Final[dict[str, type[Assignor]]] = {
    each.name: each for each in (CooperativeStickyAssignor, RangeAssignor)
}


def main() -> None:
    """Be what the command line says."""
    say_passed(Mark.READY)
    if sys.stdin.readline():
        with quiet():
            asyncio.run(_play(Role.of_text(sys.argv[1])))
        say_passed(Mark.LEFT)


async def _play(role: Role) -> None:
    group = Group(
        role.bootstrap,
        role.group,
        topics=[role.topic],
        client_id=role.name,
        instance=role.name if role.is_static else None,
        assignors=[_ASSIGNORS[role.assignor]()],
        session_timeout=role.session_s,
        heartbeat_interval=role.heartbeat_s,
    )

    async def work(partition: Partition) -> None:
        await _work(partition, role.steps_s[partition.number])

    async with group:
        _stop_at_end_of_input(group)
        await group.run(work)


async def _work(partition: Partition, step_s: float) -> None:
    position = await partition.committed()
    done = position.offset if position is not None else 0
    say(What.BEGINS, partition.number)
    try:
        while True:
            await asyncio.sleep(step_s)
            done += 1
            await partition.commit(done)
    finally:
        # A step that was begun is finished, and takes as long as any other, so that the same
        # partition takes the same time to end on both sides.
        say(What.ENDING, partition.number)
        try:
            await asyncio.sleep(step_s)
            await partition.commit(done + 1)
        finally:
            say(What.ENDED, partition.number)


def _stop_at_end_of_input(group: Group) -> None:
    loop = asyncio.get_running_loop()

    def wait() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(group.stop)

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    main()
