"""Lines are put in the order in which things happened, whatever the nodes' clocks say."""

from __future__ import annotations

from coterie_pipeline.whatif.replays import in_order
from coterie_protocol.journal import (
    Event,
    GroupEmptied,
    GroupRecovered,
    IdUnclaimed,
    Line,
    NodeStarted,
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


def recovered(generation: int, fence: int = 0) -> GroupRecovered:
    """The group is read back."""
    return GroupRecovered(group="g", state="Stable", generation=generation, members=(), fence=fence)


def order(lines: list[str], node_lines: list[str]) -> list[tuple[int, str, int]]:
    """The lines that there are, in their order."""
    return [(line.ts, line.node, line.seq) for line in in_order(lines, node_lines)]


def test_generations_order_lines_where_clocks_disagree() -> None:
    # The second node's clock is behind; time stands still until it has caught up.
    lines = [
        text(90, "2", 5, recovered(7)),
        text(110, "2", 6, GroupEmptied(group="g", generation=8)),
        text(99, "1", 1, GroupEmptied(group="g", generation=6)),
        text(100, "1", 2, unclaimed("a")),
    ]
    assert order(lines, []) == [(99, "1", 1), (100, "1", 2), (100, "2", 5), (110, "2", 6)]


def test_fences_order_lines_of_one_generation_where_clocks_disagree() -> None:
    lines = [
        text(100, "1", 1, recovered(7, fence=3)),
        text(90, "2", 5, recovered(7, fence=4)),
        text(120, "3", 1, recovered(7, fence=2)),
    ]
    assert order(lines, []) == [(120, "3", 1), (120, "1", 1), (120, "2", 5)]


def test_what_a_node_does_after_it_had_the_group_does_not_stop_time() -> None:
    lines = [
        text(10, "1", 1, recovered(4, fence=1)),
        text(30, "2", 9, recovered(4, fence=2)),
        text(60, "2", 10, unclaimed("a")),
    ]
    nodes = [
        text(20, "1", 2, NodeStopped(reason="")),
        text(50, "1", 3, NodeStarted(version="1", groups=0, offsets=0, load_ms=0)),
        text(500, "1", 4, NodeStopped(reason="")),
    ]
    assert order(lines, nodes) == [
        (10, "1", 1),
        (20, "1", 2),
        (30, "2", 9),
        (50, "1", 3),
        (60, "2", 10),
        (500, "1", 4),
    ]


def test_line_that_is_there_twice_counts_once() -> None:
    first, second = text(1, "1", 1, unclaimed("a")), text(2, "1", 1, unclaimed("b"))
    assert order([first, first, second], []) == [(2, "1", 1)]


def test_lines_about_nodes_stand_between_those_of_the_group() -> None:
    # A node that never had the group does not matter.
    lines = [text(10, "1", 2, unclaimed("a")), text(30, "1", 4, recovered(0))]
    nodes = [
        text(
            5, "1", 1, TopicChanged(topic="t", change="created", partitions_before=0, partitions=1)
        ),
        text(20, "1", 3, NodeStopped(reason="")),
        text(20, "2", 1, NodeStopped(reason="")),
    ]
    assert order(lines, nodes) == [(5, "1", 1), (10, "1", 2), (20, "1", 3), (30, "1", 4)]


def test_lines_of_a_node_before_it_took_over_are_left_out() -> None:
    lines = [text(10, "1", 1, unclaimed("a")), text(30, "2", 9, recovered(4))]
    nodes = [
        text(
            5, "2", 1, TopicChanged(topic="t", change="created", partitions_before=0, partitions=1)
        )
    ]
    assert order(lines, nodes) == [(10, "1", 1), (30, "2", 9)]


def test_lines_that_can_not_be_read_are_skipped() -> None:
    assert order(["{", text(1, "1", 1, unclaimed("a"))], [""]) == [(1, "1", 1)]


def test_no_lines_give_no_lines() -> None:
    assert order([], [text(1, "1", 1, NodeStopped(reason=""))]) == []
