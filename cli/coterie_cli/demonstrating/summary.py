"""What the story came to, for programs and for the sentence at its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from coterie_cli.demonstrating.side import PARTITIONS, Figures
from coterie_cli.demonstrating.stage import Stage

__all__ = ["SideSummary", "Summary"]


@dataclass(frozen=True, slots=True)
class SideSummary:
    """What it came to for one group."""

    assignor: str
    total: Figures
    #: How often a partition had two workers at one time.
    overlaps: int
    #: By name, as far as the story was told.
    chapters: Mapping[str, Figures]


@dataclass(frozen=True, slots=True)
class Summary:
    """What it came to."""

    is_finished: bool
    took_s: float
    partitions: int
    #: By their kind.
    sides: Mapping[str, SideSummary]

    @classmethod
    def of(cls, stage: Stage) -> Self:
        """As far as it has come."""
        return cls(
            is_finished=stage.is_finished,
            took_s=round(stage.now_s, 3),
            partitions=PARTITIONS,
            sides={
                side.kind: SideSummary(
                    assignor=side.assignor,
                    total=stage.figures(side),
                    overlaps=side.diary.overlaps(),
                    chapters={c.name: stage.figures(side, c) for c in stage.chapters},
                )
                for side in stage.sides
            },
        )

    def sentence(self) -> str:
        """What to remember of it."""
        extent = "The same happened to both groups" if self.is_finished else "So far"
        stopped = " and ".join(
            f"for {side.total.stopped_s:.1f} with {side.assignor} ({kind})"
            for kind, side in self.sides.items()
        )
        overlaps = sum(side.overlaps for side in self.sides.values())
        return (
            f"{extent}: work stood still, in partition-seconds, {stopped}."
            f" A partition {_times(overlaps)} had two workers at one time."
        )


def _times(count: int) -> str:
    return {0: "never", 1: "once"}.get(count, f"{count} times")
