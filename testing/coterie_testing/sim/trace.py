"""A run, told line by line: who did what, and when."""

from __future__ import annotations

from collections.abc import Iterator

from coterie_client.membership.events import Event as ClientEvent
from coterie_protocol.journal import Event
from coterie_testing.sim.runs import Run, execute
from coterie_testing.sim.scene import Scene
from coterie_testing.sim.telling import line, told

__all__ = ["follow"]


def follow(run: Run) -> Iterator[str]:
    """Run it, and tell what happened."""
    lines: list[str] = []

    def listen(scene: Scene) -> None:
        def note(who: str, event: ClientEvent | Event | str) -> None:
            what = told(event)
            if what is not None:
                lines.append(line(scene.scheduler.now_s, who, what))

        scene.on_event = note

    result = execute(run, listen)
    yield from lines
    if result.failure is not None:
        yield line(result.virtual_s, "", f"FAILED: {result.failure}")
