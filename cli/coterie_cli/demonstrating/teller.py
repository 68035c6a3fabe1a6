"""The story in plain lines, for where there is no terminal, or one that is too small."""

from __future__ import annotations

from rich.console import Console

from coterie_cli.demonstrating.stage import Chapter, Stage

__all__ = ["Teller"]


class Teller:
    """Prints what is told, and at the end of each chapter what it cost."""

    def __init__(self, stage: Stage, console: Console) -> None:
        self._stage = stage
        self._console = console
        self._printed = 0

    def update(self) -> None:
        """Print what is new."""
        stage = self._stage
        lines = [(told.at_s, told.text) for told in stage.story]
        over = (chapter for chapter in stage.chapters if chapter.is_over)
        lines += [(chapter.ended_s - stage.began_s, self._cost(chapter)) for chapter in over]
        for at_s, text in sorted(lines)[self._printed :]:
            self._console.print(f"{at_s:5.1f} s  {text}", soft_wrap=True, markup=False)
        self._printed = len(lines)

    def _cost(self, chapter: Chapter) -> str:
        costs = (
            f"{self._stage.figures(side, chapter).stopped_s:.1f} {side.kind}"
            for side in self._stage.sides
        )
        return f"({chapter.name}, partition-seconds stopped: {', '.join(costs)})"
