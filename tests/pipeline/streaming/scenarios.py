"""Small journals with known alarms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from coterie_pipeline.steps import parse
from coterie_protocol.journal import (
    Event,
    Line,
    MemberGone,
    MemberPhase,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
    write_line,
)
from coterie_protocol.journal_text import segment_name

__all__ = ["Scenario", "bronze_of"]

#: Partitions of the topic `t` by member.
Owned = Mapping[str, tuple[int, ...]]


@dataclass
class Scenario:
    """What happens to a group, told step by step; each line comes a second after the one before."""

    group: str = "g"
    node: str = "1"
    now_ms: int = 1_700_000_000_000
    lines: list[Line] = field(default_factory=list)
    generation: int = 0

    def write(self, event: Event) -> None:
        """One more line."""
        self.now_ms += 1_000
        self.lines.append(Line(self.now_ms, self.node, len(self.lines) + 1, event))

    def rebalance(self, assigned: Owned, claims: Owned, cause: str = "member_joined") -> None:
        """A rebalance in which members claim what they own, and are assigned something."""
        self.start(cause)
        self.generation += 1
        members = tuple(
            MemberPhase(
                member=member,
                instance=None,
                host="/h",
                joined_after_ms=0,
                owned={"t": claims.get(member, ())},
            )
            for member in assigned
        )
        self.write(
            PhaseJoined(
                group=self.group,
                generation=self.generation,
                protocol_type="consumer",
                protocol="p",
                leader=members[0].member,
                members=members,
                dropped=(),
                last=None,
                cause=cause,
                took_ms=1_000,
            )
        )
        self.write(
            RebalanceCompleted(
                group=self.group,
                generation=self.generation,
                cause=cause,
                assigned={member: {"t": own} for member, own in assigned.items()},
                moved=0,
                revoked=0,
                needs_rejoin=False,
                took_ms=1_000,
                total_ms=2_000,
            )
        )

    def start(self, cause: str = "member_joined") -> None:
        """The beginning of one."""
        self.write(
            RebalanceStarted(
                group=self.group,
                generation=self.generation,
                from_state="Stable" if self.generation else "Empty",
                cause=cause,
                detail="",
                awaited=(),
                deadline=None,
            )
        )

    def lose(self, member: str, how: str, *, silent_ms: int, session_timeout_ms: int) -> None:
        """A member is put out of the group."""
        self.write(
            MemberGone(
                group=self.group,
                member=member,
                instance=None,
                host="/h",
                how=how,
                silent_ms=silent_ms,
                session_timeout_ms=session_timeout_ms,
            )
        )


def bronze_of(spark: SparkSession, lines: Iterable[Line], folder: str = "j") -> DataFrame:
    """Lines as they are once they are parsed."""
    rows = [
        (f"file:/{folder}/{segment_name(line.node, 1)}", write_line(line), None) for line in lines
    ]
    raw = spark.createDataFrame(rows, "segment STRING, value STRING, why STRING")
    return parse(raw).localCheckpoint()
