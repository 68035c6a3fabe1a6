"""What was deleted with its topic needs no owner."""

from __future__ import annotations

from coterie_protocol.journal import Line, read_line
from tests.pipeline.scenarios.ownership import topic_deleted_before_it_was_claimed
from tests.server.past.told import NOW, tables


def test_what_was_deleted_before_a_member_claims_it_does_not_stand_still() -> None:
    builder = topic_deleted_before_it_was_claimed()
    lines: list[Line] = [read_line(text) for texts in builder.files.values() for text in texts]
    found = tables(lines, builder.group, NOW)
    assert [row["fault"] for row in found.get("ownership_faults", ())] == []
    assert {row["stopped_partition_ms"] for row in found["rebalances"]} == {0}
