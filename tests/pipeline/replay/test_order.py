"""Lines of several nodes come in the order in which all happened, whatever clocks say."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from coterie_protocol.replay import GroupLines, Source
from coterie_protocol.replay.order import moves_time

_NODES = ("1", "2", "3")


@dataclass(slots=True)
class History:
    """A group that goes from node to node, is deleted and used again; and what is written of it."""

    chance: random.Random
    #: By how much each node's clock is off.
    off_ms: dict[str, int]
    #: Whether nodes are killed while the first members of a group are awaited.
    is_cut_short: bool
    lines: list[Source] = field(default_factory=list)
    node: str = "1"
    now_ms: int = 1_000_000
    generation: int = 0
    fence: int = 1
    #: Whether it is stored that the group has had members.
    is_stored: bool = False
    members: int = 0

    def write(self, kind: str, **values: Any) -> None:
        """A line of the node that has the group."""
        self.now_ms += self.chance.randrange(1, 3_000)
        seq = sum(line.node == self.node for line in self.lines) + 1
        ts = self.now_ms + self.off_ms[self.node]
        self.lines.append(Source(self.node, seq, ts, {"kind": kind, **values}))

    def move(self) -> None:
        """Another node, or the same one after a restart, takes the group over."""
        self.node = self.chance.choice(_NODES)
        self.fence += 1
        if self.chance.random() < 0.3:
            self.write("offsets_deleted", how="topic_deleted")
        if self.is_stored:
            state = "Stable" if self.members else "Empty"
            told = {"generation": self.generation, "fence": self.fence, "state": state}
            self.write("group_recovered", members=[], **told)

    def come(self) -> None:
        """A member comes, by which an empty group begins to live."""
        self.write("member_joined", member="m")
        state = "Stable" if self.members else "Empty"
        self.write("rebalance_started", generation=self.generation, from_state=state)
        if self.is_cut_short and not self.members and self.chance.random() < 0.4:
            self.move()
            return
        self.generation += 1
        self.write("phase_joined", generation=self.generation)
        self.write("rebalance_completed", generation=self.generation)
        self.is_stored, self.members = True, self.members + 1

    def go(self) -> None:
        """All members go."""
        self.write("member_gone", member="m")
        self.generation += 1
        self.write("group_emptied", generation=self.generation)
        self.members = 0

    def delete(self) -> None:
        """An administrator deletes the group."""
        self.write("group_deleted", generation=self.generation)
        self.is_stored = False

    def step(self) -> None:
        """Anything that can happen."""
        able = [self.move, self.come]
        if self.members:
            able += [self.go]
        elif self.is_stored:
            able += [self.delete]
        self.chance.choice(able)()


def placed(lines: list[Source]) -> list[tuple[str, int]]:
    """The lines that tell of members, in their order."""
    by_node = sorted(lines, key=lambda line: (line.node, line.seq))
    return [(line.node, line.seq) for line in GroupLines(by_node) if moves_time(line.kind)]


@pytest.mark.parametrize("is_cut_short", [False, True])
def test_lines_come_in_the_order_in_which_all_happened(is_cut_short: bool) -> None:  # noqa: FBT001
    """Dates decide only of deletions in one generation, so clocks are right in that case."""
    for seed in range(400):
        chance = random.Random(seed)
        most_ms = 0 if is_cut_short else 3_600_000
        off_ms = {node: chance.randint(-most_ms, most_ms) for node in _NODES}
        history = History(chance, off_ms, is_cut_short)
        for _ in range(chance.randrange(2, 30)):
            history.step()
        told = [(it.node, it.seq) for it in history.lines if moves_time(it.values["kind"])]
        assert placed(history.lines) == told, f"seed {seed}"


def test_line_about_offsets_does_not_move_time() -> None:
    """One node had the group; the other one forgot offsets, and went down before it told more."""
    lines = [
        Source("1", 1, 100, {"kind": "rebalance_started", "generation": 0, "from_state": "Empty"}),
        Source("1", 2, 200, {"kind": "phase_joined", "generation": 1}),
        Source("2", 1, 150, {"kind": "group_recovered", "generation": 1, "fence": 2}),
        Source("2", 2, 900, {"kind": "offsets_deleted", "how": "topic_deleted"}),
        Source("3", 1, 800, {"kind": "offsets_expired"}),
        Source("1", 3, 300, {"kind": "group_recovered", "generation": 1, "fence": 3}),
    ]
    lines.sort(key=lambda line: (line.node, line.seq))
    times = [(it.kind, it.at) for it in GroupLines(lines) if moves_time(it.kind)]
    assert times == [
        ("rebalance_started", 100),
        ("phase_joined", 200),
        ("group_recovered", 200),
        ("group_recovered", 300),
    ]


def test_lines_of_a_node_stay_in_order_whatever_generations_they_name() -> None:
    """The store was lost, and the group began anew."""
    lines = [
        Source("1", 1, 100, {"kind": "group_recovered", "generation": 90}),
        Source("1", 2, 200, {"kind": "group_recovered", "generation": 3}),
    ]
    assert placed(lines) == [("1", 1), ("1", 2)]


def test_stint_that_names_no_generation_comes_after_what_had_begun_by_then() -> None:
    """All of a node's lines but a few are lost."""
    lines = [
        Source("1", 1, 100, {"kind": "rebalance_started", "generation": 0, "from_state": "Empty"}),
        Source("1", 2, 200, {"kind": "phase_joined", "generation": 1}),
        Source("1", 3, 600, {"kind": "group_recovered", "generation": 1, "fence": 5}),
        Source("2", 7, 400, {"kind": "member_joined", "member": "m"}),
    ]
    assert placed(lines) == [("1", 1), ("1", 2), ("2", 7), ("1", 3)]
