"""When a node gave a group away, by its lines about shards."""

from __future__ import annotations

from coterie_protocol.replay import Giving, given_away_ms
from coterie_protocol.shards import shard_of

MINE = shard_of("g", 7)


def test_first_one_after_the_last_line_about_the_group_counts() -> None:
    givings = [Giving(seq, 100 * seq, MINE, 7) for seq in (3, 6, 9)]
    assert given_away_ms("g", 5, givings) == 600
    assert given_away_ms("g", 9, givings) is None


def test_other_shards_do_not_matter() -> None:
    others = [Giving(6, 600, shard, 7) for shard in range(-1, 7) if shard != MINE]
    assert given_away_ms("g", 5, others) is None


def test_any_line_can_be_taken_in() -> None:
    assert given_away_ms("\ud800", 0, [Giving(1, 1, 0, 0), Giving(2, 2, 0, -3)]) is None
    assert given_away_ms("\ud800", 0, [Giving(3, 3, 0, 1)]) == 3
