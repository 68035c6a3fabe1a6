"""A run, told line by line: who did what, and when."""

from __future__ import annotations

from collections.abc import Iterator

from coterie_testing.sim.runs import Run, execute
from coterie_testing.sim.scene import Scene
from coterie_testing.sim.telling import line

__all__ = ["follow"]


def follow(run: Run) -> Iterator[str]:
    """Run it, and tell what happened."""
    lines: list[str] = []

    def listen(scene: Scene) -> None:
        scene.on_told = lambda who, what: lines.append(line(scene.world.now_s, who, what))

    result = execute(run, listen)
    yield from lines
    if result.failure is not None:
        yield line(result.virtual_s, "", f"FAILED: {result.failure}")
