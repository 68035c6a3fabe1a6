"""What the demo has counted, for programs and for the sentence at its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from coterie_cli.demo.group import PARTITIONS, Figures
from coterie_cli.demo.scenario import Demo

__all__ = ["GroupSummary", "Summary"]


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """What was counted for one group."""

    assignor: str
    total: Figures
    #: How often a partition had two workers at one time.
    overlaps: int
    #: By name, as far as the demo has come.
    chapters: Mapping[str, Figures]


@dataclass(frozen=True, slots=True)
class Summary:
    """What was counted; the field names are those of the JSON that the command prints."""

    is_finished: bool
    took_s: float
    partitions: int
    #: The two groups, by their kind.
    sides: Mapping[str, GroupSummary]

    @classmethod
    def of(cls, demo: Demo) -> Self:
        """As far as the demo has come."""
        return cls(
            is_finished=demo.is_finished,
            took_s=round(demo.now_s, 3),
            partitions=PARTITIONS,
            sides={
                group.kind: GroupSummary(
                    assignor=group.assignor,
                    total=demo.figures(group),
                    overlaps=group.work_log.overlaps(),
                    chapters={c.name: demo.figures(group, c) for c in demo.chapters},
                )
                for group in demo.groups
            },
        )

    def sentence(self) -> str:
        """What to remember of it."""
        extent = "The same happened to both groups" if self.is_finished else "So far"
        stopped = " and ".join(
            f"for {group.total.stopped_s:.1f} with {group.assignor} ({kind})"
            for kind, group in self.sides.items()
        )
        overlaps = sum(group.overlaps for group in self.sides.values())
        return (
            f"{extent}: work stood still, in partition-seconds, {stopped}."
            f" A partition {_times(overlaps)} had two workers at one time."
        )


def _times(count: int) -> str:
    return {0: "never", 1: "once"}.get(count, f"{count} times")
