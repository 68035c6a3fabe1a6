"""An hour of a group's life as two nodes' journals tell it, with all that can go wrong in one."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from coterie_protocol.journal import (
    Event,
    GroupRecovered,
    Line,
    MemberGone,
    MemberJoined,
    MemberPhase,
    OffsetsCommitted,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
    write_line,
)
from coterie_protocol.journal_text import segment_name

__all__ = ["BEGAN_MS", "GROUP", "TOPIC", "tell_an_hour"]

GROUP: Final = '<img src=x onerror="alert(1)"> & co'
TOPIC: Final = "orders <b>new</b>"
BEGAN_MS: Final = 1_790_000_000_000
SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60_000

Owned = Mapping[str, Sequence[int]]


def _spread(members: Sequence[str], partitions: int = 24) -> dict[str, list[int]]:
    return {name: list(range(at, partitions, len(members))) for at, name in enumerate(members)}


@dataclass(slots=True)
class Teller:
    """Writes lines about one group, each at a moment after the beginning."""

    node: str = "1"
    generation: int = 0
    owned: dict[str, list[int]] = field(default_factory=dict)
    lines: dict[str, list[Line]] = field(default_factory=dict)

    def tell(self, at_ms: int, event: Event) -> None:
        """Write a line."""
        own = self.lines.setdefault(self.node, [])
        own.append(Line(BEGAN_MS + at_ms, self.node, len(own) + 1, event))

    def join(self, at_ms: int, member: str) -> None:
        """A new member comes."""
        name = member.partition("-")[0]
        self.tell(
            at_ms,
            MemberJoined(
                group=GROUP, member=member, instance=None, client_id=name, host="/10.0.0.7",
                session_timeout_ms=10_000, rebalance_timeout_ms=60_000, protocols=("range",),
                topics=(TOPIC,), reason="",
            ),
        )  # fmt: skip

    def go(self, at_ms: int, member: str, how: str) -> None:
        """A member goes, with what it had."""
        owned = {TOPIC: tuple(self.owned.pop(member, []))}
        self.tell(
            at_ms,
            MemberGone(
                group=GROUP, member=member, instance=None, host="/10.0.0.7", how=how,
                silent_ms=10_000 if how == "session_expired" else 0, session_timeout_ms=10_000,
                reason="", owned=owned,
            ),
        )  # fmt: skip

    def rebalance(
        self,
        at_ms: int,
        cause: str,
        after: Mapping[str, int],
        given: Mapping[str, Sequence[int]],
        *,
        keeps: bool = False,
        **completed: Any,
    ) -> None:
        """A whole rebalance.

        `after` says when each member joined, and `keeps` that they let nothing go before.
        """
        took_ms = max(after.values())
        began = "Stable" if self.generation else "Empty"
        self.tell(
            at_ms,
            RebalanceStarted(
                group=GROUP, generation=self.generation, from_state=began, cause=cause,
                detail=next(iter(after)), awaited=tuple(self.owned), deadline=None,
                follows=completed.pop("follows", None),
            ),
        )  # fmt: skip
        self.generation += 1
        members = tuple(
            MemberPhase(
                member=name, instance=None, host="/10.0.0.7", joined_after_ms=each,
                topics=(TOPIC,), lags=None,
                owned={TOPIC: tuple(self.owned.get(name, []))} if keeps else {},
            )
            for name, each in after.items()
        )  # fmt: skip
        self.tell(
            at_ms + took_ms,
            PhaseJoined(
                group=GROUP, generation=self.generation, protocol_type="consumer",
                protocol="cooperative-sticky" if keeps else "range", leader=members[0].member,
                members=members, dropped=(), last=members[-1].member, cause=cause,
                took_ms=took_ms,
            ),
        )  # fmt: skip
        before = {number: name for name, numbers in self.owned.items() for number in numbers}
        moved = sum(
            before.get(number, name) != name
            for name, numbers in given.items()
            for number in numbers
        )
        self.owned = {name: list(numbers) for name, numbers in given.items()}
        self.tell(
            at_ms + took_ms + 20,
            RebalanceCompleted(
                group=GROUP, generation=self.generation, cause=cause,
                assigned={name: {TOPIC: tuple(each)} for name, each in given.items()},
                moved=moved, revoked=moved, took_ms=20, total_ms=took_ms + 20,
                needs_rejoin=completed.pop("needs_rejoin", False), **completed,
            ),
        )  # fmt: skip


def _hour() -> Teller:
    ann, bob, cleo, dan = "ann-1a2b", "bob-3c4d", "<i>cleo</i>-5e6f", "dan-7a8b"
    it = Teller()
    it.join(0, ann)
    it.rebalance(100, "member_joined", {ann: 0}, _spread([ann]))
    it.join(4 * MINUTE_MS, bob)
    it.rebalance(4 * MINUTE_MS, "member_joined", {bob: 0, ann: 2_400}, _spread([ann, bob]))
    it.join(9 * MINUTE_MS, cleo)
    it.rebalance(
        9 * MINUTE_MS, "member_joined", {cleo: 0, ann: 900, bob: 3_100}, _spread([ann, bob, cleo])
    )
    # One of them dies, and another takes its time.
    it.go(21 * MINUTE_MS, bob, "session_expired")
    it.rebalance(
        21 * MINUTE_MS + 5, "session_expired", {ann: 700, cleo: 14_000}, _spread([ann, cleo])
    )
    # Another node takes the group over, in the middle of the night.
    it.node = "2"
    it.tell(
        33 * MINUTE_MS,
        GroupRecovered(
            group=GROUP, state="Stable", generation=it.generation, members=(ann, cleo),
            assigned={name: {TOPIC: tuple(each)} for name, each in it.owned.items()}, fence=2,
        ),
    )  # fmt: skip
    # A leader gives away at once what its owner still has: two owners until it joins again.
    it.join(47 * MINUTE_MS, dan)
    it.rebalance(
        47 * MINUTE_MS,
        "member_joined",
        {dan: 0, ann: 400, cleo: 800},
        _spread([ann, cleo, dan]),
        keeps=True,
        needs_rejoin=True,
    )
    given = it.owned
    it.owned = {**_spread([ann, cleo]), dan: given[dan]}
    for at_ms in (47 * MINUTE_MS + 9_000, 47 * MINUTE_MS + 40_000):
        it.rebalance(
            at_ms,
            "revocation_follow_up",
            {dan: 0, ann: 8_000, cleo: 14_500},
            given,
            keeps=True,
            follows=it.generation,
        )
    it.go(59 * MINUTE_MS, cleo, "left")
    commit = OffsetsCommitted(
        group=GROUP, member=ann, generation=it.generation, offsets={TOPIC: {"0": 17}}
    )
    it.tell(59 * MINUTE_MS + 40_000, commit)
    return it


def tell_an_hour(folder: Path) -> list[Path]:
    """Write the journals; that of the second node is compressed."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for node, lines in _hour().lines.items():
        text = "".join(f"{write_line(line)}\n" for line in lines)
        path = folder / segment_name(node, 1)
        if node == "2":
            path = path.with_name(f"{path.name}.gz")
            path.write_bytes(gzip.compress(text.encode(), mtime=0))
        else:
            path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths
