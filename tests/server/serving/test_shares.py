"""Which node should have which shards."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from coterie_server.serving.shares import Scene, fair_shares, next_move

NODES = ("a", "b", "c", "d")
SHARDS = range(-1, 12)
holdings = st.dictionaries(st.sampled_from(SHARDS), st.sampled_from(NODES))
some_nodes = st.sets(st.sampled_from(NODES), min_size=1)


some_files = st.integers(1, 4)


def scene_of(
    me: str,
    holders: dict[int, str],
    present: set[str],
    settled: set[str],
    files: int = 1,
    expired: set[int] | None = None,
) -> Scene:
    """What a node sees."""
    mine = {shard for shard, owner in holders.items() if owner == me}
    others = {shard: owner for shard, owner in holders.items() if owner != me}
    return Scene(SHARDS, me, mine, others, present, settled, expired or set(), files=files)


def test_those_with_most_keep_most() -> None:
    assert fair_shares(7, {"a": 1, "b": 4, "c": 2}) == {"a": 2, "b": 3, "c": 2}


@given(holders=holdings, present=some_nodes)
def test_shares_are_equal_within_one(holders: dict[int, str], present: set[str]) -> None:
    counts = Counter(holders.values())
    fair = fair_shares(len(SHARDS), {node: counts[node] for node in present})
    assert sum(fair.values()) == len(SHARDS)
    assert max(fair.values()) - min(fair.values()) <= 1


@given(holders=holdings, present=some_nodes, files=some_files)
def test_no_two_nodes_claim_the_same_shard(
    holders: dict[int, str], present: set[str], files: int
) -> None:
    """If they see the same."""
    claims = [
        shard
        for me in present
        for shard in next_move(scene_of(me, holders, present, present, files), 1).claim
    ]
    assert len(claims) == len(set(claims))
    assert not set(claims) & holders.keys()


some_shards = st.sets(st.sampled_from(SHARDS))


@given(
    holders=holdings, present=some_nodes, settled=some_nodes, expired=some_shards, files=some_files
)
def test_free_shards_are_divided_among_those_who_may_claim_them(
    holders: dict[int, str], present: set[str], settled: set[str], expired: set[int], files: int
) -> None:
    """What a dead node had, those who were there as it died; they take all of it."""
    settled &= present
    holders = {shard: owner for shard, owner in holders.items() if owner in present}
    claims = {
        me: next_move(scene_of(me, holders, present, settled, files, expired), 1).claim
        for me in present
    }
    claimed = [shard for each in claims.values() for shard in each]
    assert len(claimed) == len(set(claimed))
    assert set(claimed) == set(SHARDS) - holders.keys()
    for me in present - settled if settled else ():
        assert not expired.intersection(claims[me])


def test_shards_of_a_dead_node_are_not_kept_for_a_newcomer() -> None:
    """It leaves them alone for a whole lease more, and nobody would serve them."""
    holders = {shard: "ab"[shard % 2] for shard in range(-1, 8)}
    present, dead = {"a", "b", "c"}, {8, 9, 10, 11}
    moves = {me: next_move(scene_of(me, holders, present, {"a", "b"}, 1, dead), 1) for me in "abc"}
    assert not moves["c"]
    assert {len(moves["a"].claim), len(moves["b"].claim)} == {2}


@given(holders=holdings, present=some_nodes, give_max=st.integers(1, 3), files=some_files)
def test_moves_end_with_equal_shares(
    holders: dict[int, str], present: set[str], give_max: int, files: int
) -> None:
    """However the shards are held at first, and with none that moves twice."""
    now = {shard: owner for shard, owner in holders.items() if owner in present}
    moved: Counter[int] = Counter()
    for _ in range(2 * len(SHARDS) + 2):
        for me in sorted(present):
            move = next_move(scene_of(me, now, present, present, files), give_max)
            assert len(move.give) <= give_max
            now = {shard: owner for shard, owner in now.items() if shard not in move.give}
            now |= dict.fromkeys(move.claim, me)
            moved.update(move.give)
    counts = Counter(now.values())
    held = [counts[node] for node in present]
    assert sum(held) == len(SHARDS)
    assert max(held) - min(held) <= 1
    assert set(moved.values()) <= {1}
    assert not any(
        next_move(scene_of(me, now, present, present, files), give_max) for me in present
    )


def test_nothing_is_given_to_a_node_that_has_not_settled() -> None:
    holders = dict.fromkeys(SHARDS, "a")
    assert not next_move(scene_of("a", holders, {"a", "b"}, {"a"}), 2)
    assert next_move(scene_of("a", holders, {"a", "b"}, {"a", "b"}), 2).give == (11, 10)


@given(holders=holdings, present=some_nodes, forming=some_shards, give_max=st.integers(1, 3))
def test_no_shard_is_given_that_is_spared(
    holders: dict[int, str], present: set[str], forming: set[int], give_max: int
) -> None:
    for me in present:
        scene = scene_of(me, holders, present, present)
        move = next_move(scene, give_max)
        spared = next_move(replace(scene, is_spared=forming.__contains__), give_max)
        assert not forming.intersection(spared.give)
        assert spared.surplus == move.surplus >= len(spared.give)
        assert len(spared.give) == min(len(move.give), len(set(scene.mine) - forming))


def test_what_a_vanished_node_had_is_left_to_it_until_its_leases_end() -> None:
    holders = {shard: "b" for shard in SHARDS if shard > 5}
    move = next_move(scene_of("a", holders, {"a"}, {"a"}), 2)
    assert move.claim == tuple(range(-1, 6))


def settled(holders: dict[int, str], present: set[str], files: int) -> dict[int, str]:
    """Who has which shard when nothing moves any more."""
    now = {shard: owner for shard, owner in holders.items() if owner in present}
    for _ in range(2 * len(SHARDS)):
        for me in sorted(present):
            move = next_move(scene_of(me, now, present, present, files), 1)
            now = {shard: owner for shard, owner in now.items() if shard not in move.give}
            now |= dict.fromkeys(move.claim, me)
    return now


def test_each_node_has_a_file_of_its_own() -> None:
    begun = settled({}, {"a", "b", "c"}, 3)
    assert {begun[shard] for shard in (0, 3, 6, 9)} == {"a"}
    assert {begun[shard] for shard in (1, 4, 7, 10)} == {"b"}
    assert {begun[shard] for shard in (2, 5, 8, 11)} == {"c"}


def test_node_that_comes_back_gets_its_file_back() -> None:
    for gone in "abc":
        begun = settled({}, {"a", "b", "c"}, 3)
        alone = settled(begun, {"a", "b", "c"} - {gone}, 3)
        again = settled(alone, {"a", "b", "c"}, 3)
        moved = [shard for shard in SHARDS if shard >= 0 and again[shard] != begun[shard]]
        assert len(moved) <= 1  # the one more that a node may have which has not the catalogue
