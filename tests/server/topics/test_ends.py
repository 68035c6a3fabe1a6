"""Where partitions end: what was committed counts, and for which topic of a name."""

from __future__ import annotations

from coterie_server.group import BundleRow, Gone, OffsetRow, Record
from coterie_server.group.records import GroupRow
from coterie_server.topics import PartitionEnds
from coterie_server.topics import ends as ends_module
from tests.support.offset_rows import bundled


def committed(offset: int, partition: int = 0, topic: str = "t", group: str = "g") -> BundleRow:
    """An offset that a group has committed."""
    return bundled(OffsetRow(group, topic, partition, offset))


def noted(*records: Record) -> PartitionEnds:
    """Ends that know of these records."""
    ends = PartitionEnds()
    ends.note(records, ends.deletions)
    return ends


def test_a_partition_without_commits_ends_at_0() -> None:
    ends = noted(committed(5, partition=2))
    assert [ends.end("t", at) for at in (0, 1, 2, 3, -1, 10**9)] == [0, 0, 5, 0, 0, 0]
    assert ends.end("other", 0) == 0


def test_the_highest_offset_of_all_groups_counts() -> None:
    ends = noted(committed(7, group="a"), committed(19, group="b"), committed(3, group="b"))
    assert ends.end("t", 0) == 19
    ends.note([committed(20, group="a")], ends.deletions)
    assert ends.end("t", 0) == 20


def test_ends_of_topics_and_partitions_are_kept_apart() -> None:
    rows = [committed(at, partition=at % 3, topic=f"t{at % 2}") for at in range(12)]
    ends = noted(*rows)
    assert {(t, p): ends.end(t, p) for t in ("t0", "t1") for p in range(3)} == {
        ("t0", 0): 6,
        ("t0", 1): 10,
        ("t0", 2): 8,
        ("t1", 0): 9,
        ("t1", 1): 7,
        ("t1", 2): 11,
    }


def test_any_offset_can_be_the_end_but_a_negative_one() -> None:
    ends = noted(committed(-7), committed(2**63 - 1, partition=1), committed(-(2**63), 2))
    assert [ends.end("t", at) for at in range(3)] == [0, 2**63 - 1, 0]


def test_rows_other_than_offsets_move_no_end() -> None:
    ends = noted(
        GroupRow(group_id="g", state="Empty", generation=1),
        committed(19),
        Gone(GroupRow, "g"),
    )
    assert ends.end("t", 0) == 19


def test_all_partitions_of_a_commit_count() -> None:
    rows = [OffsetRow("g", topic, partition, 9) for topic in "tu" for partition in range(3)]
    ends = noted(bundled(*rows))
    assert [ends.end(row.topic, row.partition) for row in rows] == [9] * 6


def test_what_is_left_of_a_bundle_moves_no_end() -> None:
    """It was committed before, maybe for a topic that was deleted and made anew since."""
    bundle = bundled(OffsetRow("g", "t", 0, 19), OffsetRow("g", "u", 0, 5))
    ends = noted(bundle)
    ends.forget("t")
    ends.note([bundle.only([0])], ends.deletions)
    assert ends.end("t", 0) == 0


def test_a_topic_made_anew_begins_at_0() -> None:
    ends = noted(committed(19), committed(8, topic="u"))
    ends.forget("t")
    assert (ends.end("t", 0), ends.end("u", 0)) == (0, 8)
    ends.note([committed(2)], ends.deletions)
    assert ends.end("t", 0) == 2


def test_a_commit_for_a_topic_that_was_deleted_meanwhile() -> None:
    """A commit that was accepted before the deletion does not move the end of the new topic."""
    ends = PartitionEnds()
    accepted_at = ends.deletions
    ends.forget("t")
    ends.note([committed(19), committed(5, topic="u"), committed(20)], accepted_at)
    assert (ends.end("t", 0), ends.end("u", 0)) == (0, 5)


def test_deletions_are_not_remembered_for_ever() -> None:
    ends = PartitionEnds()
    accepted_at = ends.deletions
    limit = ends_module._DELETIONS_MAX  # noqa: SLF001  # no other code needs it
    for at in range(3 * limit):
        ends.forget(f"t{at}")
    assert len(ends._deleted_at) == limit  # noqa: SLF001  # it shows nowhere else
    ends.note([committed(1, topic=f"t{3 * limit - 1}")], accepted_at)
    assert ends.end(f"t{3 * limit - 1}", 0) == 0


def test_offsets_read_back_count_for_partitions_that_exist() -> None:
    ends = PartitionEnds()
    bundles = committed(19), committed(4, partition=7), committed(5, topic="gone")
    ends.recover([row for bundle in bundles for row in bundle.rows()], {"t": 2})
    assert (ends.end("t", 0), ends.end("t", 7), ends.end("gone", 0)) == (19, 0, 0)
