"""Journals of several nodes tell one possible story, or the checker says what is wrong."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from coterie_protocol.journal import (
    Event,
    GroupEmptied,
    Line,
    NodePaused,
    NodeStarted,
    NodeStopped,
    ShardGiven,
    ShardTaken,
)
from coterie_testing.sim.invariants.handovers import handover_faults

#: Group g1 is in shard 1, and so on.
CLOCK_ERROR_MS = 100


@dataclass(slots=True)
class Journal:
    """What one node writes."""

    node: str
    lines: list[Line] = field(default_factory=list)
    next_seq: int = 1

    def line(self, ts: int, event: Event) -> None:
        self.lines.append(Line(ts, self.node, self.next_seq, event))
        self.next_seq += 1

    def took(self, ts: int, epoch: str, how: str = "free", shard: int = 1) -> None:
        self.line(ts, ShardTaken(shard=shard, epoch=epoch, former_owner="", how=how))

    def gave(self, ts: int, epoch: str, how: str = "lost", shard: int = 1) -> None:
        self.line(ts, ShardGiven(shard=shard, epoch=epoch, how=how))

    def acted(self, ts: int, group: str = "g1") -> None:
        self.line(ts, GroupEmptied(group=group, generation=1))

    def started(self, ts: int) -> None:
        self.line(ts, NodeStarted(version="1", groups=0, offsets=0, load_ms=0))

    def lose_line(self) -> None:
        self.next_seq += 1


def faults(*journals: Journal) -> list[str]:
    lines = [line for journal in journals for line in journal.lines]
    # In any order: here from the last to the first.
    return list(handover_faults(lines[::-1], lambda group: int(group[1:]), CLOCK_ERROR_MS))


@pytest.fixture
def a() -> Journal:
    return Journal("a")


@pytest.fixture
def b() -> Journal:
    return Journal("b")


# -- possible stories --------------------------------------------------------------------------


def test_shard_goes_from_node_to_node_and_back(a: Journal, b: Journal) -> None:
    a.took(0, "1", "start")
    a.acted(10)
    a.started(20)
    a.acted(500)
    a.gave(1000, "1", "handed_over")
    b.took(1010, "2", "handed_over")
    b.acted(1020)
    b.gave(2000, "2", "stopping")
    b.line(2001, NodeStopped(reason="SIGTERM"))
    a.took(2010, "3", "free")
    a.acted(2020)
    assert faults(a, b) == []


def test_killed_node_gives_nothing(a: Journal, b: Journal) -> None:
    a.took(0, "1")
    a.acted(10)
    b.took(4000, "2", "expired")
    b.acted(4010)
    a.started(9000)
    a.took(9500, "3", "handed_over")
    a.acted(9600)
    assert faults(a, b) == []


def test_node_reclaims_its_shard_after_a_failure_of_the_store(a: Journal) -> None:
    a.took(0, "1")
    a.acted(10)
    a.gave(20, "1", "store_failed")
    a.took(30, "2", "reclaimed")
    a.acted(40)
    assert faults(a) == []


def test_epochs_begin_anew_in_a_later_timeline(a: Journal, b: Journal) -> None:
    """The replica that took over lacked claims."""
    a.took(0, "1.9")
    b.took(9000, "2.8", "expired")
    b.acted(9010)
    assert faults(a, b) == []


def test_clocks_may_differ(a: Journal, b: Journal) -> None:
    a.took(0, "1")
    a.acted(1000 + CLOCK_ERROR_MS)
    b.took(1000, "2", "expired")
    assert faults(a, b) == []


def test_what_was_stored_before_a_pause_may_be_written_down_after_it(
    a: Journal, b: Journal
) -> None:
    a.took(0, "1")
    b.took(5000, "2", "expired")
    a.line(9000, NodePaused(paused_ms=8000))
    a.acted(9001)
    a.gave(9002, "1")
    assert faults(a, b) == []


def test_store_of_one_node_needs_no_hand_overs(a: Journal) -> None:
    """Its journal may be from before there were any."""
    a.started(0)
    a.acted(10)
    assert faults(a) == []


def test_what_a_missing_line_may_have_told_is_no_fault(a: Journal) -> None:
    a.took(0, "1")
    a.gave(10, "1")
    a.lose_line()
    a.acted(20)
    a.started(30)  # the missing line may be of this start
    a.acted(40)
    a.gave(50, "5")
    assert faults(a) == []


def test_old_files_that_were_deleted_are_no_fault(a: Journal) -> None:
    a.lose_line()
    a.acted(20)
    a.gave(50, "5")
    assert faults(a) == []


def test_shards_are_apart(a: Journal, b: Journal) -> None:
    a.took(0, "7", shard=1)
    b.took(5000, "8", shard=2)
    a.acted(9000, "g1")
    b.acted(9000, "g2")
    assert faults(a, b) == []


# -- impossible ones ---------------------------------------------------------------------------


def only(found: list[str], *parts: str) -> None:
    (fault,) = found
    for part in parts:
        assert part in fault


def test_epoch_is_taken_twice(a: Journal, b: Journal) -> None:
    a.took(0, "7")
    b.took(50, "7")
    only(faults(a, b), "epoch 7 of shard 1 was taken twice", "node a", "node b")


def test_same_epoch_is_taken_again(a: Journal) -> None:
    a.took(0, "7")
    a.gave(10, "7")
    a.took(20, "7")
    only(faults(a), "epoch 7 of shard 1 was taken twice")


def test_epoch_goes_back_in_a_node(a: Journal) -> None:
    a.took(0, "1.7")
    a.gave(10, "1.7")
    a.took(20, "1.6")
    only(faults(a), "line 3 of node a goes back from epoch 1.7")


def test_epoch_goes_back_from_the_highest(a: Journal) -> None:
    for epoch in ("5", "7", "6"):
        a.took(0, epoch)
        a.gave(0, epoch)
    only(faults(a), "line 5 of node a goes back from epoch 7")


def test_epoch_goes_back_over_nodes(a: Journal, b: Journal) -> None:
    a.took(0, "10")
    b.took(1000, "9", "expired")
    only(faults(a, b), "line 1 of node b", "under epoch 9 of shard 1", "1000 ms after", "took 10")


def test_timeline_goes_back(a: Journal, b: Journal) -> None:
    a.took(0, "2.1")
    b.took(1000, "1.9", "expired")
    only(faults(a, b), "line 1 of node b", "took 2.1")


def test_node_acts_while_another_has_the_shard(a: Journal, b: Journal) -> None:
    a.took(0, "1")
    b.took(1000, "2", "expired")
    b.acted(1001)
    a.acted(1001 + CLOCK_ERROR_MS)
    only(faults(a, b), "line 2 of node a", "under epoch 1 of shard 1", "line 1 of node b took 2")


def test_first_of_several_later_claims_ends_an_epoch(a: Journal, b: Journal) -> None:
    a.took(0, "1")
    b.took(1000, "2", "expired")
    b.gave(4000, "2")
    b.took(5000, "3")
    a.acted(3000)
    only(faults(a, b), "line 2 of node a", "2000 ms after line 1 of node b took 2")


def test_claim_of_a_paused_node_hides_no_later_one(a: Journal, b: Journal) -> None:
    c = Journal("c")
    a.took(0, "1")
    b.line(9000, NodePaused(paused_ms=8000))
    b.took(9001, "2", "expired")
    c.took(2500, "3", "expired")
    a.acted(3000)
    only(faults(a, b, c), "line 2 of node a", "500 ms after line 1 of node c took 3")


def test_pause_does_not_excuse_what_comes_long_after_it(a: Journal, b: Journal) -> None:
    a.took(0, "1")
    b.took(5000, "2", "expired")
    a.line(9000, NodePaused(paused_ms=8000))
    a.acted(9000 + CLOCK_ERROR_MS + 1)
    only(faults(a, b), "line 3 of node a")


def test_short_pause_excuses_little(a: Journal, b: Journal) -> None:
    a.took(0, "1")
    b.took(5000, "2", "expired")
    a.line(9000, NodePaused(paused_ms=1000))
    a.acted(9001)
    only(faults(a, b), "line 3 of node a")


def test_group_is_not_of_a_shard_of_the_node(a: Journal) -> None:
    a.took(0, "1")
    a.acted(10, "g2")
    only(faults(a), "line 2 of node a is of shard 2, which its node does not have")


def test_node_acts_after_it_gave_the_shard(a: Journal) -> None:
    a.took(0, "1")
    a.gave(10, "1")
    a.acted(10)
    only(faults(a), "line 3 of node a is of shard 1, which its node does not have")


def test_node_acts_before_it_takes_the_shard(a: Journal) -> None:
    a.acted(10)
    a.took(10, "1")
    only(faults(a), "line 1 of node a is of shard 1")


def test_restarted_process_has_not_what_the_former_one_took(a: Journal) -> None:
    a.took(0, "1", "start", shard=1)
    a.started(10)
    a.took(20, "1", "free", shard=2)
    a.took(100, "2", "start", shard=1)  # it was killed, and starts again
    a.started(110)
    a.acted(120, "g1")
    a.acted(130, "g2")
    only(faults(a), "line 7 of node a is of shard 2")


def test_start_takes_the_former_starts_place(a: Journal) -> None:
    a.took(0, "1", "start")
    a.started(10)
    a.started(110)  # its shard has gone to another node
    a.acted(120)
    only(faults(a), "line 4 of node a is of shard 1")


def test_gap_excuses_one_start_only(a: Journal) -> None:
    a.lose_line()
    a.started(10)
    a.took(15, "1", shard=2)
    a.started(20)
    a.acted(30)
    only(faults(a), "line 5 of node a is of shard 1")


def test_what_a_node_takes_after_a_gap_is_known(a: Journal) -> None:
    a.lose_line()
    a.took(10, "1")
    a.started(20)
    a.acted(30)
    only(faults(a), "line 4 of node a is of shard 1")


def test_what_a_node_gives_after_a_gap_is_known(a: Journal) -> None:
    a.lose_line()
    a.gave(10, "1")
    a.acted(20)
    only(faults(a), "line 3 of node a is of shard 1")


def test_node_gives_what_it_does_not_have(a: Journal) -> None:
    a.gave(0, "1")
    only(faults(a), "line 1 of node a gives what its node does not have")


def test_node_gives_another_epoch(a: Journal) -> None:
    a.took(0, "1")
    a.gave(10, "2")
    only(faults(a), "line 2 of node a gives what its node has as 1")


@pytest.mark.parametrize("epoch", ["", "seven", "-1", "1.2.3", ".7", "7.", "1.-1"])
def test_text_that_is_no_epoch_is_a_fault(a: Journal, epoch: str) -> None:
    a.took(0, "1")
    taken = a.lines[0].event
    assert isinstance(taken, ShardTaken)
    a.lines[0] = replace(a.lines[0], event=replace(taken, epoch=epoch))
    only(faults(a), "line 1 of node a has no epoch")
