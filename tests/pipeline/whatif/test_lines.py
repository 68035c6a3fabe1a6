"""Lines are put in the order in which things happened, whatever the nodes' clocks say."""

from __future__ import annotations

from coterie_pipeline.whatif.replays import in_order
from coterie_protocol.journal import (
    Event,
    GroupEmptied,
    GroupRecovered,
    IdUnclaimed,
    Line,
    NodeStopped,
    TopicChanged,
    write_line,
)


def text(ts: int, node: str, seq: int, event: Event) -> str:
    """A line as a journal has it."""
    return write_line(Line(ts, node, seq, event))


def unclaimed(member: str) -> IdUnclaimed:
    """Something that happens to the group, and names no generation."""
    return IdUnclaimed(group="g", member=member)


def recovered(generation: int) -> GroupRecovered:
    """The group is read back."""
    return GroupRecovered(group="g", state="Stable", generation=generation, members=())


def order(lines: list[str], node_lines: list[str]) -> list[tuple[int, str, int]]:
    """The lines that there are, in their order."""
    return [(line.ts, line.node, line.seq) for line in in_order(lines, node_lines)]


def test_generations_go_before_clocks() -> None:
    """The second node's clock is behind; time stands still until it has caught up."""
    lines = [
        text(90, "2", 5, recovered(7)),
        text(110, "2", 6, GroupEmptied(group="g", generation=8)),
        text(99, "1", 1, GroupEmptied(group="g", generation=6)),
        text(100, "1", 2, unclaimed("a")),
    ]
    assert order(lines, []) == [(99, "1", 1), (100, "1", 2), (100, "2", 5), (110, "2", 6)]


def test_what_is_read_twice_is_there_once() -> None:
    """Of different lines with one number, the last counts."""
    first, second = text(1, "1", 1, unclaimed("a")), text(2, "1", 1, unclaimed("b"))
    assert order([first, first, second], []) == [(2, "1", 1)]


def test_nodes_tell_of_themselves_in_between() -> None:
    """A node that never had the group does not matter."""
    lines = [text(10, "1", 2, unclaimed("a")), text(30, "1", 4, recovered(0))]
    nodes = [
        text(
            5, "1", 1, TopicChanged(topic="t", change="created", partitions_before=0, partitions=1)
        ),
        text(20, "1", 3, NodeStopped(reason="")),
        text(20, "2", 1, NodeStopped(reason="")),
    ]
    assert order(lines, nodes) == [(5, "1", 1), (10, "1", 2), (20, "1", 3), (30, "1", 4)]


def test_what_a_node_did_before_it_took_over_does_not_matter() -> None:
    """Its topics are not created again."""
    lines = [text(10, "1", 1, unclaimed("a")), text(30, "2", 9, recovered(4))]
    nodes = [
        text(
            5, "2", 1, TopicChanged(topic="t", change="created", partitions_before=0, partitions=1)
        )
    ]
    assert order(lines, nodes) == [(10, "1", 1), (30, "2", 9)]


def test_lines_that_can_not_be_read() -> None:
    """They are passed over."""
    assert order(["{", text(1, "1", 1, unclaimed("a"))], [""]) == [(1, "1", 1)]


def test_nothing_is_in_order() -> None:
    """As it may be in a window of time."""
    assert order([], [text(1, "1", 1, NodeStopped(reason=""))]) == []
